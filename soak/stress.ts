/** Attacks on one replica, one after another, while a well-behaved client reads. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { secret } from '../bench/processes.ts';
import type { PullRequest } from '../test/support/github/pull-request.ts';
import { memoryOf } from '../test/support/scorer.ts';
import { insertPullRequests, type Tenant } from '../test/support/tenants.ts';
import { type Installation, withInstallation } from './installation.ts';

interface Party extends Tenant {
  /** On GitHub: those that change. */
  pullRequests: readonly PullRequest[];
}

/** What is attacked, and who is measured meanwhile. */
export interface Target extends Installation {
  origin: string;
  attacker: Party;
  victim: Party;
}

/** Times the p99 at rest. */
const maxSlowdown = 3;
/** The most that an attack by a neighbour may do to the service, and to the time until a webhook of the victim is stored. */
const limits = { healthMs: 500, megabytes: 300, storedMs: 5_000 };

/** Begins an attack. @returns ends it, and resolves once it is over, with what else went wrong, if anything */
export type Attack = (target: Target) => Promise<() => Promise<string | undefined>>;

export interface Stress {
  name: string;
  environment: Record<string, string>;
  attacks: Readonly<Record<string, Attack>>;
  /** Makes who attacks, and whom. Two organisations: the limits of the service count, too. */
  fill(installation: Installation): Promise<Pick<Target, 'attacker' | 'victim'>>;
}

/**
 * @param seconds for each attack
 * @param only the name of the one attack that is tried
 * @returns whether no read failed, all stayed within the limits, and the replica did not end
 */
export const soakStress = ({ name, environment, attacks, fill }: Stress, seconds: number, only?: string) =>
  withInstallation(name, 1, environment, async installation => {
    const origin = installation.replicas[0]?.origin ?? '';
    const target = { ...installation, origin, ...(await fill(installation)) };
    // Before the first one, code is compiled and connections are opened.
    await measure(target, 3);
    const rest = await measure(target, seconds);
    console.log(`at rest: ${describe(rest)}`);
    const ofNeighbours = `${JSON.stringify(limits)}, megabytes above rest`;
    console.log(`limits: ${maxSlowdown} times the p99; if a neighbour attacks: ${ofNeighbours}`);
    let isClean = true;
    for (const [attackName, attack] of Object.entries(attacks)) {
      if (attackName !== (only ?? attackName)) continue;
      const finish = await attack(target);
      const measured = await measure(target, seconds);
      const problem = await finish();
      const { p99, failures, megabytes, healthMs, storedMs } = measured;
      const slowdown = p99 / rest.p99;
      const isServiceWell =
        healthMs <= limits.healthMs && megabytes - rest.megabytes <= limits.megabytes && storedMs <= limits.storedMs;
      const isVictimWell = slowdown <= maxSlowdown && failures.size === 0 && problem === undefined;
      const isGood = isVictimWell && (target.victim === target.attacker || isServiceWell);
      console.log(`${isGood ? 'ok    ' : 'MISSED'} ${attackName}: ${slowdown.toFixed(1)} times: ${describe(measured)}`);
      for (const [reason, count] of failures) console.log(`         ${count} × ${reason}`);
      if (problem !== undefined) console.log(`         ${problem}`);
      isClean &&= isGood;
    }
    return isClean;
  });

const describe = ({ p99, megabytes, healthMs, storedMs }: Awaited<ReturnType<typeof measure>>) =>
  `p99 ${p99.toFixed(1)} ms, /healthz within ${healthMs.toFixed(0)} ms, ${megabytes.toFixed(0)} MB, a webhook stored in ${storedMs.toFixed(0)} ms`;

