import { setTimeout as delay } from 'node:timers/promises';
import { eq, inArray, type SQL, sql } from 'drizzle-orm';
import type { PgColumn, PgTable } from 'drizzle-orm/pg-core';
import { test as anyTest, expect, onTestFinished } from 'vitest';
import { sweepPullRequests } from '../../src/database/background-requests.ts';
import { retrySyncRequests } from '../../src/database/backlog.ts';
import type { Database, Executor } from '../../src/database/client.ts';
import { getOrganisation, lockOrganisation, updateOrganisation } from '../../src/database/organisations.ts';
import {
  members,
  organisations,
  pullRequests,
  repositories,
  scoreChanges,
  syncRequests,
  webhookDeliveries,
} from '../../src/database/schema.ts';
import { findDueSyncRequests } from '../../src/database/sync-requests.ts';
import type { Deps } from '../../src/deps.ts';
import type { Github } from '../../src/github/github.ts';
import type { RuleDefinition } from '../../src/scoring/rule.ts';
import { compareOrganisation } from '../../src/sync/compare.ts';
import { type ImportOptions, importPullRequests } from '../../src/sync/import.ts';
import { removePullRequest } from '../../src/sync/remove-pull-request.ts';
import { createRequestWorker } from '../../src/sync/serve-requests.ts';
import { type Loops, startLoops } from '../../src/sync/start-loops.ts';
import { syncMembers } from '../../src/sync/sync-members.ts';
import { type SyncOutcome, syncByNodeIds } from '../../src/sync/sync-pull-requests.ts';
import type { WebhookEvent } from '../support/github/events.ts';
import { createLatch } from '../support/github/faults.ts';
import type { Organisation } from '../support/github/organisation.ts';
import type { PullRequest, PullRequestOptions } from '../support/github/pull-request.ts';
import type { Repository } from '../support/github/repository.ts';
import type { Account } from '../support/github/world.ts';
import { rescoreAll } from '../support/rescore.ts';
import { openClient, type Service } from '../support/service.ts';
import { applyRules } from '../support/tenants.ts';
import { startWorld, type TenantOnGithub, type World } from '../support/world.ts';
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

export type SyncWorld = Awaited<ReturnType<typeof startSyncWorld>>;

/** A world whose tenants do what tests of syncs ask for, with a `test` that gets a new one as `tenant`. */
export async function startSyncWorld(...options: Parameters<typeof startWorld>) {
  const world = await startWorld(...options);
  const newTenant = async (acme?: Organisation) => new SyncTenant(world, await world.newTenant(acme));
  return { ...world, newTenant, test: anyTest.extend('tenant', () => newTenant()) };
}

/** An organisation, and what tests do with it. */
export class SyncTenant implements TenantOnGithub {
  readonly acme: TenantOnGithub['acme'];
  readonly organisation: TenantOnGithub['organisation'];
  readonly user: TenantOnGithub['user'];
  readonly token: string;
  readonly world: World;
  readonly service: Deps;
  readonly executor: Executor;

  constructor(world: World, { acme, organisation, user, token }: TenantOnGithub, service: Deps = world.service) {
    this.acme = acme;
    this.organisation = organisation;
    this.user = user;
    this.token = token;
    this.world = world;
    this.service = service;
    this.executor = service.database.executor;
  }

  /** The same organisation, whose work another service does. */
  on(service: Deps): SyncTenant {
    return new SyncTenant(this.world, this, service);
  }

  /** The same organisation, as somebody has it in memory. */
  as(values: Partial<TenantOnGithub['organisation']>): SyncTenant {
    return new SyncTenant(this.world, { ...this, organisation: { ...this.organisation, ...values } }, this.service);
  }

  get id(): string {
    return this.organisation.id;
  }

  get web(): Repository {
    return this.acme.repository('web');
  }

  /** The member whom a new organisation has. */
  get ada(): Account {
    const [ada] = this.acme.members.values();
    if (ada === undefined) throw new Error('no member');
    return ada;
  }

  /** As it is stored now. */
  row() {
    return getOrganisation(this.executor, this.id);
  }

  update(values: Parameters<typeof updateOrganisation>[2]) {
    return updateOrganisation(this.executor, this.id, values);
  }

  /** That a row is its own. */
  owns({ organisationId }: { organisationId: PgColumn }): SQL {
    return eq(organisationId, this.id);
  }

