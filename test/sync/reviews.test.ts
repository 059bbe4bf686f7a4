import { and, eq, sql } from 'drizzle-orm';
import { describe, expect, test } from 'vitest';
import type { Executor } from '../../src/database/client.ts';
import { addErased } from '../../src/database/erased-people.ts';
import { eraseMember } from '../../src/database/erasure.ts';
import { findMembersByLogin, saveMembers } from '../../src/database/members.ts';
import { finishRange, leaseRanges, saveScores, splitRemainder } from '../../src/database/rescore-ranges.ts';
import { changes, members, pullRequests } from '../../src/database/schema.ts';
import { oneRow } from '../../src/database/statement.ts';
import { drawTicket } from '../../src/database/tickets.ts';
import { formatId } from '../../src/ids.ts';
import type { RuleDefinition } from '../../src/scoring/rule.ts';
import type { PullRequest } from '../support/github/pull-request.ts';
import { applyRules } from '../support/tenants.ts';
import { rule, type SyncTenant, startSyncWorld } from './support.ts';

const world = await startSyncWorld();
const { service } = world;

/** An organisation with the pull request of a member, and another member, who reviews it. */
async function newTenant(...reviews: RuleDefinition[]) {
  const tenant = await world.newTenant();
  const { acme, id } = tenant;
  const [author, bob] = ['author', 'bob'].map(name => acme.member(`${name}-of-${acme.login}`)) as [Person, Person];
  const pullRequest = acme.repository('web').openPullRequest({ author, additions: 7 });
  const join = (executor: Executor, ...people: Person[]) => {
    const profiles = people.map(({ id, login }) => ({ githubId: id, login, name: login, photoUrl: '' }));
    return drawTicket(executor).then(ticket => saveMembers(executor, id, ticket, profiles));
  };
  if (reviews.length > 0) await applyRules(service, id, { reviews });
  const idOf = async ({ login }: Person) => {
    const [person] = await findMembersByLogin(service.database.executor, id, login);
    return person === undefined ? null : formatId('mem', person.id);
  };
  return { tenant, author, bob, pullRequest, join, idOf };
}

/** The other one is a member, and has approved it. */
async function newReviewed(...reviews: RuleDefinition[]) {
  const parts = await newTenant(...reviews);
  await parts.join(service.database.executor, parts.bob);
  parts.pullRequest.review(parts.bob, 'APPROVED');
  return parts;
}
type Person = ReturnType<SyncTenant['acme']['member']>;

interface ReviewScore {
  reviewer: string | null;
  member: string | null;
  score: number;
}

async function reviewScores(tenant: SyncTenant, pullRequest: PullRequest): Promise<ReviewScore[] | null> {
  const row = await tenant.stored(pullRequest);
  return JSON.parse(row?.reviewScores ?? 'null');
}

/** As PostgreSQL has it. */
async function reviewScoresText(pullRequest: PullRequest) {
  const [row] = await service.database.executor
    .select({ text: sql<string | null>`${pullRequests.reviewScores}::text` })
    .from(pullRequests)
    .where(eq(pullRequests.githubId, pullRequest.id));
  return row?.text;
}

/** Runs `change` after the pull request was fetched and scored, and before it is saved. */
async function syncAcross(tenant: SyncTenant, wanted: PullRequest, change: (executor: Executor) => Promise<unknown>) {
  expect(await tenant.duringSave(() => tenant.sync(wanted), change)).toEqual(['saved']);
}

const byMembers = [rule('5', 'reviewer_is_member'), rule('1', 'true', 'anybody')];

