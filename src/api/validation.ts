import {
  Kind,
  type ObjectOptions,
  type SchemaOptions,
  type TObject,
  type TProperties,
  type TSchema,
  Type,
  TypeRegistry,
} from '@sinclair/typebox';
import { TypeCompiler } from '@sinclair/typebox/compiler';
import type { FastifySchemaCompiler } from 'fastify';
import { badRequest } from '../errors.ts';
import { suggestion } from '../scoring/language/nearest-name.ts';

export const closedObject = <Properties extends TProperties>(properties: Properties, options: ObjectOptions = {}) =>
  Type.Object(properties, { additionalProperties: false, ...options });

/** The same, listed by name in the OpenAPI document. */
export const namedObject = <Properties extends TProperties>($id: string, properties: Properties) =>
  closedObject(properties, { $id });

TypeRegistry.Set<TSchema>('StringEnum', (schema, value) => schema.enum.includes(value));

/** A union of literals would be `anyOf`, of which client generators make a type for each value. */
export const stringEnum = <const Values extends string[]>(values: Values, options: SchemaOptions) =>
  Type.Unsafe<Values[number]>({ [Kind]: 'StringEnum', type: 'string', enum: values, ...options });

export const Nullable = <Schema extends TSchema>(schema: Schema, description: string) =>
  Type.Union([schema, Type.Null()], { description });

/**
 * Checks path and query parameters against their schema, and hands on those that it declares: a parameter that no schema
 * declares reaches no handler. A closed schema refuses it. Whole numbers must be in plain decimal notation: `1e2`, `0x10`
 * and a parameter given twice are refused, not converted.
 */
export const compileValidator: FastifySchemaCompiler<unknown> = route => {
  // A rules file: its reader checks it. Its schema is for the document.
  if (route.httpPart === 'body') return value => ({ value });
  const schema = route.schema as TObject;
  const { properties } = schema;
  const check = TypeCompiler.Compile(schema);
  const isOpen = route.httpPart !== 'headers' && schema.additionalProperties !== false;
  const typeOf = (name: string) => properties[name]?.type;

  return (input: unknown) => {
    const given = Object.entries(input as Record<string, unknown>);
    const value = Object.fromEntries(isOpen ? given.filter(([name]) => Object.hasOwn(properties, name)) : given);
    for (const [name, text] of Object.entries(value)) {
      if (typeof text !== 'string') continue;
      if (typeOf(name) === 'integer' && /^(0|[1-9]\d{0,15})$/.test(text)) value[name] = Number(text);
      if (typeOf(name) === 'boolean' && /^(true|false)$/.test(text)) value[name] = text === 'true';
    }
    if (check.Check(value)) return { value };
    // A JSON pointer.
    const name = (check.Errors(value).First()?.path.slice(1) ?? '').replaceAll('~1', '/').replaceAll('~0', '~');
    return { error: badRequest(describe(name, properties, value[name]), undefined, { parameter: name }) };
  };
};

function describe(name: string, properties: TProperties, value: unknown): string {
  // `__proto__` is a property of every object.
  const schema: TSchema | undefined = Object.hasOwn(properties, name) ? properties[name] : undefined;
  if (schema === undefined) {
    return `${name} is not a known parameter${suggestion(name, Object.keys(properties)) || '.'}`;
  }
  if (Array.isArray(value)) return `${name} may be given only once.`;
  if (schema.type === 'integer') return `${name} must be a whole number from ${schema.minimum} to ${schema.maximum}.`;
  if (schema.type === 'boolean') return `${name} must be true or false.`;
  if (Array.isArray(schema.enum)) return `${name} must be one of ${schema.enum.join(', ')}.`;
  return `${name} is not valid.`;
}