  /** Its own rows of a table, in the order of these columns. */
  async rowsOf<Table extends PgTable & { organisationId: PgColumn }>(table: Table, ...order: PgColumn[]) {
    const rows = this.executor.select().from(table as PgTable);
    return (await rows.where(this.owns(table)).orderBy(...order)) as Table['$inferSelect'][];
  }

  storedMembers() {
    return this.rowsOf(members, members.githubId);
  }

  /** Logins of members who have not left. */
  async memberLogins(): Promise<string[]> {
    const rows = await this.storedMembers();
    return rows.flatMap(({ login, leftAt }) => (leftAt === null ? [login] : [])).sort();
  }

  storedRepositories() {
    return this.rowsOf(repositories, repositories.name);
  }

  storedPullRequests() {
    return this.rowsOf(pullRequests, pullRequests.githubId);
  }

  async stored(wanted: PullRequest) {
    return (await this.storedPullRequests()).find(({ githubId }) => githubId === wanted.id);
  }

  /** Pending sync requests. */
  waitingSyncs() {
    return this.rowsOf(syncRequests, syncRequests.githubId);
  }

  /** Inserts a sync request with these values. */
  request({ id, nodeId }: Pick<PullRequest, 'id' | 'nodeId'>, values: Partial<typeof syncRequests.$inferInsert> = {}) {
    const request = { organisationId: this.id, githubId: id, nodeId, ticket: 1, ...values };
    return this.executor.insert(syncRequests).values(request);
  }

  /** The requests that come next, up to `limit`. */
  dueRequests(limit: number) {
    return findDueSyncRequests(this.executor, this.id, { limit, isolatedAfterSeconds: 30 });
  }

  /** Of its deliveries, sorted. */
  async deliveryStates(): Promise<string[]> {
    return (await this.rowsOf(webhookDeliveries)).map(({ state }) => state).toSorted();
  }

  /** `from → to (cause, version)`, oldest first. */
  async scoreHistory(): Promise<string[]> {
    const rows = await this.rowsOf(scoreChanges, scoreChanges.id);
    return rows.map(row => `${row.fromScore} → ${row.toScore} (${row.cause}, ${row.rulesetVersion})`);
  }

  /** Seconds from now to a time of the organisation, by the database's clock; null if the time is not set. */
  async secondsTo(column: string): Promise<number | null> {
    const { rows } = await this.executor.execute<{ seconds: number | null }>(sql`
      select extract(epoch from ${sql.identifier(column)} - now())::float8 as seconds
      from organisations where id = ${this.id}`);
    return rows[0]?.seconds ?? null;
  }

  /** Sweeps, an hour after the last sweep. @returns how many refetches it requested */
  refetch(limit: number): Promise<number> {
    return this.service.database.transaction(async executor => {
      await updateOrganisation(executor, this.id, { sweptAt: sql`now() - interval '1 hour'` });
      return sweepPullRequests(executor, this.id, {
        perHour: limit,
        minAgeSeconds: 86_400,
        minPauseSeconds: 60,
      });
    });
  }

  /** Lets two days go by for the sweep. */
  async makeSweepDue(): Promise<void> {
    await this.executor
      .update(pullRequests)
      .set({ fetchedAt: sql`now() - interval '2 days'` })
      .where(this.owns(pullRequests));
    await this.update({ sweptAt: sql`now() - interval '1 hour'` });
  }

  /** As `webhooks retry` does. */
  retryFailed() {
    return this.service.database.transaction(executor => retrySyncRequests(executor, this.id));
  }

  /** Deletes a stored pull request, as a client does. @returns false if it is not stored */
  remove(id = ''): Promise<boolean> {
    return removePullRequest(this.service.database, this.id, id, { name: 'a client', requestId: null });
  }

  import(options?: ImportOptions) {
    return importPullRequests(this.service, this.organisation, options);
  }

  syncMembers(confirm?: Parameters<typeof syncMembers>[2]) {
    return syncMembers(this.service, this.organisation, confirm);
  }

  /** Somebody joins it, and the members are listed. */
  joined(account: Account) {
    this.acme.join(account);
    return this.syncMembers();
  }

  /** Somebody leaves it, and the members are listed. */
  left(account: Account) {
    this.acme.leave(account);
    return this.syncMembers();
  }

