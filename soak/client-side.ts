/** What clients do with a pull request through the API. Wrong answers are differences. */
import { sql } from 'drizzle-orm';
import { drawTicket } from '../src/database/tickets.ts';
import { ServiceError } from '../src/errors.ts';
import { formatId } from '../src/ids.ts';
import { createLatch, naming, ofRepository } from '../test/support/github/faults.ts';
import type { Replica } from './arena.ts';
import { isHere, type ModelOrganisation, type ModelPullRequest, standingOf } from './model.ts';
import type { Scene } from './play.ts';
import { isLagging } from './versions.ts';

async function findStored({ arena }: Scene, { source }: ModelPullRequest, organisation: ModelOrganisation) {
  const { rows } = await arena.database.executor.execute<{ id: string; updated_at: string; ticket: string }>(sql`
    select id, extract(epoch from source_updated_at)::bigint as updated_at, fetch_ticket as ticket from pull_requests
    where organisation_id = ${organisation.id} and github_id = ${source.id}`);
  const [row] = rows;
  return row && { ...row, url: `/2025-04/pull-requests/${formatId('pr', row.id)}` };
}

/** @returns what the replica answers to a client of the organisation */
const calling =
  ({ differences }: Scene, method: 'DELETE' | 'PUT', url: string, { token }: ModelOrganisation) =>
  async ({ app }: Replica) => {
    const reply = await app.inject({ method, url, headers: { authorization: `Bearer ${token}` } });
    if (reply.statusCode === 500) differences.push(`${method} ${url} was answered with 500`);
    return reply;
  };

/** What is done with a pull request, as the organisation stores it, on the replica chosen by `via`. */
type Action = (
  scene: Scene,
  pullRequest: ModelPullRequest,
  organisation: ModelOrganisation,
  via: number,
) => Promise<void>;

/** Retries until there is an answer. */
export const remove: Action = async (scene, pullRequest, organisation, via) => {
  const { arena, differences } = scene;
  const stored = await findStored(scene, pullRequest, organisation);
  if (stored === undefined) return;
  const ticket = await drawTicket(arena.database.executor);
  const call = calling(scene, 'DELETE', stored.url, organisation);
  let tries = 0;
  const { statusCode, body } = await arena.insist(via, async replica => {
    tries += 1;
    const reply = await call(replica);
    if (reply.statusCode === 503) throw new ServiceError('database_unavailable', reply.body);
    return reply;
  });
  // 404: an earlier try deleted it, and its answer was lost.
  if (statusCode !== 200 && !(statusCode === 404 && tries > 1)) {
    differences.push(`deleting ${pullRequest.name} was answered ${statusCode} ${body}`);
    return;
  }
  const standing = standingOf(pullRequest, organisation);
  standing.formerIds.add(stored.id);
  standing.deleted = { from: Number(stored.updated_at), until: pullRequest.source.updatedAt, ticket };
  standing.seen = undefined;
  standing.acknowledged = undefined;
  arena.count('pull requests deleted here');
};

/** Deletes it during a fetch: GitHub is asked before the deletion and answers after it. */
export const removeAmidFetch: Action = async (scene, pullRequest, organisation, via) => {
  const { source, name } = pullRequest;
  const [asked, answer] = [createLatch(), createLatch()];
  const [isOfIt, isOfRepository] = [naming(source), ofRepository(source.repository)];
  const stopHolding = scene.arena.github.fault(
    { kind: 'late', until: answer.released },
    {
      times: Number.POSITIVE_INFINITY,
      when: request => isOfIt(request) || isOfRepository(request),
      onHit: asked.release,
    },
  );
  const refreshed = refresh(scene, pullRequest, organisation, via + 1, false);
  try {
    // A refresh that fails, or that GitHub answers late anyway, may end without being held.
    await Promise.race([asked.released, refreshed]);
    await remove(scene, pullRequest, organisation, via);
  } finally {
    stopHolding();
    answer.release();
    await refreshed;
  }
  // Checked before a later fetch brings it back for a change, which would hide that an earlier one did.
  const { deleted } = standingOf(pullRequest, organisation);
  const stored = await findStored(scene, pullRequest, organisation);
  if (Number(stored?.ticket) < (deleted?.ticket ?? 0)) {
    scene.differences.push(`${name} was deleted, and is back by a fetch that began before`);
  }
};

/** @param isQuiet nothing else happens meanwhile, so that GitHub's current state must be stored afterwards */
export async function refresh(
  scene: Scene,
  pullRequest: ModelPullRequest,
  organisation: ModelOrganisation,
  via: number,
  isQuiet: boolean,
): Promise<void> {
  const { arena, differences } = scene;
  const { name, source, versions } = pullRequest;
  const stored = await findStored(scene, pullRequest, organisation);
  if (stored === undefined) return;
  const before = versions.length - 1;
  const call = calling(scene, 'PUT', `${stored.url}/sync`, organisation);
  const { statusCode, body } = await call(await arena.replica(via));
  arena.count(`refreshes answered ${statusCode}`);
  // While GraphQL lags, the answer may be any older state.
  if (!isQuiet || isLagging(source) || [502, 503, 504].includes(statusCode)) return;
  const expected = isHere(pullRequest, organisation) ? 200 : 404;
  if (statusCode !== expected) {
    differences.push(`refreshing ${name} was answered ${statusCode} ${body}, not ${expected}`);
  }
  if (statusCode !== 200) return;
  const { title } = JSON.parse(body).data;
  const now = versions[before]?.columns.title;
  if (title !== now) differences.push(`refreshing ${name} returned the title ${title}, not ${now}`);
  standingOf(pullRequest, organisation).seen = { id: stored.id, version: before };
}
