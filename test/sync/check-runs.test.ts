import { and, eq, isNotNull, sql } from 'drizzle-orm';
import { describe, expect, onTestFinished, vi } from 'vitest';
import {
  countCheckRuns,
  findCheckRunsToPublish,
  retryCheckRuns,
  setChecksEnabled,
} from '../../src/database/check-runs.ts';
import { getRuleset } from '../../src/database/rules.ts';
import { checkRuns, organisations, pullRequests, scoreChanges } from '../../src/database/schema.ts';
import { publishCheckRuns } from '../../src/sync/publish-check-runs.ts';
import { leaseSeconds } from '../../src/sync/renew-lease.ts';
import { runJson } from '../commands/support.ts';
import { earlier } from '../support/citus.ts';
import { htmlError, secondaryLimit } from '../support/github/faults.ts';
import { headShaOf } from '../support/github/payloads.ts';
import type { PullRequest } from '../support/github/pull-request.ts';
import { applyRules } from '../support/tenants.ts';
import { appOptions, setPoints } from '../support/world.ts';
import { rule, runLoops, type SyncTenant, startSyncWorld, waitUntil } from './support.ts';

const world = await startSyncWorld(...appOptions());
const { service, executor } = world;

const enable = ({ id }: SyncTenant, enabled = true) =>
  service.database.transaction(executor => setChecksEnabled(executor, id, enabled));

/** A new tenant that shows its scores, whose rules give 10 points for a merge, 3 for an approval and 2 in any case. */
async function newShowingTenant(): Promise<SyncTenant> {
  const tenant = await world.newTenant();
  await tenant.scoreBy(
    rule('2', 'true', 'Opened'),
    rule('3', 'writer_approvals > 0', 'Reviewed'),
    rule('10', 'merged && changed_files <= 5', 'Small and merged'),
    rule('size', 'size > 400', 'Large'),
  );
  await enable(tenant);
  return tenant;
}

const turn = ({ id }: SyncTenant) => publishCheckRuns(service, { organisationId: id });

/** Publishes what is due now. */
async function publish(tenant: SyncTenant): Promise<void> {
  for (let turns = 0; turns < 50; turns += 1) {
    // The pauses between turns are over.
    await executor
      .update(organisations)
      .set({ checksDueAt: sql`now()` })
      .where(and(eq(organisations.id, tenant.id), isNotNull(organisations.checksDueAt)));
    if (!(await turn(tenant))) return;
    const [first] = await findCheckRunsToPublish(executor, tenant.id, { minSeconds: 60, limit: 1 });
    // What is left waits: for a minute, or its next try.
    if (first !== undefined && first.seconds > 0) return;
  }
}

/** The minute in which a pull request gets no other check run is over. */
const afterAMinute = (tenant: SyncTenant) =>
  executor.update(checkRuns).set({ publishedAt: sql`now() - interval '1 minute'` }).where(tenant.owns(checkRuns));

/** Fetches and publishes it. */
async function show(tenant: SyncTenant, pullRequest: PullRequest): Promise<void> {
  await tenant.sync(pullRequest);
  await publish(tenant);
}

/** Publishes what is due after the minute in which a pull request gets no other check run. */
async function publishLater(tenant: SyncTenant): Promise<void> {
  await afterAMinute(tenant);
  await publish(tenant);
}

/** Fetches it, and publishes it after that minute. */
async function showLater(tenant: SyncTenant, pullRequest: PullRequest): Promise<void> {
  await tenant.sync(pullRequest);
  await publishLater(tenant);
}

/** Opens a pull request that GitHub shows from then on. */
async function openShown(tenant: SyncTenant): Promise<PullRequest> {
  const pullRequest = tenant.web.openPullRequest();
  await show(tenant, pullRequest);
  return pullRequest;
}

/** Publishes it while `change` happens. @returns as `turn` does */
async function publishWhile(tenant: SyncTenant, change: () => Promise<unknown>): Promise<boolean> {
  const { begun, release } = world.github.hold('hold', 'CheckRuns');
  const publishing = turn(tenant);
  await begun;
  await change();
  release();
  return publishing;
}

/** `fetched` and `other` are pull requests of a tenant that shows its scores; GitHub shows that of `shown` already. */
const test = world.test
  .extend('tenant', () => newShowingTenant())
  .extend('fetched', ({ tenant }) => tenant.openStored())
  .extend('other', ({ tenant }) => tenant.openStored())
  .extend('shown', ({ tenant }) => openShown(tenant));

