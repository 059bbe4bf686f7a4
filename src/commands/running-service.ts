/** Asks a running service instead of the database: `--server`. */
import { setTimeout as delay } from 'node:timers/promises';
import { type ErrorCode, errorStatuses, ServiceError } from '../errors.ts';
import { plain, shellWord } from '../text/terminal.ts';
import { CommandError, type Context, UsageError } from './context.ts';

interface ServiceRequest {
  method: 'GET' | 'POST' | 'PUT';
  /** Below the version of the interface, with its query. */
  path: string;
  rules?: string;
  headers?: Record<string, string>;
}

export type RunningService = ReturnType<typeof runningService>;

/** How long a command waits for its turn. */
const maxWaitMs = 10 * 60_000;

/** A service works on a plan for ten minutes at most. Node's own `fetch` waits for five. */
const maxReplyMs = 15 * 60_000;

const busyAction = `A command waits for ${maxWaitMs / 60_000} minutes at most. Run it again later.`;

/** What proxies and services in trouble answer, too. */
const maxReasonLength = 300;

/** Its interface is 2026-12. @param server the service's address, as PUBLIC_URL has it */
export function runningService(context: Context, server: string) {
  return {
    /** @returns what the reply has as `data` */
    async ask<Data>(request: ServiceRequest): Promise<Data> {
      const { origin, text } = await send(context, server, request);
      const body = parse(text);
      if (body?.data !== undefined) return body.data as Data;
      throw new CommandError(`${origin} does not answer as pullscore.`, 'Check --server.');
    },

    /** @returns the rules file in force, and its version */
    async readRulesFile() {
      const { origin, text, etag } = await send(context, server, { method: 'GET', path: 'rules/file' });
      // Weak if a proxy compressed the file.
      const [, version] = /^(?:W\/)?"(\d+)"$/.exec(etag ?? '') ?? [];
      if (version === undefined)
        throw new CommandError(`${origin} does not say the rules' version.`, 'Check --server.');
      return { source: text, version: Number(version) };
    },
  };
}

async function send(context: Context, server: string, request: ServiceRequest) {
  const token = context.config.serverToken;
  if (token === undefined) throw new UsageError('PULLSCORE_TOKEN is not set.', setToken(context.program, request));
  const url = addressOf(server, request.path);
  const giveUpAt = performance.now() + maxWaitMs;
  const { Agent, fetch } = await import('undici');
  const dispatcher = new Agent({ headersTimeout: maxReplyMs, bodyTimeout: maxReplyMs });
  for (;;) {
    const { reply, text } = await fetch(url, {
      dispatcher,
      method: request.method,
      headers: {
        authorization: `Bearer ${token}`,
        ...(request.rules === undefined ? {} : { 'content-type': 'application/yaml' }),
        ...request.headers,
      },
      ...(request.rules === undefined ? {} : { body: request.rules }),
      // The token is for this service alone.
      redirect: 'error',
      signal: context.interrupted,
    })
      .then(async reply => ({ reply, text: await reply.text() }))
      .catch((error: unknown) => {
        throw failedToAsk(context, server, request, error);
      });
    if (reply.ok) return { origin: url.origin, text, etag: reply.headers.get('etag') };
    const seconds = Number(reply.headers.get('retry-after'));
    const isBusy = (reply.status === 429 || reply.status === 503) && seconds > 0;
    const mayRetry = isBusy && performance.now() + seconds * 1_000 < giveUpAt;
    const failure = failureOf(context, request, url, reply.status, text, isBusy && !mayRetry ? busyAction : undefined);
    // A proxy that gives up does not know what the service does meanwhile.
    const isOpen = request.method === 'PUT' && reply.status >= 500 && !(failure instanceof ServiceError);
    if (!mayRetry) throw isOpen ? outcomeUnknown(context.program, server, failure.message) : failure;
    context.stderr.write(`${plain(`Waiting ${seconds} s: ${failure.message}`)}\n`);
    await delay(seconds * 1_000, undefined, { signal: context.interrupted }).catch(() => undefined);
  }
}

/** @throws UsageError if it is not the address of a service */
export function requireAddress(server: string): void {
  if (!/^https?:\/\/[^/?#\s@]+(\/[^?#\s]*)?$/.test(server) || !URL.canParse(server)) {
    throw new UsageError(
      `"${server}" is not a valid address of a service.`,
      'Give one such as https://scores.example.',
    );
  }
}

function addressOf(server: string, path: string): URL {
  requireAddress(server);
  return new URL(`2026-12/${path}`, server.endsWith('/') ? server : `${server}/`);
}

/** The connection was there, so the service may have done what it was asked. */
const lost = /^(ECONNRESET|EPIPE|UND_ERR_(SOCKET|HEADERS_TIMEOUT|BODY_TIMEOUT))$/;

function failedToAsk(
  { interrupted: { aborted }, program }: Context,
  server: string,
  { method }: ServiceRequest,
  error: unknown,
): CommandError {
  const { origin } = new URL(server);
  const { message = 'no connection', code = message } = (error as { cause?: NodeJS.ErrnoException }).cause ?? {};
  if (method === 'PUT' && (aborted || lost.test(code))) {
    return outcomeUnknown(program, server, aborted ? 'Interrupted' : `The connection to ${origin} was lost (${code})`);
  }
  if (aborted) return new CommandError('Interrupted. Nothing was changed.');
  return new CommandError(`${origin} can't be asked (${code}).`, 'Check --server, and that the service runs.');
}

/** @param what happened to a request to apply rules */
const outcomeUnknown = (program: string, server: string, what: string) =>
  new CommandError(
    `${what.replace(/[^.]$/, '$&.')} It is not known whether the rules were applied.`,
    `To see the rules in force: ${program} rules export --server ${shellWord(server)}`,
  );

/** The service's error as it is beside the database. Proxies and services in trouble answer anything. */
function failureOf(
  { program }: Context,
  request: ServiceRequest,
  { origin }: URL,
  status: number,
  text: string,
  action?: string,
): Error {
  const { message, code } = parse(text) ?? {};
  const given = typeof message === 'string' ? message : undefined;
  // Of what commands ask for, only a pull request can be missing.
  const isElsewhere = status === 404 && !given?.includes('pull request');
  if (given === undefined || !isErrorCode(code) || isElsewhere) {
    const reason = given ?? (text.trim().slice(0, maxReasonLength) || 'no reason given.');
    const message = `${origin} answers ${status}: ${reason}`;
    return new CommandError(message, action ?? (isElsewhere ? 'Check --server.' : undefined));
  }
  return new ServiceError(code, given, {
    action: action ?? (code === 'unauthenticated' ? setToken(program, request) : undefined),
  });
}

const isErrorCode = (code: unknown): code is ErrorCode =>
  typeof code === 'string' && Object.hasOwn(errorStatuses, code);

const setToken = (program: string, { method }: ServiceRequest) =>
  `Set PULLSCORE_TOKEN to a token of the service: ${program} token create --user EMAIL --scopes ${method === 'PUT' ? 'rules:write' : 'read,rules:read'}`;

/** @returns undefined if it is not an object in JSON */
function parse(text: string): { data?: unknown; message?: unknown; code?: unknown } | undefined {
  try {
    const body = JSON.parse(text);
    return typeof body === 'object' && body !== null ? body : undefined;
  } catch {
    return undefined;
  }
}