describe('a stored reviewer', () => {
  test('is a member by id and login, nobody without a name, or a bot', async () => {
    const { tenant, bob, pullRequest, join, idOf } = await newTenant(
      rule('3', 'verdict == "approved"'),
      rule('review_comments', 'true'),
      rule('1', 'reviewer_is_bot'),
    );
    await join(service.database.executor, bob);
    const { github } = world;
    pullRequest.requestReview(bob);
    pullRequest.review(bob, 'APPROVED', { comments: 2 });
    pullRequest.review(github.account('stranger'), 'APPROVED');
    pullRequest.review(github.account('linter', { type: 'Bot' }), 'COMMENTED');
    await tenant.sync(pullRequest);
    const at = github.clock.now();
    const nobody = { member: null, login: null, isBot: false, verdict: 'approved', comments: 0, firstReviewAt: at };
    expect((await tenant.stored(pullRequest))?.reviewers).toEqual([
      { ...nobody, member: await idOf(bob), login: bob.login, comments: 2, requestedAt: at, mayWrite: true },
      { ...nobody, requestedAt: null, mayWrite: false },
      { ...nobody, login: 'linter', isBot: true, verdict: 'commented', requestedAt: null, mayWrite: false },
    ]);
    expect(await reviewScores(tenant, pullRequest)).toMatchObject([
      { reviewer: bob.login, member: await idOf(bob), score: 5 },
      { reviewer: null, member: null, score: 3 },
      { reviewer: 'linter', member: null, score: 1 },
    ]);
    expect(await tenant.stored(pullRequest)).toMatchObject({ score: 0, scoreBreakdown: '[]' });
  });

  test('who has left, or has another login since, keeps their points by their id', async () => {
    const { tenant, bob, pullRequest, idOf } = await newReviewed(...byMembers);
    const former = bob.login;
    await tenant.sync(pullRequest);
    await service.database.executor.update(members).set({ leftAt: sql`now()` }).where(eq(members.githubId, bob.id));
    bob.login = `${former}-renamed`;
    const member = await idOf({ ...bob, login: former });
    // As for authors: the login is that of the fetch.
    expect(await reviewScores(tenant, pullRequest)).toMatchObject([{ reviewer: former, member, score: 6 }]);
    await tenant.sync(pullRequest);
    expect(await reviewScores(tenant, pullRequest)).toMatchObject([{ reviewer: bob.login, member, score: 6 }]);
  });

  test('is a member once the pull request is fetched after they joined', async () => {
    const { tenant, bob, pullRequest, join, idOf } = await newTenant(...byMembers);
    pullRequest.review(bob, 'APPROVED');
    await tenant.sync(pullRequest);
    expect(await reviewScores(tenant, pullRequest)).toMatchObject([{ reviewer: null, member: null, score: 1 }]);
    await join(service.database.executor, bob);
    await tenant.sync(pullRequest);
    expect(await reviewScores(tenant, pullRequest)).toMatchObject([{ member: await idOf(bob), score: 6 }]);
  });

  test('who becomes a member while it is being saved is one', async () => {
    const { tenant, bob, pullRequest, join, idOf } = await newTenant(...byMembers);
    pullRequest.review(bob, 'APPROVED');
    await syncAcross(tenant, pullRequest, executor => join(executor, bob));
    expect(await reviewScores(tenant, pullRequest)).toMatchObject([{ member: await idOf(bob), score: 6 }]);
  });

  test('who is erased while it is being saved is none', async () => {
    const { tenant, bob, pullRequest } = await newReviewed(...byMembers);
    await syncAcross(tenant, pullRequest, executor => addErased(executor, tenant.id, bob.id));
    expect(await tenant.stored(pullRequest)).toMatchObject({ reviewers: [], reviewScores: null });
  });

  test('who is renamed while it is being saved has the login of the fetch', async () => {
    const { tenant, bob, pullRequest, join, idOf } = await newReviewed(...byMembers);
    const fetched = await tenant.fetchedSync(pullRequest);
    const renamed = { ...bob, login: `${bob.login}-2` };
    await join(service.database.executor, renamed);
    expect(await fetched.save()).toBe('saved');
    expect(await reviewScores(tenant, pullRequest)).toMatchObject([
      { reviewer: bob.login, member: await idOf(renamed), score: 6 },
    ]);
  });
});

