import { and, eq, isNotNull, sql } from 'drizzle-orm';
import { describe, expect, onTestFinished, vi } from 'vitest';
import { countCheckRuns, retryCheckRuns, setChecksEnabled } from '../../src/database/check-runs.ts';
import { getRuleset } from '../../src/database/rules.ts';
import { checkRuns, organisations } from '../../src/database/schema.ts';
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

const enable = ({ organisation }: SyncTenant, enabled = true) =>
  service.database.transaction(executor => setChecksEnabled(executor, organisation.id, enabled));

/** A new tenant that shows its scores, whose rules give 10 points for a merge, 3 for an approval and 2 in any case. */
async function newShowingTenant(): Promise<SyncTenant> {
  const home = await world.newTenant();
  await home.scoreBy(
    rule('2', 'true', 'Opened'),
    rule('3', 'writer_approvals > 0', 'Reviewed'),
    rule('10', 'merged && changed_files <= 5', 'Small and merged'),
    rule('size', 'size > 400', 'Large'),
  );
  await enable(home);
  return home;
}

const turn = ({ organisation }: SyncTenant) => publishCheckRuns(service, { organisationId: organisation.id });

/** Publishes what is due now. */
async function publish(home: SyncTenant): Promise<void> {
  for (let turns = 0; turns < 50; turns += 1) {
    // The pauses between turns are over.
    await executor
      .update(organisations)
      .set({ checksDueAt: sql`now()` })
      .where(and(eq(organisations.id, home.organisation.id), isNotNull(organisations.checksDueAt)));
    if (!(await turn(home))) return;
  }
}

/** The minute in which a pull request gets no other check run is over. */
const afterAMinute = ({ organisation }: SyncTenant) =>
  executor
    .update(checkRuns)
    .set({ publishedAt: sql`now() - interval '1 minute'` })
    .where(eq(checkRuns.organisationId, organisation.id));

/** Fetches and publishes it. */
async function show(home: SyncTenant, pullRequest: PullRequest): Promise<void> {
  await home.sync(pullRequest);
  await publish(home);
}

/** The same after the minute in which a pull request gets no other check run. */
async function publishLater(home: SyncTenant): Promise<void> {
  await afterAMinute(home);
  await publish(home);
}

/** The same after that minute. */
async function showLater(home: SyncTenant, pullRequest: PullRequest): Promise<void> {
  await home.sync(pullRequest);
  await publishLater(home);
}

/** Opens a pull request that GitHub shows from then on. */
async function openShown(home: SyncTenant): Promise<PullRequest> {
  const pullRequest = home.web.openPullRequest();
  await show(home, pullRequest);
  return pullRequest;
}

/** Publishes it while `change` happens. @returns as `turn` does */
async function publishWhile(home: SyncTenant, change: () => Promise<unknown>): Promise<boolean> {
  const { begun, release } = world.github.hold('hold', 'CheckRuns');
  const publishing = turn(home);
  await begun;
  await change();
  release();
  return publishing;
}

/** `fetched` and `other` are pull requests of a home that shows its scores; GitHub shows that of `shown` already. */
const test = world.test
  .extend('home', () => newShowingTenant())
  .extend('fetched', ({ home }) => home.openStored())
  .extend('other', ({ home }) => home.openStored())
  .extend('shown', ({ home }) => openShown(home));

/** All that waits is tried again. */
const makeRunsDue = () => executor.execute(sql`update check_runs set due_at = now() where due_at is not null`);

const shownOn = (pullRequest: PullRequest) => pullRequest.repository.checkRunOn(headShaOf(pullRequest));

