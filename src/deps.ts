import pino, { type Logger } from 'pino';
import type { Config } from './config.ts';
import { connectDatabase, type Database } from './database/client.ts';
import { joinEmbeddedDatabase } from './database/embedded.ts';
import { migrateDatabase } from './database/migrate.ts';
import { createGithub, type Github } from './github/client.ts';

/** What everything else is given: made once a process, closed once. */
export interface Deps {
  readonly config: Config;
  readonly log: Logger;
  readonly database: Database;
  readonly github: Github;
  /** How many migrations this start applied. */
  readonly migrationsApplied: number;
  close(): Promise<void>;
}

/** Logs go to standard error: standard output is for what a command answers. */
export function createLog(config: Pick<Config, 'logLevel'>): Logger {
  return pino(
    {
      level: config.logLevel,
      redact: ['*.authorization', '*.headers.authorization', '*.request.headers.authorization'],
      serializers: { err: pino.stdSerializers.errWithCause },
    },
    pino.destination({ dest: 2, sync: true }),
  );
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
  const database = connectDatabase(url, log);
  return {
    config,
    log,
    database,
    github: createGithub(config.github),
    migrationsApplied,
    async close() {
      await database.close();
      await embedded?.leave();
    },
  };
}
