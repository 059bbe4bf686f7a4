import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { secret } from '../bench/processes.ts';
import type { WebhookEvent } from '../test/support/github/events.ts';
import type { PullRequest } from '../test/support/github/pull-request.ts';
import { deliver } from '../test/support/github/webhooks.ts';
import { findBrokenChains } from './compare.ts';
import { type Installation, login } from './installation.ts';
import { count, startSteadily } from './reads.ts';

/** More would only wait for connections. */
const maxUnderWay = 1_000;

const isDone = `not exists (select from sync_requests)
  and not exists (select from webhook_deliveries where state = 'pending')`;

/** Max time to finish all work after the last kill. */
const maxDoneMs = 120_000;

/**
 * Each change of a pull request raises its version, which is in its title and is its number of added lines: so the
 * stored copy shows how new it is, and whether it mixes versions.
 */
interface Subject {
  pullRequest: PullRequest;
  version: number;
  /** The highest version in an acknowledged delivery; 0 before the first. */
  acknowledged: number;
}

/**
 * Changes pull requests on GitHub, and delivers each change once, to any of the replicas.
 *
 * @param urls of the replicas; they may change
 * @param rate webhooks a second, redeliveries not counted
 */
export function startTraffic(installation: Installation, urls: readonly string[], rate: number, random: () => number) {
  const { github, until, replicas } = installation;
  const acme = github.organisation(login);
  const [author, repository] = [acme.member('ada'), acme.repository('web')];
  const subjects: Subject[] = [];
  /** By GUID. */
  const acknowledged = new Map<string, Subject>();
  /** Deliveries that were not acknowledged, counted by status or reason. */
  const refused = new Map<string, number>();
  let sent = 0;
  let stopped = false;

  const add = () => subjects.push({ pullRequest: repository.addPullRequest({ author }), version: 0, acknowledged: 0 });
  for (let index = 0; index < 1_000; index += 1) add();

  /** What one webhook announces, and the version on GitHub at that moment. */
  function makeChange() {
    if (random() < 0.02) add();
    // The latest ones change most often, so that many updates fold into one request.
    const subject = subjects[Math.floor((1 - random() ** 3) * subjects.length)] ?? subjects[0];
    if (subject === undefined) throw new Error('there is no pull request');
    subject.version += 1;
    subject.pullRequest.title = `Change ${subject.version}`;
    subject.pullRequest.additions = subject.version;
    return { event: announce(subject.pullRequest), subject, version: subject.version };
  }

  function announce(pullRequest: PullRequest): WebhookEvent {
    if (pullRequest.opened === undefined) return pullRequest.open();
    if (pullRequest.state === 'CLOSED') return pullRequest.reopen();
    const chance = random();
    if (chance < 0.2) return pullRequest.close();
    return chance < 0.6 ? pullRequest.push({ additions: 0 }) : pullRequest.edit({ body: pullRequest.title });
  }

  async function send(change: ReturnType<typeof makeChange>, guid: string, isAgain = false): Promise<void> {
    const { event, subject, version } = change;
    const url = `${urls[Math.floor(random() * urls.length)]}/webhooks/github`;
    const { status, answer } = await deliver(url, secret, event, { guid });
    const isAcknowledged = status === 202 || (status === 200 && answer.includes('already been applied'));
    if (isAcknowledged) {
      acknowledged.set(guid, subject);
      subject.acknowledged = Math.max(subject.acknowledged, version);
    } else count(refused, status === 0 ? 'no answer' : `${status} ${answer}`);
    // GitHub never redelivers on its own: people do, some of what failed, and at times what did not.
    if (isAgain || random() > (isAcknowledged ? 0.02 : 0.25)) return;
    await delay(500 + random() * 4_000);
    if (!stopped) await send(change, guid, true);
  }

  const stop = startSteadily(rate, async underWay => {
    if (underWay >= maxUnderWay) return;
    sent += 1;
    await send(makeChange(), randomUUID());
  });

  return {
    acknowledged,
    refused,
    /**
     * Stops sending, waits until all work is done, and prints what became of it.
     *
     * @returns whether webhooks were acknowledged, the loops finished, and nothing was lost
     */
    async end(): Promise<boolean> {
      stopped = true;
      await stop();
      await Promise.all(replicas.map(replica => replica.ready()));
      const doneMs = await until(isDone, [], maxDoneMs);
      const losses = await findLosses(installation, acknowledged, subjects);
      console.log(`webhooks sent: ${sent}, acknowledged: ${acknowledged.size}, not acknowledged:`);
      printCounted(refused);
      const isOver = doneMs <= maxDoneMs;
      console.log(isOver ? `all work done after ${Math.round(doneMs)} ms` : 'The loops did not finish their work.');
      console.log(`lost: ${losses.length}`);
      for (const loss of losses.slice(0, 50)) console.log(`  ${loss}`);
      return acknowledged.size > 0 && isOver && losses.length === 0;
    },
  };
}

/** Counted reasons, the commonest first. */
export function printCounted(counted: ReadonlyMap<string, number>): void {
  for (const [what, times] of [...counted].sort(([, a], [, b]) => b - a)) console.log(`  ${times} × ${what}`);
}

/** How what is stored differs from the acknowledged deliveries, one line each. */
async function findLosses(
  { query, database, organisation }: Installation,
  acknowledged: ReadonlyMap<string, Subject>,
  subjects: readonly Subject[],
): Promise<string[]> {
  const losses: string[] = [];
  const deliveries = await query<{ guid: string; state: string }>('select guid, state from webhook_deliveries');
  const states = new Map(deliveries.map(({ guid, state }) => [guid, state]));
  for (const [guid, { pullRequest }] of acknowledged) {
    const state = states.get(guid);
    if (state !== 'applied') losses.push(`delivery ${guid} of ${pullRequest.url} is ${state ?? 'not there'}`);
  }

  const rows = await query<{ github_id: string; title: string; additions: number; right: boolean }>(`
    select github_id, title, additions,
      score = additions / 3 - case when state = 'closed' then 5 else 0 end as right from pull_requests`);
  const stored = new Map(rows.map(row => [Number(row.github_id), row]));
  for (const { pullRequest, version, acknowledged: oldest } of subjects) {
    if (oldest === 0) continue;
    const row = stored.get(pullRequest.id);
    const own = row?.additions ?? 0;
    if (own >= oldest && own <= version && row?.title === `Change ${own}` && row.right) continue;
    losses.push(
      `${pullRequest.url} is stored as ${JSON.stringify(row)}; ${oldest} was acknowledged, GitHub is at ${version}`,
    );
  }
  return [...losses, ...(await findBrokenChains(database.executor, organisation.id))];
}