const counts = ({ organisation }: SyncTenant) => countCheckRuns(executor, organisation.id);

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

  test('says by how much the score last changed', async ({ home, shown }) => {
    shown.review(home.acme.member('grace'), 'APPROVED');
    await show(home, shown);
    expect(shownOn(shown)?.title).toBe('Score 2');
    await publishLater(home);
    expect(shownOn(shown)?.title).toBe('Score 5 (+3)');
    expect(shown.repository.checkRuns).toHaveLength(2);
  });

  test('is published once, also if GitHub names more points than can be stored', async ({ home }) => {
    setPoints(world.github, 2 ** 31);
    await openShown(home);
    expect(home.web.checkRuns).toHaveLength(1);
  });

  test('is shown within seconds while another one waits for its minute', async ({ home, shown }) => {
    shown.review(home.acme.member('grace'), 'APPROVED');
    await show(home, shown);
    const next = await home.openStored();
    const checksDueAt = earlier('checks_due_at', sql`interval '5 seconds'`);
    await home.update({ checksDueAt });
    expect(await turn(home)).toBe(true);
    expect(shownOn(next)?.title).toBe('Score 2');
  });

  test('follows a change that leaves the score as it is', async ({ home }) => {
    await home.scoreBy(rule('1', 'reviews > 0 && writer_approvals > 0', 'Both'));
    const pullRequest = await openShown(home);
    expect(shownOn(pullRequest)?.summary).toContain('- `Both`: +1 once `reviews > 0` and `writer_approvals > 0`');
    pullRequest.review(home.acme.member('grace'));
    await showLater(home, pullRequest);
    expect(shownOn(pullRequest)?.summary).toContain('- `Both`: +1 once `writer_approvals > 0`');
  });

  test('says who gets points for a review, and names them without a mention', async ({ home }) => {
    const reviews = [rule('3', 'verdict == "approved"', 'Verdict')];
    await applyRules(service, home.organisation.id, { reviews });
    const people = ['grace', '@eve `<b>', 'lin'].map(login => home.acme.member(login));
    await home.syncMembers();
    const pullRequest = home.web.openPullRequest();
    for (const person of people) pullRequest.review(person, person.login === 'lin' ? 'COMMENTED' : 'APPROVED');
    pullRequest.review(world.github.account(`nobody-${home.acme.login}`), 'APPROVED');
    await show(home, pullRequest);
    expect(shownOn(pullRequest)?.summary).toContain(
      'No rule counts.\n\nFor reviews: `grace` +3, `` @eve `<b> `` +3\n\n',
    );
  });

  test('follows new rules once the score is recalculated', async ({ home, shown }) => {
    await afterAMinute(home);
    await home.apply(rule('7', 'true', 'Seven'));
    await publish(home);
    expect(shownOn(shown)?.title).toBe('Score 2');
    await home.rescore();
    await publish(home);
    expect(shownOn(shown)?.title).toBe('Score 7 (+5)');
  });

  test('is not published again if nothing in it would change', async ({ home, shown }) => {
    await afterAMinute(home);
    const before = requestsOf();
    shown.edit({ title: 'Another title' });
    await show(home, shown);
    expect(requestsOf()).toBe(before);
    expect(await counts(home)).toEqual({ waiting: 0, failing: 0, parked: 0 });
  });

  test('is not published again if only the comments of the rules have changed', async ({ home, shown }) => {
    await afterAMinute(home);
    const before = shownOn(shown);
    const { definitions, rules } = await getRuleset(executor, home.organisation.id, 1);
    const applied = await applyRules(service, home.organisation.id, { definitions, rules, source: '# why' });
    expect(applied).toEqual({ version: 2, changed: false, sourceChanged: true });
    await publish(home);
    expect(shownOn(shown)).toEqual(before);
    expect(shown.repository.checkRuns).toHaveLength(1);
    expect(await counts(home)).toEqual({ waiting: 0, failing: 0, parked: 0 });
  });

  test('belongs to the commit that was scored, and follows a force-push', async ({ home, fetched }) => {
    const scored = headShaOf(fetched);
    fetched.forcePush();
    await publish(home);
    expect(fetched.repository.checkRunOn(scored)).toBeDefined();
    expect(shownOn(fetched)).toBeUndefined();
    await showLater(home, fetched);
    expect(shownOn(fetched)?.title).toBe('Score 2');
  });

  test('a merged pull request gets a last check run, whatever changes later', async ({ home, shown }) => {
    shown.merge();
    await showLater(home, shown);
    expect(shownOn(shown)?.title).toBe('Score 12 (+10)');
    expect(shownOn(shown)?.summary).toContain('The pull request is merged: this is its last check.');
    shown.review(home.acme.member('grace'), 'APPROVED');
    await showLater(home, shown);
    expect((await home.stored(shown))?.score).toBe(15);
    expect(shownOn(shown)?.title).toBe('Score 12 (+10)');
  });

  test('a reopened pull request gets its check run back', async ({ home, shown }) => {
    for (const change of [() => shown.close(), () => shown.reopen()]) {
      change();
      await showLater(home, shown);
    }
    expect(shownOn(shown)?.summary).toContain('This check never fails.');
  });

  test('a pull request that is reopened and merged within a minute gets another last check run', async ({
    home,
    shown,
  }) => {
    shown.close();
    await showLater(home, shown);
    for (const change of [() => shown.reopen(), () => shown.merge()]) {
      world.github.clock.advance(5);
      change();
      await show(home, shown);
    }
    await publishLater(home);
    expect(shownOn(shown)?.title).toBe('Score 12 (+10)');
    expect(shownOn(shown)?.summary).toContain('The pull request is merged: this is its last check.');
  });

  test('makes no links, mentions or markup of what rules are called', async ({ home }) => {
    const name = '@acme/owners `<img src=x>` https://evil.example | ## x';
    await home.scoreBy(rule('2', 'true', name), rule('1', 'title == "@ada `|` [x](y)"', 'Title'));
    const pullRequest = await openShown(home);
    const summary = shownOn(pullRequest)?.summary ?? '';
    expect(summary).toContain('| `` @acme/owners `<img src=x>` https://evil.example \\| ## x `` | +2 |');
    expect(summary).toContain('once `` title == "@ada `|` [x](y)" ``');
  });

  test('stays within what GitHub takes, however many entries there are', async ({ home }) => {
    const rules = Array.from({ length: 150 }, (_, index) => rule('1', `title == "${'é'.repeat(180)}"`, `${index}`));
    await home.scoreBy(rule('5', 'true', 'Five'), ...rules);
    const pullRequest = await openShown(home);
    expect(shownOn(pullRequest)?.summary).toMatch(/- … and 100 more entries\n\nBy version 2/);
  });
});

