import { sql } from 'drizzle-orm';
import { describe, expect, onTestFinished, vi } from 'vitest';
import { sweepPullRequests } from '../../src/database/background-requests.ts';
import { claimComparison, endComparison, requestComparison } from '../../src/database/comparisons.ts';
import type { Lease } from '../../src/database/lease.ts';
import { countOrganisations, setWebhooksEnabled } from '../../src/database/organisations.ts';
import { pullRequests, repositories } from '../../src/database/schema.ts';
import { compareOrganisation } from '../../src/sync/compare.ts';
import { leaseSeconds } from '../../src/sync/renew-lease.ts';
import {
  type GithubStandInRequest,
  htmlError,
  naming,
  queryTimeout,
  refusedNode,
  replacing,
} from '../support/github/faults.ts';
import { addTrigger } from '../support/trigger.ts';
import { lockWaits, makeDue, type SyncTenant, startSyncWorld } from './support.ts';

const world = await startSyncWorld({ RECONCILE_INTERVAL: '900' });
const { service, executor, test } = world;

/** An organisation that was imported and compared, a minute ago. */
async function imported(pullRequests: number) {
  const tenant = await world.newTenant();
  const opened = tenant.open(pullRequests);
  for (const [index, pullRequest] of opened.entries()) pullRequest.edit({ title: `Change ${index}` });
  await tenant.import();
  // The first comparison reads what changed since the organisation was added.
  await tenant.compareLater();
  world.github.clock.advance(60);
  return { tenant, opened };
}

const dueInSeconds = (tenant: SyncTenant) => tenant.secondsTo('comparison_due_at');

const titles = async (tenant: SyncTenant) => (await tenant.storedPullRequests()).map(({ title }) => title).sort();

describe('the result of a comparison', () => {
  const row = async (tenant: SyncTenant) => {
    const found = await tenant.row();
    return { comparedAt: found.comparedAt, failedAt: found.comparisonFailedAt, failure: found.comparisonFailure };
  };

  test('says when it succeeded, and when and why it last failed', async ({ tenant }) => {
    expect(await row(tenant)).toEqual({ comparedAt: null, failedAt: null, failure: null });
    const reason = 'GitHub failed with status 500. Try again later.';
    world.github.fault({ kind: 'reply', status: 500 });
    await tenant.compare();
    const first = await row(tenant);
    expect(first).toEqual({ comparedAt: null, failedAt: expect.any(Date), failure: reason });
    await tenant.compare();
    const second = await row(tenant);
    expect(second).toEqual({ ...first, comparedAt: expect.any(Date) });
    expect(second.comparedAt?.getTime()).toBeGreaterThan(second.failedAt?.getTime() ?? Number.NaN);
  });

  test('names the members if only these fail, counts as both finished and failed, and is repeated as usual', async () => {
    const tenant = await world.newTenant();
    tenant.web.openPullRequest();
    world.github.fault({ kind: 'reply', status: 500 }, { when: 'Members' });
    await tenant.compare();
    const { comparedAt, failedAt, failure } = await row(tenant);
    expect(failure).toMatch(/^The members were not compared: GitHub failed with status 500\./);
    expect(failedAt).toEqual(comparedAt);
    expect(await tenant.storedPullRequests()).toHaveLength(1);
    expect(await dueInSeconds(tenant)).toBeGreaterThan(800);
    await tenant.compare();
    expect(await tenant.memberLogins()).toEqual([tenant.ada.login]);
  });

  test('has a reason of bounded length, without what PostgreSQL refuses', async ({ tenant }) => {
    const failure = `\0${'x'.repeat(498)}\u{1f600}`;
    await makeDue(service, tenant);
    const comparison = await claimComparison(executor, leaseSeconds);
    if (comparison === undefined) throw new Error('It is not due.');
    await endComparison(executor, comparison, { next: 0, pace: 0, isFinished: false, failure });
    expect((await row(tenant)).failure).toBe(`\uFFFD${'x'.repeat(498)}\uFFFD`);
  });
});

describe('RECONCILE_INTERVAL=0', () => {
  test('a comparison that a webhook requests is tried again if it fails', async ({ tenant }) => {
    const replica = await world.replica(undefined, { RECONCILE_INTERVAL: '0' });
    await makeDue(replica);
    expect(await compareOrganisation(replica)).toBe(false);
    await requestComparison(replica.database.executor, tenant.id, 60);
    world.github.fault({ kind: 'reply', status: 500 });
    expect(await compareOrganisation(replica)).toBe(true);
    expect(await dueInSeconds(tenant)).toBeGreaterThan(50);
    await tenant.update({ comparisonDueAt: sql`now()` });
    expect(await compareOrganisation(replica)).toBe(true);
  });

  test('enabling webhooks compares at once', async ({ tenant }) => {
    const replica = await world.replica(undefined, { RECONCILE_INTERVAL: '0' });
    await makeDue(replica);
    await setWebhooksEnabled(replica.database.executor, tenant.id, true);
    expect(await compareOrganisation(replica)).toBe(true);
    expect(await compareOrganisation(replica)).toBe(false);
  });
});

