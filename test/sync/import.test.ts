import { syncBuiltinESMExports } from 'node:module';
import timers from 'node:timers/promises';
import { sql } from 'drizzle-orm';
import { describe, expect, onTestFinished, vi } from 'vitest';
import { beginImport, saveRepositories } from '../../src/database/repositories.ts';
import { repositories } from '../../src/database/schema.ts';
import type { ImportOptions, ImportProgress } from '../../src/sync/import.ts';
import { listPage } from '../../src/sync/list-page.ts';
import { estimateEffort, type ImportPreview, previewImport } from '../../src/sync/scope-import.ts';
import { createRequestWorker } from '../../src/sync/serve-requests.ts';
import { earlier } from '../support/citus.ts';
import {
  furtherPage,
  type GithubStandInRequest,
  htmlError,
  naming,
  queryTimeout,
  refusedNode,
  secondaryLimit,
} from '../support/github/faults.ts';
import type { PullRequest } from '../support/github/pull-request.ts';
import { rule, type SyncTenant, startSyncWorld } from './support.ts';

const world = await startSyncWorld();
const { service, executor, test } = world;

/** Adds so many pull requests to each repository, a second apart, oldest first. */
function fill(tenant: SyncTenant, counts: Record<string, number>): void {
  const begin = world.github.clock.now() - 1_000_000;
  for (const [name, count] of Object.entries(counts)) {
    const repository = tenant.acme.repository(name);
    for (let index = 0; index < count; index += 1) {
      repository.addPullRequest({ createdAt: begin + index, additions: index });
    }
  }
}

const storedCount = async (tenant: SyncTenant) => (await tenant.storedPullRequests()).length;

const lists = () => world.github.count('PullRequestList');

/** Stops an import while it lists page number `count`, as Ctrl-C does. */
async function interruptIn(tenant: SyncTenant, count: number, options: ImportOptions = {}): Promise<void> {
  const interruption = new AbortController();
  const before = lists();
  const interrupted = tenant.import({
    ...options,
    signal: interruption.signal,
    onProgress: () => {
      if (lists() - before === count - 1) interruption.abort();
    },
  });
  await expect(interrupted).rejects.toThrow('aborted');
}