describe('scores', () => {
  test('are shown from when an operator turns them on until they are turned off', async ({ home }) => {
    await enable(home, false);
    const pullRequest = await openShown(home);
    expect(shownOn(pullRequest)).toBeUndefined();
    await enable(home);
    await publish(home);
    expect(shownOn(pullRequest)?.title).toBe('Score 2');
    await enable(home, false);
    pullRequest.merge();
    await showLater(home, pullRequest);
    expect(shownOn(pullRequest)?.title).toBe('Score 2');
    await enable(home);
    await publish(home);
    expect(shownOn(pullRequest)?.title).toBe('Score 12 (+10)');
  });

  test('are published under a lease that is renewed while GitHub is slow', async ({ home }) => {
    await home.openStored();
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    onTestFinished(() => void vi.useRealTimers());
    const leasedUntil = async () => (await home.row()).checksDueAt?.getTime() ?? 0;
    const publishing = publishWhile(home, async () => {
      const first = await leasedUntil();
      vi.advanceTimersByTime((leaseSeconds * 1_000) / 2);
      await expect.poll(leasedUntil).toBeGreaterThan(first);
    });
    expect(await publishing).toBe(true);
    // Others look whether anything is due.
    await enable(home, false);
  });

  test('that an operator turns off during their publication stay off', async ({ home, fetched }) => {
    await publishWhile(home, () => enable(home, false));
    fetched.review(home.acme.member('grace'), 'APPROVED');
    await home.sync(fetched);
    await afterAMinute(home);
    expect(await turn(home)).toBe(false);
  });

  test('take a request for twenty, and leave the reserve of points', async ({ home }) => {
    const all = home.open(50);
    await home.sync(...all);
    setPoints(world.github, 5_000, 503);
    await home.sync(all[0]);
    const before = requestsOf();
    await publish(home);
    // Of the three points above the tenth that is kept, the fetch took one.
    expect(requestsOf() - before).toBe(2);
    setPoints(world.github, 5_000);
    await executor.execute(sql`delete from github_limits`);
    await publish(home);
    expect(requestsOf() - before).toBe(3);
    expect(all.filter(each => shownOn(each) === undefined)).toEqual([]);
  });

  test('are shown by the loops of a running service', async ({ home }) => {
    const pullRequest = home.web.openPullRequest();
    runLoops(service, { pollMs: 20 });
    await home.sync(pullRequest);
    await waitUntil(async () => shownOn(pullRequest)?.title === 'Score 2');
  });

  test('a last check run that is published while the pull request is reopened and merged is not the last', async ({
    home,
    shown,
  }) => {
    shown.close();
    await home.sync(shown);
    await afterAMinute(home);
    await publishWhile(home, async () => {
      for (const change of [() => shown.reopen(), () => shown.merge()]) {
        world.github.clock.advance(5);
        change();
        await home.sync(shown);
      }
    });
    await publishLater(home);
    expect(shownOn(shown)?.title).toBe('Score 12 (+10)');
  });

  test('a pull request that is deleted during the publication of its score leaves no stored check run', async () => {
    const home = await newShowingTenant();
    await home.openStored();
    await publishWhile(home, async () => {
      await executor.execute(sql`delete from score_changes where organisation_id = ${home.organisation.id}`);
      await executor.execute(sql`delete from pull_requests where organisation_id = ${home.organisation.id}`);
    });
    expect(await executor.$count(checkRuns, eq(checkRuns.organisationId, home.organisation.id))).toBe(0);
  });
});

