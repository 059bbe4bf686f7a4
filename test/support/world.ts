/** What a test starts with, by one call: a service, the GitHub stand-in that it asks, and an organisation that both know. */
import { afterAll, afterEach, onTestFinished, TestRunner } from 'vitest';
import type { Definition } from '../../src/scoring/language/definitions.ts';
import type { RuleDefinition } from '../../src/scoring/rule.ts';
import { importPullRequests } from '../../src/sync/import.ts';
import { createRequestWorker } from '../../src/sync/serve-requests.ts';
import { newAppKeys } from './app-keys.ts';
import type { PageBody, PullRequestBody } from './client.ts';
import type { Organisation as GithubOrganisation } from './github/organisation.ts';
import { type GithubStandIn, startGithub } from './github/server.ts';
import { closing, startReplica, startService } from './service.ts';
import { applyRules, createTenant, type Tenant } from './tenants.ts';

export interface TenantOnGithub extends Tenant {
  /** The same organisation on GitHub. */
  acme: GithubOrganisation;
}

export type World = Awaited<ReturnType<typeof startWorld>>;

let tenants = 0;

/**
 * Starts a GitHub whose clock stands still, a service with a token for it, and the organisation `acme` without members.
 * All ends with the test, or with the file if no test calls it: then GitHub is after each test as it was at first, but for
 * its organisations and its clock.
 */
export async function startWorld(
  environment: Record<string, string> = {},
  options: Parameters<typeof startGithub>[0] = {},
) {
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
  const { executor, url } = service.database;
  const isShared = TestRunner.getCurrentTest() === undefined;
  const atEnd = isShared ? afterAll : onTestFinished;
  atEnd(async () => {
    await service.close();
    await github.close();
  });
  if (isShared) {
    const grants = structuredClone(github.grants);
    afterEach(async () => {
      github.clearFaults();
      github.requests.length = 0;
      Object.assign(github.grants, structuredClone(grants));
      await executor.execute('delete from github_limits');
    });
  }

  /** @param acme an organisation on GitHub, if it is not a new one with the member `ada` */
  async function newTenant(acme = newOrganisation(github)): Promise<TenantOnGithub> {
    github.installApp(acme);
    return { ...(await createTenant(service, { login: acme.login, githubId: acme.id, nodeId: acme.nodeId })), acme };
  }
  const tenant = await newTenant(github.organisation('acme', { name: 'Acme' }));
  const work = createRequestWorker(service);
  const listed = async (token = tenant.token) =>
    (await service.client.get<PageBody<PullRequestBody>>('/2025-04/pull-requests?per_page=100', token)).body.data;

  return {
    github,
    service,
    executor,
    client: service.client,
    /** For commands that use the same database and GitHub. */
    shell: { DATABASE_URL: url, GITHUB_API_URL: github.apiUrl, GITHUB_TOKEN: github.token },
    ...tenant,
    web: tenant.acme.repository('web'),
    /** A new organisation, here and on GitHub: tests share a world without meeting. */
    newTenant,
    /** One more service with the same GitHub and database, or another way to the database. It ends with the test. */
    replica: async (databaseUrl = url, changes: Record<string, string> = {}) =>
      closing(await startReplica(databaseUrl, { ...variables, ...changes })),
    /** The pull requests of acme, or of the organisation with the token, as 2025-04 lists them: up to a hundred. */
    listed,
    /** The pull request as it is listed. @throws if it is not */
    async find({ id }: { id: number }): Promise<PullRequestBody> {
      const found = (await listed()).find(({ external_id }) => external_id === String(id));
      if (found === undefined) throw new Error('the pull request is not listed');
      return found;
    },
    /** Imports all pull requests of acme. */
    import: () => importPullRequests(service, tenant.organisation),
    async applyRules(rules: RuleDefinition[], definitions: Definition[] = []): Promise<void> {
      await applyRules(service, tenant.organisation.id, { rules, definitions });
    },
    /** Fetches all pull requests that are waiting. @returns the number of batches */
    async workOff(): Promise<number> {
      let batches = 0;
      while (await work()) batches += 1;
      return batches;
    },
  };
}

/** For a world whose service is an App that is installed on every organisation. */
export function appOptions(): Parameters<typeof startWorld> {
  const { privateKey, publicKey } = newAppKeys();
  const app = { GITHUB_TOKEN: '', GITHUB_APP_ID: '4711', GITHUB_APP_PRIVATE_KEY: privateKey };
  return [app, { app: { id: '4711', publicKey } }];
}

/** Sets GitHub's points for the hour, and how many of them are left. The test's end gives all 5,000 back. */
export function setPoints({ limit }: Pick<GithubStandIn, 'limit'>, points: number, remaining = points): void {
  if (limit === null) throw new Error('no limit');
  Object.assign(limit, { limit: points, remaining });
  onTestFinished(() => void Object.assign(limit, { limit: 5_000, remaining: 5_000 }));
}

function newOrganisation(github: GithubStandIn): GithubOrganisation {
  const acme = github.organisation(`acme-${++tenants}`);
  acme.member(`ada-${tenants}`, { name: 'Ada' });
  return acme;
}
