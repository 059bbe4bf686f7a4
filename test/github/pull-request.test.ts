import { describe, expect, test } from 'vitest';
import { alteringNodes } from '../support/github/faults.ts';
import { headShaOf } from '../support/github/payloads.ts';
import { fetchOne, start, startReviews } from './support.ts';

describe('a pull request', () => {
  test('comes from GitHub with all its facts in one request', async () => {
    const { github, acme, web, client } = await start();
    github.clock.set(1_700_000_000);
    web.private = true;
    const alice = acme.member('alice', { name: 'Alice Ahrens' });
    const bob = acme.member('bob');
    const carol = github.account('carol');
    const pullRequest = web.openPullRequest({
      author: alice,
      title: 'Fix the parser',
      body: 'It broke.',
      base: 'main',
      head: 'fix/parser',
      fromFork: true,
      milestone: 'v2',
      linkedIssues: 2,
      reviewDecision: 'CHANGES_REQUESTED',
      labels: ['bug'],
      files: [{ path: 'src/a.ts', additions: 10, deletions: 3 }],
    });
    github.clock.advance(60);
    pullRequest.push({
      commits: 2,
      files: [
        { path: 'src/a.ts', additions: 1, deletions: 1 },
        { path: 'src/b.ts', additions: 5, deletions: 0 },
      ],
    });
    pullRequest.review(alice, 'COMMENTED');
    pullRequest.requestReview(bob);
    pullRequest.requestReview(null);
    github.clock.advance(60);
    pullRequest.review(bob, 'CHANGES_REQUESTED', { comments: 3 });
    pullRequest.review(carol, 'APPROVED');
    pullRequest.review(carol, 'PENDING');
    pullRequest.comment(bob);
    pullRequest.label('parser');
    pullRequest.assign(bob);
    github.clock.advance(3_600);
    pullRequest.merge(bob);
    github.requests.length = 0;

    expect(await fetchOne(client, pullRequest.nodeId)).toEqual({
      githubId: pullRequest.id,
      nodeId: pullRequest.nodeId,
      headSha: headShaOf(pullRequest),
      url: `https://github.com/acme/web/pull/${pullRequest.number}`,
      repositoryGithubId: web.id,
      repositoryNodeId: web.nodeId,
      repositoryOwner: { githubId: acme.id, nodeId: acme.nodeId, login: 'acme' },
      repository: 'acme/web',
      number: pullRequest.number,
      title: 'Fix the parser',
      body: 'It broke.',
      state: 'merged',
      draft: false,
      author: 'alice',
      authorName: 'Alice Ahrens',
      authorGithubId: alice.id,
      authorPhotoUrl: alice.avatarUrl,
      authorAssociation: 'MEMBER',
      authorIsBot: false,
      base: 'main',
      head: 'fix/parser',
      fromFork: true,
      milestone: 'v2',
      additions: 16,
      deletions: 4,
      changedFiles: 2,
      commits: 3,
      comments: 1,
      reviews: 2,
      approvals: 1,
      changesRequested: 1,
      writerApprovals: 0,
      timesChangesRequested: 1,
      botReviews: 0,
      linkedIssues: 2,
      distinctReviewers: 2,
      reviewDecision: 'CHANGES_REQUESTED',
      reviewers: [
        {
          githubId: bob.id,
          login: 'bob',
          isBot: false,
          verdict: 'changes_requested',
          comments: 3,
          firstReviewAt: 1_700_000_120,
          requestedAt: 1_700_000_060,
          mayWrite: true,
        },
        {
          githubId: carol.id,
          login: 'carol',
          isBot: false,
          verdict: 'approved',
          comments: 0,
          firstReviewAt: 1_700_000_120,
          requestedAt: null,
          mayWrite: false,
        },
      ],
      readyAt: 1_700_000_000,
      repositoryIsArchived: false,
      repositoryIsFork: false,
      repositoryIsPrivate: true,
      createdAt: 1_700_000_000,
      sourceUpdatedAt: 1_700_003_720,
      mergedAt: 1_700_003_720,
      closedAt: 1_700_003_720,
      mergedBy: 'bob',
      mergerGithubId: bob.id,
      selfMerged: false,
      firstReviewAt: 1_700_000_120,
      labels: ['bug', 'parser'],
      assignees: ['bob'],
      assigneeGithubIds: [bob.id],
      files: ['src/a.ts', 'src/b.ts'],
      fileChanges: [11, 4, 5, 0],
    });
    expect(github.count()).toBe(1);
  });

  test('is merged, else closed, else a draft, else open', async () => {
    const { web, client } = await start();
    const pullRequest = web.openPullRequest({ draft: true });
    const stateNow = async () => (await fetchOne(client, pullRequest.nodeId)).state;
    expect(await stateNow()).toBe('draft');
    pullRequest.close();
    expect(await stateNow()).toBe('closed');
    pullRequest.reopen();
    pullRequest.markReady();
    expect(await stateNow()).toBe('open');
    pullRequest.convertToDraft();
    pullRequest.merge();
    expect(await stateNow()).toBe('merged');
    expect((await fetchOne(client, pullRequest.nodeId)).draft).toBe(true);
  });

  test('is ready from its opening, or from when it was last marked so; a draft is not', async () => {
    const { github, web, client } = await start();
    github.clock.set(1_700_000_000);
    const pullRequest = web.openPullRequest();
    const readyNow = async () => (await fetchOne(client, pullRequest.nodeId)).readyAt;
    expect(await readyNow()).toBe(1_700_000_000);
    for (const time of [1_700_000_100, 1_700_000_200]) {
      pullRequest.convertToDraft();
      expect(await readyNow()).toBeNull();
      github.clock.set(time);
      pullRequest.markReady();
      expect(await readyNow()).toBe(time);
    }
  });

  test('counts a reviewer once, and neither its author nor bots', async () => {
    const { github, alice, bob, carol, pullRequest, fetched } = await startReviews();
    for (const reviewer of [alice, bob, bob, carol, null, null]) pullRequest.review(reviewer);
    pullRequest.review(github.account('helper', { type: 'Bot' }));
    expect(await fetched()).toMatchObject({ distinctReviewers: 3, reviews: 5 });
  });

  test('has its own totals, not those of the listed files', async () => {
    const { web, client } = await start();
    const files = Array.from({ length: 3 }, (_, index) => ({ path: `f${index}`, additions: 1, deletions: 0 }));
    const { nodeId } = web.openPullRequest({ files, additions: 4_000, changedFiles: 2 });
    const fetched = await fetchOne(client, nodeId);
    expect(fetched).toMatchObject({ additions: 4_000, deletions: 0, changedFiles: 2 });
    expect(fetched.files).toEqual(['f0', 'f1', 'f2']);
  });

  test('counts the latest verdict of each person, unless it was dismissed', async () => {
    const { bob, carol, pullRequest, fetched } = await startReviews();
    for (const state of ['CHANGES_REQUESTED', 'APPROVED', 'COMMENTED'] as const) pullRequest.review(bob, state);
    pullRequest.review(carol, 'APPROVED');
    pullRequest.dismissReview(carol);
    expect(await fetched()).toMatchObject({ approvals: 1, changesRequested: 0, reviews: 4 });
  });

  test('counts the reviews of people only, and those of bots apart', async () => {
    const { github, bob, pullRequest, fetched } = await startReviews();
    github.clock.set(1_700_000_000);
    const bot = github.account('reviewer', { type: 'Bot' });
    pullRequest.review(bot, 'APPROVED');
    pullRequest.review(bot, 'CHANGES_REQUESTED');
    const approver = github.account('approver', { type: 'Bot' });
    pullRequest.review(approver, 'APPROVED');
    expect(await fetched()).toMatchObject({
      reviews: 0,
      approvals: 0,
      changesRequested: 0,
      timesChangesRequested: 0,
      writerApprovals: 0,
      botReviews: 3,
      firstReviewAt: null,
    });
    github.clock.advance(60);
    pullRequest.review(bob, 'APPROVED');
    expect(await fetched()).toMatchObject({
      reviews: 1,
      approvals: 1,
      botReviews: 3,
      firstReviewAt: 1_700_000_060,
    });
  });

  test('counts approvals by those who may push', async () => {
    const { github, acme, web, bob: writer, carol: reader, pullRequest, fetched } = await startReviews();
    web.readers.add(reader.id);
    for (const account of [writer, reader, github.account('stranger')]) pullRequest.review(account, 'APPROVED');
    pullRequest.review(acme.member('dave'), 'CHANGES_REQUESTED');
    expect(await fetched()).toMatchObject({ approvals: 3, writerApprovals: 1 });
  });

  test('counts how often people asked for changes, whatever came later', async () => {
    const { github, bob, carol, pullRequest, fetched } = await startReviews();
    const bot = github.account('linter', { type: 'Bot' });
    for (const state of ['CHANGES_REQUESTED', 'CHANGES_REQUESTED', 'APPROVED'] as const) pullRequest.review(bob, state);
    for (const [reviewer, state] of [
      [carol, 'CHANGES_REQUESTED'],
      [carol, 'APPROVED'],
      [bot, 'CHANGES_REQUESTED'],
    ] as const) {
      pullRequest.review(reviewer, state);
      pullRequest.dismissReview(reviewer);
    }
    expect(await fetched()).toMatchObject({ changesRequested: 0, timesChangesRequested: 3 });
  });

  test.each([
    ['by another', { by: 'bob' }, { mergedBy: 'bob', selfMerged: false }],
    ['by its author', { by: 'alice' }, { mergedBy: 'alice', selfMerged: true }],
    ['by a bot with the same login', { by: 'alice', type: 'Bot' }, { mergedBy: 'alice', selfMerged: false }],
    ['by an account that is gone', { by: 'bob', deleted: true }, { mergedBy: 'ghost', selfMerged: false }],
  ] as const)('that was merged %s says so', async (_, { by, ...changes }, expected) => {
    const { acme, pullRequest, fetched } = await startReviews();
    expect(await fetched()).toMatchObject({ mergedBy: null, selfMerged: false });
    pullRequest.merge({ ...acme.member(by), ...changes });
    expect(await fetched()).toMatchObject(expected);
  });

  test('that two deleted accounts opened and merged does not count as self-merged', async () => {
    const { acme, bob, pullRequest, fetched } = await startReviews();
    pullRequest.merge(bob);
    for (const account of acme.members.values()) account.deleted = true;
    expect(await fetched()).toMatchObject({ mergedBy: 'ghost', selfMerged: false });
  });

  test('distinguishes a bot, whose reviews of its own do not count, from a person with the same login', async () => {
    const { github, web, client } = await start();
    const bot = github.account('dependabot', { type: 'Bot' });
    const pullRequest = web.openPullRequest({ author: bot });
    pullRequest.review(bot);
    pullRequest.review({ ...bot, type: 'User' });
    const fetched = await fetchOne(client, pullRequest.nodeId);
    expect(fetched).toMatchObject({ author: 'dependabot', authorIsBot: true, authorGithubId: bot.id });
    expect(fetched).toMatchObject({ reviews: 1, botReviews: 0 });
  });

  test('has a ghost without an id as its author if the account is gone', async () => {
    const { github, alice, bob, pullRequest, fetched } = await startReviews();
    pullRequest.review(bob, 'APPROVED');
    for (const account of [alice, bob]) account.deleted = true;
    expect(await fetched()).toMatchObject({
      author: 'ghost',
      authorGithubId: null,
      authorName: 'ghost',
      authorPhotoUrl: '',
      authorIsBot: false,
      reviews: 1,
      approvals: 1,
    });
    expect(github.count()).toBe(1);
  });

  test('has the id of an imported author (a mannequin)', async () => {
    const { github, web, client } = await start();
    const placeholder = github.account('imported', { type: 'Mannequin' });
    const { nodeId } = web.openPullRequest({ author: placeholder });
    expect(await fetchOne(client, nodeId)).toMatchObject({ authorGithubId: placeholder.id, authorIsBot: false });
  });

  test('an author without a name gets the login, and one who is not a member is a contributor', async () => {
    const { github, web, client } = await start();
    const { nodeId } = web.openPullRequest({ author: github.account('zoe', { name: '  ' }) });
    expect(await fetchOne(client, nodeId)).toMatchObject({ authorName: 'zoe', authorAssociation: 'CONTRIBUTOR' });
  });
});