  /** Syncs the pull requests in one request. @returns outcomes in the order given */
  async sync(...wanted: PullRequest[]): Promise<(SyncOutcome | undefined)[]> {
    const nodeIds = wanted.map(({ nodeId }) => nodeId);
    const answers = await syncByNodeIds(this.service, this.organisation, nodeIds);
    return wanted.map(({ nodeId }) => {
      const answer = answers.get(nodeId);
      if (answer?.status === 'failed') throw answer.error;
      return answer?.status === 'found' ? answer.outcome : undefined;
    });
  }

  /** Opens so many in `web`. Of four at most, the types know that they exist. */
  open(count: number, options?: PullRequestOptions) {
    const opened = Array.from({ length: count }, () => this.web.openPullRequest(options));
    return opened as [PullRequest, PullRequest, PullRequest, PullRequest, ...PullRequest[]];
  }

  /** Opens a pull request in `web`, and syncs it. */
  async openStored(options?: PullRequestOptions): Promise<PullRequest> {
    const pullRequest = this.web.openPullRequest(options);
    await this.sync(pullRequest);
    return pullRequest;
  }

  /** Starts a sync that has fetched and waits for `save()`. */
  async fetchedSync(wanted: PullRequest) {
    const saving = createLatch();
    const fetching = createLatch();
    const held = withStep(this.service, async results => {
      fetching.release();
      await saving.released;
      return results;
    });
    const done = this.on(held).sync(wanted);
    await Promise.race([fetching.released, done]);
    return {
      async save(): Promise<SyncOutcome | undefined> {
        saving.release();
        return (await done)[0];
      },
    };
  }

  /** Starts it, and makes the change once it has scored and waits for the lock under which it saves. @returns its result */
  async duringSave<Result>(
    start: () => Promise<Result>,
    change: (executor: Executor) => Promise<unknown>,
  ): Promise<Result | undefined> {
    let saving: Promise<Result> | undefined;
    await this.service.database.transaction(async executor => {
      await lockOrganisation(executor, this.id, 'exclusive');
      saving ??= start();
      await waitUntil(async () => (await lockWaits(this.service)) === 1);
      await change(executor);
    });
    return saving;
  }

  /** Compares the organisation with GitHub, and no other. Fetches nothing. */
  async compareOnly(): Promise<void> {
    await makeDue(this.service, this);
    expect(await compareOrganisation(this.service)).toBe(true);
  }

  /**
   * Compares the organisation with GitHub, and no other, and fetches what the comparison has requested.
   *
   * @returns how many GraphQL requests it took, without those for the list of members
   */
  async compare(): Promise<number> {
    const { github } = this.world;
    const count = () => github.count() - github.count('Members');
    const before = count();
    await this.compareOnly();
    const work = createRequestWorker(this.service, this.id);
    while (await work());
    return count() - before;
  }

  /** The same, two minutes later: what has changed since is more than a minute old. */
  compareLater(): Promise<number> {
    this.world.github.clock.advance(120);
    return this.compare();
  }

  apply(...rules: RuleDefinition[]) {
    return applyRules(this.service, this.id, { rules });
  }

  /** Puts rules in force, and scores all by them. @returns how many pull requests */
  async scoreBy(...rules: RuleDefinition[]): Promise<number> {
    await this.apply(...rules);
    return this.rescore();
  }

  rescore(): Promise<number> {
    return rescoreAll(this.service, this.id);
  }

  /** Copies of one stored pull request with other ids. */
  async newStored(count: number, body = ''): Promise<void> {
    const { id } = await this.openStored({ additions: 3, body });
    const { rows } = await this.executor.execute<{ columns: string }>(
      sql`select string_agg(quote_ident(column_name), ', ') as columns from information_schema.columns
        where table_name = 'pull_requests' and column_name not in ('id', 'github_id')`,
    );
    const columns = sql.raw(rows[0]?.columns ?? '');
    // In parts: each has the time limit of a statement, and a disk may be slow.
    const most = 1_000;
    for (let first = 1; first < count; first += most) {
      await this.executor.execute(sql`
        insert into pull_requests (id, github_id, ${columns})
        select gen_random_uuid(), ${id}::bigint * 1000 + number_of, ${columns}
        from pull_requests, generate_series(${first}::int, ${Math.min(first + most, count) - 1}::int) as number_of
        where organisation_id = ${this.id} and github_id = ${id}`);
    }
  }
}

