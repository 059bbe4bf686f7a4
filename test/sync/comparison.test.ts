import { eq, sql } from 'drizzle-orm';
import { describe, expect, onTestFinished, vi } from 'vitest';
import { sweepPullRequests } from '../../src/database/background-requests.ts';
import { claimComparison, requestComparison, saveComparisonResult } from '../../src/database/comparisons.ts';
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
  const home = await world.newTenant();
  const opened = home.open(pullRequests);
  for (const [index, pullRequest] of opened.entries()) pullRequest.edit({ title: `Change ${index}` });
  await home.import();
  // The first comparison reads what changed since the organisation was added.
  await home.compareLater();
  world.github.clock.advance(60);
  return { home, opened };
}

const dueInSeconds = (home: SyncTenant) => home.secondsTo('comparison_due_at');

const titles = async (home: SyncTenant) => (await home.storedPullRequests()).map(({ title }) => title).sort();

describe('the result of a comparison', () => {
  const row = async (home: SyncTenant) => {
    const found = await home.row();
    return { comparedAt: found.comparedAt, failedAt: found.comparisonFailedAt, failure: found.comparisonFailure };
  };

  test('says when it succeeded, and when and why it last failed', async ({ home }) => {
    expect(await row(home)).toEqual({ comparedAt: null, failedAt: null, failure: null });
    const reason = 'GitHub failed with status 500. Try again later.';
    world.github.fault({ kind: 'reply', status: 500 });
    await home.compare();
    const first = await row(home);
    expect(first).toEqual({ comparedAt: null, failedAt: expect.any(Date), failure: reason });
    await home.compare();
    const second = await row(home);
    expect(second).toEqual({ ...first, comparedAt: expect.any(Date) });
    expect(second.comparedAt?.getTime()).toBeGreaterThan(second.failedAt?.getTime() ?? Number.NaN);
  });

  test('names the members if only these fail, counts as both finished and failed, and is repeated as usual', async () => {
    const home = await world.newTenant();
    home.web.openPullRequest();
    world.github.fault({ kind: 'reply', status: 500 }, { when: 'Members' });
    await home.compare();
    const { comparedAt, failedAt, failure } = await row(home);
    expect(failure).toMatch(/^The members were not compared: GitHub failed with status 500\./);
    expect(failedAt).toEqual(comparedAt);
    expect(await home.storedPullRequests()).toHaveLength(1);
    expect(await dueInSeconds(home)).toBeGreaterThan(800);
    await home.compare();
    expect(await home.memberLogins()).toEqual([home.ada.login]);
  });

  test('has a reason of bounded length, without what PostgreSQL refuses', async ({ home }) => {
    const failure = `\0${'x'.repeat(498)}\u{1f600}`;
    await saveComparisonResult(executor, home.organisation.id, { isFinished: false, failure });
    expect((await row(home)).failure).toBe(`\uFFFD${'x'.repeat(498)}\uFFFD`);
  });
});

describe('RECONCILE_INTERVAL=0', () => {
  test('a comparison that a webhook requests is tried again if it fails', async ({ home }) => {
    const replica = await world.replica(undefined, { RECONCILE_INTERVAL: '0' });
    await makeDue(replica);
    expect(await compareOrganisation(replica)).toBe(false);
    await requestComparison(replica.database.executor, home.organisation.id, 60);
    world.github.fault({ kind: 'reply', status: 500 });
    expect(await compareOrganisation(replica)).toBe(true);
    expect(await dueInSeconds(home)).toBeGreaterThan(50);
    await home.update({ comparisonDueAt: sql`now()` });
    expect(await compareOrganisation(replica)).toBe(true);
  });

  test('enabling webhooks compares at once', async ({ home }) => {
    const replica = await world.replica(undefined, { RECONCILE_INTERVAL: '0' });
    await makeDue(replica);
    await setWebhooksEnabled(replica.database.executor, home.organisation.id, true);
    expect(await compareOrganisation(replica)).toBe(true);
    expect(await compareOrganisation(replica)).toBe(false);
  });
});