/** All that waits is tried again. */
const makeRunsDue = () => executor.execute(sql`update check_runs set due_at = now() where due_at is not null`);

const shownOn = (pullRequest: PullRequest) => pullRequest.repository.checkRunOn(headShaOf(pullRequest));

const counts = ({ id }: SyncTenant) => countCheckRuns(executor, id);

const requestsOf = () => world.github.count('CheckRuns');

describe('a check run', () => {
  test('shows the score, what it consists of, and what would still change it', async ({ shown }) => {
    expect(shownOn(shown)).toEqual({
      headSha: headShaOf(shown),
      name: 'pullscore',
      conclusion: 'NEUTRAL',
      externalId: expect.stringMatching(/^pr_/),
      title: 'Score 2',
      summary: [
        '| Rule | Points |',
        '| --- | --: |',
        '| `Opened` | +2 |',
        '',
        '**Score 2**',
        '',
        '**What would still change it**',
        '',
        '- `Reviewed`: +3 once `writer_approvals > 0`',
        '- `Small and merged`: +10 once `merged`',
        // Its value would be another one by then.
        '- `Large`: may count once `size > 400`',
        '',
        "By version 1 of the organisation's rules. This check never fails.",
      ].join('\n'),
    });
  });

  test('says by how much the score last changed', async ({ tenant, shown }) => {
    shown.review(tenant.acme.member('grace'), 'APPROVED');
    await show(tenant, shown);
    expect(shownOn(shown)?.title).toBe('Score 2');
    await publishLater(tenant);
    expect(shownOn(shown)?.title).toBe('Score 5 (+3)');
    expect(shown.repository.checkRuns).toHaveLength(2);
  });

  test('is published once, also if GitHub names more points than can be stored', async ({ tenant }) => {
    setPoints(world.github, 2 ** 31);
    await openShown(tenant);
    expect(tenant.web.checkRuns).toHaveLength(1);
  });

  test('is shown within seconds while another one waits for its minute', async ({ tenant, shown }) => {
    shown.review(tenant.acme.member('grace'), 'APPROVED');
    await show(tenant, shown);
    const next = await tenant.openStored();
    const checksDueAt = earlier('checks_due_at', sql`interval '5 seconds'`);
    await tenant.update({ checksDueAt });
    expect(await turn(tenant)).toBe(true);
    expect(shownOn(next)?.title).toBe('Score 2');
  });

  test('follows a change that leaves the score as it is', async ({ tenant }) => {
    await tenant.scoreBy(rule('1', 'reviews > 0 && writer_approvals > 0', 'Both'));
    const pullRequest = await openShown(tenant);
    expect(shownOn(pullRequest)?.summary).toContain('- `Both`: +1 once `reviews > 0` and `writer_approvals > 0`');
    pullRequest.review(tenant.acme.member('grace'));
    await showLater(tenant, pullRequest);
    expect(shownOn(pullRequest)?.summary).toContain('- `Both`: +1 once `writer_approvals > 0`');
  });

  test('says who gets points for a review, and names them without a mention', async ({ tenant }) => {
    const reviews = [rule('3', 'verdict == "approved"', 'Verdict')];
    await applyRules(service, tenant.id, { reviews });
    const people = ['grace', '@eve `<b>', 'lin'].map(login => tenant.acme.member(login));
    await tenant.syncMembers();
    const pullRequest = tenant.web.openPullRequest();
    for (const person of people) pullRequest.review(person, person.login === 'lin' ? 'COMMENTED' : 'APPROVED');
    pullRequest.review(world.github.account(`nobody-${tenant.acme.login}`), 'APPROVED');
    await show(tenant, pullRequest);
    expect(shownOn(pullRequest)?.summary).toContain(
      'No rule counts.\n\nFor reviews: `grace` +3, `` @eve `<b> `` +3\n\n',
    );
  });

  test('follows new rules once the score is recalculated', async ({ tenant, shown }) => {
    await afterAMinute(tenant);
    await tenant.apply(rule('7', 'true', 'Seven'));
    await publish(tenant);
    expect(shownOn(shown)?.title).toBe('Score 2');
    await tenant.rescore();
    await publish(tenant);
    expect(shownOn(shown)?.title).toBe('Score 7 (+5)');
  });

  test('is not published again if nothing in it would change', async ({ tenant, shown }) => {
    await afterAMinute(tenant);
    const before = requestsOf();
    shown.edit({ title: 'Another title' });
    await show(tenant, shown);
    expect(requestsOf()).toBe(before);
    expect(await counts(tenant)).toEqual({ waiting: 0, failing: 0, parked: 0 });
  });

  test('is not published again if only the comments of the rules have changed', async ({ tenant, shown }) => {
    await afterAMinute(tenant);
    const before = shownOn(shown);
    const { definitions, rules } = await getRuleset(executor, tenant.id, 1);
    const applied = await applyRules(service, tenant.id, { definitions, rules, source: '# why' });
    expect(applied).toEqual({ version: 2, changed: false, sourceChanged: true });
    await publish(tenant);
    expect(shownOn(shown)).toEqual(before);
    expect(shown.repository.checkRuns).toHaveLength(1);
    expect(await counts(tenant)).toEqual({ waiting: 0, failing: 0, parked: 0 });
  });

  test('belongs to the commit that was scored, and follows a force-push', async ({ tenant, fetched }) => {
    const scored = headShaOf(fetched);
    fetched.forcePush();
    await publish(tenant);
    expect(fetched.repository.checkRunOn(scored)).toBeDefined();
    expect(shownOn(fetched)).toBeUndefined();
    await showLater(tenant, fetched);
    expect(shownOn(fetched)?.title).toBe('Score 2');
  });

  test('a merged pull request gets a last check run, whatever changes later', async ({ tenant, shown }) => {
    shown.merge();
    await showLater(tenant, shown);
    expect(shownOn(shown)?.title).toBe('Score 12 (+10)');
    expect(shownOn(shown)?.summary).toContain('The pull request is merged: this is its last check.');
    shown.review(tenant.acme.member('grace'), 'APPROVED');
    await showLater(tenant, shown);
    expect((await tenant.stored(shown))?.score).toBe(15);
    expect(shownOn(shown)?.title).toBe('Score 12 (+10)');
  });

  test('a reopened pull request gets its check run back', async ({ tenant, shown }) => {
    for (const change of [() => shown.close(), () => shown.reopen()]) {
      change();
      await showLater(tenant, shown);
    }
    expect(shownOn(shown)?.summary).toContain('This check never fails.');
  });

  test('a pull request that is reopened and merged within a minute gets another last check run', async ({
    tenant,
    shown,
  }) => {
    shown.close();
    await showLater(tenant, shown);
    for (const change of [() => shown.reopen(), () => shown.merge()]) {
      world.github.clock.advance(5);
      change();
      await show(tenant, shown);
    }
    await publishLater(tenant);
    expect(shownOn(shown)?.title).toBe('Score 12 (+10)');
    expect(shownOn(shown)?.summary).toContain('The pull request is merged: this is its last check.');
  });

  test('makes no links, mentions or markup of what rules are called', async ({ tenant }) => {
    const name = '@acme/owners `<img src=x>` https://evil.example | ## x';
    await tenant.scoreBy(rule('2', 'true', name), rule('1', 'title == "@ada `|` [x](y)"', 'Title'));
    const pullRequest = await openShown(tenant);
    const summary = shownOn(pullRequest)?.summary ?? '';
    expect(summary).toContain('| `` @acme/owners `<img src=x>` https://evil.example \\| ## x `` | +2 |');
    expect(summary).toContain('once `` title == "@ada `|` [x](y)" ``');
  });

  test('stays within what GitHub takes, however many entries there are', async ({ tenant }) => {
    const rules = Array.from({ length: 150 }, (_, index) => rule('1', `title == "${'é'.repeat(180)}"`, `${index}`));
    await tenant.scoreBy(rule('5', 'true', 'Five'), ...rules);
    const pullRequest = await openShown(tenant);
    expect(shownOn(pullRequest)?.summary).toMatch(/- … and 100 more entries\n\nBy version 2/);
  });
});

