import { describe, expect, test } from 'vitest';
import { alteringNodes } from '../support/github/faults.ts';
import type { PullRequest } from '../support/github/pull-request.ts';
import { fetchResult, startReviews } from './support.ts';

describe('a reviewer', () => {
  test.each<[string, Parameters<PullRequest['review']>[1][], string | null]>([
    ['the last of several verdicts', ['APPROVED', 'CHANGES_REQUESTED'], 'changes_requested'],
    ['an approval, also if a comment follows', ['APPROVED', 'COMMENTED'], 'approved'],
    ['a comment without a verdict', ['COMMENTED', 'COMMENTED'], 'commented'],
    ['what was submitted, not what is pending', ['COMMENTED', 'PENDING'], 'commented'],
  ])('gave %s', async (_, states, verdict) => {
    const { pullRequest, bob, reviewers } = await startReviews();
    for (const state of states) pullRequest.review(bob, state);
    expect(await reviewers()).toMatchObject([{ githubId: bob.id, login: 'bob', verdict }]);
  });

  test('gave the verdict before the one that was dismissed, and none if all were', async () => {
    const { pullRequest, bob, reviewers } = await startReviews();
    pullRequest.review(bob, 'CHANGES_REQUESTED');
    pullRequest.review(bob, 'APPROVED');
    pullRequest.dismissReview(bob);
    expect(await reviewers()).toMatchObject([{ verdict: 'changes_requested' }]);
    pullRequest.reviews = pullRequest.reviews.map(review => ({ ...review, state: 'DISMISSED' }));
    expect(await reviewers()).toMatchObject([{ verdict: null }]);
  });

  test('is nobody who only began a review, nor the author, nor an account that is gone', async () => {
    const { acme, pullRequest, bob, reviewers } = await startReviews();
    pullRequest.review(bob, 'PENDING');
    pullRequest.review(pullRequest.author, 'COMMENTED');
    pullRequest.review(null, 'APPROVED');
    const gone = acme.member('gone');
    pullRequest.review(gone, 'APPROVED');
    gone.deleted = true;
    expect(await reviewers()).toEqual([]);
  });

  test('may be a bot, or a person with the login of a bot', async () => {
    const { github, pullRequest, reviewers } = await startReviews();
    const bot = github.account('linter', { type: 'Bot' });
    pullRequest.requestReview({ ...bot, type: 'User' });
    pullRequest.review(bot, 'COMMENTED');
    pullRequest.review({ ...bot, id: 7, type: 'User' }, 'APPROVED');
    const requestedAt = 1_700_000_000;
    expect(await reviewers()).toMatchObject([
      { githubId: null, login: 'linter', isBot: true, verdict: 'commented', requestedAt: null },
      { githubId: 7, login: 'linter', isBot: false, verdict: 'approved', requestedAt },
    ]);
  });

  test('has the comments of all reviews, and the right to push of the last one', async () => {
    const { web, pullRequest, bob, reviewers } = await startReviews();
    pullRequest.review(bob, 'COMMENTED', { comments: 3 });
    pullRequest.reviewComment(bob);
    expect(await reviewers()).toMatchObject([{ comments: 4, mayWrite: true }]);
    web.readers.add(bob.id);
    expect(await reviewers()).toMatchObject([{ comments: 4, mayWrite: false }]);
  });

  test('comes in the order of first submitted reviews, not of those begun', async () => {
    const { github, carol, pullRequest, bob, fetched } = await startReviews();
    pullRequest.review(bob, 'PENDING');
    github.clock.advance(60);
    pullRequest.review(carol, 'APPROVED');
    github.clock.advance(60);
    pullRequest.submitReview(bob, 'APPROVED');
    github.clock.advance(60);
    pullRequest.review(bob, 'COMMENTED');
    expect(await fetched()).toMatchObject({
      firstReviewAt: 1_700_000_060,
      reviewers: [
        { login: 'carol', firstReviewAt: 1_700_000_060 },
        { login: 'bob', firstReviewAt: 1_700_000_120 },
      ],
    });
  });

  test('was first asked by name before the first review, not later and not as one of a team', async () => {
    const { github, acme, pullRequest, bob, carol, reviewers } = await startReviews();
    const dave = acme.member('dave');
    pullRequest.requestReview(null);
    github.clock.advance(60);
    pullRequest.requestReview(bob);
    github.clock.advance(60);
    pullRequest.requestReview(bob);
    for (const each of [bob, carol, dave]) pullRequest.review(each, 'COMMENTED');
    github.clock.advance(60);
    pullRequest.requestReview(carol);
    pullRequest.review(carol, 'APPROVED');
    expect(await reviewers()).toMatchObject([
      { login: 'bob', requestedAt: 1_700_000_060 },
      { login: 'carol', requestedAt: null },
      { login: 'dave', requestedAt: null },
    ]);
  });

  test('who was asked does not change when it was ready, or which reviews were dismissed', async () => {
    const { github, pullRequest, bob, fetched } = await startReviews();
    pullRequest.convertToDraft();
    github.clock.advance(60);
    pullRequest.markReady();
    pullRequest.review(bob, 'CHANGES_REQUESTED');
    github.clock.advance(60);
    pullRequest.dismissReview(bob);
    pullRequest.requestReview(bob);
    pullRequest.requestReview(null);
    expect(await fetched()).toMatchObject({
      readyAt: 1_700_000_060,
      timesChangesRequested: 1,
      reviewers: [{ verdict: null, requestedAt: null }],
    });
  });

  test('is as late as the rest: while GitHub lags, a new review and request are not shown', async () => {
    const { pullRequest, bob, reviewers } = await startReviews();
    pullRequest.lag();
    pullRequest.requestReview(bob);
    pullRequest.review(bob, 'APPROVED');
    expect(await reviewers()).toEqual([]);
    pullRequest.catchUp();
    expect(await reviewers()).toMatchObject([{ login: 'bob', requestedAt: expect.any(Number) }]);
  });
});

