import type { Logger } from 'pino';
import { type Config, isUnencrypted } from './config.ts';
import { connectDatabase, type Database } from './database/client.ts';
import { joinEmbeddedDatabase } from './database/embedded-server.ts';
import { migrateDatabase } from './database/migrations.ts';
import { createGithub, type Github } from './github/github.ts';
import type { Scorer } from './scorer/jobs.ts';
import { createLocalScorer } from './scorer/local.ts';
import { createScorer } from './scorer/scorer.ts';

/** What the rest of the program depends on. Created and closed once per process. */
export interface Deps {
  readonly config: Config;
  readonly log: Logger;
  readonly database: Database;
  readonly github: Github;
  readonly scorer: Scorer;
  /** Counts of this process, for its metrics. */
  readonly counters: Counters;
  /** Number of migrations that this start applied. */
  readonly migrationsApplied: number;
  close(): Promise<void>;
}

export interface Counters {
  /** Pull requests that a webhook announced and GitHub never showed. */
  gone: number;
  /** Webhooks that announced a newer state than GitHub ever showed. */
  stale: number;
  /** Webhook deliveries; refused ones have no valid signature or payload, or came at a bad time. */
  deliveries: { taken: number; ignored: number; refused: number };
}

/**
 * Joins or starts the embedded server if no database is configured.
 *
 * @param options `create`: whether an empty database gets our schema, and a home without an embedded database gets one;
 * otherwise these are refused. `upgrade`: whether the schema of an earlier release is brought up to date, or refused.
 * `signal` ends a wait for other processes that start or migrate. `scorer`: where rules run
 */
export async function createDeps(
  config: Config,
  log: Logger,
  options: { create: boolean; upgrade: boolean; signal?: AbortSignal; scorer?: ScorerKind },
): Promise<Deps> {
  // The service says it once; other commands need not repeat it.
  if (options.upgrade && isUnencrypted(config.github.apiUrl)) {
    log.warn('GITHUB_API_URL is not https: others on the network can read the credentials for GitHub');
  }
  const { create, upgrade, signal } = options;
  const embedded =
    config.databaseUrl === undefined
      ? await joinEmbeddedDatabase({ home: config.home, create, signal, log: message => log.info(message) })
      : undefined;
  const url = embedded?.url ?? config.databaseUrl ?? '';
  const migrationsApplied = await migrateDatabase(url, {
    create,
    upgrade,
    signal,
    log: message => log.warn(message),
  }).catch(async (error: unknown) => {
    await embedded?.leave();
    throw error;
  });
  const deps = connectDeps(config, log, url, options.scorer);
  return {
    ...deps,
    migrationsApplied,
    async close() {
      await deps.close();
      await embedded?.leave();
    },
  };
}

/** Rules run in processes of their own, or in this one: a command disturbs nobody but itself. */
type ScorerKind = 'processes' | 'local';

/** For a database whose schema is up to date. */
export function connectDeps(config: Config, log: Logger, databaseUrl: string, scorerKind: ScorerKind = 'local'): Deps {
  const database = connectDatabase(databaseUrl, log);
  const scorer =
    scorerKind === 'local'
      ? createLocalScorer(database, log)
      : createScorer(database, log, { environment: config.scorerEnvironment });
  return {
    config,
    log,
    database,
    github: createGithub(config.github),
    scorer,
    counters: { gone: 0, stale: 0, deliveries: { taken: 0, ignored: 0, refused: 0 } },
    migrationsApplied: 0,
    async close() {
      await scorer.close();
      await database.close();
    },
  };
}
