import { setTimeout as delay } from 'node:timers/promises';
import { sql } from 'drizzle-orm';
import type { GithubStandInRequest } from '../test/support/github/faults.ts';
import type { PullRequest } from '../test/support/github/pull-request.ts';
import type { Arena } from './arena.ts';
import type { ClientSide } from './client-side.ts';
import type { GithubSide } from './github-side.ts';
import type { Model, ModelOrganisation, ModelPullRequest } from './model.ts';
import { type ServiceSide, webhookOf } from './service-side.ts';
import type { ServiceStep } from './steps.ts';
import { count, peak, type Tally } from './tally.ts';
import type { Troubles } from './troubles.ts';

/** Work that has a max number of requests. What costs more is added to `differences`. */
export interface Probes {
  /** Call it while everything is at rest. */
  flood(
    large: ModelOrganisation,
    small: ModelOrganisation,
    step: ServiceStep & { kind: 'flood'; via: number },
  ): Promise<void>;
  /** Runs `times` PUT syncs of the first pull request, and one of the second, at once. */
  refreshTogether(
    first: ModelPullRequest,
    organisation: ModelOrganisation,
    second: ModelPullRequest | undefined,
    times: number,
    via: number,
    isQuiet: boolean,
  ): Promise<void>;
}

/** Pull requests in one request to GitHub. */
const perRequest = 50;

/** Extra requests to find the one on which GitHub fails. */
const maxNarrowing = 8;

/** Requests of the large organisation that may go out before the one that the small organisation waits for. */
const maxBefore = 3;

/** Requests for one pull request, however many ask for it at once: the current one and the next. */
const maxTogether = 2;

/** Max time to fetch a flood. */
const floodTimeoutMs = 90_000;

