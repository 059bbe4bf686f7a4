import { describe, expect, test } from 'vitest';
import { formatId } from '../../src/ids.ts';
import type { PullRequestBody } from '../support/client.ts';
import {
  type GithubStandInRequest,
  htmlError,
  naming,
  secondaryLimit,
  tooExpensive,
} from '../support/github/faults.ts';
import type { PullRequest } from '../support/github/pull-request.ts';
import { startSyncWorld, timeOf } from './support.ts';

const world = await startSyncWorld();
const { client } = world;

type Sources = Awaited<ReturnType<typeof newSources>>;
type Body = { data?: PullRequestBody; message?: string };

/** An organisation with pull requests that are stored, and edited on GitHub since then. */
async function newSources(count: number) {
  const tenant = await world.newTenant();
  const pullRequests = tenant.open(count);
  for (let from = 0; from < count; from += 50) await tenant.sync(...pullRequests.slice(from, from + 50));
  const rows = await tenant.storedPullRequests();
  const ids = new Map(rows.map(({ githubId, id }) => [githubId, formatId('pr', id)]));
  world.github.clock.advance(1);
  for (const pullRequest of pullRequests) pullRequest.edit({ title: `New title of ${pullRequest.id}` });
  return {
    tenant,
    pullRequests,
    put: ({ id }: PullRequest) => client.put<Body>(`/2025-04/pull-requests/${ids.get(id)}/sync`, tenant.token),
    /** Resolves when the PUT syncs before it wait for GitHub: reads are answered in their order. */
    untilArrived: () => client.get(`/2026-12/pull-requests/${[...ids.values()][0]}`, tenant.token),
  };
}

const idsOf = ({ variables }: GithubStandInRequest) => variables.ids as string[];
/** How many requests so far named one of these. */
const requestsFor = (...pullRequests: PullRequest[]) =>
  world.github.requests.filter(request => request.operation === 'PullRequests' && naming(...pullRequests)(request));

/** Syncs all but the last in one request, because they come while one for the last is under way. */
async function putTogether({ pullRequests, put, untilArrived }: Sources) {
  const shared = pullRequests.slice(0, -1);
  const last = pullRequests.at(-1) as PullRequest;
  const { begun, release } = world.github.hold('hold', naming(last));
  const held = put(last);
  await begun;
  const asked = requestsFor(...shared).length;
  const together = Promise.all(shared.map(put));
  const timed = timeOf(together);
  await untilArrived();
  release();
  const [replies, milliseconds] = await Promise.all([together, timed]);
  expect((await held).status).toBe(200);
  const requests = requestsFor(...shared).slice(asked);
  expect(idsOf(requests[0] as GithubStandInRequest).toSorted()).toEqual(shared.map(({ nodeId }) => nodeId).toSorted());
  return { replies, requests, milliseconds };
}

/** Returns the statuses, and checks that each synced one is the right one, as GitHub has it now. */
function statusesOf({ pullRequests }: Sources, replies: { status: number; body: Body }[]): number[] {
  return replies.map(({ status, body }, index) => {
    const { id, title } = pullRequests[index] as PullRequest;
    if (status === 200) expect(body.data).toMatchObject({ external_id: String(id), title });
    return status;
  });
}

describe('PUT syncs that come together', () => {
  test('share requests of fifty if they come while GitHub answers the first, and each gets its own', async () => {
    const sources = await newSources(60);
    const { pullRequests, put, untilArrived } = sources;
    const { begun, release } = world.github.hold('hold');
    const asked = requestsFor(...pullRequests).length;
    const replies = pullRequests.slice(0, 1).map(put);
    await begun;
    // Slowly: a batch that is not full waits for the answer.
    for (let sent = 1; sent < 60; sent += 10) {
      replies.push(...pullRequests.slice(sent, sent + 10).map(put));
      await untilArrived();
    }
    release();
    expect(new Set(statusesOf(sources, await Promise.all(replies)))).toEqual(new Set([200]));
    const sizes = requestsFor(...pullRequests).map(request => idsOf(request).length);
    expect(sizes.slice(asked)).toEqual([1, 50, 9]);
  });

  test('PUT syncs that come one by one while a request is under way share the next one', async () => {
    const sources = await newSources(3);
    const { tenant, pullRequests, put } = sources;
    const [first, second, third] = pullRequests;
    const { begun, release } = world.github.hold('hold');
    const replies = [put(first)];
    await begun;
    const askedMeanwhile = requestsFor(second, third).length;
    replies.push(put(second));
    await client.get('/2025-04/account', tenant.token);
    replies.push(put(third));
    // The next one is sent although one hangs.
    await expect.poll(() => requestsFor(second, third).length, { timeout: 10_000 }).toBe(askedMeanwhile + 1);
    release();
    expect(statusesOf(sources, await Promise.all(replies))).toEqual([200, 200, 200]);
    expect(requestsFor(second, third).length).toBe(askedMeanwhile + 1);
  });

  test('PUT syncs of one pull request do not join a request under way, which may know less', async () => {
    const { pullRequests, put } = await newSources(1);
    const [pullRequest] = pullRequests;
    const { begun, release } = world.github.hold('late');
    const asked = requestsFor(pullRequest).length;
    const early = put(pullRequest);
    await begun;
    world.github.clock.advance(1);
    pullRequest.edit({ title: 'Newest' });
    const replies = await Promise.all([put(pullRequest), put(pullRequest), put(pullRequest)]);
    expect(replies.map(({ body }) => body.data?.title)).toEqual(['Newest', 'Newest', 'Newest']);
    expect(requestsFor(pullRequest).length).toBe(asked + 2);
    release();
    expect((await early).body.data?.title).toBe('Newest');
  });

  test('PUT syncs of two organisations do not share a request', async () => {
    const all = await Promise.all([newSources(3), newSources(3)]);
    const before = world.github.requests.length;
    const replies = await Promise.all(all.map(({ pullRequests, put }) => Promise.all(pullRequests.map(put))));
    for (const [index, sources] of all.entries()) {
      expect(new Set(statusesOf(sources, replies[index] ?? []))).toEqual(new Set([200]));
    }
    const [one, other] = all as [Sources, Sources];
    for (const request of world.github.requests.slice(before)) {
      expect([one, other].filter(({ pullRequests }) => naming(...pullRequests)(request))).toHaveLength(1);
    }
  });
});