describe('a comparison with GitHub', () => {
  test('takes two requests, of any kind, if nothing has changed', async ({ tenant }) => {
    const bert = tenant.acme.member(`bert-${tenant.acme.login}`);
    await tenant.compareOnly();
    // A member who left long ago costs nothing.
    tenant.acme.leave(bert);
    await tenant.compareOnly();
    world.github.requests.length = 0;
    await tenant.compareOnly();
    expect(world.github.requests.map(({ operation }) => operation)).toEqual(['Repositories', 'Members']);
  });

  test('fetches nothing that webhooks have brought, also of people who are not members', async () => {
    const { tenant, opened } = await imported(4);
    const stranger = tenant.web.openPullRequest({ author: world.github.account(`stranger-${tenant.acme.login}`) });
    for (const pullRequest of opened) pullRequest.edit({ title: 'Edited' });
    await tenant.sync(...opened, stranger);
    world.github.requests.length = 0;
    expect(await tenant.compare()).toBe(2);
    expect(world.github.count('PullRequests')).toBe(0);
  });

  test('reads a change that is more than a minute old once', async () => {
    const { tenant, opened } = await imported(2);
    opened[0].edit({ title: 'Missed' });
    expect(await tenant.compareLater()).toBe(3);
    expect(await tenant.compare()).toBe(1);
    expect(await titles(tenant)).toContain('Missed');
  });

  test('reads the last minute again, as GitHub may show an earlier change after a later one', async () => {
    const { tenant, opened } = await imported(2);
    opened[0].lag();
    opened[0].edit({ title: 'Shown late' });
    world.github.clock.advance(1);
    opened[1].edit({ title: 'Shown at once' });
    world.github.clock.advance(30);
    await tenant.compare();
    expect(await titles(tenant)).toEqual(['Change 0', 'Shown at once']);
    opened[0].catchUp();
    await tenant.compare();
    expect(await titles(tenant)).toEqual(['Shown at once', 'Shown late']);
  });

  test.each([
    ['behind', -3_600],
    ['ahead', 3_600],
  ])("brings in all since the organisation was added if GitHub's clock is an hour %s", async (_, ahead) => {
    const before = world.github.clock.now();
    world.github.clock.set(Math.floor(Date.now() / 1000) + ahead);
    const tenant = await world.newTenant();
    tenant.web.openPullRequest({ title: 'Missed' });
    await tenant.compare();
    world.github.clock.set(before);
    expect(await titles(tenant)).toEqual(['Missed']);
  });

  test('does not bring back what was deleted here and has not changed since', async () => {
    const { tenant, opened } = await imported(3);
    const [deleted] = await tenant.storedPullRequests();
    await tenant.remove(deleted?.id);
    await executor.update(repositories).set({ comparedAt: null }).where(tenant.owns(repositories));
    await tenant.compare();
    expect(await tenant.storedPullRequests()).toHaveLength(2);
    world.github.clock.advance(60);
    for (const pullRequest of opened) pullRequest.edit({ title: 'Anew' });
    await tenant.compare();
    expect(await titles(tenant)).toEqual(['Anew', 'Anew', 'Anew']);
  });

  test('leaves a pull request on which GitHub always fails to the loop', async () => {
    const { tenant, opened } = await imported(5);
    const other = tenant.acme.repository('zoo').openPullRequest();
    await tenant.compare();
    await tenant.compare();
    world.github.clock.advance(60);
    for (const pullRequest of [...opened, other]) pullRequest.edit({ title: 'Missed' });
    const [, , , bad] = opened;
    world.github.fault(queryTimeout(), { times: Infinity, when: naming(bad) });
    await tenant.compare();
    expect((await titles(tenant)).filter(title => title === 'Missed')).toHaveLength(5);
    expect(await tenant.waitingSyncs()).toMatchObject([{ githubId: bad.id }]);
    await tenant.compareLater();
    expect(await tenant.compare()).toBe(1);
  });

  test('reads a repository although GitHub fails on the pull request that changed last', async () => {
    const { tenant, opened } = await imported(2);
    const [bad, other] = opened;
    other.edit({ title: 'Missed' });
    world.github.clock.advance(1);
    bad.edit({ title: 'Missed, too' });
    world.github.clock.advance(120);
    world.github.fault({ kind: 'broken', nodeIds: [bad.nodeId] }, { times: Infinity, when: 'Repositories' });
    await tenant.compare();
    expect(await titles(tenant)).toEqual(['Missed', 'Missed, too']);
  });

  test('brings in what GitHub did not list for the last one', async () => {
    const { tenant, opened } = await imported(3);
    for (const pullRequest of opened) pullRequest.edit({ title: 'Missed' });
    world.github.clock.advance(120);
    const nodeIds = opened.slice(0, 1).map(({ nodeId }) => nodeId);
    world.github.fault({ kind: 'broken', nodeIds }, { when: 'PullRequestList' });
    await tenant.compare();
    expect((await titles(tenant)).filter(title => title === 'Missed')).toHaveLength(2);
    await tenant.compare();
    expect((await titles(tenant)).filter(title => title === 'Missed')).toHaveLength(3);
  });

  test('continues after a repository that fails, and the next one catches up on it', async () => {
    const { tenant, opened } = await imported(1);
    const other = tenant.acme.repository('zoo').openPullRequest();
    await tenant.compare();
    world.github.clock.advance(60);
    for (const pullRequest of [...opened, other]) pullRequest.edit({ title: 'Missed' });
    world.github.clock.advance(120);
    const refusal = refusedNode('FORBIDDEN', 'Resource protected by SAML enforcement.');
    const heal = world.github.fault(refusal, { times: Infinity, when: naming(tenant.web) });
    await tenant.compare();
    expect((await tenant.storedPullRequests()).map(({ title }) => title)).toEqual(['Change 0', 'Missed']);
    expect(await dueInSeconds(tenant)).toBeGreaterThan(800);
    heal();
    // The repositories, the one that failed, and its pull request.
    expect(await tenant.compare()).toBe(3);
    expect(await titles(tenant)).toEqual(['Missed', 'Missed']);
  });

  test('stops, and is soon tried again, if GitHub does not answer about the organisation either', async () => {
    const { tenant, opened } = await imported(1);
    opened[0].edit({ title: 'Missed' });
    const when = ({ operation }: GithubStandInRequest) => operation !== 'Repositories';
    world.github.fault(htmlError(503), { times: Infinity, when });
    await tenant.compare();
    expect(await dueInSeconds(tenant)).toBeLessThan(61);
    world.github.clearFaults();
    await tenant.compare();
    expect(await titles(tenant)).toEqual(['Missed']);
  });

  test('is tried again after the interval, not soon, if GitHub refuses the credentials', async () => {
    const { tenant } = await imported(1);
    world.github.fault({ kind: 'reply', status: 401 }, { times: Infinity });
    await tenant.compare();
    expect(await dueInSeconds(tenant)).toBeGreaterThan(800);
  });

  test('skips a repository that alone is too much for GitHub', async ({ tenant }) => {
    const opened = ['one', 'two', 'three'].map(name => tenant.acme.repository(name).openPullRequest());
    const identity = { githubId: tenant.acme.id, nodeId: tenant.acme.nodeId, login: tenant.acme.login };
    const [first] = (await service.github.pageRepositories(identity, { after: null, pageSize: 1 })).items;
    world.github.fault(queryTimeout(), {
      times: Infinity,
      when: ({ operation, variables: { first: size, after, facts } }) =>
        operation === 'Repositories' && facts === true && (after === null ? Number(size) > 1 : after === first?.cursor),
    });
    await tenant.compare();
    const [one, , three] = opened;
    const stored = await tenant.storedPullRequests();
    expect(stored.map(({ githubId }) => githubId)).toEqual([one?.id, three?.id]);
  });

  test.each(['Repositories', 'PullRequestList', 'Members'])(
    'ends with a failure if the cursors of %s alternate forever',
    async operation => {
      const { tenant, opened } = await imported(1);
      opened[0].edit({ title: 'Missed' });
      const before = world.github.count(operation);
      const onwards = () => {
        const cursor = Buffer.from(`cursor:v2:[0,${world.github.count(operation) % 2}]`).toString('base64');
        return `"endCursor":"${cursor}","hasNextPage":true`;
      };
      const alternating = replacing(/"endCursor":[^,]*,"hasNextPage":false/, onwards);
      world.github.fault(alternating, { times: 10, when: operation });
      await tenant.compareOnly();
      expect(world.github.count(operation) - before).toBe(3);
      const { comparisonFailure } = await tenant.row();
      expect(comparisonFailure).toContain('never end');
    },
  );

  test('waits while webhooks are disabled, and starts once they are enabled', async ({ tenant }) => {
    await makeDue(service, tenant);
    await tenant.update({ webhooksEnabled: false });
    expect(await compareOrganisation(service)).toBe(false);
    await setWebhooksEnabled(executor, tenant.id, true);
    expect(await compareOrganisation(service)).toBe(true);
  });

  test('is followed by another one if webhooks are enabled meanwhile', async () => {
    const { tenant, opened } = await imported(1);
    const reply = world.github.hold('late', 'Repositories');
    const underway = tenant.compare();
    await reply.begun;
    opened[0].edit({ title: 'Missed' });
    await setWebhooksEnabled(executor, tenant.id, true);
    reply.release();
    await underway;
    expect(await titles(tenant)).not.toContain('Missed');
    expect(await compareOrganisation(service)).toBe(true);
    expect(await tenant.waitingSyncs()).toMatchObject([{ githubId: opened[0].id }]);
  });

  test('renews its lease while GitHub is slow, so that no other replica starts one', async ({ tenant }) => {
    const leasedUntil = async () => (await tenant.row()).comparisonLeasedUntil.getTime();
    const reply = world.github.hold('hold');
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    onTestFinished(() => void vi.useRealTimers());
    const underway = tenant.compare();
    await reply.begun;
    const first = await leasedUntil();
    vi.advanceTimersByTime((leaseSeconds * 1_000) / 2);
    await expect.poll(leasedUntil).toBeGreaterThan(first);
    // If it had ended by the timeout of its request, it would be due later than that.
    expect(await leasedUntil()).toBeLessThan(first + 2_000 * leaseSeconds);
    reply.release();
    expect(await underway).toBe(1);
  });

  test('goes to one of three claims at the same time, for less than ten seconds', async ({ tenant }) => {
    await makeDue(service, tenant);
    let claims: Promise<Lease | undefined>[] = [];
    await service.database.transaction(async lock => {
      await lock.execute(sql`select from organisations where id = ${tenant.id} for update`);
      claims = [1, 2, 3].map(() => claimComparison(executor, leaseSeconds));
      await expect.poll(() => lockWaits(service)).toBe(3);
    });
    const won = (await Promise.all(claims)).flatMap(claim => claim?.organisationId ?? []);
    expect(won).toEqual([tenant.id]);
    // A killed replica's work must resume within ten.
    expect(await tenant.secondsTo('comparison_leased_until')).toBeLessThan(10);
    expect(await claimComparison(executor, leaseSeconds)).toBeUndefined();
    await tenant.update({ comparisonLeasedUntil: sql`now()` });
    expect(await claimComparison(executor, leaseSeconds)).toMatchObject({ organisationId: tenant.id });
  });
});