describe('an import', () => {
  test('brings in a pull request once that a page lists twice', async ({ tenant }) => {
    fill(tenant, { web: 2 });
    type Page = { node: { pullRequests: { nodes: unknown[] } } };
    const listTwice = (reply: { data?: unknown }) => {
      const { pullRequests } = (reply.data as Page).node;
      pullRequests.nodes.push(...pullRequests.nodes);
      return reply;
    };
    world.github.fault({ kind: 'alter', change: listTwice }, { when: 'PullRequestList' });
    expect(await tenant.import()).toMatchObject({ repositories: 1, seen: 2, saved: 2, failed: 0 });
    expect(await storedCount(tenant)).toBe(2);
  });

  test('brings in every pull request, a hundred per list request and fifty per fetch, and reports its progress', async () => {
    const tenant = await world.newTenant();
    await tenant.apply(rule('additions'));
    fill(tenant, { web: 120, api: 29, empty: 0 });
    tenant.acme.repository('api').addPullRequest({ author: world.github.account('a stranger to all') });
    const reported: ImportProgress[] = [];
    expect(await tenant.import({ onProgress: progress => reported.push(progress) })).toEqual({
      repositories: 2,
      failedRepositories: [],
      ignored: [],
      seen: 150,
      saved: 149,
      deleted: 0,
      untracked: 1,
      failed: 0,
      requests: 6,
    });
    expect(world.github.count()).toBe(7);
    const rows = await tenant.storedPullRequests();
    expect(rows.map(({ score }) => score).toSorted((a, b) => a - b)).toEqual(
      [...Array(120).keys(), ...Array(29).keys()].toSorted((a, b) => a - b),
    );
    const { login } = tenant.acme;
    expect(reported.map(({ looked }) => looked)).toEqual(reported.map(({ seen }) => seen));
    const steps = reported.map(({ repository, seen, total }) => [repository, seen, total].join(' '));
    expect([...new Set(steps)]).toEqual([
      `${login}/web 0 150`,
      `${login}/web 50 150`,
      `${login}/api 50 150`,
      `${login}/api 100 150`,
      `${login}/api 150 150`,
    ]);
  });

  test('that runs again brings in what has changed since', async ({ tenant }) => {
    fill(tenant, { web: 3 });
    await tenant.import();
    const before = await tenant.storedPullRequests();
    const stranger = world.github.account(`late-${tenant.acme.login}`);
    tenant.web.addPullRequest({ author: stranger });
    expect(await tenant.import()).toMatchObject({ seen: 4, saved: 3, untracked: 1 });
    tenant.acme.join(stranger);
    await tenant.syncMembers();
    expect(await tenant.import()).toMatchObject({ seen: 4, saved: 4, untracked: 0 });
    const after = await tenant.storedPullRequests();
    expect(after.map(({ id }) => id).slice(0, 3)).toEqual(before.map(({ id }) => id));
  });

  test('counts a pull request as saved if a newer fetch was saved meanwhile', async ({ tenant }) => {
    fill(tenant, { web: 2 });
    const [changed] = tenant.web.pullRequests as [PullRequest];
    const page = world.github.hold('late', 'PullRequests');
    const importing = tenant.import();
    await page.begun;
    changed.edit({ title: 'Newer' });
    await tenant.sync(changed);
    page.release();
    expect(await importing).toMatchObject({ seen: 2, saved: 2, untracked: 0, failed: 0 });
    expect(await tenant.storedPullRequests()).toContainEqual(expect.objectContaining({ title: 'Newer' }));
  });

  test('does not bring back what was deleted here', async ({ tenant }) => {
    fill(tenant, { web: 3 });
    await tenant.import();
    const [first] = await tenant.storedPullRequests();
    await tenant.remove(first?.id);
    expect(await tenant.import()).toMatchObject({ seen: 3, saved: 2, deleted: 1, untracked: 0 });
    expect(await storedCount(tenant)).toBe(2);
  });

  test('counts a pull request on which GitHub always fails, which the loop then tries again', async ({ tenant }) => {
    fill(tenant, { web: 5 });
    const bad = tenant.web.sortedBy('createdAt')[1] as PullRequest;
    world.github.fault(queryTimeout(), { times: Infinity, when: naming(bad) });
    expect(await tenant.import()).toMatchObject({ repositories: 1, seen: 5, saved: 4, untracked: 0, failed: 1 });
    expect(await tenant.waitingSyncs()).toMatchObject([
      { githubId: bad.id, attempts: 1, lastError: expect.stringMatching(/^GitHub/) },
    ]);
    world.github.clearFaults();
    await executor.execute('update sync_requests set due_at = now()');
    expect(await createRequestWorker(service)()).toBe(true);
    expect(await storedCount(tenant)).toBe(5);
  });

  test('counts what GitHub does not list as failed, and the next one brings it in', async ({ tenant }) => {
    fill(tenant, { web: 4 });
    const [broken] = tenant.web.pullRequests;
    world.github.fault({ kind: 'broken', nodeIds: [broken?.nodeId ?? ''] }, { when: 'PullRequestList' });
    expect(await tenant.import()).toMatchObject({ seen: 4, saved: 3, failed: 1 });
    expect(await tenant.import()).toMatchObject({ seen: 4, saved: 4, failed: 0 });
  });

  test('counts what the service fetches meanwhile', async ({ tenant }) => {
    fill(tenant, { web: 3 });
    // Another process has the turn.
    await tenant.update({ syncLeasedUntil: sql`'infinity'` });
    const importing = tenant.import();
    await expect.poll(async () => (await tenant.waitingSyncs()).length).toBe(3);
    await tenant.update({ syncLeasedUntil: sql`now()` });
    await createRequestWorker(await world.replica())();
    expect(await importing).toMatchObject({ seen: 3, saved: 3 });
  });

  test('keeps at most two pages of listed pull requests waiting', async ({ tenant }) => {
    fill(tenant, { web: 300 });
    let most = 0;
    await tenant.import({
      onProgress: async () => {
        most = Math.max(most, world.github.count('PullRequestList') * 100 - world.github.count('PullRequests') * 50);
      },
    });
    expect(most).toBeLessThanOrEqual(200);
  });

  test('since a day reads what changed then or later, and no further', async ({ tenant }) => {
    const day = 1_700_000_000;
    for (let index = 0; index < 120; index += 1) {
      tenant.web.addPullRequest({ createdAt: day - 10_000_000, updatedAt: day - 20 + index });
    }
    fill(tenant, { old: 0 });
    tenant.acme.repository('old').addPullRequest({ createdAt: day - 5_000, updatedAt: day - 1 });
    const result = await tenant.import({ since: day });
    expect(result).toMatchObject({ repositories: 1, seen: 100, saved: 100, requests: 4 });
    expect((await tenant.storedPullRequests()).every(row => row.sourceUpdatedAt >= day)).toBe(true);
  });
});