describe('scores', () => {
  test('are shown from when an operator turns them on until they are turned off', async ({ tenant }) => {
    await enable(tenant, false);
    const pullRequest = await openShown(tenant);
    expect(shownOn(pullRequest)).toBeUndefined();
    await enable(tenant);
    await publish(tenant);
    expect(shownOn(pullRequest)?.title).toBe('Score 2');
    await enable(tenant, false);
    pullRequest.merge();
    await showLater(tenant, pullRequest);
    expect(shownOn(pullRequest)?.title).toBe('Score 2');
    await enable(tenant);
    await publish(tenant);
    expect(shownOn(pullRequest)?.title).toBe('Score 12 (+10)');
  });

  test('are published under a lease that is renewed while GitHub is slow', async ({ tenant }) => {
    await tenant.openStored();
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    onTestFinished(() => void vi.useRealTimers());
    const leasedUntil = async () => (await tenant.row()).checksDueAt?.getTime() ?? 0;
    const publishing = publishWhile(tenant, async () => {
      const first = await leasedUntil();
      vi.advanceTimersByTime((leaseSeconds * 1_000) / 2);
      await expect.poll(leasedUntil).toBeGreaterThan(first);
    });
    expect(await publishing).toBe(true);
    // Others look whether anything is due.
    await enable(tenant, false);
  });

  test('that an operator turns off during their publication stay off', async ({ tenant, fetched }) => {
    await publishWhile(tenant, () => enable(tenant, false));
    fetched.review(tenant.acme.member('grace'), 'APPROVED');
    await tenant.sync(fetched);
    await afterAMinute(tenant);
    expect(await turn(tenant)).toBe(false);
  });

  test('take a request for twenty, and leave the reserve of points', async ({ tenant }) => {
    const all = tenant.open(50);
    await tenant.sync(...all);
    setPoints(world.github, 5_000, 503);
    await tenant.sync(all[0]);
    const before = requestsOf();
    await publish(tenant);
    // Of the three points above the tenth that is kept, the fetch took one.
    expect(requestsOf() - before).toBe(2);
    setPoints(world.github, 5_000);
    await executor.execute(sql`delete from github_limits`);
    await publish(tenant);
    expect(requestsOf() - before).toBe(3);
    expect(all.filter(each => shownOn(each) === undefined)).toEqual([]);
  });

  test('are shown by the loops of a running service', async ({ tenant }) => {
    const pullRequest = tenant.web.openPullRequest();
    runLoops(service, { pollMs: 20 });
    await tenant.sync(pullRequest);
    await waitUntil(async () => shownOn(pullRequest)?.title === 'Score 2');
  });

  test('a last check run that is published while the pull request is reopened and merged is not the last', async ({
    tenant,
    shown,
  }) => {
    shown.close();
    await tenant.sync(shown);
    await afterAMinute(tenant);
    await publishWhile(tenant, async () => {
      for (const change of [() => shown.reopen(), () => shown.merge()]) {
        world.github.clock.advance(5);
        change();
        await tenant.sync(shown);
      }
    });
    await publishLater(tenant);
    expect(shownOn(shown)?.title).toBe('Score 12 (+10)');
  });

  test('a pull request that is deleted during the publication of its score leaves no stored check run', async () => {
    const tenant = await newShowingTenant();
    await tenant.openStored();
    await publishWhile(tenant, async () => {
      await executor.delete(scoreChanges).where(tenant.owns(scoreChanges));
      await executor.delete(pullRequests).where(tenant.owns(pullRequests));
    });
    expect(await tenant.rowsOf(checkRuns)).toEqual([]);
  });
});

