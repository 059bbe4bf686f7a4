import { setTimeout as delay } from 'node:timers/promises';
import { asc, eq, inArray, type SQL, sql } from 'drizzle-orm';
import { expect } from 'vitest';
import { sweepPullRequests } from '../../src/database/background-requests.ts';
import { retrySyncRequests } from '../../src/database/backlog.ts';
import type { Executor } from '../../src/database/client.ts';
import { lockOrganisation, updateOrganisation } from '../../src/database/organisations.ts';
import {
  members,
  organisations,
  pullRequests,
  repositories,
  scoreChanges,
  syncRequests,
} from '../../src/database/schema.ts';
import { findDueSyncRequests } from '../../src/database/sync-requests.ts';
import type { Deps } from '../../src/deps.ts';
import type { Github } from '../../src/github/github.ts';
import type { RuleDefinition } from '../../src/scoring/rule.ts';
import { compareOrganisation } from '../../src/sync/compare.ts';
import { importPullRequests } from '../../src/sync/import.ts';
import { removePullRequest } from '../../src/sync/remove-pull-request.ts';
import { createRequestWorker } from '../../src/sync/serve-requests.ts';
import { type SyncOutcome, syncByNodeIds } from '../../src/sync/sync-pull-requests.ts';
import type { WebhookEvent } from '../support/github/events.ts';
import { createLatch } from '../support/github/faults.ts';
import type { PullRequest } from '../support/github/pull-request.ts';
import type { Account } from '../support/github/world.ts';
import { openClient, type Service } from '../support/service.ts';
import { applyRules } from '../support/tenants.ts';
import type { TenantOnGithub, World } from '../support/world.ts';
import { post } from '../webhooks/support.ts';

type Results = Awaited<ReturnType<Github['fetchPullRequests']>>;

/** The same service, with a step between GitHub's answer about pull requests and their saving. */
export function withStep(deps: Deps, step: (results: Results) => Promise<Results>): Deps {
  const stepping = (github: Github): Github => ({
    ...github,
    metered: meter => stepping(github.metered(meter)),
    fetchPullRequests: async (...wanted) => step(await github.fetchPullRequests(...wanted)),
  });
  return { ...deps, github: stepping(deps.github) };
}

/** In the order of GitHub's ids. */
export const memberRows = ({ database }: Deps, { organisation }: TenantOnGithub) =>
  database.executor
    .select()
    .from(members)
    .where(eq(members.organisationId, organisation.id))
    .orderBy(asc(members.githubId));

/** Sorted by their names. */
export const repositoryRows = ({ database }: Deps, { organisation }: TenantOnGithub) =>
  database.executor
    .select()
    .from(repositories)
    .where(eq(repositories.organisationId, organisation.id))
    .orderBy(asc(repositories.name));

/** Logins of members who have not left. */
export async function memberLogins(deps: Deps, home: TenantOnGithub): Promise<string[]> {
  const rows = await memberRows(deps, home);
  return rows.flatMap(({ login, leftAt }) => (leftAt === null ? [login] : [])).sort();
}

/** Pending sync requests, in the order of GitHub's ids. */
export async function waitingSyncs({ database }: Deps, { organisation }: TenantOnGithub) {
  return database.executor
    .select()
    .from(syncRequests)
    .where(eq(syncRequests.organisationId, organisation.id))
    .orderBy(asc(syncRequests.githubId));
}

/** The requests that come next, up to `limit`. */
export const dueRequests = ({ database }: Deps, { organisation }: TenantOnGithub, limit: number) =>
  findDueSyncRequests(database.executor, organisation.id, { limit, isolatedAfterSeconds: 30 });

/** Sweeps, an hour after the last sweep. @returns how many refetches it requested */
export const refetch = ({ database }: Deps, { organisation: { id } }: TenantOnGithub, limit: number): Promise<number> =>
  database.transaction(async executor => {
    await updateOrganisation(executor, id, { sweptAt: sql`now() - interval '1 hour'` });
    return sweepPullRequests(executor, id, { perHour: limit, minAgeSeconds: 86_400, minPauseSeconds: 60 });
  });

/** As `webhooks retry` does. */
export const retryFailed = ({ database }: Deps, { organisation }: TenantOnGithub) =>
  database.transaction(executor => retrySyncRequests(executor, organisation.id));

/** Deletes a stored pull request, as a client does. @returns false if it is not stored */
export const remove = ({ database }: Pick<Deps, 'database'>, { organisation }: TenantOnGithub, id = '') =>
  removePullRequest(database, organisation.id, id, { name: 'a client', requestId: null });