describe('a failure to show a score', () => {
  test('does not hold up others, and parks it after eight tries', async ({ home, fetched, other }) => {
    world.github.fault({ kind: 'broken', nodeIds: [headShaOf(other)] }, { when: 'CheckRuns', times: Infinity });
    await publish(home);
    expect(shownOn(fetched)).toBeDefined();
    expect(await counts(home)).toEqual({ waiting: 0, failing: 1, parked: 0 });
    await executor.execute(sql`update check_runs set attempts = 6 where attempts > 0`);
    for (const expected of [
      { failing: 1, parked: 0 },
      { failing: 0, parked: 1 },
    ]) {
      await makeRunsDue();
      await publish(home);
      expect(await counts(home)).toEqual({ waiting: 0, ...expected });
    }
    const { body } = await service.app.inject('/metrics');
    expect(body).toMatch(/pullscore_check_runs\{state="parked"\} 1\n/);
    world.github.clearFaults();
    await service.database.transaction(executor => retryCheckRuns(executor, home.organisation.id));
    await publish(home);
    expect(shownOn(other)?.title).toBe('Score 2');
    expect(await counts(home)).toEqual({ waiting: 0, failing: 0, parked: 0 });
  });

  test('is over as soon as the pull request changes', async ({ home, other }) => {
    world.github.fault({ kind: 'broken', nodeIds: [headShaOf(other)] }, { when: 'CheckRuns', times: Infinity });
    await publish(home);
    await executor.execute(sql`update check_runs set due_at = now() + interval '1 hour' where due_at is not null`);
    other.push();
    await home.sync(other);
    await publish(home);
    expect(shownOn(other)?.title).toBe('Score 2');
  });

  test('because the App may not write checks lasts until something changes', async ({ home, fetched }) => {
    world.github.grants.permissions.checks = 'read';
    const before = requestsOf();
    await publish(home);
    expect(requestsOf() - before).toBe(1);
    expect(await counts(home)).toEqual({ waiting: 0, failing: 0, parked: 1 });
    const [row] = await executor.select().from(checkRuns).where(eq(checkRuns.organisationId, home.organisation.id));
    expect(row?.lastError).toContain('GitHub does not let the App write checks');
    world.github.grants.permissions.checks = 'write';
    await enable(home);
    await publish(home);
    expect(shownOn(fetched)?.title).toBe('Score 2');
  });

  test('of GitHub itself makes it try scores again, one by one', async ({ home, fetched, other }) => {
    world.github.fault(htmlError(502), { when: 'CheckRuns' });
    await publish(home);
    expect(await counts(home)).toEqual({ waiting: 0, failing: 2, parked: 0 });
    const before = requestsOf();
    await makeRunsDue();
    await publish(home);
    expect(requestsOf() - before).toBe(2);
    expect([fetched, other].map(each => shownOn(each)?.title)).toEqual(['Score 2', 'Score 2']);
  });

  test('is a reply without the check run, too', async ({ home }) => {
    const change = () => ({
      data: { run0: { checkRun: null } },
      errors: [{ message: 'No.', path: ['run0', 'checkRun'] }],
    });
    world.github.fault({ kind: 'alter', change }, { when: 'CheckRuns' });
    await openShown(home);
    expect(await counts(home)).toEqual({ waiting: 0, failing: 1, parked: 0 });
  });

  test('is not what a rate limit counts as, and nothing is sent before GitHub allows it', async ({ home }) => {
    await home.sync(...home.open(2));
    world.github.fault(secondaryLimit('120'), { when: 'CheckRuns' });
    expect(await turn(home)).toBe(true);
    expect(await turn(home)).toBe(false);
    expect(await counts(home)).toEqual({ waiting: 2, failing: 0, parked: 0 });
    expect(await home.secondsTo('checks_due_at')).toBeGreaterThan(100);
  });

  test('because of a lost reply leaves the same score on the commit', async ({ home, fetched }) => {
    world.github.fault({ kind: 'truncate', reset: true }, { when: 'CheckRuns' });
    await publish(home);
    await makeRunsDue();
    await publish(home);
    expect(shownOn(fetched)?.title).toBe('Score 2');
    expect(await counts(home)).toEqual({ waiting: 0, failing: 0, parked: 0 });
  });
});

