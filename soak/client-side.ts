import { setTimeout as delay } from 'node:timers/promises';
import { sql } from 'drizzle-orm';
import { drawTicket } from '../src/database/tickets.ts';
import { formatId } from '../src/ids.ts';
import { createLatch, type GithubStandInRequest } from '../test/support/github/faults.ts';
import type { Arena } from './arena.ts';
import { isHere, type ModelOrganisation, type ModelPullRequest, standingOf } from './model.ts';
import { isLagging } from './versions.ts';

/** What clients do through the API. Wrong answers are added to `differences`. */
export function createClientSide(arena: Arena, differences: string[]) {
  const { executor } = arena.database;

  async function call(method: 'DELETE' | 'PUT', url: string, token: string, via: number) {
    const { app } = await arena.replica(via);
    const reply = await app.inject({ method, url, headers: { authorization: `Bearer ${token}` } });
    if (reply.statusCode === 500) differences.push(`${method} ${url} was answered with 500`);
    return reply;
  }

  const side = {
    /** Retries until there is an answer. */
    async remove(pullRequest: ModelPullRequest, organisation: ModelOrganisation, via: number): Promise<void> {
      const { rows } = await executor.execute<{ id: string; updated_at: string }>(sql`
        select id, extract(epoch from source_updated_at)::bigint as updated_at from pull_requests
        where organisation_id = ${organisation.id} and github_id = ${pullRequest.source.id}`);
      const [row] = rows;
      if (row === undefined) return;
      const ticket = await drawTicket(executor);
      let unheard = false;
      for (let tried = 0; ; tried += 1) {
        const { statusCode, body } = await call(
          'DELETE',
          `/2025-04/pull-requests/${formatId('pr', row.id)}`,
          organisation.token,
          via + tried,
        );
        if (statusCode === 200) break;
        // An earlier try deleted it, and its answer was lost.
        if (statusCode === 404 && unheard) break;
        if (statusCode !== 503 || tried === 50) {
          differences.push(`deleting ${pullRequest.name} was answered ${statusCode} ${body}`);
          return;
        }
        unheard = true;
        await delay(20);
      }
      const standing = standingOf(pullRequest, organisation);
      standing.formerIds.add(row.id);
      standing.deleted = { from: Number(row.updated_at), until: pullRequest.source.updatedAt, ticket };
      standing.seen = undefined;
      standing.acknowledged = undefined;
      arena.count('pull requests deleted here');
    },

    /** Deletes it during a fetch: GitHub is asked before the deletion and answers after it. */
    async removeAmidFetch(pullRequest: ModelPullRequest, organisation: ModelOrganisation, via: number): Promise<void> {
      const { source } = pullRequest;
      const [asked, answer] = [createLatch(), createLatch()];
      const when = ({ variables: { ids, repository } }: GithubStandInRequest) => {
        const isAbout = (Array.isArray(ids) && ids.includes(source.nodeId)) || repository === source.repository.nodeId;
        if (isAbout) asked.release();
        return isAbout;
      };
      const fault = { kind: 'late', until: answer.released } as const;
      const stopHolding = arena.github.fault(fault, { times: Number.POSITIVE_INFINITY, when });
      const refreshed = side.refresh(pullRequest, organisation, via + 1, false);
      try {
        // A refresh that fails, or that GitHub answers late anyway, may end without being held.
        await Promise.race([asked.released, refreshed]);
        await side.remove(pullRequest, organisation, via);
      } finally {
        stopHolding();
        answer.release();
        await refreshed;
      }
      // Checked before a later fetch brings it back for a change, which would hide that an earlier one did.
      const { deleted } = standingOf(pullRequest, organisation);
      const { rows } = await executor.execute(sql`
        select from pull_requests where organisation_id = ${organisation.id} and github_id = ${source.id}
          and fetch_ticket < ${deleted?.ticket ?? 0}`);
      if (rows.length > 0)
        differences.push(`${pullRequest.name} was deleted, and is back by a fetch that began before`);
    },

    /** @param isQuiet nothing else happens meanwhile, so that GitHub's current state must be stored afterwards */
    async refresh(
      pullRequest: ModelPullRequest,
      organisation: ModelOrganisation,
      via: number,
      isQuiet: boolean,
    ): Promise<void> {
      const { rows } = await executor.execute<{ id: string }>(sql`
        select id from pull_requests
        where organisation_id = ${organisation.id} and github_id = ${pullRequest.source.id}`);
      const [row] = rows;
      if (row === undefined) return;
      const before = pullRequest.versions.length - 1;
      const url = `/2025-04/pull-requests/${formatId('pr', row.id)}/sync`;
      const { statusCode, body } = await call('PUT', url, organisation.token, via);
      arena.count(`refreshes answered ${statusCode}`);
      // While GraphQL lags, the answer may be any older state.
      if (!isQuiet || isLagging(pullRequest.source) || [502, 503, 504].includes(statusCode)) return;
      const expected = isHere(pullRequest, organisation) ? 200 : 404;
      if (statusCode !== expected) {
        differences.push(`refreshing ${pullRequest.name} was answered ${statusCode} ${body}, not ${expected}`);
      }
      if (statusCode !== 200) return;
      const { title } = JSON.parse(body).data;
      const now = pullRequest.versions[before]?.columns.title;
      if (title !== now) differences.push(`refreshing ${pullRequest.name} returned the title ${title}, not ${now}`);
      standingOf(pullRequest, organisation).seen = { id: row.id, version: before };
    },
  };
  return side;
}