test('the first 500 of more reviewers are kept, from all pages', async () => {
  const { github, acme, pullRequest, reviewers } = await startReviews();
  for (let index = 0; index < 520; index += 1) {
    pullRequest.review(acme.member(`r${index}`), 'APPROVED', { comments: index });
  }
  github.requests.length = 0;
  const all = await reviewers();
  expect(all).toHaveLength(500);
  expect(all.at(-1)).toMatchObject({ login: 'r499', comments: 499, mayWrite: true });
  expect(github.count('FurtherPages')).toBe(5);
});

describe('a hostile reply about reviewers', () => {
  const author = { __typename: 'User', login: 'bob', databaseId: 5 };
  const event = { createdAt: '2026-01-01T00:00:00Z', requestedReviewer: { login: 'bob' } };
  const review = { author, submittedAt: '2026-01-01T00:00:00Z', state: 'APPROVED', comments: { totalCount: 0 } };
  const wholePage = { totalCount: 1, pageInfo: { endCursor: null, hasNextPage: false } };
  async function fetchAltered(changes: { review?: object; event?: object }) {
    const { github, pullRequest, client } = await startReviews();
    const change = {
      reviews: { ...wholePage, nodes: [{ ...review, ...changes.review }] },
      timelineItems: { nodes: changes.event === undefined ? [] : [changes.event] },
    };
    github.fault(alteringNodes(node => ({ ...node, ...change })));
    return fetchResult(client, pullRequest.nodeId);
  }

  test.each<[string, Parameters<typeof fetchAltered>[0], string]>([
    ['comments below zero', { review: { comments: { totalCount: -1 } } }, 'reviews.nodes.0.comments.totalCount is -1'],
    ['no comments', { review: { comments: null } }, 'reviews.nodes.0.comments is null'],
    ['an id in words', { review: { author: { ...author, databaseId: 'x' } } }, 'reviews.nodes.0.author'],
    ['a time in words', { review: { submittedAt: 'today' } }, 'reviews.nodes.0.submittedAt is "today"'],
    [
      'a request of a number',
      { event: { ...event, requestedReviewer: { login: 5 } } },
      'timelineItems.nodes.0.requestedReviewer.login is 5',
    ],
    ['a request at no time', { event: { ...event, createdAt: 'then' } }, 'timelineItems.nodes.0.createdAt is "then"'],
  ])('with %s fails for that pull request, and says where', async (_, changes, message) => {
    const result = await fetchAltered(changes);
    if (result?.status !== 'failed') throw new Error(`It is ${result?.status}`);
    expect(result.error.message).toContain(message);
  });

  test.each(['constructor', '__proto__', 'QUANTUM'])('with the unknown verdict %s gives none', async state => {
    const result = await fetchAltered({ review: { state } });
    expect(result).toMatchObject({ status: 'found', pullRequest: { reviewers: [{ login: 'bob', verdict: null }] } });
  });
});