describe('points for reviews', () => {
  test('follow the rules: new ones, and none, while scores stay without a change', async () => {
    const { tenant, bob, pullRequest, join } = await newTenant();
    await join(service.database.executor, bob);
    const { executor } = service.database;
    const other = tenant.web.openPullRequest({ author: pullRequest.author });
    pullRequest.review(bob, 'APPROVED');
    await tenant.apply(rule('additions'));
    await tenant.sync(pullRequest, other);
    expect(await reviewScores(tenant, pullRequest)).toBeNull();
    const versions = async () => [pullRequest, other].map(async wanted => (await tenant.stored(wanted))?.changedBy);
    const [before, ofOther] = await Promise.all(await versions());

    await applyRules(service, tenant.id, { reviews: byMembers, rules: [rule('additions')] });
    await tenant.rescore();
    expect(await reviewScores(tenant, pullRequest)).toMatchObject([{ score: 6 }]);
    const [after, ofOtherAfter] = await Promise.all(await versions());
    expect(after).not.toBe(before);
    // Nobody has reviewed it.
    expect(ofOtherAfter).toBe(ofOther);
    const isOfOrganisation = tenant.owns(changes);
    const told = () => executor.$count(changes, and(isOfOrganisation, sql`transaction::text = ${after}`));
    expect(await told()).toBe(1);

    await tenant.scoreBy(rule('additions'));
    expect(await tenant.stored(pullRequest)).toMatchObject({ score: 7, reviewScores: null });
    expect(await tenant.scoreHistory()).toEqual(['null → 7 (pull_request, 1)', 'null → 0 (pull_request, 1)']);
  });

  test('are saved and cleared side by side, and not if the pull request was fetched since', async () => {
    const { tenant, pullRequest } = await newTenant();
    const all = [
      pullRequest,
      ...Array.from({ length: 3 }, () => tenant.web.openPullRequest({ author: pullRequest.author })),
    ];
    await tenant.sync(...all);
    const rows = await Promise.all(all.map(each => tenant.stored(each)));
    const scores = ['[{"a":1}]', null, '[{"b":"\\n"}]', '[{"late":1}]'].map((given, index) => ({
      id: rows[index]?.id ?? '',
      fetchTicket: String(Number(rows[index]?.fetchTicket) - (index === 3 ? 1 : 0)),
      from: 0,
      score: 0,
      breakdown: '[]',
      reviewScores: given,
    }));
    const save = (given: typeof scores) => saveScores(service.database.executor, tenant.id, 0, given);
    const saved = async () => Promise.all(all.map(async each => (await tenant.stored(each))?.reviewScores));
    await save(scores);
    expect(await saved()).toEqual(['[{"a":1}]', null, '[{"b":"\\n"}]', null]);
    await save(scores.map(each => ({ ...each, reviewScores: null })));
    expect(await saved()).toEqual([null, null, null, null]);
  });

  test('are none as long as a release that does not know reviewers has saved the pull request last', async () => {
    const { tenant, pullRequest } = await newReviewed(...byMembers);
    await tenant.sync(pullRequest);
    await service.database.executor.update(pullRequests).set({ factsVersion: 2 }).where(tenant.owns(pullRequests));
    await applyRules(service, tenant.id, { reviews: [rule('7')] });
    await tenant.rescore();
    expect(await reviewScores(tenant, pullRequest)).toBeNull();
    await tenant.sync(pullRequest);
    expect(await reviewScores(tenant, pullRequest)).toMatchObject([{ score: 7 }]);
  });
});

