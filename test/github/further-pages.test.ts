import { describe, expect, test } from 'vitest';
import type { GithubRequest } from '../../src/github/transport.ts';
import { addingErrors, answering, type Fault, type GithubStandInRequest, replacing } from '../support/github/faults.ts';
import type { ChangedFile } from '../support/github/pull-request.ts';
import { errorOf, fetchOne, found, start } from './support.ts';

const filesOf = (length: number): ChangedFile[] =>
  Array.from({ length }, (_, index) => ({ path: `f${index}`, additions: index, deletions: 1 }));

const isFurther = ({ operation }: GithubStandInRequest) => operation === 'FurtherPages';

describe('a pull request with more than a hundred files', () => {
  test.each([
    [100, 1],
    [101, 2],
    [200, 2],
    [250, 3],
    [3_000, 30],
    // GitHub lists no more.
    [3_200, 30],
  ])('has, of %d, all that GitHub lists, in %d requests', async (count, requests) => {
    const { github, web, client } = await start();
    const files = filesOf(count);
    const { nodeId } = web.openPullRequest({ files });
    const fetched = await fetchOne(client, nodeId);
    const listed = files.slice(0, 3_000);
    expect(fetched.files).toEqual(listed.map(({ path }) => path));
    expect(fetched.fileChanges).toEqual(listed.flatMap(({ additions }) => [additions, 1]));
    expect(fetched.changedFiles).toBe(count);
    expect(github.count()).toBe(requests);
  });

  test('shares the requests for further pages with others, for a point each', async () => {
    const { github, web, client } = await start();
    const spent: (number | undefined)[] = [];
    client.onRequest(({ rateLimit }: GithubRequest) => spent.push(rateLimit?.cost));
    const sizes = [250, 1, 130, 0, 420];
    const opened = Array.from({ length: 50 }, (_, index) =>
      web.openPullRequest({ files: filesOf(sizes[index % 5] ?? 0) }),
    );
    const nodeIds = opened.map(({ nodeId }) => nodeId);
    const results = await client.fetchPullRequests({ login: 'acme' }, nodeIds);
    expect(nodeIds.map(nodeId => found(results.get(nodeId)).files.length)).toEqual(
      opened.map((_, index) => sizes[index % 5]),
    );
    expect(github.count('PullRequests')).toBe(1);
    expect(github.count('FurtherPages')).toBe(4);
    expect(spent).toEqual([1, 1, 1, 1, 1]);
  });

  const refused = (error: object) => answering({ data: { page0: null }, errors: [{ ...error, path: ['page0'] }] });
  const endingAt = (cursor: string | null) => replacing(/"endCursor":"[^"]*"/, `"endCursor":${JSON.stringify(cursor)}`);
  const failedWith = (text: string) => ({ code: 'github_failed', message: expect.stringContaining(text) });
  const unknownCursor = { type: 'INVALID_CURSOR_ARGUMENTS', message: 'No cursor.' };
  const sameAgain = Buffer.from('cursor:v2:[99,0]').toString('base64');
  test.each<[string, Fault, object]>([
    ['GitHub fails', { kind: 'reply', status: 502 }, { code: 'github_failed', tooMuch: true }],
    ['GitHub does not answer', { kind: 'hang' }, { code: 'github_timeout', tooMuch: true }],
    ['a page is missing', answering({ data: { page0: null } }), failedWith('is not valid')],
    ['there are no files', replacing(/"files":\{.*\]\}/, '"files":null'), failedWith('files are missing')],
    ['its files are null', replacing(/"nodes":\[.*?\]/, '"nodes":null'), failedWith('files are missing')],
    ['only that page fails', refused({ message: 'Timeout on it.' }), failedWith('Timeout on it.')],
    ['our token may not read it', refused({ type: 'FORBIDDEN', message: 'SAML' }), { code: 'github_credentials' }],
    ['GitHub does not know the page', answering({ errors: [unknownCursor] }), { code: 'github_failed' }],
    ['a page leads nowhere', endingAt(null), failedWith('endCursor leads nowhere')],
    ['a page comes again', endingAt(sameAgain), failedWith('endCursor leads nowhere')],
  ])('fails alone, and not half, if %s on a further page', async (_, fault, expected) => {
    const { github, web, client } = await start({}, { timeoutMs: 1_500 });
    const [large, small] = [web.openPullRequest({ files: filesOf(250) }), web.openPullRequest({ files: filesOf(2) })];
    github.fault(fault, { when: isFurther });
    const nodeIds = [large.nodeId, small.nodeId];
    const results = await client.fetchPullRequests({ login: 'acme' }, nodeIds);
    expect(results.get(large.nodeId)).toMatchObject({ status: 'failed', error: expected });
    expect(found(results.get(small.nodeId)).files).toHaveLength(2);

    expect((await fetchOne(client, large.nodeId)).files).toHaveLength(250);
  });

  test('is not read further once one of its lists has failed', async () => {
    const { github, acme, web, client } = await start();
    const pullRequest = web.openPullRequest({ files: filesOf(250) });
    const reviewer = acme.member('bob');
    for (let index = 0; index < 350; index += 1) pullRequest.review(reviewer);
    github.fault(addingErrors({ message: 'Timeout on it.', path: ['page0'] }), { when: isFurther });
    const results = await client.fetchPullRequests({ login: 'acme' }, [pullRequest.nodeId]);
    expect(results.get(pullRequest.nodeId)?.status).toBe('failed');
    expect(github.count('FurtherPages')).toBe(1);
  });

  test('has thirty pages of files at most, even if GitHub goes on and on', async () => {
    const { github, web, client } = await start();
    const { nodeId } = web.openPullRequest({ files: filesOf(101) });
    let page = 1;
    let first: object | undefined;
    const endless = () => ({
      totalCount: 9,
      pageInfo: { hasNextPage: true, endCursor: `cursor ${++page}` },
      nodes: [{ path: `page ${page}`, additions: 1, deletions: 0 }],
    });
    github.fault(
      {
        kind: 'alter',
        change: reply => {
          const { page0 } = (reply as { data: { page0: object } }).data;
          first ??= page0;
          return { data: { page0: { ...first, files: endless() } } };
        },
      },
      { when: isFurther, times: Infinity },
    );
    const { files } = await fetchOne(client, nodeId);
    expect(files).toHaveLength(100 + 29);
    expect(files.at(-1)).toBe('page 30');
    expect(github.count()).toBe(30);
  });

  test.each([
    ['updatedAt', '2026-01-31T12:00:00Z'],
    ['headRefOid', 'f'.repeat(40)],
  ])('fails if its %s changes between two pages of files', async (field, value) => {
    const { github, web, client } = await start();
    github.clock.set(1_700_000_000);
    const pullRequest = web.openPullRequest({ files: filesOf(250) });
    github.fault(replacing(new RegExp(`"${field}":"[^"]*"`), `"${field}":"${value}"`), { when: isFurther });
    const results = await client.fetchPullRequests({ login: 'acme' }, [pullRequest.nodeId]);
    expect(results.get(pullRequest.nodeId)).toMatchObject({
      status: 'failed',
      error: { message: expect.stringContaining('it changed while its files were read') },
    });
  });

  test.each([
    ['github_rate_limited', { kind: 'reply', status: 429, headers: { 'retry-after': '60' } }],
    ['github_credentials', { kind: 'reply', status: 401 }],
  ] as const)('the error %s on a further page stops the whole fetch', async (code, fault) => {
    const { github, web, client } = await start();
    const { nodeId } = web.openPullRequest({ files: filesOf(101) });
    github.fault(fault, { when: isFurther });
    expect(await errorOf(client.fetchPullRequests({ login: 'acme' }, [nodeId]))).toMatchObject({ code });
  });

  test("has failed if the caller's time ends before its last page", async () => {
    const { github, web, client } = await start();
    const { nodeId } = web.openPullRequest({ files: filesOf(250) });
    github.fault({ kind: 'hang' }, { when: isFurther });
    const fetched = await client.fetchPullRequests({ login: 'acme' }, [nodeId], performance.now() + 1_000);
    expect(fetched.get(nodeId)).toMatchObject({ status: 'failed', error: { code: 'github_timeout' } });
  });
});