test('a pull request has all of its labels, as many as GitHub allows', async () => {
  const { web, client } = await start();
  const labels = Array.from({ length: 100 }, (_, index) => `label ${index}`);
  const { nodeId } = web.openPullRequest({ labels });
  expect((await fetchOne(client, nodeId)).labels).toEqual(labels);
});

describe('a reply that does not match the schema', () => {
  const wholePage = { totalCount: 1, pageInfo: { endCursor: null, hasNextPage: false } };
  const changes: [string, Record<string, unknown>][] = [
    ['a negative count', { additions: -1 }],
    ['a fraction', { deletions: 1.5 }],
    ['a count past 32 bits', { changedFiles: 2 ** 31 }],
    ['a count in text', { number: '12' }],
    ['an id that is too large for a number', { fullDatabaseId: '9007199254740993' }],
    ['an id that is not a number', { fullDatabaseId: '12; drop' }],
    ['a time that does not exist', { createdAt: '2024-13-45T00:00:00Z' }],
    ['a time in words', { mergedAt: 'yesterday' }],
    ['a title that is not a text', { title: { toString: 'x' } }],
    ['a body that is not a text', { body: 7 }],
    ['an address that is a script', { url: 'javascript:alert(1)' }],
    ['an unknown state', { state: 'QUANTUM' }],
    ['a flag in text', { isDraft: 'false' }],
    ['no repository', { repository: null }],
    ['labels that are not a list', { labels: { nodes: 'bug' } }],
    ['a counter that is missing', { commits: {} }],
    ['a file with half a line', { files: { ...wholePage, nodes: [{ path: 'a', additions: 0.5, deletions: 0 }] } }],
    ['files without an end', { files: { totalCount: 0, nodes: [] } }],
    ['a merger without a name', { mergedBy: { __typename: 'User' } }],
  ];

  test.each(changes)('a reply with %s fails for that pull request alone, and says what is wrong', async (_, change) => {
    const { github, web, client } = await start();
    const [bad, good] = [web.openPullRequest(), web.openPullRequest()];
    github.fault(alteringNodes((node, index) => (index === 0 ? { ...node, ...change } : node)));
    const results = await client.fetchPullRequests({ login: 'acme' }, [bad.nodeId, good.nodeId]);
    const failed = results.get(bad.nodeId);
    if (failed?.status !== 'failed') throw new Error(`It is ${failed?.status}`);
    expect(failed.error.code).toBe('github_failed');
    expect(failed.error.message).toContain(Object.keys(change)[0]);
    expect(results.get(good.nodeId)?.status).toBe('found');
  });

  test.each(['', '/avatars/u/7', 'javascript:1', null])(
    'a pull request whose author has the photo %j is stored without it, and one from before 1970 as from 1970',
    async avatarUrl => {
      const { github, web, client } = await start();
      const { nodeId } = web.openPullRequest();
      const author = { __typename: 'User', login: 'x', avatarUrl, databaseId: 1 };
      github.fault(alteringNodes(node => ({ ...node, author, createdAt: '1024-01-01T00:00:00Z' })));
      expect(await fetchOne(client, nodeId)).toMatchObject({ author: 'x', authorPhotoUrl: '', createdAt: 0 });
    },
  );

  test('a list that is null in a reply is empty, but the lines of null files are unknown', async () => {
    const { github, web, client } = await start();
    const { nodeId } = web.openPullRequest({ labels: ['bug'] });
    const absent = { labels: null, files: null, reviews: null, latestOpinionatedReviews: null };
    const withoutNodes = { timelineItems: { nodes: null }, assignees: { nodes: null } };
    github.fault(alteringNodes(node => ({ ...node, ...absent, ...withoutNodes, body: null })));
    expect(await fetchOne(client, nodeId)).toMatchObject({
      labels: [],
      files: [],
      fileChanges: null,
      reviews: 0,
      approvals: 0,
      body: '',
    });
  });
});