test.each([
  ['by a comparison', (home: SyncTenant) => home.compare()],
  // It was deleted here.
  ['by a fetch of which nothing is kept', (home: SyncTenant, gone: PullRequest) => home.sync(gone)],
])(
  'an ignored repository has no check run that waits, and shows present scores once it is tracked again %s',
  async (_, track) => {
    const home = await newShowingTenant();
    await openShown(home);
    const sandbox = home.acme.repository('sandbox-1');
    const [pullRequest, gone] = [sandbox.openPullRequest(), sandbox.openPullRequest()];
    await home.sync(pullRequest, gone);
    await home.remove((await home.stored(gone))?.id);
    await publish(home);
    const settings = (option: string) =>
      runJson({ DATABASE_URL: service.database.url }, 'organisation', 'settings', home.acme.login, option, 'sandbox-*');
    await settings('--ignore');
    await home.compare();
    await home.scoreBy(rule('5'));
    await publishLater(home);
    expect(shownOn(pullRequest)?.title).toBe('Score 2');
    expect(await counts(home)).toEqual({ waiting: 0, failing: 0, parked: 0 });
    await settings('--unignore');
    await track(home, gone);
    await publish(home);
    expect(shownOn(pullRequest)?.title).toBe('Score 5 (+3)');
  },
);