test('paths of 3,000 files that are far too long lose their middle, and all are kept', async () => {
  const { web, client } = await start();
  const middle = '\u{1F642}'.repeat(300);
  const files = Array.from({ length: 3_000 }, (_, index) => ({
    path: index % 2 === 0 ? `src/${index}/${middle}/${index}.lock` : `src/${index}.ts`,
    additions: 1,
    deletions: 0,
  }));
  const { nodeId } = web.openPullRequest({ files });
  const fetched = (await fetchOne(client, nodeId)).files;
  expect(fetched).toHaveLength(3_000);
  expect(fetched.join('').length).toBeLessThanOrEqual(262_144);
  for (const [index, path] of fetched.entries()) {
    if (index % 2 === 1) expect(path).toBe(`src/${index}.ts`);
    else expect(path).toMatch(new RegExp(`^src/${index}/.*\u2026.*/${index}\\.lock$`));
    expect(path).not.toMatch(/\p{Surrogate}/u);
  }
});

test('paths that are long, but not too long together, are as they are', async () => {
  const { web, client } = await start();
  const files = Array.from({ length: 64 }, (_, index) => ({
    path: `${index}`.padEnd(4_096, 'x'),
    additions: 1,
    deletions: 0,
  }));
  const { nodeId } = web.openPullRequest({ files });
  expect((await fetchOne(client, nodeId)).files).toEqual(files.map(({ path }) => path));
});

test('reviews after the first hundred count as what they are', async () => {
  const { github, acme, web, client } = await start();
  github.clock.set(1_700_000_000);
  const [alice, bob] = [acme.member('alice'), acme.member('bob')];
  const bot = github.account('reviewer', { type: 'Bot' });
  const pullRequest = web.openPullRequest({ author: alice, files: filesOf(120) });
  for (let index = 0; index < 110; index += 1) pullRequest.review(bot);
  github.clock.advance(60);
  for (let index = 0; index < 100; index += 1) pullRequest.review(alice);
  pullRequest.review(bob, 'CHANGES_REQUESTED');
  pullRequest.review(bob, 'PENDING');
  github.requests.length = 0;
  expect(await fetchOne(client, pullRequest.nodeId)).toMatchObject({
    reviews: 1,
    botReviews: 110,
    timesChangesRequested: 1,
    firstReviewAt: 1_700_000_060,
    files: filesOf(120).map(({ path }) => path),
  });
  expect(github.count()).toBe(3);
});