describe('the sweep at the end of a comparison', () => {
  const dueForSweep = (tenant: SyncTenant, hours: number) =>
    tenant.update({ sweptAt: sql`now() - make_interval(mins => ${Math.round(hours * 60)})` });

  test('is repeated by the next one if a failure interrupted it', async ({ tenant }) => {
    const pullRequest = await tenant.openStored();
    world.github.clock.advance(3_600);
    await tenant.compareOnly();
    await tenant.makeSweepDue();
    const repair = await addTrigger(executor, 'before insert on sync_requests for each row', "raise 'injected'");
    await expect(tenant.compareOnly()).rejects.toThrow();
    await repair();
    await tenant.compareOnly();
    expect(await tenant.waitingSyncs()).toMatchObject([{ githubId: pullRequest.id }]);
  });

  test('waits until its pace allows one pull request', async ({ tenant }) => {
    await tenant.openStored();
    for (const [hours, perHour, count] of [
      [0.25, 3, 0],
      [0.25, 5, 1],
      [3, 0.25, 0],
      [5, 0.25, 1],
    ] as const) {
      await executor.update(pullRequests).set({ fetchedAt: sql`now() - interval '2 days'` });
      await dueForSweep(tenant, hours);
      const pace = { perHour, minAgeSeconds: 86_400, minPauseSeconds: 60 };
      const sweep = service.database.transaction(each => sweepPullRequests(each, tenant.id, pace));
      expect(await sweep).toBe(count);
    }
  });

  test('requests no more than its pace allows, which organisations of one token share', async ({ tenant }) => {
    await tenant.newStored(1_500);
    await tenant.makeSweepDue();
    await dueForSweep(tenant, 0.25);
    const asked = async () => (await tenant.waitingSyncs()).length;
    await tenant.compareOnly();
    const share = 4_000 / 4 / (await countOrganisations(executor));
    expect(await asked()).toBeGreaterThan(share * 0.9);
    expect(await asked()).toBeLessThan(share * 1.1 + 1);
    const before = await asked();
    await tenant.compareOnly();
    expect(await asked()).toBe(before);

    // An App has points of its own in each organisation.
    await executor.execute(sql`delete from sync_requests where organisation_id = ${tenant.id}`);
    await dueForSweep(tenant, 0.25);
    await makeDue(service, tenant);
    const { config } = service;
    const github = { ...config.github, app: { id: '1', privateKey: '' } };
    await compareOrganisation({ ...service, config: { ...config, github } });
    expect(await asked()).toBeGreaterThan(900);
  });
});
