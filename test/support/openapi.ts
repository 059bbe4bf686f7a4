import { createRequire } from 'node:module';
import { expect } from 'vitest';
import type { App } from '../../src/app.ts';

/** The part of ajv that these tests use; fastify depends on it. */
interface Ajv {
  addFormat(name: string, check: (text: string) => boolean): Ajv;
  addSchema(schema: object, key: string): Ajv;
  getSchema(reference: string): ((value: unknown) => boolean) & { errors?: unknown };
}

/** What tests read of it. */
export interface OpenApiDocument {
  paths: Record<string, Record<string, OpenApiOperation>>;
}

interface OpenApiOperation {
  operationId: string;
  requestBody?: { content: Record<string, { example?: unknown }> };
  responses: Record<string, { description: string; content?: Record<string, { example?: unknown }> }>;
}

interface CheckedReply {
  statusCode: number;
  headers: Record<string, unknown>;
  body: string;
}

const escapePointer = (part: string) => encodeURIComponent(part.replaceAll('~', '~0').replaceAll('/', '~1'));

/**
 * Checks that a reply matches the served document of its version in status, content type and body, and that every
 * reply has a request id. Outside of versions, it is an error of 2025-04.
 */
export async function createReplyCheck(app: App) {
  const [first, second] = await Promise.all(
    ['/openapi.json', '/2026-12/openapi.json'].map(async address => checkOf((await app.inject(address)).body)),
  );
  return (reply: CheckedReply, method: string, url: string): void =>
    (/^(http:\/\/[^/]+)?\/2026-12([/?#]|$)/.test(url) ? second : first)?.(reply, method, url);
}

/** Lists the mistakes of a value against a schema in the document, which the path of its names leads to. */
export function createSchemaCheck(document: OpenApiDocument) {
  const { Ajv2020 } = createRequire(import.meta.resolve('fastify'))('ajv/dist/2020.js') as {
    Ajv2020: new (options: object) => Ajv;
  };
  const ajv = new Ajv2020({ strict: false, allErrors: true })
    .addFormat('uri', text => URL.canParse(text))
    .addSchema(document, 'openapi');
  return (value: unknown, ...path: string[]): unknown => {
    const check = ajv.getSchema(`openapi#/${path.map(escapePointer).join('/')}`);
    check(value);
    return check.errors ?? [];
  };
}

const typeOf = ({ headers }: CheckedReply): string => String(headers['content-type']).replace(/;.*/, '');

/** A rules file is a text; everything else is JSON. */
export const bodyOf = (reply: CheckedReply) =>
  typeOf(reply) === 'application/yaml' ? reply.body : JSON.parse(reply.body);

/** By the text of the document. To compile its schemas takes as long as to start a service. */
const checks = new Map<string, ReturnType<typeof createCheck>>();

function checkOf(text: string) {
  const check = checks.get(text) ?? createCheck(JSON.parse(text));
  checks.set(text, check);
  return check;
}

function createCheck(document: OpenApiDocument) {
  const mistakesIn = createSchemaCheck(document);
  const templates = Object.keys(document.paths).map(path => ({
    path,
    shape: new RegExp(`^${path.replace(/\{\w+\}/g, '[^/]+')}$`),
  }));

  return (reply: CheckedReply, method: string, url: string): void => {
    const { statusCode: status } = reply;
    expect(reply.headers).toMatchObject({
      'content-type': expect.stringMatching(/^application\/(json|yaml); charset=utf-8$/),
      'x-request-id': expect.stringMatching(/^[\w.:-]{1,64}$/),
    });
    if (method === 'HEAD') return;
    const path = templates.find(({ shape }) => shape.test(url.replace(/^http:\/\/[^/]+|\?.*/gs, '')))?.path;
    const responses = path === undefined ? undefined : document.paths[path]?.[method.toLowerCase()]?.responses;
    let schema = ['components', 'schemas', 'Error'];
    if (path !== undefined && responses !== undefined) {
      const entry = String(status) in responses ? String(status) : 'default';
      schema = ['paths', path, method.toLowerCase(), 'responses', entry, 'content', typeOf(reply), 'schema'];
    } else {
      expect(status, 'a reply outside the document is an error').toBeGreaterThanOrEqual(400);
    }
    expect(mistakesIn(bodyOf(reply), ...schema), `${method} ${url} → ${status}: ${reply.body}`).toEqual([]);
  };
}