describe('a preview', () => {
  const summary = ({ repositories, finished }: ImportPreview) => ({
    repositories: repositories.map(({ name, pullRequests }) => [name.split('/')[1], pullRequests]),
    finished,
  });

  test('costs one request, imports nothing, and its estimate is close to what the import then takes', async () => {
    const tenant = await world.newTenant();
    fill(tenant, { web: 120, api: 30, empty: 0 });
    const preview = await previewImport(service, tenant.organisation);
    expect(world.github.count()).toBe(1);
    const found = [
      ['web', 120],
      ['api', 30],
    ];
    expect(summary(preview)).toEqual({ repositories: found, finished: 0 });
    expect(estimateEffort(120)).toEqual({ requests: 5, points: 11, seconds: 11 });
    expect(estimateEffort(30)).toEqual({ requests: 2, points: 4, seconds: 4 });
    expect(await tenant.storedRepositories()).toEqual([]);

    const before = world.github.limit?.remaining ?? 0;
    const result = await tenant.import();
    // Both repositories share fetches. There is one more request for the list of repositories.
    expect(result.requests).toBe(5 + 2 - 1);
    expect(before - (world.github.limit?.remaining ?? 0)).toBeLessThanOrEqual(11 + 4 - 3 + 1);
  });

  test('costs a request for a hundred repositories, or one for each that is named', async ({ tenant }) => {
    for (let index = 0; index < 101; index += 1) fill(tenant, { [`repository-${index}`]: 1 });
    expect((await previewImport(service, tenant.organisation)).repositories).toHaveLength(101);
    expect(world.github.count()).toBe(2);
    const named = { repositories: ['repository-1', 'repository-2'] };
    expect((await previewImport(service, tenant.organisation, named)).repositories).toHaveLength(2);
    expect(world.github.count()).toBe(4);
    const wrong = previewImport(service, tenant.organisation, { repositories: ['nothing'] });
    await expect(wrong).rejects.toMatchObject({ code: 'not_found' });
  });

  test('since a day leaves out repositories in which nothing changed', async ({ tenant }) => {
    fill(tenant, { old: 3 });
    const now = world.github.clock.now();
    for (const updatedAt of [now - 100, now]) tenant.web.addPullRequest({ updatedAt });
    const preview = await previewImport(service, tenant.organisation, { since: now });
    expect(summary(preview)).toEqual({ repositories: [['web', 2]], finished: 0 });
    expect(await tenant.import({ since: now })).toMatchObject({ seen: 1, requests: 2 });
  });

  test('of an interrupted import leaves out finished repositories', async ({ tenant }) => {
    fill(tenant, { one: 5, two: 101, three: 5 });
    await interruptIn(tenant, 2);
    const left = [
      ['two', 101],
      ['three', 5],
    ];
    expect(summary(await previewImport(service, tenant.organisation))).toEqual({ repositories: left, finished: 1 });
  });
});

