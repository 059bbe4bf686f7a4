import { DrizzleQueryError } from 'drizzle-orm';
import type { DatabaseError } from 'pg';
import pino, { type DestinationStream, type Logger } from 'pino';
import type { Config } from './config.ts';
import { connectDatabase, type Database } from './database/client.ts';
import { joinEmbeddedDatabase } from './database/embedded.ts';
import { driverError, isConnectionFailure } from './database/failures.ts';
import { migrateDatabase } from './database/migrate.ts';
import { createGithub, type Github } from './github/client.ts';

/** What everything else is given: made once a process, closed once. */
export interface Deps {
  readonly config: Config;
  readonly log: Logger;
  readonly database: Database;
  readonly github: Github;
  /** What has happened in this process, for its metrics. */
  readonly counters: Counters;
  /** How many migrations this start applied. */
  readonly migrationsApplied: number;
  close(): Promise<void>;
}

export interface Counters {
  /** Pull requests that a webhook was about and GitHub never showed. */
  gone: number;
  /** Webhooks that named a time which no state that GitHub shows reaches. */
  stale: number;
}

/** Logs go to standard error: standard output is for what a command answers. */
export function createLog(
  config: Pick<Config, 'logLevel'>,
  destination: DestinationStream = pino.destination({ dest: 2, sync: true }),
): Logger {
  return pino(
    {
      level: config.logLevel,
      redact: ['*.authorization', '*.headers.authorization', '*.request.headers.authorization'],
      serializers: { err: describeError },
    },
    destination,
  );
}

/** Characters of a logged query, and of PostgreSQL's message, which may quote a value. */
const longestText = 1_000;

/**
 * A failed query without its parameters, which are people's texts and addresses, and may be megabytes; a failed
 * connection without its stack, which says nothing and comes with each request of an outage, and without the client that
 * `pg-pool` hangs on it.
 */
function describeError(error: Error): object {
  if (isConnectionFailure(error)) {
    const cause = driverError(error);
    const { name, message } = error instanceof DrizzleQueryError ? (cause ?? error) : error;
    return { type: name, message: message.slice(0, longestText), code: cause?.code };
  }
  if (!(error instanceof DrizzleQueryError) || error.cause === undefined) {
    return pino.stdSerializers.errWithCause(error);
  }
  const { cause, query, stack = '' } = error;
  const { message, code, constraint, table } = cause as DatabaseError;
  const frames = stack.split('\n').filter(line => line.startsWith('    at '));
  const short = message.slice(0, longestText);
  return {
    type: cause.constructor.name,
    message: short,
    stack: [`${cause.name}: ${short}`, ...frames].join('\n'),
    code,
    constraint,
    table,
    query: query.slice(0, longestText),
  };
}

/** Joins or starts the embedded server where no database is configured, and brings the schema up to date. */
export async function createDeps(config: Config, log: Logger): Promise<Deps> {
  const embedded =
    config.databaseUrl === undefined
      ? await joinEmbeddedDatabase({ home: config.home, log: message => log.info(message) })
      : undefined;
  const url = embedded?.url ?? config.databaseUrl ?? '';
  let migrationsApplied: number;
  try {
    migrationsApplied = await migrateDatabase(url);
  } catch (error) {
    await embedded?.leave();
    throw error;
  }
  const deps = connectDeps(config, log, url);
  return {
    ...deps,
    migrationsApplied,
    async close() {
      await deps.close();
      await embedded?.leave();
    },
  };
}

/** On a database whose schema is up to date. */
export function connectDeps(config: Config, log: Logger, databaseUrl: string): Deps {
  const database = connectDatabase(databaseUrl, log);
  return {
    config,
    log,
    database,
    github: createGithub(config.github),
    counters: { gone: 0, stale: 0 },
    migrationsApplied: 0,
    close: () => database.close(),
  };
}
