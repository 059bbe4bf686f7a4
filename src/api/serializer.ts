import createCompilers, { type Serializer, type SerializerFactory } from '@fastify/fast-json-stringify-compiler';

const buildCompiler = createCompilers();
/** By the schemas that are shared by name, then by schema. */
const compiled = new Map<string, Map<string, Serializer>>();

/** Compiles the schemas of replies, each once per process: routes share most of them, above all those of errors. */
export const buildSerializer: SerializerFactory = (shared, options) => {
  const compile = buildCompiler(shared, options);
  const context = JSON.stringify(shared);
  const known = compiled.get(context) ?? new Map<string, Serializer>();
  compiled.set(context, known);
  return route => {
    const schema = JSON.stringify(route.schema);
    const serialize = known.get(schema) ?? compile(route);
    known.set(schema, serialize);
    return serialize;
  };
};
