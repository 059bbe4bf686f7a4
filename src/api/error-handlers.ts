import { randomUUID } from 'node:crypto';
import { type ServerResponse, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { Type } from '@sinclair/typebox';
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import createRouter from 'find-my-way';
import { isDatabaseUnavailable } from '../database/driver-errors.ts';
import {
  badRequest,
  brokenOff,
  databaseUnavailable,
  type ErrorCode,
  type ErrorOptions,
  errorStatuses,
  internal,
  methodNotAllowed,
  notFound,
  payloadTooLarge,
  preconditionFailed,
  ServiceError,
  unsupportedMediaType,
} from '../errors.ts';
import type { Version } from './version.ts';

declare module 'fastify' {
  interface FastifyInstance {
    /** Answers unknown paths and methods below a context's prefix, after its hooks. */
    refuseUnknownPaths(context: FastifyInstance): void;
  }
}

const descriptions: Partial<Record<ErrorCode, string>> = {
  bad_request: 'A parameter is not valid; the message says which and why',
  unauthenticated: 'Credentials missing or invalid',
  forbidden: 'The caller is not allowed to do this, or the object belongs to another organisation',
  not_found: 'The object does not exist',
  cursor_expired: 'Changes after this cursor may be missing here: start again without one',
  rate_limited: 'Too many requests with this token; `Retry-After` says when to try again',
  internal: 'An error in the service',
  github_failed: 'GitHub is unreachable, failing, or refuses our credentials',
  rules_suspended: 'The rules in force are suspended: they take too much time or memory',
  database_unavailable:
    'The database is unreachable or the service overloaded; `Retry-After` may say when to try again',
  github_timeout: 'GitHub did not answer in time',
};

/**
 * The `response` entries for these errors and for those that every route can have.
 *
 * @param codes error codes, each optionally with the reasons for it in this route
 */
export function errorResponses(...codes: (ErrorCode | readonly [code: ErrorCode, reasons: string])[]) {
  const described = (description: string) => ({ ...Type.Ref('Error'), description });
  const all = (
    ['unauthenticated', 'forbidden', ...codes, 'rate_limited', 'internal', 'database_unavailable'] as const
  ).map(entry => (typeof entry === 'string' ? ([entry, descriptions[entry] ?? entry] as const) : entry));
  const reasonsByStatus = new Map<number, string>();
  for (const [code, reasons] of all) {
    const status = errorStatuses[code];
    const others = reasonsByStatus.get(status);
    reasonsByStatus.set(status, others === undefined ? reasons : `${others}. Or: ${reasons}`);
  }
  return {
    ...Object.fromEntries([...reasonsByStatus].map(([status, reasons]) => [status, described(reasons)])),
    default: described('Any other error, such as a malformed path, header or body'),
  };
}

export const unknownId = (what: string, options: ErrorOptions = {}) =>
  notFound(`There is no ${what} with this id.`, undefined, options);

/** Converts the errors of Fastify, its plugins and the database. */
function asServiceError(error: FastifyError | Error, request: FastifyRequest): ServiceError {
  if (error instanceof ServiceError) return error;
  // Its code is that of a lost connection to the database, too.
  if (error === request.raw.errored) return brokenOff();
  if (isDatabaseUnavailable(error)) {
    return databaseUnavailable('The database is not available.', 'Try again shortly.', { cause: error, retryAfter: 1 });
  }
  const status = 'statusCode' in error ? error.statusCode : undefined;
  if (status === 412) return preconditionFailed('The file is another one.');
  if (status === 413) return payloadTooLarge('The request body is too large.');
  if (status === 415) return unsupportedMediaType('The content type is not supported.');
  if (status !== undefined && status >= 400 && status < 500) return badRequest(error.message);
  return internal('Something went wrong on our side. It has been logged.', undefined, { cause: error });
}

/** Without the query, in which a client may have put a secret. */
const pathOf = (url: string): string => url.replace(/[?#].*$/s, '');

const describeRequest = ({ method, url }: FastifyRequest) => ({
  method,
  path: pathOf(url).slice(0, 200),
});

/** Makes the error handler. An error has the form of the version to which its path belongs, known or not. */
export function createErrorSender(versions: readonly Version[]) {
  const versionOf = ({ routeOptions, url }: FastifyRequest) => {
    // A client may send a whole address, as to a proxy.
    const [, first] = (routeOptions.url ?? pathOf(url.replace(/^https?:\/\/[^/]*/, ''))).split('/');
    return versions.find(({ name }) => name === first);
  };
  return (error: FastifyError | Error, request: FastifyRequest, reply: FastifyReply): void =>
    sendError(asServiceError(error, request), versionOf(request), request, reply);
}

function sendError(
  failure: ServiceError,
  version: Version | undefined,
  request: FastifyRequest,
  reply: FastifyReply,
): void {
  const { code, status } = failure;
  const isOurs = status >= 500 && code !== 'overloaded';
  // Operators must see why a webhook is refused; GitHub shows them only the status.
  const isWarning = isOurs || request.routeOptions.url?.startsWith('/webhooks/') === true;
  request.log[code === 'internal' ? 'error' : isWarning ? 'warn' : 'info'](
    {
      ...describeRequest(request),
      status,
      ms: Math.round(reply.elapsedTime),
      code,
      ...(isOurs && { err: failure.cause }),
    },
    failure.text,
  );
  reply.code(failure.status).type('application/json; charset=utf-8').header('x-request-id', request.id);
  if (failure.retryAfter !== undefined) reply.header('retry-after', Math.max(1, Math.ceil(failure.retryAfter)));
  reply.header('cache-control', 'no-store').removeHeader('etag');
  if (failure.code === 'unauthenticated') reply.header('www-authenticate', 'Bearer');
  reply.send(version?.representError(failure, request.id) ?? { message: failure.text });
}

/** Gives every error a body, also on unknown paths. Call it before adding routes. */
export function handleErrors(app: FastifyInstance, sendError: ReturnType<typeof createErrorSender>): void {
  // Each path is stored under GET, with the methods that it has.
  const paths = createRouter({ ...app.initialConfig.routerOptions });
  app.addHook('onRoute', ({ url, method }) => {
    // That of preflights, which are answered on every path.
    if (method === 'OPTIONS') return;
    const methods: Set<string> = paths.findRoute('GET', url)?.store ?? new Set();
    if (methods.size === 0) paths.on('GET', url, () => undefined, methods);
    // Each HEAD has a GET, which Fastify does not announce for the second path of a prefix, such as /docs/.
    for (const name of [method].flat()) methods.add(name === 'HEAD' ? 'GET' : name).add(name);
  });

  /** Undefined for an unknown path, such as one with an empty parameter. */
  const methodsOf = (url: string): Set<string> | undefined => {
    const route = paths.find('GET', url);
    return route === null || hasEmptyValue(route.params) ? undefined : route.store;
  };
  const unknownPath = ({ url }: FastifyRequest) => {
    const path = pathOf(url);
    const shorter = path.replace(/(?<!\/)\/+$/, '');
    const exists = shorter !== path && methodsOf(shorter) !== undefined;
    return notFound(
      'No such path.',
      exists ? `Ask for ${shorter}, without a slash at the end.` : 'See /docs for the paths.',
    );
  };
  app.addHook('onRequest', (request, _reply, done) => {
    if (!request.is404 && hasEmptyValue(request.params as object)) throw unknownPath(request);
    done();
  });

  const refusalOf = (request: FastifyRequest, reply: FastifyReply): ServiceError => {
    const methods = methodsOf(request.url);
    if (methods === undefined || methods.has(request.method)) return unknownPath(request);
    const allowed = [...methods].join(', ');
    reply.header('allow', allowed);
    return methodNotAllowed(`${request.method} is not allowed here, only ${allowed}.`);
  };

  app.setErrorHandler<FastifyError>((error, request, reply) => {
    // No path has QUERY, but Fastify asks for its content type before it says so.
    const isQuery = error.code === 'FST_ERR_ROUTE_MISSING_CONTENT_TYPE';
    sendError(isQuery ? refusalOf(request, reply) : error, request, reply);
  });
  app.addHook('onResponse', (request, { statusCode: status, elapsedTime }, done) => {
    // Errors were logged when they were sent: this does not run if the client is gone.
    if (status < 400)
      request.log.debug({ ...describeRequest(request), status, ms: Math.round(elapsedTime) }, 'answered');
    done();
  });
  app.decorate('refuseUnknownPaths', context =>
    context.setNotFoundHandler((request, reply) => {
      throw refusalOf(request, reply);
    }),
  );
  app.refuseUnknownPaths(app);
}

const hasEmptyValue = (params: object) => Object.values(params).includes('');

const parserErrors: Record<string, { status: number; message: string }> = {
  HPE_HEADER_OVERFLOW: { status: errorStatuses.headers_too_large, message: 'The request headers are too large.' },
  ERR_HTTP_REQUEST_TIMEOUT: { status: 408, message: 'The request took too long to arrive.' },
};

/** Handles what Node would answer without a body, or not at all. Call it before adding hooks. */
export function handleConnections(app: FastifyInstance): void {
  const { server } = app;
  // Node hands over all requests that a client sends without waiting, and does not tell those behind another one that the
  // client has left. So a request begins after the reply before it: a connection has the work and the files of one.
  app.addHook('onRequest', (_request, { raw }, done) => {
    if (raw.socket === null) raw.once('socket', () => done());
    else done();
  });
  // Node removes its own listener from a socket that it hands over. Without another, a reset would end the process.
  server.on('connection', (socket: Socket) => socket.on('error', () => undefined));
  // A server may ignore an expectation that it does not know (RFC 9110, 10.1.1).
  server.on('checkExpectation', (request, response) => server.emit('request', request, response));
  server.on('connect', (_request, socket: Socket) => handleClientError(new Error('tunnel requested'), socket));
}

/**
 * Writes an error reply to the socket if Node can't read a request from it, but never into a reply that has begun: Node
 * keeps that with the socket.
 */
export function handleClientError(
  error: Error & { code?: string },
  socket: Socket & { _httpMessage?: ServerResponse | null },
): void {
  if (socket.writable && error.code !== 'ECONNRESET' && !socket._httpMessage?.headersSent) {
    const { status, message } = parserErrors[error.code ?? ''] ?? {
      status: errorStatuses.bad_request,
      message: 'This is not a valid HTTP request.',
    };
    const body = JSON.stringify({ message });
    socket.write(
      `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\ncontent-type: application/json; charset=utf-8\r\n` +
        `content-length: ${Buffer.byteLength(body)}\r\nx-request-id: ${randomUUID()}\r\nconnection: close\r\n\r\n${body}`,
    );
  }
  socket.destroySoon();
}