/** The most of each that there was: the service's memory is with the processes that run rules. */
async function measure(target: Target, seconds: number) {
  const { origin, replicas, victim } = target;
  type Reads = { p99: number; failures: Map<string, number> };
  const stopReading = await startProgram<Reads>('reads', origin, victim.token);
  const end = performance.now() + seconds * 1_000;
  const max = { megabytes: 0, healthMs: 0, storedMs: 0 };
  const watch = async (what: keyof typeof max, pauseMs: number, look: () => number | Promise<number>) => {
    for (; performance.now() < end; await delay(pauseMs)) max[what] = Math.max(max[what], await look());
  };
  await Promise.all([
    watch('megabytes', 200, () => memoryOf(replicas[0]?.processId ?? 0, 'VmRSS')),
    watch('healthMs', 200, () => timeHealth(origin)),
    watch('storedMs', 500, () => timeWebhook(target)),
  ]);
  return { ...(await stopReading()), ...max };
}

/**
 * Starts what program.ts has under this name.
 *
 * @returns ends it, and gives its report
 * @throws if it ends before its report
 */
async function startProgram<Report>(name: string, origin: string, token: string): Promise<() => Promise<Report>> {
  const child = fork('soak/program.ts', [name, origin, token], { serialization: 'advanced' });
  const died = once(child, 'disconnect').then(() => Promise.reject(new Error(`the process for "${name}" has ended`)));
  died.catch(() => undefined);
  await Promise.race([once(child, 'message'), died]);
  return async () => {
    const reported = once(child, 'message') as Promise<[Report]>;
    if (child.connected) child.send('end');
    return (await Promise.race([reported, died]))[0];
  };
}

/** Infinite if it fails. */
async function timeHealth(origin: string): Promise<number> {
  const begin = performance.now();
  const reply = await fetch(`${origin}/healthz`).catch(() => undefined);
  return reply?.ok ? performance.now() - begin : Number.POSITIVE_INFINITY;
}

/** From a webhook of the victim until its change is stored; infinite if that is never. */
async function timeWebhook(target: Target): Promise<number> {
  const begin = performance.now();
  const { status, title } = await editOnGithub(target, target.victim);
  if (status !== 202) return Number.POSITIVE_INFINITY;
  const deliveredMs = performance.now() - begin;
  const isStored = 'exists (select from pull_requests where title = $1)';
  return deliveredMs + (await target.until(isStored, [title], 4 * limits.storedMs));
}

let edits = 0;

/** Changes one of the party's pull requests, and delivers the webhook. @returns its new title, and the answer's status */
export async function editOnGithub({ github, origin }: Target, { pullRequests }: Party) {
  edits += 1;
  const title = `Change ${edits}`;
  const pullRequest = pullRequests[edits % pullRequests.length];
  if (pullRequest === undefined) throw new Error('there is no pull request');
  const { status } = await github.deliver(`${origin}/webhooks/github`, secret, pullRequest.edit({ title }));
  return { title, status };
}

/** In processes of their own: see program.ts. */
export function inProcesses(...names: string[]): Attack {
  return async ({ origin, attacker: { token } }) => {
    const stops = await Promise.all(names.map(name => startProgram<string>(name, origin, token)));
    // Until they have opened their connections.
    await delay(1_000);
    return async () => {
      const said = await Promise.all(stops.map(stop => stop()));
      for (const text of said) if (text !== '') console.log(`       at the end ${text}`);
      return undefined;
    };
  };
}

const pullRequestCount = 1_000;

/** @param fileCount of its first pull request on GitHub */
export async function addParty(
  { add, database, query }: Installation,
  login: string,
  bodyCharacters: number,
  fileCount = 1,
): Promise<Party> {
  const { onGithub, ...tenant } = await add(login);
  await insertPullRequests({ database }, tenant, pullRequestCount);
  // An attacker's rows may have 200 MB.
  const values = [tenant.organisation.id, bodyCharacters];
  await query(`update pull_requests set body = repeat('€', $2) where organisation_id = $1`, values);
  const repository = onGithub.repository('live');
  const paths = Array.from({ length: fileCount }, (_, index) => `src/${'x'.repeat(90)}/${index}.ts`);
  const files = paths.map(path => ({ path, additions: 1, deletions: 0 }));
  const first = repository.addPullRequest({ files });
  const others = Array.from({ length: 19 }, () => repository.addPullRequest());
  return { ...tenant, pullRequests: [first, ...others] };
}