/** Seconds from now to a time of the organisation, by the database's clock; null if the time is not set. */
export async function secondsTo(
  { database }: Pick<Deps, 'database'>,
  { organisation }: Pick<TenantOnGithub, 'organisation'>,
  column: string,
): Promise<number | null> {
  const { rows } = await database.executor.execute<{ seconds: number | null }>(
    sql`select extract(epoch from ${sql.identifier(column)} - now())::float8 as seconds
      from organisations where id = ${organisation.id}`,
  );
  return rows[0]?.seconds ?? null;
}

/** The member whom a new organisation has. */
export function adaOf({ acme }: TenantOnGithub): Account {
  const [ada] = acme.members.values();
  if (ada === undefined) throw new Error('no member');
  return ada;
}

/** Posts webhooks, one after the other, all of which must be taken. */
export async function deliver(service: Service, ...events: (WebhookEvent | undefined)[]): Promise<void> {
  for (const event of events) {
    if (event === undefined) throw new Error('no event');
    expect(await post(service, event)).toMatchObject({ status: 202 });
  }
}

/** Polls until the condition holds. @returns after how many milliseconds */
export async function waitUntil(condition: () => Promise<boolean>, timeoutMs = 20_000): Promise<number> {
  const begin = performance.now();
  while (!(await condition())) {
    if (performance.now() - begin > timeoutMs) throw new Error(`not within ${timeoutMs} ms`);
    await delay(10);
  }
  return performance.now() - begin;
}

/** Syncs the pull requests in one request. @returns outcomes in the order given */
export async function sync(
  deps: Deps,
  home: TenantOnGithub,
  ...wanted: PullRequest[]
): Promise<(SyncOutcome | undefined)[]> {
  const nodeIds = wanted.map(({ nodeId }) => nodeId);
  const answers = await syncByNodeIds(deps, home.organisation, nodeIds);
  return wanted.map(({ nodeId }) => {
    const answer = answers.get(nodeId);
    if (answer?.status === 'failed') throw answer.error;
    return answer?.status === 'found' ? answer.outcome : undefined;
  });
}

/** Starts a sync that has fetched and waits for `save()`. */
export async function fetchedSync(deps: Deps, home: TenantOnGithub, wanted: PullRequest) {
  const saving = createLatch();
  const fetching = createLatch();
  const held = withStep(deps, async results => {
    fetching.release();
    await saving.released;
    return results;
  });
  const done = sync(held, home, wanted);
  await Promise.race([fetching.released, done]);
  return {
    async save(): Promise<SyncOutcome | undefined> {
      saving.release();
      return (await done)[0];
    },
  };
}

/** A session with the database that ends with the test, and has executed a statement in a transaction: it has its locks. */
export async function openTransaction({ service }: World, statement: string, values: unknown[] = []) {
  const client = await openClient(service.database.url);
  await client.query('begin');
  await client.query(statement, values);
  return client;
}

/** How many statements wait for a lock. */
export async function lockWaits({ database }: Deps): Promise<number> {
  const { rows } = await database.executor.execute(
    sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
  );
  return rows.length;
}

/** A figure of PostgreSQL about the rows that this transaction, and perhaps earlier ones, have read and written. */
export async function figureOf(executor: Executor, figure: SQL): Promise<number> {
  const { rows } = await executor.execute<{ count: number }>(
    sql`select coalesce(${figure}, 0)::int as count from pg_stat_xact_user_tables`,
  );
  return rows[0]?.count ?? 0;
}

/** Starts it, and makes the change once it has scored and waits for the lock under which it saves. @returns its result */
export async function duringSave<Result>(
  deps: Deps,
  { organisation }: TenantOnGithub,
  start: () => Promise<Result>,
  change: (executor: Executor) => Promise<unknown>,
): Promise<Result | undefined> {
  let saving: Promise<Result> | undefined;
  await deps.database.transaction(async executor => {
    await lockOrganisation(executor, organisation.id, 'exclusive');
    saving ??= start();
    await waitUntil(async () => (await lockWaits(deps)) === 1);
    await change(executor);
  });
  return saving;
}