describe('PUT syncs that share a request', () => {
  test('if GitHub serves one pull request neither with others nor alone, only its PUT sync fails', async () => {
    const sources = await newSources(11);
    const [poisoned] = sources.pullRequests;
    world.github.fault(htmlError(502), { when: naming(poisoned), times: Infinity });
    const { replies, requests } = await putTogether(sources);
    expect(statusesOf(sources, replies)).toEqual([502, ...Array.from({ length: 9 }, () => 200)]);
    expect(requests).toHaveLength(11);
  });

  test('if one pull request is broken inside the reply, only its PUT sync fails', async () => {
    const sources = await newSources(4);
    const [broken] = sources.pullRequests;
    world.github.fault(
      { kind: 'broken', nodeIds: [broken.nodeId], message: 'boom' },
      { when: naming(broken), times: Infinity },
    );
    const { replies } = await putTogether(sources);
    expect(statusesOf(sources, replies)).toEqual([502, 200, 200]);
    expect(replies[0]?.body.message).toMatch(/boom/);
  });

  test('no PUT sync fails because a shared reply would be too large for GitHub', async () => {
    const sources = await newSources(4);
    const [large, larger] = sources.pullRequests;
    world.github.fault(tooExpensive(large, larger), { when: naming(large) });
    const { replies, requests } = await putTogether(sources);
    expect(statusesOf(sources, replies)).toEqual([200, 200, 200]);
    expect(requests.map(request => idsOf(request).length)).toEqual([3, 1, 1]);
  });

  test('if GitHub no longer shows one pull request, only its PUT sync gets 404', async () => {
    const sources = await newSources(4);
    sources.pullRequests[1]?.remove();
    const { replies, requests } = await putTogether(sources);
    expect(statusesOf(sources, replies)).toEqual([200, 404, 200]);
    expect(requests).toHaveLength(1);
  });

  test('each PUT sync gets 503 with Retry-After after one request if GitHub limits its rate', async () => {
    const sources = await newSources(4);
    const [first] = sources.pullRequests;
    world.github.fault(secondaryLimit('90'), { when: naming(first), times: Infinity });
    const { replies, requests } = await putTogether(sources);
    expect(replies.map(({ status, headers }) => [status, headers['retry-after']])).toEqual(
      Array.from({ length: 3 }, () => [503, '90']),
    );
    expect(requests).toHaveLength(1);
  });

  test('each PUT sync gets 504 within 10 s if GitHub does not answer', async () => {
    const sources = await newSources(3);
    const shared = sources.pullRequests.slice(0, 2);
    world.github.fault({ kind: 'hang' }, { when: naming(...shared), times: Infinity });
    const { replies, requests, milliseconds } = await putTogether(sources);
    expect(milliseconds).toBeLessThan(10_000);
    expect(statusesOf(sources, replies)).toEqual([504, 504]);
    expect(requests).toHaveLength(3);
  });

  test('a PUT sync with many files gets 504 within 10 s if GitHub is slow with each page', async () => {
    const { pullRequests, put } = await newSources(1);
    const [large] = pullRequests;
    const files = Array.from({ length: 600 }, (_, index) => ({ path: `${index}`, additions: 1, deletions: 0 }));
    large.push({ files });
    expect(await put(large)).toMatchObject({ status: 200, body: { data: { additions: 600 } } });
    world.github.fault({ kind: 'delay', milliseconds: 2_500 }, { when: 'FurtherPages', times: Infinity });
    const reply = put(large);
    expect(await timeOf(reply)).toBeLessThan(10_000);
    expect((await reply).status).toBe(504);
  });
});