describe('a failure to show a score', () => {
  test('does not hold up others, and parks it after eight tries', async ({ tenant, fetched, other }) => {
    world.github.fault({ kind: 'broken', nodeIds: [headShaOf(other)] }, { when: 'CheckRuns', times: Infinity });
    await publish(tenant);
    expect(shownOn(fetched)).toBeDefined();
    expect(await counts(tenant)).toEqual({ waiting: 0, failing: 1, parked: 0 });
    await executor.execute(sql`update check_runs set attempts = 6 where attempts > 0`);
    for (const expected of [
      { failing: 1, parked: 0 },
      { failing: 0, parked: 1 },
    ]) {
      await makeRunsDue();
      await publish(tenant);
      expect(await counts(tenant)).toEqual({ waiting: 0, ...expected });
    }
    const { body } = await service.app.inject('/metrics');
    expect(body).toMatch(/pullscore_check_runs\{state="parked"\} 1\n/);
    world.github.clearFaults();
    await service.database.transaction(executor => retryCheckRuns(executor, tenant.id));
    await publish(tenant);
    expect(shownOn(other)?.title).toBe('Score 2');
    expect(await counts(tenant)).toEqual({ waiting: 0, failing: 0, parked: 0 });
  });

  test('is over as soon as the pull request changes', async ({ tenant, other }) => {
    world.github.fault({ kind: 'broken', nodeIds: [headShaOf(other)] }, { when: 'CheckRuns', times: Infinity });
    await publish(tenant);
    await executor.execute(sql`update check_runs set due_at = now() + interval '1 hour' where due_at is not null`);
    other.push();
    await tenant.sync(other);
    await publish(tenant);
    expect(shownOn(other)?.title).toBe('Score 2');
  });

  test('because the App may not write checks lasts until something changes', async ({ tenant, fetched, other }) => {
    world.github.grants.permissions.checks = 'read';
    const before = requestsOf();
    await publish(tenant);
    expect(requestsOf() - before).toBe(1);
    expect(await counts(tenant)).toEqual({ waiting: 0, failing: 0, parked: 2 });
    const [row] = await tenant.rowsOf(checkRuns);
    expect(row?.lastError).toContain('GitHub does not let the App write checks');
    world.github.grants.permissions.checks = 'write';
    await enable(tenant);
    await publish(tenant);
    expect([fetched, other].map(each => shownOn(each)?.title)).toEqual(['Score 2', 'Score 2']);
  });

  test('of GitHub itself makes it try scores again, one by one', async ({ tenant, fetched, other }) => {
    world.github.fault(htmlError(502), { when: 'CheckRuns' });
    await publish(tenant);
    expect(await counts(tenant)).toEqual({ waiting: 0, failing: 2, parked: 0 });
    const before = requestsOf();
    await makeRunsDue();
    await publish(tenant);
    expect(requestsOf() - before).toBe(2);
    expect([fetched, other].map(each => shownOn(each)?.title)).toEqual(['Score 2', 'Score 2']);
  });

  test('is a reply without the check run, too', async ({ tenant }) => {
    const change = () => ({
      data: { run0: { checkRun: null } },
      errors: [{ message: 'No.', path: ['run0', 'checkRun'] }],
    });
    world.github.fault({ kind: 'alter', change }, { when: 'CheckRuns' });
    await openShown(tenant);
    expect(await counts(tenant)).toEqual({ waiting: 0, failing: 1, parked: 0 });
  });

  test('is not what a rate limit counts as, and nothing is sent before GitHub allows it', async ({ tenant }) => {
    await tenant.sync(...tenant.open(2));
    world.github.fault(secondaryLimit('120'), { when: 'CheckRuns' });
    expect(await turn(tenant)).toBe(true);
    expect(await turn(tenant)).toBe(false);
    expect(await counts(tenant)).toEqual({ waiting: 2, failing: 0, parked: 0 });
    expect(await tenant.secondsTo('checks_due_at')).toBeGreaterThan(100);
  });

  test('because of a lost reply leaves the same score on the commit', async ({ tenant, fetched, other }) => {
    world.github.fault({ kind: 'truncate', reset: true }, { when: 'CheckRuns' });
    await publish(tenant);
    await makeRunsDue();
    await publish(tenant);
    expect([fetched, other].map(each => shownOn(each)?.title)).toEqual(['Score 2', 'Score 2']);
    expect(await counts(tenant)).toEqual({ waiting: 0, failing: 0, parked: 0 });
  });
});

