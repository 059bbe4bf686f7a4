import { DrizzleQueryError } from 'drizzle-orm';
import type { DatabaseError } from 'pg';
import pino, { type DestinationStream, type Logger } from 'pino';
import { driverError, isConnectionFailure } from './database/driver-errors.ts';

/** What can't be written is kept, up to this, until it can be: the disk of a log may be full for hours. */
const maxKeptBytes = 1_000_000;

/** Logs go to stderr: stdout is for a command's answer. */
export function createLog(
  { logLevel }: { logLevel: string },
  // A listener, because a log that can't be written must not end the process.
  destination: DestinationStream = pino
    .destination({ dest: 2, sync: true, maxLength: maxKeptBytes })
    .on('error', () => undefined),
): Logger {
  return pino(
    {
      level: logLevel,
      redact: ['*.authorization', '*.headers.authorization', '*.request.headers.authorization'],
      serializers: { err: describeError },
    },
    destination,
  );
}

/** Max characters of a logged query, and of PostgreSQL's message, which may quote a value. */
const maxTextLength = 1_000;

/**
 * Leaves out a failed query's parameters, which are people's texts and addresses and may be megabytes; a failed
 * connection's stack, which says nothing and would repeat with each request during an outage; and the client that
 * `pg-pool` attaches to the error.
 */
function describeError(error: Error): object {
  if (isConnectionFailure(error)) {
    const cause = driverError(error);
    const { name, message } = error instanceof DrizzleQueryError ? (cause ?? error) : error;
    return { type: name, message: message.slice(0, maxTextLength), code: cause?.code };
  }
  if (!(error instanceof DrizzleQueryError) || error.cause === undefined) {
    return pino.stdSerializers.errWithCause(error);
  }
  const { cause, query, stack = '' } = error;
  const { message, code, constraint, table } = cause as DatabaseError;
  const frames = stack.split('\n').filter(line => line.startsWith('    at '));
  const short = message.slice(0, maxTextLength);
  return {
    type: cause.constructor.name,
    message: short,
    stack: [`${cause.name}: ${short}`, ...frames].join('\n'),
    code,
    constraint,
    table,
    query: query.slice(0, maxTextLength),
  };
}
