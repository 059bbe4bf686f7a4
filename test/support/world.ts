/** A service, the GitHub stand-in that it asks, and organisations that both know. */
import { generateKeyPairSync } from 'node:crypto';
import { onTestFinished } from 'vitest';
import type { Organisation as GithubOrganisation } from './github/organisation.ts';
import { type GithubStandIn, startGithub } from './github/server.ts';
import { type Service, startReplica, startService } from './service.ts';
import { createTenant, type Tenant } from './tenants.ts';

export interface World {
  github: GithubStandIn;
  service: Service;
  /** One more service with the same GitHub and database, or another way to the database. It ends with the test. */
  replica(databaseUrl?: string, environment?: Record<string, string>): Promise<Service>;
  close(): Promise<void>;
}

/** Starts a GitHub whose clock stands still, and a service with an App that is installed on every new home. */
export async function startAppWorld(environment: Record<string, string> = {}): Promise<World> {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', {
    // Short: it is found sooner.
    modulusLength: 1024,
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  });
  const app = { GITHUB_TOKEN: '', GITHUB_APP_ID: '4711', GITHUB_APP_PRIVATE_KEY: privateKey };
  return startWorld({ ...app, ...environment }, { app: { id: '4711', publicKey } });
}

/** Starts a GitHub whose clock stands still, and a service with a token for it. */
export async function startWorld(
  environment: Record<string, string> = {},
  options: Parameters<typeof startGithub>[0] = {},
): Promise<World> {
  const github = await startGithub(options);
  github.clock.set(Math.floor(Date.now() / 1000));
  const variables = {
    GITHUB_API_URL: github.apiUrl,
    GITHUB_TOKEN: github.token,
    // Comparisons would take the faults that are meant for others.
    RECONCILE_INTERVAL: '0',
    ...environment,
  };
  const service = await startService(variables);
  return {
    github,
    service,
    async replica(databaseUrl = service.database.url, changes = {}) {
      const replica = await startReplica(databaseUrl, { ...variables, ...changes });
      onTestFinished(() => replica.close());
      return replica;
    },
    async close() {
      await service.close();
      await github.close();
    },
  };
}

/** Sets GitHub's points for the hour, and how many of them are left. The test's end gives all 5,000 back. */
export function setPoints({ limit }: Pick<GithubStandIn, 'limit'>, points: number, remaining = points): void {
  if (limit === null) throw new Error('no limit');
  Object.assign(limit, { limit: points, remaining });
  onTestFinished(() => void Object.assign(limit, { limit: 5_000, remaining: 5_000 }));
}

export interface Home extends Tenant {
  /** The same organisation on GitHub. */
  acme: GithubOrganisation;
}

let homes = 0;

/** A new organisation on GitHub, with the member `ada`. */
function newOrganisation({ github }: World): GithubOrganisation {
  const acme = github.organisation(`acme-${++homes}`);
  acme.member(`ada-${homes}`, { name: 'Ada' });
  return acme;
}

/** A new organisation, here and on GitHub: tests share a world without meeting. */
export async function newHome(world: World, acme = newOrganisation(world)): Promise<Home> {
  world.github.installApp(acme);
  const tenant = await createTenant(world.service, { login: acme.login, githubId: acme.id, nodeId: acme.nodeId });
  return { ...tenant, acme };
}