test.each([
  ['by a comparison', (tenant: SyncTenant) => tenant.compare()],
  // It was deleted here.
  ['by a fetch of which nothing is kept', (tenant: SyncTenant, gone: PullRequest) => tenant.sync(gone)],
])(
  'an ignored repository has no check run that waits, and shows present scores once it is tracked again %s',
  async (_, track) => {
    const tenant = await newShowingTenant();
    await openShown(tenant);
    const sandbox = tenant.acme.repository('sandbox-1');
    const [pullRequest, gone] = [sandbox.openPullRequest(), sandbox.openPullRequest()];
    await tenant.sync(pullRequest, gone);
    await tenant.remove((await tenant.stored(gone))?.id);
    await publish(tenant);
    const settings = (option: string) =>
      runJson(
        { DATABASE_URL: service.database.url },
        'organisation',
        'settings',
        tenant.acme.login,
        option,
        'sandbox-*',
      );
    await settings('--ignore');
    await tenant.compare();
    await tenant.scoreBy(rule('5'));
    await publishLater(tenant);
    expect(shownOn(pullRequest)?.title).toBe('Score 2');
    expect(await counts(tenant)).toEqual({ waiting: 0, failing: 0, parked: 0 });
    await settings('--unignore');
    await track(tenant, gone);
    await publish(tenant);
    expect(shownOn(pullRequest)?.title).toBe('Score 5 (+3)');
  },
);