/** Makes these organisations due for a comparison, as if somebody had asked for it, and no others. */
export async function makeDue({ database: { executor } }: Deps, ...homes: readonly TenantOnGithub[]): Promise<void> {
  await executor
    .update(organisations)
    .set({ comparisonDueAt: sql`now() + interval '1 hour'`, comparisonRequested: false });
  const ids = homes.map(({ organisation }) => organisation.id);
  await executor
    .update(organisations)
    .set({ comparisonDueAt: sql`now()`, comparisonRequested: true })
    .where(inArray(organisations.id, ids));
}

/** Compares the organisation with GitHub, and no other. Fetches nothing. */
export async function compareOnly({ service }: World, home: TenantOnGithub): Promise<void> {
  await makeDue(service, home);
  expect(await compareOrganisation(service)).toBe(true);
}

/**
 * Compares the organisation with GitHub, and no other, and fetches what the comparison has requested.
 *
 * @returns how many GraphQL requests it took, without those for the list of members
 */
export async function compare(world: World, home: TenantOnGithub): Promise<number> {
  const count = () => world.github.count() - world.github.count('Members');
  const before = count();
  await compareOnly(world, home);
  const work = createRequestWorker(world.service, home.organisation.id);
  while (await work());
  return count() - before;
}

/** An organisation whose repositories `web` and the other one are stored, with a pull request each, and compared. */
export async function withTwoRepositories(world: World, name: string) {
  const home = await world.newTenant();
  const [web, other] = [home.acme.repository('web'), home.acme.repository(name)];
  const [inWeb, inOther] = [web.openPullRequest(), other.openPullRequest()];
  await importPullRequests(world.service, home.organisation);
  world.github.clock.advance(120);
  await compare(world, home);
  return { home, web, other, inWeb, inOther };
}

/** Lets two days go by for the sweep. */
export async function makeSweepDue({ database: { executor } }: Deps, { organisation: { id } }: TenantOnGithub) {
  await executor.execute(sql`
    update pull_requests set fetched_at = now() - interval '2 days' where organisation_id = ${id}`);
  await updateOrganisation(executor, id, { sweptAt: sql`now() - interval '1 hour'` });
}

export function storedPullRequests({ database }: Deps, { organisation }: TenantOnGithub) {
  return database.executor
    .select()
    .from(pullRequests)
    .where(eq(pullRequests.organisationId, organisation.id))
    .orderBy(asc(pullRequests.githubId));
}

export async function stored(deps: Deps, home: TenantOnGithub, wanted: PullRequest) {
  return (await storedPullRequests(deps, home)).find(({ githubId }) => githubId === wanted.id);
}

/** Copies of one stored pull request with other ids. */
export async function newStored(deps: Deps, home: TenantOnGithub, count: number, body = ''): Promise<void> {
  const pullRequest = home.acme.repository('web').openPullRequest({ additions: 3, body });
  await sync(deps, home, pullRequest);
  const columns = sql.raw(
    (
      await deps.database.executor.execute<{ columns: string }>(
        sql`select string_agg(quote_ident(column_name), ', ') as columns from information_schema.columns
          where table_name = 'pull_requests' and column_name not in ('id', 'github_id')`,
      )
    ).rows[0]?.columns ?? '',
  );
  // In parts: each has the time limit of a statement, and a disk may be slow.
  const rows = 1_000;
  for (let first = 1; first < count; first += rows) {
    await deps.database.executor.execute(sql`
      insert into pull_requests (id, github_id, ${columns})
      select gen_random_uuid(), ${pullRequest.id}::bigint * 1000 + number_of, ${columns}
      from pull_requests, generate_series(${first}::int, ${Math.min(first + rows, count) - 1}::int) as number_of
      where organisation_id = ${home.organisation.id} and github_id = ${pullRequest.id}`);
  }
}

/** `from → to (cause, version)`, oldest first. */
export async function scoreHistory({ database }: Deps, { organisation }: TenantOnGithub): Promise<string[]> {
  const rows = await database.executor
    .select()
    .from(scoreChanges)
    .where(eq(scoreChanges.organisationId, organisation.id))
    .orderBy(asc(scoreChanges.id));
  return rows.map(row => `${row.fromScore} → ${row.toScore} (${row.cause}, ${row.rulesetVersion})`);
}

/** A rule that adds `value` if `expression` is true. */
export const rule = (value: string, expression = 'true', name = value): RuleDefinition => ({
  name,
  description: '',
  is_enabled: true,
  logic: [{ expression, effect: { action: 'ADD', value } }],
});

export const apply = (deps: Deps, home: TenantOnGithub, ...rules: RuleDefinition[]) =>
  applyRules(deps, home.organisation.id, { rules });