test('an import can start in more repositories than a statement can have parameters', async ({ tenant }) => {
  const { database } = service;
  const values = Array.from({ length: 11_000 }, (_, index) => ({
    githubId: index + 1,
    nodeId: `R_${index + 1}`,
    name: `${tenant.acme.login}/repository-${index}`,
  }));
  const places = await database.transaction(async executor => {
    await saveRepositories(executor, tenant.id, 1, values);
    return beginImport(executor, tenant.id, values, 0);
  });
  expect(places.size).toBe(11_000);
});

describe('an interrupted import', () => {
  test('leaves to the service what it has listed, and continues after that page', async ({ tenant }) => {
    fill(tenant, { web: 101 });
    await interruptIn(tenant, 1);
    expect(await storedCount(tenant)).toBe(0);
    await world.workOff();
    expect(await storedCount(tenant)).toBe(100);
    expect(await tenant.import()).toMatchObject({ seen: 1 });
    expect(lists()).toBe(2);
    expect(await storedCount(tenant)).toBe(101);
    expect(await tenant.import()).toMatchObject({ seen: 101 });
  });

  test('starts a repository again, once, if GitHub no longer knows the cursor', async ({ tenant }) => {
    fill(tenant, { web: 101 });
    await interruptIn(tenant, 1);
    await executor.update(repositories).set({ importCursor: 'of a former server' }).where(tenant.owns(repositories));
    expect(await tenant.import()).toMatchObject({ seen: 101, saved: 101 });
    expect(lists()).toBe(1 + 1 + 2);
    expect(await storedCount(tenant)).toBe(101);
  });

  test('gives up a repository if GitHub does not know a cursor that it has just returned', async ({ tenant }) => {
    fill(tenant, { web: 101 });
    const refusal = refusedNode('INVALID_CURSOR_ARGUMENTS', '`x` does not appear to be a valid cursor.');
    world.github.fault(refusal, { times: Infinity, when: furtherPage() });
    expect(await tenant.import()).toMatchObject({
      repositories: 0,
      failedRepositories: [{ repository: `${tenant.acme.login}/web`, reason: expect.stringContaining('valid cursor') }],
    });
    expect(lists()).toBe(2);
  });

  test('does not list a finished repository again', async ({ tenant }) => {
    fill(tenant, { one: 5, two: 5, three: 5, four: 5 });
    await interruptIn(tenant, 2);
    const reported: ImportProgress[] = [];
    expect(await tenant.import({ onProgress: progress => reported.push(progress) })).toMatchObject({ seen: 10 });
    expect(await storedCount(tenant)).toBe(20);
    // Finished repositories count for the progress, not for the speed.
    expect(reported.at(0)).toMatchObject({ repository: `${tenant.acme.login}/three`, seen: 10, total: 20, looked: 0 });
    expect(reported.at(-1)).toMatchObject({ seen: 20, total: 20, looked: 10 });
    // It is complete now, so the next import lists everything again.
    expect(await tenant.import()).toMatchObject({ seen: 20 });
  });

  test('of one repository leaves the others to an import of all', async ({ tenant }) => {
    fill(tenant, { web: 101, api: 10 });
    await tenant.import();
    await interruptIn(tenant, 1, { repositories: ['web'] });
    expect(await tenant.import()).toMatchObject({ repositories: 2, seen: 1 + 10 });
  });

  test('keeps its place while imports since a day, which start again, come and go', async ({ tenant }) => {
    fill(tenant, { web: 101 });
    await interruptIn(tenant, 1);
    await interruptIn(tenant, 1, { since: 1 });
    expect(await tenant.import({ since: 1 })).toMatchObject({ seen: 101 });
    expect(await tenant.import()).toMatchObject({ seen: 1 });
  });

  test('also reads a repository that was created since', async ({ tenant }) => {
    fill(tenant, { web: 101 });
    await interruptIn(tenant, 1);
    fill(tenant, { new: 5 });
    expect(await tenant.import()).toMatchObject({ seen: 1 + 5 });
    expect(await storedCount(tenant)).toBe(106);
  });

  test('keeps what it has if GitHub keeps failing, and the next one continues there', async ({ tenant }) => {
    fill(tenant, { web: 101 });
    const refused = { kind: 'reply', status: 401 } as const;
    const onHit = () => world.github.fault(refused, { times: Infinity });
    world.github.fault(refused, { when: furtherPage(), onHit });
    await expect(tenant.import()).rejects.toMatchObject({ code: 'github_credentials' });
    expect(await tenant.waitingSyncs()).toHaveLength(100);
    world.github.clearFaults();
    expect(await tenant.import()).toMatchObject({ seen: 1 });
    expect(await storedCount(tenant)).toBe(101);
  });

  test.for([
    ['another repository', { repositories: ['api'] }],
    ['all, which could not read the rest,', {}],
  ] as const)('is over after a week, even if an import of %s came meanwhile', async ([, options], { tenant }) => {
    fill(tenant, { web: 101, api: 5 });
    await interruptIn(tenant, 1, { repositories: ['web'] });
    const passDays = (days: number) =>
      executor.execute(sql`
        update repositories set imported_at = ${earlier('imported_at', sql`make_interval(days => ${days})`)}
        where organisation_id = ${tenant.id}`);
    await passDays(4);
    world.github.fault({ kind: 'reply', status: 200, body: { data: { node: null } } }, { when: naming(tenant.web) });
    await tenant.import(options);
    world.github.clearFaults();
    await passDays(4);
    expect(await tenant.import()).toMatchObject({ repositories: 2, seen: 101 + 5 });
  });
});

