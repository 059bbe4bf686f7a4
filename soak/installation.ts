/** PostgreSQL, a stand-in for GitHub, and replicas of the service that know one organisation. */
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { pino } from 'pino';
import { scopes } from '../src/access-token.ts';
import { connectDatabase, type Database } from '../src/database/client.ts';
import { migrateDatabase } from '../src/database/migrations.ts';
import { entry, rule } from '../test/scoring/support.ts';
import { type GithubStandIn, startGithub } from '../test/support/github/server.ts';
import { createHome, removeHome } from '../test/support/home.ts';
import { applyRules, createTenant, type Tenant } from '../test/support/tenants.ts';
import { type KilledReplica, type KilledServer, startKilledServer, superviseReplica } from './killed-processes.ts';

export const webhookSecret = 'a secret of the soak';

export const login = 'acme';

/** `findLosses` of outcome.ts computes the same in SQL. */
const scoringRules = [
  rule('Size', entry('additions > 0', 'per(additions, 3)')),
  rule('Given up', entry('state == "closed"', '5', 'SUBTRACT')),
];

/** How long the stand-in takes to answer, about like GitHub. */
export const githubDelayMs = 150;

/** Its organisation's token has every scope. */
export interface Installation extends Pick<Tenant, 'organisation' | 'token'> {
  readonly server: KilledServer;
  readonly database: Database;
  readonly github: GithubStandIn;
  readonly replicas: readonly KilledReplica[];
}

/**
 * Comparison with GitHub is off, because it would heal a loss.
 *
 * @param name part of the name of the folder for database and logs
 * @param work returns whether all is well; if not, the database and the logs stay, and this prints where
 */
export async function withInstallation(
  name: string,
  replicaCount: number,
  environment: Record<string, string>,
  work: (installation: Installation) => Promise<boolean>,
): Promise<boolean> {
  const home = createHome(name);
  const server = await startKilledServer(home);
  const database = connectDatabase(server.url, pino({ level: 'silent' }));
  const github = await startGithub();
  // As many points as GraphQL can represent, also after an hour.
  if (github.limit !== null) Object.assign(github.limit, { limit: 2 ** 31 - 1, remaining: 2 ** 31 - 1 });
  github.fault({ kind: 'delay', milliseconds: githubDelayMs }, { times: Number.POSITIVE_INFINITY });
  // Ends the replicas, too.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.once(signal, () => void server.stop().finally(() => process.exit(1)));
  }
  const replicas: KilledReplica[] = [];
  let isClean = false;
  try {
    await migrateDatabase(server.url);
    const tenant = await createTenant({ database }, { login, githubId: github.organisation(login).id, scopes });
    await applyRules({ database }, tenant.organisation.id, { rules: scoringRules });
    for (const port of await Promise.all(Array.from({ length: replicaCount }, freePort))) {
      const own = {
        DATABASE_URL: server.url,
        GITHUB_API_URL: github.apiUrl,
        GITHUB_TOKEN: github.token,
        GITHUB_WEBHOOK_SECRET: webhookSecret,
        RECONCILE_INTERVAL: '0',
        LOG_LEVEL: 'warn',
        ...environment,
      };
      replicas.push(superviseReplica(port, join(home, `replica-${port}.log`), own));
    }
    await Promise.all(replicas.map(replica => replica.ready()));
    isClean = await work({ server, database, github, ...tenant, replicas });
    return isClean;
  } finally {
    await Promise.all(replicas.map(replica => replica.stop()));
    await database.close();
    await server.stop();
    await github.close();
    if (isClean) removeHome(home);
    else print(`Database and logs are in ${home}.`);
  }
}

export const print = (text: string) => void process.stdout.write(`${text}\n`);

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  await once(server.close(), 'close');
  return port;
}
