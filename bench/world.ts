/** What benches and soaks start with: a database, and a stand-in for GitHub whose organisations it knows. */
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { pino } from 'pino';
import { scopes } from '../src/access-token.ts';
import { connectDatabase } from '../src/database/client.ts';
import { joinEmbeddedDatabase } from '../src/database/embedded-server.ts';
import { migrateDatabase } from '../src/database/migrations.ts';
import type { WebhookEvent } from '../test/support/github/events.ts';
import { maxPoints, type StartOptions, startGithub } from '../test/support/github/server.ts';
import { createTenant } from '../test/support/tenants.ts';
import { type Running, secret, startService } from './processes.ts';

/** The one that is kept in this folder. */
export async function joinDatabase(home: string) {
  const server = await joinEmbeddedDatabase({ home });
  await migrateDatabase(server.url);
  const database = connectDatabase(server.url, pino({ level: 'silent' }));
  // Unlike those of the service, its statements may take minutes.
  const pool = new pg.Pool({ connectionString: server.url });
  // A soak kills the server.
  pool.on('error', () => undefined);
  const query = async <Row extends object>(statement: string | pg.QueryConfig, values?: unknown[]): Promise<Row[]> =>
    (await pool.query<Row>(statement, values)).rows;
  const value = async <Value>(expression: string, values?: unknown[]): Promise<Value> =>
    (await query<{ value: Value }>(`select ${expression} as value`, values))[0]?.value as Value;
  return {
    server,
    url: server.url,
    database,
    query,
    /** Of an SQL expression. */
    value,
    /** How many rows there are, by what follows `from`. */
    count: (from: string, values?: unknown[]) => value<number>(`(select count(*)::int from ${from})`, values),
    /** Resolves when the condition holds. @returns milliseconds; infinite if it does not hold after `maxMs` */
    async until(condition: string, values?: unknown[], maxMs = Number.POSITIVE_INFINITY): Promise<number> {
      const begin = performance.now();
      while (!(await value<boolean>(condition, values))) {
        if (performance.now() - begin > maxMs) return Number.POSITIVE_INFINITY;
        await delay(20);
      }
      return performance.now() - begin;
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([pool.end(), database.close()]);
      await server.leave();
    },
  };
}

export type GithubWorld = Awaited<ReturnType<typeof openGithub>>;

/**
 * Neither knows an organisation yet.
 *
 * @param home of the database
 * @param app for a service that asks as an App, and not with a token
 */
export async function openGithub(home: string, app?: StartOptions['app'] & { privateKey: string }) {
  const github = await startGithub({ points: maxPoints, ...(app && { app }) });
  const joined = await joinDatabase(home);
  await joined.query('truncate organisations cascade');
  const environment: Record<string, string> = {
    DATABASE_URL: joined.url,
    GITHUB_API_URL: github.apiUrl,
    ...(app ? { GITHUB_APP_ID: app.id, GITHUB_APP_PRIVATE_KEY: app.privateKey } : { GITHUB_TOKEN: github.token }),
    GITHUB_WEBHOOK_SECRET: secret,
    // It compares nothing by itself.
    RECONCILE_INTERVAL: '0',
    LOG_LEVEL: 'error',
  };
  const start = (command: 'serve' | 'worker', more: Record<string, string> = {}) =>
    startService(command, { ...environment, ...more });
  return {
    ...joined,
    github,
    environment,
    /** An organisation here and on GitHub, with the member `ada` and a token of every scope. */
    async add(login: string) {
      const onGithub = github.organisation(login);
      onGithub.member('ada');
      return { onGithub, ...(await createTenant(joined, { login, githubId: onGithub.id, scopes })) };
    },
    start,
    /** It takes webhooks, and does nothing about them. */
    startIdle: () => start('serve', { WORKER: 'false' }),
    /** Sends webhooks, some at once. */
    async deliver({ origin }: Pick<Running, 'origin'>, events: readonly WebhookEvent[]): Promise<void> {
      const send = async (event: WebhookEvent) => {
        const { status, answer } = await github.deliver(`${origin}/webhooks/github`, secret, event);
        if (status !== 202) throw new Error(`a webhook was not taken: ${status} ${answer}`);
      };
      for (let begin = 0; begin < events.length; begin += 50) {
        await Promise.all(events.slice(begin, begin + 50).map(send));
      }
    },
    async [Symbol.asyncDispose]() {
      await joined[Symbol.asyncDispose]();
      await github.close();
    },
  };
}