describe('a comparison with GitHub', () => {
  test('takes two requests, of any kind, if nothing has changed', async ({ home }) => {
    const bert = home.acme.member(`bert-${home.acme.login}`);
    await home.compareOnly();
    // A member who left long ago costs nothing.
    home.acme.leave(bert);
    await home.compareOnly();
    world.github.requests.length = 0;
    await home.compareOnly();
    expect(world.github.requests.map(({ operation }) => operation)).toEqual(['Repositories', 'Members']);
  });

  test('fetches nothing that webhooks have brought, also of people who are not members', async () => {
    const { home, opened } = await imported(4);
    const stranger = home.web.openPullRequest({ author: world.github.account(`stranger-${home.acme.login}`) });
    for (const pullRequest of opened) pullRequest.edit({ title: 'Edited' });
    await home.sync(...opened, stranger);
    world.github.requests.length = 0;
    expect(await home.compare()).toBe(2);
    expect(world.github.count('PullRequests')).toBe(0);
  });

  test('reads a change that is more than a minute old once', async () => {
    const { home, opened } = await imported(2);
    opened[0].edit({ title: 'Missed' });
    expect(await home.compareLater()).toBe(3);
    expect(await home.compare()).toBe(1);
    expect(await titles(home)).toContain('Missed');
  });

  test('reads the last minute again, as GitHub may show an earlier change after a later one', async () => {
    const { home, opened } = await imported(2);
    opened[0].lag();
    opened[0].edit({ title: 'Shown late' });
    world.github.clock.advance(1);
    opened[1].edit({ title: 'Shown at once' });
    world.github.clock.advance(30);
    await home.compare();
    expect(await titles(home)).toEqual(['Change 0', 'Shown at once']);
    opened[0].catchUp();
    await home.compare();
    expect(await titles(home)).toEqual(['Shown at once', 'Shown late']);
  });

  test.each([
    ['behind', -3_600],
    ['ahead', 3_600],
  ])("brings in all since the organisation was added if GitHub's clock is an hour %s", async (_, ahead) => {
    const before = world.github.clock.now();
    world.github.clock.set(Math.floor(Date.now() / 1000) + ahead);
    const home = await world.newTenant();
    home.web.openPullRequest({ title: 'Missed' });
    await home.compare();
    world.github.clock.set(before);
    expect(await titles(home)).toEqual(['Missed']);
  });

  test('does not bring back what was deleted here and has not changed since', async () => {
    const { home, opened } = await imported(3);
    const [deleted] = await home.storedPullRequests();
    await home.remove(deleted?.id);
    const isOfHome = eq(repositories.organisationId, home.organisation.id);
    await executor.update(repositories).set({ comparedAt: null }).where(isOfHome);
    await home.compare();
    expect(await home.storedPullRequests()).toHaveLength(2);
    world.github.clock.advance(60);
    for (const pullRequest of opened) pullRequest.edit({ title: 'Anew' });
    await home.compare();
    expect(await titles(home)).toEqual(['Anew', 'Anew', 'Anew']);
  });

  test('leaves a pull request on which GitHub always fails to the loop', async () => {
    const { home, opened } = await imported(5);
    const other = home.acme.repository('zoo').openPullRequest();
    await home.compare();
    await home.compare();
    world.github.clock.advance(60);
    for (const pullRequest of [...opened, other]) pullRequest.edit({ title: 'Missed' });
    const [, , , bad] = opened;
    world.github.fault(queryTimeout(), { times: Infinity, when: naming(bad) });
    await home.compare();
    expect((await titles(home)).filter(title => title === 'Missed')).toHaveLength(5);
    expect(await home.waitingSyncs()).toMatchObject([{ githubId: bad.id }]);
    await home.compareLater();
    expect(await home.compare()).toBe(1);
  });

  test('reads a repository although GitHub fails on the pull request that changed last', async () => {
    const { home, opened } = await imported(2);
    const [bad, other] = opened;
    other.edit({ title: 'Missed' });
    world.github.clock.advance(1);
    bad.edit({ title: 'Missed, too' });
    world.github.clock.advance(120);
    world.github.fault({ kind: 'broken', nodeIds: [bad.nodeId] }, { times: Infinity, when: 'Repositories' });
    await home.compare();
    expect(await titles(home)).toEqual(['Missed', 'Missed, too']);
  });

  test('brings in what GitHub did not list for the last one', async () => {
    const { home, opened } = await imported(3);
    for (const pullRequest of opened) pullRequest.edit({ title: 'Missed' });
    world.github.clock.advance(120);
    const nodeIds = opened.slice(0, 1).map(({ nodeId }) => nodeId);
    world.github.fault({ kind: 'broken', nodeIds }, { when: 'PullRequestList' });
    await home.compare();
    expect((await titles(home)).filter(title => title === 'Missed')).toHaveLength(2);
    await home.compare();
    expect((await titles(home)).filter(title => title === 'Missed')).toHaveLength(3);
  });

  test('continues after a repository that fails, and the next one catches up on it', async () => {
    const { home, opened } = await imported(1);
    const other = home.acme.repository('zoo').openPullRequest();
    await home.compare();
    world.github.clock.advance(60);
    for (const pullRequest of [...opened, other]) pullRequest.edit({ title: 'Missed' });
    world.github.clock.advance(120);
    const refusal = refusedNode('FORBIDDEN', 'Resource protected by SAML enforcement.');
    const heal = world.github.fault(refusal, { times: Infinity, when: naming(home.web) });
    await home.compare();
    expect((await home.storedPullRequests()).map(({ title }) => title)).toEqual(['Change 0', 'Missed']);
    expect(await dueInSeconds(home)).toBeGreaterThan(800);
    heal();
    // The repositories, the one that failed, and its pull request.
    expect(await home.compare()).toBe(3);
    expect(await titles(home)).toEqual(['Missed', 'Missed']);
  });

  test('stops, and is soon tried again, if GitHub does not answer about the organisation either', async () => {
    const { home, opened } = await imported(1);
    opened[0].edit({ title: 'Missed' });
    const when = ({ operation }: GithubStandInRequest) => operation !== 'Repositories';
    world.github.fault(htmlError(503), { times: Infinity, when });
    await home.compare();
    expect(await dueInSeconds(home)).toBeLessThan(61);
    world.github.clearFaults();
    await home.compare();
    expect(await titles(home)).toEqual(['Missed']);
  });

  test('is tried again after the interval, not soon, if GitHub refuses the credentials', async () => {
    const { home } = await imported(1);
    world.github.fault({ kind: 'reply', status: 401 }, { times: Infinity });
    await home.compare();
    expect(await dueInSeconds(home)).toBeGreaterThan(800);
  });

  test('skips a repository that alone is too much for GitHub', async ({ home }) => {
    const opened = ['one', 'two', 'three'].map(name => home.acme.repository(name).openPullRequest());
    const identity = { githubId: home.acme.id, nodeId: home.acme.nodeId, login: home.acme.login };
    const [first] = (await service.github.pageRepositories(identity, { after: null, pageSize: 1 })).items;
    world.github.fault(queryTimeout(), {
      times: Infinity,
      when: ({ operation, variables: { first: size, after, facts } }) =>
        operation === 'Repositories' && facts === true && (after === null ? Number(size) > 1 : after === first?.cursor),
    });
    await home.compare();
    const [one, , three] = opened;
    const stored = await home.storedPullRequests();
    expect(stored.map(({ githubId }) => githubId)).toEqual([one?.id, three?.id]);
  });

  test.each(['Repositories', 'PullRequestList', 'Members'])(
    'ends with a failure if the cursors of %s alternate forever',
    async operation => {
      const { home, opened } = await imported(1);
      opened[0].edit({ title: 'Missed' });
      const before = world.github.count(operation);
      const onwards = () => {
        const cursor = Buffer.from(`cursor:v2:[0,${world.github.count(operation) % 2}]`).toString('base64');
        return `"endCursor":"${cursor}","hasNextPage":true`;
      };
      const alternating = replacing(/"endCursor":[^,]*,"hasNextPage":false/, onwards);
      world.github.fault(alternating, { times: 10, when: operation });
      await home.compareOnly();
      expect(world.github.count(operation) - before).toBe(3);
      const { comparisonFailure } = await home.row();
      expect(comparisonFailure).toContain('never end');
    },
  );

  test('waits while webhooks are disabled, and starts once they are enabled', async ({ home }) => {
    await makeDue(service, home);
    await home.update({ webhooksEnabled: false });
    expect(await compareOrganisation(service)).toBe(false);
    await setWebhooksEnabled(executor, home.organisation.id, true);
    expect(await compareOrganisation(service)).toBe(true);
  });

  test('is followed by another one if webhooks are enabled meanwhile', async () => {
    const { home, opened } = await imported(1);
    const reply = world.github.hold('late', 'Repositories');
    const underway = home.compare();
    await reply.begun;
    opened[0].edit({ title: 'Missed' });
    await setWebhooksEnabled(executor, home.organisation.id, true);
    reply.release();
    await underway;
    expect(await titles(home)).not.toContain('Missed');
    expect(await compareOrganisation(service)).toBe(true);
    expect(await home.waitingSyncs()).toMatchObject([{ githubId: opened[0].id }]);
  });

  test('renews its lease while GitHub is slow, so that no other replica starts one', async ({ home }) => {
    const leasedUntil = async () => (await home.row()).comparisonDueAt.getTime();
    const reply = world.github.hold('hold');
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    onTestFinished(() => void vi.useRealTimers());
    const underway = home.compare();
    await reply.begun;
    const first = await leasedUntil();
    vi.advanceTimersByTime((leaseSeconds * 1_000) / 2);
    await expect.poll(leasedUntil).toBeGreaterThan(first);
    // If it had ended by the timeout of its request, it would be due later than that.
    expect(await leasedUntil()).toBeLessThan(first + 2_000 * leaseSeconds);
    reply.release();
    expect(await underway).toBe(1);
  });

  test('goes to one of three claims at the same time, for less than ten seconds', async ({ home }) => {
    await makeDue(service, home);
    let claims: Promise<Lease | undefined>[] = [];
    await service.database.transaction(async lock => {
      await lock.execute(sql`select from organisations where id = ${home.organisation.id} for update`);
      claims = [1, 2, 3].map(() => claimComparison(executor, leaseSeconds));
      await expect.poll(() => lockWaits(service)).toBe(3);
    });
    const won = (await Promise.all(claims)).flatMap(claim => claim?.organisationId ?? []);
    expect(won).toEqual([home.organisation.id]);
    // A killed replica's work must resume within ten.
    expect(await dueInSeconds(home)).toBeLessThan(10);
  });
});

