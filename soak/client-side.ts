/** What clients do with a pull request through the API. Wrong answers are differences. */
import { eq } from 'drizzle-orm';
import { pullRequests } from '../src/database/schema.ts';
import { drawTicket } from '../src/database/tickets.ts';
import { formatId } from '../src/ids.ts';
import type { ModelPullRequest } from './model.ts';
import type { Scene } from './play.ts';
import { isLagging } from './versions.ts';

/** The stored row, and what a replica answers to a client about it. */
async function findStored({ arena, tenant }: Scene, { source }: ModelPullRequest) {
  const [row] = await arena.database.executor
    .select({ id: pullRequests.id, sourceUpdatedAt: pullRequests.sourceUpdatedAt })
    .from(pullRequests)
    .where(eq(pullRequests.githubId, source.id));
  if (row === undefined) return undefined;
  const url = `/2025-04/pull-requests/${formatId('pr', row.id)}`;
  return {
    ...row,
    call: async (method: 'DELETE' | 'PUT', action = '') =>
      (await arena.replica()).client.send(method, url + action, tenant.token),
  };
}

/** Retries until there is an answer. */
export async function remove(scene: Scene, pullRequest: ModelPullRequest): Promise<void> {
  const stored = await findStored(scene, pullRequest);
  if (stored === undefined) return;
  const ticket = await drawTicket(scene.arena.database.executor);
  let reply = await stored.call('DELETE');
  while (reply.status === 503) reply = await stored.call('DELETE');
  // 404: an earlier try deleted it, and its answer was lost.
  if (![200, 404].includes(reply.status)) {
    scene.differences.push(`deleting ${pullRequest.name} was answered ${reply.status} ${reply.body.message}`);
    return;
  }
  pullRequest.formerIds.add(stored.id);
  pullRequest.deleted = { from: stored.sourceUpdatedAt, until: pullRequest.source.updatedAt, ticket };
  pullRequest.seen = undefined;
  pullRequest.acknowledged = undefined;
}

/** The reply means that what GitHub showed at the time of the request, or later, is stored. */
export async function refresh(scene: Scene, pullRequest: ModelPullRequest): Promise<void> {
  const { name, source, versions, formerIds } = pullRequest;
  const stored = await findStored(scene, pullRequest);
  if (stored === undefined) return;
  const before = versions.length - 1;
  const wasLagging = isLagging(source);
  const { status, body } = await stored.call('PUT', '/sync');
  if (![200, 404, 502, 503, 504].includes(status)) {
    scene.differences.push(`refreshing ${name} was answered ${status} ${body.message}`);
  }
  // While GraphQL lags, the answer may be any older state.
  if (status !== 200 || wasLagging || formerIds.has(stored.id)) return;
  pullRequest.seen = { id: stored.id, version: Math.max(before, pullRequest.seen?.version ?? 0) };
}
