/** A stand-in for GitHub, and an emptied database that knows its organisations. */
import type { WebhookEvent } from '../test/support/github/events.ts';
import { maxPoints, type StartOptions, startGithub } from '../test/support/github/server.ts';
import { joinEmptied } from './database.ts';
import { type Running, secret, startService } from './processes.ts';

export type GithubWorld = Awaited<ReturnType<typeof openGithub>>;

/**
 * @param name of the database
 * @param logins of the organisations, of which each has a member
 * @param app for a service that asks as an App, and not with a token
 */
export async function openGithub(
  name: string,
  logins: readonly string[],
  app?: StartOptions['app'] & { privateKey: string },
) {
  const github = await startGithub({ points: maxPoints, ...(app && { app }) });
  const organisations = logins.map(login => github.organisation(login));
  for (const organisation of organisations) organisation.member('ada');
  const server = await joinEmptied(name, organisations);
  const environment: Record<string, string> = {
    DATABASE_URL: server.url,
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
    ...server,
    github,
    organisations,
    environment,
    start,
    /** It takes webhooks, and does nothing about them. */
    startIdle: () => start('serve', { WORKER: 'false' }),
    /** Sends webhooks, some at once. */
    async deliver({ origin }: Running, events: readonly WebhookEvent[]): Promise<void> {
      for (let begin = 0; begin < events.length; begin += 50) {
        const some = events.slice(begin, begin + 50);
        const deliveries = await Promise.all(
          some.map(event => github.deliver(`${origin}/webhooks/github`, secret, event)),
        );
        const refused = deliveries.find(({ status }) => status !== 202);
        if (refused !== undefined) throw new Error(`a webhook was not taken: ${refused.status} ${refused.answer}`);
      }
    },
    async [Symbol.asyncDispose]() {
      await server[Symbol.asyncDispose]();
      await github.close();
    },
  };
}