export function createProbes(parts: {
  arena: Arena;
  model: Model;
  side: GithubSide;
  service: ServiceSide;
  client: ClientSide;
  troubles: Troubles;
  tally: Tally;
  differences: string[];
}): Probes {
  const { arena, model, side, service, client, troubles, tally, differences } = parts;
  const { github, database } = arena;
  const { executor } = database;

  const naming = (sources: readonly PullRequest[]) => {
    const nodeIds = new Set(sources.map(({ nodeId }) => nodeId));
    return ({ variables: { ids } }: GithubStandInRequest) => Array.isArray(ids) && ids.some(id => nodeIds.has(id));
  };

  /** Has the effect of webhooks acknowledged a moment ago, at a fraction of their cost. */
  async function request({ id }: ModelOrganisation, sources: readonly PullRequest[]): Promise<void> {
    await executor.execute(sql`
      insert into sync_requests (organisation_id, github_id, node_id, ticket, due_at)
      select ${id}::uuid, github_id, node_id, nextval('tickets'), now() - interval '1 second'
      from unnest(${sql.param(sources.map(source => source.id))}::bigint[],
        ${sql.param(sources.map(({ nodeId }) => nodeId))}::text[]) as given (github_id, node_id)
      on conflict (organisation_id, github_id) do update set due_at = excluded.due_at, ticket = excluded.ticket`);
    await executor.execute(sql`select pg_notify('pullscore', 'sync')`);
  }

  /**
   * Waits until all of them are fetched, except for poisoned ones.
   *
   * @returns false if something happened that explains more requests: another history used up the shared points, or a
   * replica was killed
   */
  async function untilFetched({ id }: ModelOrganisation, sources: readonly PullRequest[]): Promise<boolean> {
    const spared = [...troubles.poisoned].map(({ source }) => source.id);
    const before = arena.kills;
    let isCalm = true;
    for (const begin = performance.now(); ; await delay(10)) {
      const { rows } = await executor.execute<{ waiting: number; refused: number; last: string | null }>(sql`
        select (count(*) filter (where github_id <> all(${sql.param(spared)}::bigint[])))::int as waiting,
          (count(*) filter (where last_error ~* 'rate limit|points'))::int as refused,
          max(last_error) filter (where github_id <> all(${sql.param(spared)}::bigint[])) as last
        from sync_requests where organisation_id = ${id}
          and github_id = any(${sql.param(sources.map(source => source.id))}::bigint[])`);
      const [state = { waiting: 0, refused: 0, last: null }] = rows;
      isCalm &&= state.refused === 0 && arena.kills === before;
      if (state.waiting === 0 || !isCalm) return isCalm;
      if (performance.now() - begin > floodTimeoutMs) {
        differences.push(`${state.waiting} of ${sources.length} pull requests are not fetched: ${state.last}`);
        return false;
      }
    }
  }

  return {
    async flood(large, small, { size, poison, via }) {
      const flood = side.flood(size, model);
      const sources = flood.map(({ source }) => source);
      const victim = poison && flood[Math.floor(size / 2)];
      if (victim !== undefined && poison !== undefined) troubles.poison(victim, poison);
      const isOfFlood = naming(sources);
      const before = github.requests.length;
      await request(large, sources);
      const webhook = webhookOf(side.openSmall(model), [small]);
      await service.deliver(webhook, via);
      const acknowledged = github.requests.length;
      let isCalm = await untilFetched(large, sources);
      const waiting = webhook.pullRequest === undefined ? [] : [webhook.pullRequest.source];
      isCalm = (await untilFetched(small, waiting)) && isCalm;
      // On a busy machine any request can time out, and a search for the one to blame then takes longer.
      const isVictim = victim === undefined ? () => false : naming([victim.source]);
      const requests = github.requests.slice(before).filter(isOfFlood);
      isCalm &&= requests.every(each => each.status !== 0 || isVictim(each));
      count(tally, `floods${isCalm ? '' : ' that others disturbed'}`);
      if (!isCalm) return;

      const narrowing = victim === undefined ? 0 : maxNarrowing;
      const cost = requests.length;
      const max = Math.ceil(size / perRequest) + narrowing;
      peak(tally, 'requests that a poisoned pull request cost a flood', cost - Math.ceil(size / perRequest));
      if (cost > max) differences.push(`${size} pull requests cost ${cost} requests, not ${max} at most (${poison})`);
      const asked = github.requests.findIndex((each, index) => index >= before && naming(waiting)(each));
      const others = github.requests.slice(acknowledged, Math.max(acknowledged, asked)).filter(isOfFlood).length;
      peak(tally, "requests of a flood before a small organisation's", others);
      if (others > maxBefore + narrowing) {
        differences.push(`the small organisation waited for ${others} requests of the large one's (${poison})`);
      }

      // Once it is known to fail, it costs the others nothing.
      if (victim === undefined) return;
      const again = sources.filter(source => source !== victim.source).slice(0, perRequest);
      const second = github.requests.length;
      await request(large, [...again, victim.source]);
      if (!(await untilFetched(large, again))) return;
      const costAgain = github.requests.slice(second).filter(naming(again)).length;
      if (costAgain > 2)
        differences.push(`${again.length} pull requests besides a failing one cost ${costAgain} requests`);
    },

    async refreshTogether(first, organisation, second, times, via, isQuiet) {
      const begin = github.requests.length;
      const all = [...Array.from({ length: times }, () => first), ...(second === undefined ? [] : [second])];
      await Promise.all(all.map(pullRequest => client.refresh(pullRequest, organisation, via, false)));
      const cost = github.requests.slice(begin).filter(naming([first.source])).length;
      // This may include a fetch for a webhook, and a single one if GitHub fails on the second.
      if (isQuiet) peak(tally, 'requests for PUT syncs of one pull request at once', cost);
      if (isQuiet && cost > maxTogether + 2) {
        differences.push(`${times} PUT syncs at once of ${first.name} cost ${cost} requests`);
      }
    },
  };
}
