/** Asks a running service instead of the database: `--server`. */
import { setTimeout as delay } from 'node:timers/promises';
import { type ErrorCode, errorStatuses, ServiceError } from '../errors.ts';
import { CommandError, type Context, UsageError } from './context.ts';

export interface ServerRequest {
  method: 'GET' | 'POST' | 'PUT';
  /** Below `/operator/`, with its query. */
  path: string;
  /** The text of a rules file. */
  rules?: string;
  headers?: Record<string, string>;
}

/** How long a command waits for its turn. */
const maxWaitMs = 10 * 60_000;

const busyAction = `A command waits for ${maxWaitMs / 60_000} minutes at most. Run it again later.`;

/** What proxies and services in trouble answer, too. */
const maxReasonLength = 300;

/**
 * @param server the service's address, as PUBLIC_URL has it
 * @returns the document that the same command prints with `--json` beside the database
 */
export async function askServer(context: Context, server: string, request: ServerRequest): Promise<unknown> {
  const token = context.config.serverToken;
  if (token === undefined) {
    throw new UsageError(
      'PULLSCORE_TOKEN is not set.',
      `Set it to a token of the service: ${tokenCommand(context.program)}`,
    );
  }
  const url = addressOf(server, request.path);
  const giveUpAt = performance.now() + maxWaitMs;
  for (;;) {
    const reply = await fetch(url, {
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
    }).catch((error: unknown) => {
      throw failedToAsk(context, url, error);
    });
    const text = await reply.text();
    if (reply.ok) return parse(url, text);
    const seconds = Number(reply.headers.get('retry-after'));
    const isBusy = (reply.status === 429 || reply.status === 503) && seconds > 0;
    const mayRetry = isBusy && performance.now() + seconds * 1_000 < giveUpAt;
    const failure = failureOf(context, url, reply.status, text, isBusy && !mayRetry ? busyAction : undefined);
    if (!mayRetry) throw failure;
    context.stderr.write(`Waiting ${seconds} s: ${failure.message}\n`);
    await delay(seconds * 1_000, undefined, { signal: context.interrupted }).catch(() => undefined);
  }
}

function addressOf(server: string, path: string): URL {
  if (!/^https?:\/\/[^/?#\s@]+[^?#\s]*$/.test(server) || !URL.canParse(server)) {
    throw new UsageError(
      `"${server}" is not a valid address of a service.`,
      'Give one such as https://scores.example.',
    );
  }
  return new URL(`operator/${path}`, server.endsWith('/') ? server : `${server}/`);
}

function failedToAsk({ interrupted }: Context, { origin }: URL, error: unknown): CommandError {
  if (interrupted.aborted) return new CommandError('Interrupted. Nothing was changed.');
  const { message, code } = (error as { cause?: { message?: string; code?: string } }).cause ?? {};
  return new CommandError(
    `${origin} can't be asked (${code ?? message ?? 'no connection'}).`,
    'Check --server, and that the service runs.',
  );
}

function parse({ origin }: URL, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new CommandError(`${origin} does not answer with JSON.`, 'Check --server.');
  }
}

/**
 * The service's error as it is beside the database. Codes are not sent, but most statuses have one. Proxies and services
 * in trouble answer anything.
 */
function failureOf(context: Context, { origin }: URL, status: number, text: string, action?: string): Error {
  const message = messageOf(text);
  const codes = Object.entries(errorStatuses).flatMap(([code, of]) => (of === status ? [code as ErrorCode] : []));
  const [code] = codes;
  if (message === undefined || code === undefined || codes.length > 1) {
    const reason = message ?? (text.trim().slice(0, maxReasonLength) || 'no reason given.');
    return new CommandError(`${origin} answers ${status}: ${reason}`, action);
  }
  const actions: { [code in ErrorCode]?: string | undefined } = {
    unauthenticated: `Set PULLSCORE_TOKEN to a token of the service: ${tokenCommand(context.program)}`,
    // Of what commands ask for, only a pull request can be missing.
    not_found: message.includes('pull request') ? undefined : 'Check --server.',
  };
  return new ServiceError(code, message, { action: action ?? actions[code] });
}

const tokenCommand = (program: string) => `${program} token create --user EMAIL --scopes rules:read`;

function messageOf(text: string): string | undefined {
  try {
    const { message } = JSON.parse(text);
    return typeof message === 'string' ? message : undefined;
  } catch {
    return undefined;
  }
}