/** Posts webhooks, one after the other, all of which must be taken. */
export async function deliver(service: Service, ...events: (WebhookEvent | undefined)[]): Promise<void> {
  for (const event of events) {
    if (event === undefined) throw new Error('no event');
    expect(await post(service, event)).toMatchObject({ status: 202 });
  }
}

/**
 * Polls until the condition holds. Of a round that takes longer, as on a busy machine, only 20 ms count.
 *
 * @returns after how many milliseconds
 */
export async function waitUntil(condition: () => Promise<boolean>, timeoutMs = 20_000): Promise<number> {
  let waitedMs = 0;
  for (let begin = performance.now(); !(await condition()); ) {
    if (waitedMs > timeoutMs) throw new Error(`not within ${timeoutMs} ms`);
    await delay(10);
    const end = performance.now();
    waitedMs += Math.min(end - begin, 20);
    begin = end;
  }
  return waitedMs;
}

/** How many milliseconds it takes, as {@link waitUntil} counts them. */
export async function timeOf(work: Promise<unknown>): Promise<number> {
  let isDone = false;
  const done = () => {
    isDone = true;
  };
  void work.then(done, done);
  return waitUntil(async () => isDone, 60_000);
}

/** A session with the database that ends with the test, and has executed a statement in a transaction: it has its locks. */
export async function openTransaction({ service }: Pick<World, 'service'>, statement: string, values: unknown[] = []) {
  const client = await openClient(service.database.url);
  await client.query('begin');
  await client.query(statement, values);
  return client;
}

/** The same as somebody who saves what was fetched: it has the lock that savers share. */
export const openSave = (
  world: Pick<World, 'service'>,
  { organisation: { id } }: Pick<TenantOnGithub, 'organisation'>,
) => openTransaction(world, 'select pg_advisory_xact_lock_shared(hashtextextended($1, 0))', [id]);

/** Runs the loops until the test ends. */
export function runLoops(...options: Parameters<typeof startLoops>): Loops {
  const loops = startLoops(...options);
  onTestFinished(() => loops.stop());
  return loops;
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

/** How many rows of pull requests each statement of the work reads, if PostgreSQL plans as for many. */
export async function countReads(
  database: Database,
  work: (executor: Executor) => Promise<unknown>,
): Promise<number[]> {
  const read = sql`sum(seq_tup_read + idx_tup_fetch) filter (where relname = 'pull_requests')`;
  const counts: number[] = [];
  await database.transaction(async executor => {
    await executor.execute(sql`set local enable_seqscan = off; set local enable_sort = off`);
    const execute = async (statement: SQL) => {
      const before = await figureOf(executor, read);
      const result = await executor.execute(statement);
      counts.push((await figureOf(executor, read)) - before);
      return result;
    };
    await work(Object.assign(Object.create(executor), { execute }));
  });
  return counts;
}

/** Makes these organisations due for a comparison, as if somebody had asked for it, and no others. */
export async function makeDue({ database: { executor } }: Deps, ...tenants: readonly TenantOnGithub[]): Promise<void> {
  await executor.update(organisations).set({
    comparisonDueAt: sql`now() + interval '1 hour'`,
    comparisonLeasedUntil: sql`'epoch'`,
    comparisonRequested: false,
  });
  const ids = tenants.map(({ organisation }) => organisation.id);
  await executor
    .update(organisations)
    .set({ comparisonDueAt: sql`now()`, comparisonRequested: true })
    .where(inArray(organisations.id, ids));
}

/** An organisation whose repositories `web` and the other one are stored, with a pull request each, and compared. */
export async function withTwoRepositories(world: SyncWorld, name: string) {
  const tenant = await world.newTenant();
  const [web, other] = [tenant.acme.repository('web'), tenant.acme.repository(name)];
  const [inWeb, inOther] = [web.openPullRequest(), other.openPullRequest()];
  await tenant.import();
  await tenant.compareLater();
  return { tenant, web, other, inWeb, inOther };
}

/** A rule that adds `value` if `expression` is true, in so many entries. */
export const rule = (value: string, expression = 'true', name = value, entries = 1): RuleDefinition => ({
  name,
  description: '',
  is_enabled: true,
  logic: Array.from({ length: entries }, () => ({ expression, effect: { action: 'ADD', value } })),
});

/** Of the ranges to score again: all pull requests. */
export const wholeRange = { fromId: '00000000-0000-0000-0000-000000000000', untilId: null };