describe('a repository that GitHub does not serve', () => {
  test('blocks no others, and is continued later', async ({ tenant }) => {
    fill(tenant, { one: 5, three: 5, two: 101 });
    const two = tenant.acme.repository('two');
    world.github.fault(refusedNode('FORBIDDEN', 'SAML.'), { times: Infinity, when: furtherPage('PullRequestList') });
    const reason = expect.stringMatching(/does not let GITHUB_TOKEN read .* "SAML\."$/);
    const failedRepositories = [{ repository: two.fullName, reason }];
    expect(await tenant.import()).toMatchObject({ repositories: 2, failedRepositories, seen: 110, saved: 110 });
    world.github.clearFaults();
    expect(await tenant.import()).toMatchObject({ repositories: 3, failedRepositories: [], seen: 11, saved: 11 });
    expect(await storedCount(tenant)).toBe(111);
  });

  test('is noticed even if the next request fails', async ({ tenant }) => {
    fill(tenant, { one: 5, two: 5 });
    const two = tenant.acme.repository('two');
    world.github.fault(refusedNode('NOT_FOUND', 'No.'), { times: Infinity, when: naming(two) });
    world.github.fault({ kind: 'reply', status: 500, body: '' }, { when: 'Organisation' });
    skipWaits();
    const reason = expect.stringMatching(/^GitHub does not show this repository to the configured credentials/);
    const failedRepositories = [{ repository: two.fullName, reason }];
    expect(await tenant.import()).toMatchObject({ repositories: 1, failedRepositories });
  });

  test('does not hold up the others of its page', async ({ tenant }) => {
    fill(tenant, { one: 3, two: 3 });
    const error = { type: 'FORBIDDEN', path: ['node', 'repositories', 'edges', 0, 'node'], message: 'SAML.' };
    world.github.fault({ kind: 'alter', change: reply => ({ ...reply, errors: [error] }) });
    const repository = `a repository of ${tenant.acme.login}`;
    const failedRepositories = [{ repository, reason: expect.stringContaining('SAML.') }];
    expect(await tenant.import()).toMatchObject({ repositories: 1, saved: 3, failedRepositories });
    expect(service.complaints).toContainEqual(expect.objectContaining({ msg: 'a repository is skipped' }));
  });

  test('is reported, whichever page of the list lacks it', async ({ tenant }) => {
    fill(tenant, { one: 1, two: 1, three: 1 });
    const error = { type: 'FORBIDDEN', path: ['node', 'repositories', 'edges', 0, 'node'], message: 'SAML.' };
    const asks =
      (some: (size: number) => boolean) =>
      ({ operation, variables }: GithubStandInRequest) =>
        operation === 'Repositories' && variables.after === null && some(Number(variables.first));
    const lacking = { kind: 'alter', change: (reply: object) => ({ ...reply, errors: [error] }) } as const;
    world.github.fault(queryTimeout(), { times: Infinity, when: asks(size => size > 1) });
    world.github.fault(lacking, { times: Infinity, when: asks(size => size === 1) });
    world.github.fault(lacking, { when: furtherPage() });
    const { repositories: read, failedRepositories } = await tenant.import();
    expect([read, failedRepositories.length]).toEqual([1, 2]);
  });
});

