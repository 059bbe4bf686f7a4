import { randomUUID } from 'node:crypto';
import { pino } from 'pino';
import { inject, onTestFinished } from 'vitest';
import { generateAccessToken, hashAccessToken } from '../../src/access-token.ts';
import { type App, buildApp } from '../../src/app.ts';
import { type Config, loadConfig } from '../../src/config.ts';
import { addAccessToken } from '../../src/database/access-tokens.ts';
import { addOrganisation, type Organisation } from '../../src/database/organisations.ts';
import { addUser, type User } from '../../src/database/users.ts';
import { connectDeps, type Deps } from '../../src/deps.ts';
import { addDatabase } from './database-server.ts';

export const webhookSecret = 'a secret of the tests';

/** A new database, cloned from the migrated template. */
export const createDatabase = () => addDatabase(inject('serverUrl'), `template ${inject('templateDatabase')}`);

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

export interface Service extends Deps {
  readonly app: App;
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
  // Off, because test machines are busy: only tests of the overload guard set it.
  { maxEventLoopDelayMs = 0, ...limits }: Parameters<typeof buildApp>[1] = {},
): Promise<Service> {
  const config: Config = loadConfig({
    DATABASE_URL: databaseUrl,
    GITHUB_WEBHOOK_SECRET: webhookSecret,
    RATE_LIMIT: '0',
    ...environment,
  });
  const complaints: Service['complaints'] = [];
  const log = pino({ level: 'warn' }, { write: line => complaints.push(JSON.parse(line)) });
  const deps = connectDeps(config, log, databaseUrl);
  const app = await buildApp(deps, { maxEventLoopDelayMs, ...limits });
  return {
    ...deps,
    app,
    complaints,
    async close() {
      await app.close();
      await deps.close();
    },
  };
}

export interface Tenant {
  organisation: Organisation;
  user: User;
  token: string;
}

/** An organisation with a user who holds a token of every scope. */
export async function createTenant(
  { database }: Pick<Deps, 'database'>,
  values: { login?: string; githubId?: number; nodeId?: string; scopes?: string[] } = {},
): Promise<Tenant> {
  const login = values.login ?? `org-${randomUUID().slice(0, 8)}`;
  const organisation = await addOrganisation(database.executor, {
    login,
    githubId: values.githubId ?? null,
    nodeId: values.nodeId ?? null,
    name: login,
    photoUrl: `https://photos.example/${login}`,
  });
  if (organisation === undefined) throw new Error(`the organisation ${login} already exists`);
  const user = await addUser(database.executor, {
    organisationId: organisation.id,
    name: 'Ada Lovelace',
    email: `ada@${login}.example`,
    photoUrl: 'https://photos.example/ada',
  });
  if (user === undefined) throw new Error('the user already exists');
  const token = await createToken({ database }, user, values.scopes);
  return { organisation, user, token };
}

export async function createToken(
  { database }: Pick<Deps, 'database'>,
  user: User,
  scopes: string[] = ['read', 'sync', 'delete'],
  expiresAt: Date | null = null,
): Promise<string> {
  const token = generateAccessToken();
  await addAccessToken(database.executor, {
    organisationId: user.organisationId,
    userId: user.id,
    name: '',
    tokenHash: hashAccessToken(token),
    scopes,
    expiresAt,
  });
  return token;
}

/** Closes it when the test ends, also if it fails. */
export function closing<Closable extends { close(): Promise<unknown> }>(closable: Closable): Closable {
  onTestFinished(async () => {
    await closable.close();
  });
  return closable;
}
