import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { PullRequest } from '../support/github/pull-request.ts';
import {
  fetchedSync,
  newHome,
  scoreHistory,
  startWorld,
  stored,
  storedPullRequests,
  sync,
  type World,
} from './support.ts';

let world: World;
beforeAll(async () => {
  world = await startWorld();
});
afterAll(() => world.close());

/** Changes as many facts as can be. */
function change(pullRequest: PullRequest, turn: number): void {
  pullRequest.edit({ title: `title ${turn}`, body: `body ${turn}`, base: `base-${turn}` });
  pullRequest.push({ files: [{ path: `${turn}.ts`, additions: turn, deletions: 1 }] });
  pullRequest.label(`label ${turn}`);
  pullRequest.setMilestone(`milestone ${turn}`);
  pullRequest.comment(null);
  if (turn % 3 === 2) pullRequest.close();
  if (turn % 3 === 0) pullRequest.reopen();
  if (turn % 2 === 1) pullRequest.convertToDraft();
  else pullRequest.markReady();
}

const factsOf = ({ title, body, base, additions, deletions, labels, milestone, comments, draft }: Columns) => ({
  title,
  body,
  base,
  additions,
  deletions,
  labels,
  milestone,
  comments,
  draft,
});
type Columns = Pick<
  PullRequest,
  'title' | 'body' | 'base' | 'additions' | 'deletions' | 'labels' | 'milestone' | 'comments' | 'draft'
>;
const snapshot = (pullRequest: PullRequest) => structuredClone(factsOf(pullRequest));

async function storedFacts(home: Awaited<ReturnType<typeof newHome>>, pullRequest: PullRequest) {
  const row = await stored(world.service, home, pullRequest);
  if (row === undefined) throw new Error('not stored');
  return factsOf(row);
}

describe('what an older fetch found', () => {
  test('and saves later does not undo a newer one', async () => {
    const home = await newHome(world);
    const pullRequest = home.acme.repository('web').openPullRequest();
    change(pullRequest, 1);
    const early = await fetchedSync(world.service, home, pullRequest);
    world.github.clock.advance(1);
    change(pullRequest, 2);
    expect(await sync(world.service, home, pullRequest)).toEqual(['saved']);
    expect(await early.save()).toBe('outdated');
    expect(await storedFacts(home, pullRequest)).toEqual(snapshot(pullRequest));
  });

  test('in the same second gives way to the fetch begun later, whichever ends first', async () => {
    const home = await newHome(world);
    const pullRequest = home.acme.repository('web').openPullRequest();
    for (const laterEndsFirst of [true, false]) {
      const early = await fetchedSync(world.service, home, pullRequest);
      change(pullRequest, laterEndsFirst ? 1 : 2);
      const late = await fetchedSync(world.service, home, pullRequest);
      const outcomes = laterEndsFirst
        ? [await late.save(), await early.save()]
        : [await early.save(), await late.save()];
      expect(outcomes).toEqual(['saved', laterEndsFirst ? 'outdated' : 'saved']);
      expect(await storedFacts(home, pullRequest)).toEqual(snapshot(pullRequest));
    }
  });

  test('of other pull requests in the same reply is saved all the same', async () => {
    const home = await newHome(world);
    const web = home.acme.repository('web');
    const [one, other] = [web.openPullRequest(), web.openPullRequest()];
    await sync(world.service, home, one, other);
    await world.service.database.executor.execute(
      `update pull_requests set source_updated_at = now() + interval '10 years' where github_id = ${one.id}`,
    );
    other.edit({ title: 'changed' });
    expect(await sync(world.service, home, one, other)).toEqual(['outdated', 'saved']);
    expect(await storedFacts(home, other)).toEqual(snapshot(other));
  });
});

test('in whatever order fetches end, the row is wholly what the latest of them found', async () => {
  const second = await world.replica();
  await fc.assert(
    fc.asyncProperty(
      // Seconds between the changes, and the order in which the fetches are saved.
      fc.array(fc.nat(1), { minLength: 4, maxLength: 4 }),
      fc.shuffledSubarray([0, 1, 2, 3], { minLength: 4, maxLength: 4 }),
      async (pauses, order) => {
        const home = await newHome(world);
        const pullRequest = home.acme.repository('web').openPullRequest();
        const fetches: Awaited<ReturnType<typeof fetchedSync>>[] = [];
        for (const [turn, pause] of pauses.entries()) {
          world.github.clock.advance(pause);
          change(pullRequest, turn + 1);
          fetches.push(await fetchedSync(turn % 2 === 0 ? world.service : second, home, pullRequest));
        }
        await Promise.all(order.map(index => fetches[index]?.save()));
        expect(await storedFacts(home, pullRequest)).toEqual(snapshot(pullRequest));
        expect(await storedPullRequests(world.service, home)).toHaveLength(1);
      },
    ),
    { numRuns: 12 },
  );
});

test('first sight on three replicas at once makes one row and one first score', async () => {
  const replicas = [world.service, await world.replica(), await world.replica()];
  for (let round = 0; round < 8; round += 1) {
    const home = await newHome(world);
    const web = home.acme.repository('web');
    const opened = [web.openPullRequest(), web.openPullRequest(), web.openPullRequest()];
    const saves = await Promise.all(
      replicas.flatMap(replica => opened.map(pullRequest => fetchedSync(replica, home, pullRequest))),
    );
    await Promise.all(saves.map(({ save }) => save()));
    expect(await storedPullRequests(world.service, home)).toHaveLength(3);
    expect(await scoreHistory(world.service, home)).toEqual(Array(3).fill('null → 0 (pull_request, 0)'));
  }
});