describe('an import of some repositories', () => {
  test('takes names with or without the owner, in any letter case, each once', async ({ tenant }) => {
    fill(tenant, { web: 3, api: 4, docs: 5 });
    const names = ['web', `${tenant.acme.login}/API`, 'Web'];
    expect(await tenant.import({ repositories: names })).toMatchObject({ repositories: 2, seen: 7 });
    expect(await storedCount(tenant)).toBe(7);
  });

  test('is refused before it lists anything if GitHub does not show one of them', async ({ tenant }) => {
    fill(tenant, { web: 3 });
    await expect(tenant.import({ repositories: ['web', 'wbe'] })).rejects.toThrow(
      `GitHub shows no repository ${tenant.acme.login}/wbe to the configured credentials.`,
    );
    expect(lists()).toBe(0);
  });

  test.for(['someone/else', 'a/b/c', '', '/', 'web/'])('is refused for the name "%s"', async (name, { tenant }) => {
    await expect(tenant.import({ repositories: [name] })).rejects.toMatchObject({ code: 'bad_request' });
    expect(world.github.count()).toBe(0);
  });

  test('is refused if one of them has moved to another owner', async ({ tenant }) => {
    const other = await world.newTenant();
    fill(tenant, { web: 3 });
    tenant.web.transfer(other.acme);
    await expect(tenant.import({ repositories: ['web'] })).rejects.toThrow(`now belongs to ${other.acme.login}`);
  });

  test('finds a renamed one by its former name', async ({ tenant }) => {
    fill(tenant, { web: 3 });
    tenant.web.rename('site');
    expect(await tenant.import({ repositories: ['web'] })).toMatchObject({ seen: 3, saved: 3 });
    expect(await tenant.storedRepositories()).toMatchObject([{ name: `${tenant.acme.login}/site` }]);
  });

  test('does not bring back the former name of one that was renamed during the lookup', async ({ tenant }) => {
    fill(tenant, { web: 1, api: 1 });
    const { web } = tenant;
    const [pullRequest] = web.pullRequests as [PullRequest];
    const answer = world.github.hold('late');
    const interruption = new AbortController();
    const importing = tenant.import({
      repositories: ['web', 'api'],
      signal: interruption.signal,
      // Pages would show the new name, too.
      onProgress: () => interruption.abort(),
    });
    await answer.begun;
    web.rename('site');
    await tenant.sync(pullRequest);
    answer.release();
    await expect(importing).rejects.toThrow('aborted');
    expect(await tenant.storedRepositories()).toMatchObject([
      { name: `${tenant.acme.login}/api` },
      { name: web.fullName },
    ]);
  });
});

/** Until the end of the test, code that waits goes on at once. @returns how long it would have waited */
function skipWaits() {
  const wait = vi.spyOn(timers, 'setTimeout').mockResolvedValue(undefined);
  syncBuiltinESMExports();
  onTestFinished(() => {
    wait.mockRestore();
    syncBuiltinESMExports();
  });
  return wait;
}

