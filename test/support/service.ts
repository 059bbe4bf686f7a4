import pg from 'pg';
import { type LoggerOptions, pino } from 'pino';
import { inject, onTestFinished } from 'vitest';
import { type App, buildApp } from '../../src/app.ts';
import { type Config, loadConfig } from '../../src/config.ts';
import { connectDeps, type Deps } from '../../src/deps.ts';
import { type Client, createClient } from './client.ts';
import { addDatabase } from './database-server.ts';

export const webhookSecret = 'a secret of the tests';

const migrated = () => `template ${inject('templateDatabase')} strategy file_copy`;

/** A new database, cloned from the migrated template. */
export const createDatabase = () => addDatabase(inject('serverUrl'), migrated());

/** The same, dropped after the test. @returns its URL */
export const createMigratedDatabase = () => createEmptyDatabase(migrated());

/**
 * A database without a schema, dropped after the test.
 *
 * @param options as `create database` takes them
 * @returns its URL
 */
export async function createEmptyDatabase(options = ''): Promise<string> {
  const { url, drop } = await addDatabase(inject('serverUrl'), options);
  onTestFinished(drop);
  return url;
}

/** A session of its own, which ends with the test. */
export async function openClient(url: string, applicationName?: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url, application_name: applicationName });
  await client.connect();
  onTestFinished(() => client.end());
  return client;
}

export interface Service extends Deps {
  readonly app: App;
  readonly client: Client;
  /** Log lines at level warn and above. */
  readonly complaints: { level: number; msg: string; [key: string]: unknown }[];
}

/** The service as `serve` builds it, on a new database, without its loops and not listening. */
export async function startService(environment: Record<string, string> = {}): Promise<Service> {
  const { url, drop } = await createDatabase();
  const service = await startReplica(url, environment);
  return {
    ...service,
    async close() {
      await service.close();
      await drop();
    },
  };
}

/** Another service on the same database. */
export async function startReplica(
  databaseUrl: string,
  environment: Record<string, string> = {},
  // Off, because test machines are busy and tests change what metrics show: only tests of these set them.
  { maxEventLoopDelayMs = 0, metricsMaxAgeMs = 0, ...limits }: Parameters<typeof buildApp>[1] = {},
  /** What becomes of errors in the log. */
  serializers: LoggerOptions['serializers'] & {} = {},
): Promise<Service> {
  const config: Config = loadConfig({
    DATABASE_URL: databaseUrl,
    GITHUB_WEBHOOK_SECRET: webhookSecret,
    RATE_LIMIT: '0',
    ...environment,
  });
  const complaints: Service['complaints'] = [];
  const log = pino({ level: 'warn', serializers }, { write: line => complaints.push(JSON.parse(line)) });
  const deps = connectDeps(config, log, databaseUrl);
  const app = await buildApp(deps, { maxEventLoopDelayMs, metricsMaxAgeMs, ...limits });
  return {
    ...deps,
    app,
    client: createClient(app),
    complaints,
    async close() {
      await app.close();
      await deps.close();
    },
  };
}

/** Closes it when the test ends, also if it fails. */
export function closing<Closable extends { close(): Promise<unknown> }>(closable: Closable): Closable {
  onTestFinished(async () => {
    await closable.close();
  });
  return closable;
}