describe('erasing a person', () => {
  test('removes their reviews and points, and leaves those of others as they were written', async () => {
    const mimicry = `reviewer != '","member":"' && title != '{"reviewer":"x","member":"mem_1"} \\\\ \\u2028 é'`;
    const { tenant, bob, pullRequest, join, idOf } = await newTenant(rule('4', mimicry));
    const carol = tenant.acme.member(`carol-of-${tenant.acme.login}`);
    await join(service.database.executor, bob, carol);
    const hers = tenant.web.openPullRequest({ author: pullRequest.author });
    const other = tenant.web.openPullRequest({ author: pullRequest.author });
    for (const each of [bob, carol]) pullRequest.review(each, 'APPROVED');
    pullRequest.review(world.github.account('passer-by'), 'COMMENTED');
    hers.review(bob, 'COMMENTED');
    other.review(carol, 'COMMENTED');
    await tenant.sync(pullRequest, hers, other);
    const before = await tenant.stored(pullRequest);
    const [ofBob, ofCarol, ofNobody] = (JSON.parse(before?.reviewScores ?? '') as object[]).map(entry =>
      JSON.stringify(entry),
    );
    expect(await reviewScoresText(pullRequest)).toBe(`[${ofBob},${ofCarol},${ofNobody}]`);
    const changedBefore = (await tenant.stored(other))?.changedBy;
    const id = await idOf(bob);

    const { database } = service;
    const people = await findMembersByLogin(database.executor, tenant.id, bob.login);
    expect(await eraseMember(database, tenant.id, oneRow(people))).toEqual({
      pullRequests: 0,
      assignments: 0,
      reviews: 2,
    });
    // At once, before anything is scored again.
    const after = await tenant.stored(pullRequest);
    expect(await reviewScoresText(pullRequest)).toBe(`[${ofCarol},${ofNobody}]`);
    expect(after?.reviewers).toEqual(before?.reviewers?.slice(1));
    expect(after?.changedBy).not.toBe(before?.changedBy);
    expect(await tenant.stored(hers)).toMatchObject({ reviewers: [], reviewScores: null });
    expect((await tenant.stored(other))?.changedBy).toBe(changedBefore);
    const told = tenant.owns(changes);
    expect(await database.executor.$count(changes, and(told, sql`transaction::text = ${after?.changedBy}`))).toBe(2);
    await tenant.rescore();
    // They reviewed it on GitHub all the same.
    await tenant.sync(pullRequest, hers, other);
    expect(await tenant.stored(pullRequest)).toMatchObject({
      reviewScores: after?.reviewScores,
      reviewers: after?.reviewers,
    });
    const { rows } = await database.executor.execute(sql`
      select from pull_requests where organisation_id = ${tenant.id}
        and (to_jsonb(pull_requests)::text like ${`%${bob.login}%`} or reviewers::text like ${`%${id}%`})`);
    expect(rows).toEqual([]);
  });

  test('does not tell clients of a change if reviews give no points', async () => {
    const { tenant, bob, pullRequest } = await newReviewed();
    await tenant.sync(pullRequest);
    const before = await tenant.stored(pullRequest);
    const people = await findMembersByLogin(service.database.executor, tenant.id, bob.login);
    expect(await eraseMember(service.database, tenant.id, oneRow(people))).toMatchObject({ reviews: 1 });
    expect(await tenant.stored(pullRequest)).toEqual({ ...before, reviewers: [] });
  });

  test('discards scores that were being calculated from what was stored before', async () => {
    const { tenant, bob, pullRequest } = await newReviewed();
    await tenant.sync(pullRequest);
    await applyRules(service, tenant.id, { reviews: byMembers });
    const { database } = service;
    const { id } = tenant.organisation;
    await database.transaction(executor => splitRemainder(executor, id));
    const [range] = await database.transaction(executor => leaseRanges(executor, id, 8));
    if (range === undefined) throw new Error('nothing to score');
    await eraseMember(database, id, oneRow(await findMembersByLogin(database.executor, id, bob.login)));
    expect(await database.transaction(executor => finishRange(executor, id, range, undefined))).toBe(false);
  });
});