test('an import ends at once if an old GitHub Enterprise Server lacks a field, and names both', async ({ tenant }) => {
  fill(tenant, { web: 1, api: 1 });
  // As https://github.com/facebook/sapling/issues/906 shows it.
  const error = {
    path: ['query PullRequestList', 'node', '... on Repository', 'pullRequests', 'nodes', 'fullDatabaseId'],
    extensions: { code: 'undefinedField', typeName: 'PullRequest', fieldName: 'fullDatabaseId' },
    message: "Field 'fullDatabaseId' doesn't exist on type 'PullRequest'",
  };
  const failure = { kind: 'reply', status: 200, body: { errors: [error] } } as const;
  world.github.fault(failure, { when: 'PullRequestList', times: Infinity });
  await expect(tenant.import()).rejects.toMatchObject({
    message: expect.stringContaining("Field 'fullDatabaseId' doesn't exist"),
    action: expect.stringContaining('GitHub Enterprise Server 3.13'),
  });
  expect(lists()).toBe(1);
});

describe('trouble at GitHub during an import', () => {
  const operations = ['Repositories', 'PullRequestList', 'PullRequests'];

  test('rate limits are waited out', async ({ tenant }) => {
    fill(tenant, { web: 3 });
    for (const operation of operations) world.github.fault(secondaryLimit('1'), { when: operation });
    const reported: ImportProgress[] = [];
    expect(await tenant.import({ onProgress: progress => reported.push(progress) })).toMatchObject({ saved: 3 });
    expect(reported.filter(({ waitingSeconds }) => waitingSeconds === 1)).toHaveLength(3);
    expect(operations.map(operation => world.github.count(operation))).toEqual([2, 2, 2]);
  });

  test('failed requests are repeated', async ({ tenant }) => {
    fill(tenant, { web: 3 });
    for (const operation of operations) world.github.fault(htmlError(500), { when: operation });
    skipWaits();
    expect(await tenant.import()).toMatchObject({ saved: 3 });
  });

  test('a request is tried five times in all, with growing waits', async ({ tenant }) => {
    fill(tenant, { web: 3 });
    world.github.fault(htmlError(500), { times: 5 });
    const wait = skipWaits();
    await expect(tenant.import()).rejects.toMatchObject({ code: 'github_failed' });
    expect(wait.mock.calls.map(([milliseconds]) => milliseconds)).toEqual([2_000, 4_000, 8_000, 16_000]);
    expect(world.github.count()).toBe(5);
  });

  test('pages of repositories shrink until everything came', async ({ tenant }) => {
    for (let index = 0; index < 60; index += 1) fill(tenant, { [`repository-${index}`]: 1 });
    world.github.fault(queryTimeout(), { times: 2, when: 'Repositories' });
    expect((await previewImport(service, tenant.organisation)).repositories).toHaveLength(60);
    expect(world.github.requests.map(({ variables }) => variables.first)).toEqual([100, 50, 25, 25, 25]);
  });
});

describe('a page', () => {
  /** Reads the first page of a list, and says how many entries were asked for each time. */
  const pages = async () => {
    const tenant = await world.newTenant();
    fill(tenant, { web: 60 });
    const { nodeId, fullName: name } = tenant.web;
    const range = { since: undefined, after: null };
    return {
      read: () => listPage(service, tenant.organisation, { nodeId, name }, range),
      sizes: () => world.github.requests.map(({ variables }) => variables.first),
    };
  };

  test('halves until GitHub manages it, and so do the next ones', async () => {
    const { read, sizes } = await pages();
    world.github.fault(htmlError(502), { times: 2 });
    world.github.fault(queryTimeout());
    expect((await read()).items).toHaveLength(12);
    await read();
    expect(sizes()).toEqual([100, 50, 25, 12, 12]);
  });

  test('fails if even one entry is too much, and is as large as possible after that', async () => {
    const { read, sizes } = await pages();
    world.github.fault(htmlError(502), { times: 7 });
    await expect(read()).rejects.toMatchObject({ code: 'github_failed', tooMuch: true });
    await read();
    expect(sizes()).toEqual([100, 50, 25, 12, 6, 3, 1, 100]);
  });
});