describe('the sweep at the end of a comparison', () => {
  const dueForSweep = (home: SyncTenant, hours: number) =>
    home.update({ sweptAt: sql`now() - make_interval(mins => ${Math.round(hours * 60)})` });

  test('is repeated by the next one if a failure interrupted it', async ({ home }) => {
    const pullRequest = await home.openStored();
    world.github.clock.advance(3_600);
    await home.compareOnly();
    await home.makeSweepDue();
    const repair = await addTrigger(executor, 'before insert on sync_requests for each row', "raise 'injected'");
    await expect(home.compareOnly()).rejects.toThrow();
    await repair();
    await home.compareOnly();
    expect(await home.waitingSyncs()).toMatchObject([{ githubId: pullRequest.id }]);
  });

  test('waits until its pace allows one pull request', async ({ home }) => {
    await home.openStored();
    for (const [hours, perHour, count] of [
      [0.25, 3, 0],
      [0.25, 5, 1],
      [3, 0.25, 0],
      [5, 0.25, 1],
    ] as const) {
      await executor.update(pullRequests).set({ fetchedAt: sql`now() - interval '2 days'` });
      await dueForSweep(home, hours);
      const pace = { perHour, minAgeSeconds: 86_400, minPauseSeconds: 60 };
      const sweep = service.database.transaction(each => sweepPullRequests(each, home.organisation.id, pace));
      expect(await sweep).toBe(count);
    }
  });

  test('requests no more than its pace allows, which organisations of one token share', async ({ home }) => {
    await home.newStored(1_500);
    await home.makeSweepDue();
    await dueForSweep(home, 0.25);
    const asked = async () => (await home.waitingSyncs()).length;
    await home.compareOnly();
    const share = 4_000 / 4 / (await countOrganisations(executor));
    expect(await asked()).toBeGreaterThan(share * 0.9);
    expect(await asked()).toBeLessThan(share * 1.1 + 1);
    const before = await asked();
    await home.compareOnly();
    expect(await asked()).toBe(before);

    // An App has points of its own in each organisation.
    await executor.execute(sql`delete from sync_requests where organisation_id = ${home.organisation.id}`);
    await dueForSweep(home, 0.25);
    await makeDue(service, home);
    const { config } = service;
    const github = { ...config.github, app: { id: '1', privateKey: '' } };
    await compareOrganisation({ ...service, config: { ...config, github } });
    expect(await asked()).toBeGreaterThan(900);
  });
});
