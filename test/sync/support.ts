import { setTimeout as delay } from 'node:timers/promises';
import { asc, eq, inArray, sql } from 'drizzle-orm';
import pg from 'pg';
import { expect, onTestFinished } from 'vitest';
import { applyRuleset } from '../../src/database/rules.ts';
import { members, organisations, pullRequests, scoreChanges, syncRequests } from '../../src/database/schema.ts';
import type { Deps } from '../../src/deps.ts';
import type { RuleDefinition } from '../../src/scoring/ruleset.ts';
import { type SyncOutcome, syncPullRequests } from '../../src/sync/pull-requests.ts';
import { reconcileOrganisation } from '../../src/sync/reconcile.ts';
import type { Organisation as GithubOrganisation } from '../support/github/organisation.ts';
import type { PullRequest } from '../support/github/pull-request.ts';
import { type GithubStandIn, startGithub } from '../support/github/server.ts';
import { createTenant, type Service, startReplica, startService, type Tenant } from '../support/service.ts';

export interface World {
  github: GithubStandIn;
  service: Service;
  /** One more service on the same database, or another way to it, and GitHub; it ends with the test. */
  replica(databaseUrl?: string, environment?: Record<string, string>): Promise<Service>;
  close(): Promise<void>;
}

/** A GitHub whose clock stands still, and the service with its token. */
export async function startWorld(environment: Record<string, string> = {}): Promise<World> {
  const github = await startGithub();
  github.clock.set(1_800_000_000);
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

export interface Home extends Tenant {
  /** The same organisation on GitHub, with the member `ada`. */
  acme: GithubOrganisation;
}

let homes = 0;

/** An organisation of its own, here and on GitHub, so that tests share a world without meeting. */
export async function newHome({ github, service }: World): Promise<Home> {
  const acme = github.organisation(`acme-${++homes}`);
  acme.member(`ada-${homes}`, { name: 'Ada' });
  const tenant = await createTenant(service, { login: acme.login, githubId: acme.id, nodeId: acme.nodeId });
  return { ...tenant, acme };
}

/** Fetches them from GitHub in one request, as the loop does. */
export async function fetchOf(deps: Deps, home: Home, wanted: readonly PullRequest[]) {
  const results = await deps.github.fetchPullRequests(
    home.organisation,
    wanted.map(({ nodeId }) => nodeId),
  );
  const found = [...results.values()].flatMap(result => (result.status === 'found' ? [result.pullRequest] : []));
  return { results, pullRequests: found };
}

/** Of those who have not left. */
export async function memberLogins({ database }: Deps, { organisation }: Home): Promise<string[]> {
  const rows = await database.executor.select().from(members).where(eq(members.organisationId, organisation.id));
  return rows.flatMap(({ login, leftAt }) => (leftAt === null ? [login] : [])).sort();
}

/** Those that wait for the sync loop, by GitHub id. */
export async function waitingSyncs({ database }: Deps, { organisation }: Home) {
  return database.executor
    .select()
    .from(syncRequests)
    .where(eq(syncRequests.organisationId, organisation.id))
    .orderBy(asc(syncRequests.githubId));
}

/** Waits as long as it must for what is asked about, and no longer. @returns milliseconds */
export async function until(condition: () => Promise<boolean>, milliseconds = 20_000): Promise<number> {
  const begin = performance.now();
  while (!(await condition())) {
    if (performance.now() - begin > milliseconds) throw new Error(`not within ${milliseconds} ms`);
    await delay(10);
  }
  return performance.now() - begin;
}

/** Takes them the one way in. */
export async function sync(deps: Deps, home: Home, ...wanted: PullRequest[]): Promise<(SyncOutcome | undefined)[]> {
  const { outcomes } = await syncPullRequests(deps, home.organisation, () => fetchOf(deps, home, wanted));
  return wanted.map(({ id }) => outcomes.get(id));
}

/** A sync that has fetched, and saves when told to. */
export async function fetchedSync(deps: Deps, home: Home, wanted: PullRequest) {
  let save: () => void = () => undefined;
  const told = new Promise<void>(resolve => {
    save = resolve;
  });
  let fetched: () => void = () => undefined;
  const isFetched = new Promise<void>(resolve => {
    fetched = resolve;
  });
  const done = syncPullRequests(deps, home.organisation, async () => {
    const reply = await fetchOf(deps, home, [wanted]);
    fetched();
    await told;
    return reply;
  });
  await Promise.race([isFetched, done]);
  return {
    async save(): Promise<SyncOutcome | undefined> {
      save();
      return (await done).outcomes.get(wanted.id);
    },
  };
}

/** How many statements wait for a lock in the database. */
/** A session with the database, whose locks end with the test at the latest. */
export async function openSession({ service }: World): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: service.database.url });
  await client.connect();
  onTestFinished(() => client.end());
  return client;
}

export async function lockWaits({ database }: Deps): Promise<number> {
  const { rows } = await database.executor.execute(
    sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
  );
  return rows.length;
}

/** From now on, no organisation is due for a comparison but these. */
export async function makeDue({ database: { executor } }: Deps, ...homes: readonly Home[]): Promise<void> {
  await executor.update(organisations).set({ reconcileDueAt: sql`now() + interval '1 hour'` });
  const ids = homes.map(({ organisation }) => organisation.id);
  await executor.update(organisations).set({ reconcileDueAt: sql`now()` }).where(inArray(organisations.id, ids));
}

/**
 * Compares the organisation with GitHub now, and no other that was due.
 * @returns how many GraphQL requests it took, without those for the list of members
 */
export async function compare({ github, service }: World, home: Home): Promise<number> {
  await makeDue(service, home);
  const count = () => github.count() - github.count('Members');
  const before = count();
  expect(await reconcileOrganisation(service)).toBe(true);
  return count() - before;
}

export function storedPullRequests({ database }: Deps, { organisation }: Home) {
  return database.executor
    .select()
    .from(pullRequests)
    .where(eq(pullRequests.organisationId, organisation.id))
    .orderBy(asc(pullRequests.githubId));
}

export async function stored(deps: Deps, home: Home, wanted: PullRequest) {
  return (await storedPullRequests(deps, home)).find(({ githubId }) => githubId === wanted.id);
}

/** `from → to (cause, version)`, oldest first. */
export async function scoreHistory({ database }: Deps, { organisation }: Home): Promise<string[]> {
  const rows = await database.executor
    .select()
    .from(scoreChanges)
    .where(eq(scoreChanges.organisationId, organisation.id))
    .orderBy(asc(scoreChanges.id));
  return rows.map(row => `${row.fromScore} → ${row.toScore} (${row.cause}, ${row.rulesetVersion})`);
}

/** A rule that counts wherever `expression` is true. */
export const rule = (value: string, expression = 'true', name = value): RuleDefinition => ({
  name,
  description: '',
  is_enabled: true,
  logic: [{ expression, effect: { action: 'ADD', value } }],
});

export const apply = ({ database }: Deps, { organisation }: Home, ...rules: RuleDefinition[]) =>
  database.transaction(executor => applyRuleset(executor, organisation.id, rules));
