/** Attacks on one replica, one after another, while a well-behaved client reads. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { eq } from 'drizzle-orm';
import type { Organisation } from '../src/database/organisations.ts';
import { pullRequests } from '../src/database/schema.ts';
import type { PullRequest } from '../test/support/github/pull-request.ts';
import { memoryOf } from '../test/support/scorer.ts';
import { type Installation, print, webhookSecret, withInstallation } from './installation.ts';

export interface Tenant {
  organisation: Organisation;
  token: string;
  /** On GitHub: those that change. */
  pullRequests: readonly PullRequest[];
}

/** What is attacked, and who is measured meanwhile. */
export interface Target extends Installation {
  origin: string;
  attacker: Tenant;
  victim: Tenant;
}

/** The most that an attack may do to the victim. What has no limit is not measured. */
interface Limits {
  /** Times the p99 at rest. */
  slowdown: number;
  service?: { healthMs: number; megabytes: number; secondsUntilStored: number };
}

interface Measured {
  /** Milliseconds. */
  p99: number;
  /** Reads that failed. */
  failures: readonly (readonly [reason: string, count: number])[];
  /** The most that the service had resident, with the processes that run rules. */
  megabytes: number;
  /** The longest that `/healthz` took, in milliseconds. */
  health: number;
  /** The longest time from a webhook of the victim until its change was stored, in milliseconds; infinite if one was lost. */
  stored: number;
}

/**
 * Begins an attack, which goes on until `signal` is aborted.
 *
 * @returns what resolves once it is over, with what else went wrong for the victim
 */
export type Attack = (
  target: Target,
  signal: AbortSignal,
) => Promise<(measured: Measured) => Promise<string | undefined>>;

interface Stress {
  name: string;
  environment: Record<string, string>;
  limits: Limits;
  attacks: Readonly<Record<string, Attack>>;
  /** For each attack. */
  seconds: number;
  /** This attack, and no others. */
  only: string | undefined;
  /** Makes who attacks, and whom. */
  fill(installation: Installation): Promise<Pick<Target, 'attacker' | 'victim'>>;
}

/** @returns whether no read failed, all stayed within the limits, and the replica did not end */
export const stress = ({ name, environment, limits, attacks, seconds, only, fill }: Stress): Promise<boolean> =>
  withInstallation(name, 1, environment, async installation => {
    const origin = `http://127.0.0.1:${installation.replicas[0]?.port}`;
    const target = { ...installation, origin, ...(await fill(installation)) };
    // Before the first one, code is compiled and connections are opened.
    await measure(target, limits, 3);
    const rest = await measure(target, limits, seconds);
    const ofService = limits.service && `, ${rest.megabytes.toFixed(0)} MB, stored in ${show(rest.stored)}`;
    print(`at rest: p99 ${rest.p99.toFixed(1)} ms${ofService ?? ''}`);
    let isClean = true;
    for (const [attackName, attack] of Object.entries(attacks)) {
      if (only !== undefined && only !== attackName) continue;
      const ending = new AbortController();
      const finish = await attack(target, ending.signal);
      const measured = await measure(target, limits, seconds);
      ending.abort();
      const problem = await finish(measured);
      isClean = judge(attackName, measured, rest, limits, problem) && isClean;
    }
    const ends = installation.replicas.flatMap(replica => replica.ends);
    for (const end of ends) print(end);
    return isClean && ends.length === 0;
  });

const show = (milliseconds: number) => (Number.isFinite(milliseconds) ? `${Math.round(milliseconds)} ms` : 'never');

function judge(name: string, measured: Measured, rest: Measured, limits: Limits, problem: string | undefined): boolean {
  const { p99, failures, health, stored } = measured;
  const { slowdown, service } = limits;
  const more = measured.megabytes - rest.megabytes;
  const times = (p99 / rest.p99).toFixed(1);
  const checks: [isGood: boolean, text: string][] = [
    [p99 <= slowdown * rest.p99, `p99 ${p99.toFixed(1)} ms, ${times} times that at rest (at most ${slowdown})`],
  ];
  if (service !== undefined) {
    const { healthMs, megabytes, secondsUntilStored } = service;
    checks.push(
      [health <= healthMs, `/healthz within ${show(health)} (at most ${healthMs})`],
      [more <= megabytes, `${more.toFixed(0)} MB more (at most ${megabytes})`],
      [
        stored <= secondsUntilStored * 1_000,
        `a webhook of the other one stored in ${show(stored)} (at most ${secondsUntilStored} s)`,
      ],
    );
  }
  const isGood = checks.every(([good]) => good) && failures.length === 0 && problem === undefined;
  print(`${isGood ? 'ok    ' : 'MISSED'} ${name}: ${checks.map(([, text]) => text).join('; ')}`);
  for (const [reason, count] of failures) print(`         ${count} × ${reason}`);
  if (problem !== undefined) print(`         ${problem}`);
  return isGood;
}

async function measure(target: Target, { service }: Limits, seconds: number): Promise<Measured> {
  const { origin, replicas, victim } = target;
  const stopReading = await startProgram('reads', origin, victim.token);
  const end = performance.now() + seconds * 1_000;
  const processId = replicas[0]?.processId ?? 0;
  const max = { megabytes: 0, health: 0, stored: 0 };
  const watch = async (what: keyof typeof max, pauseMs: number, look: () => number | Promise<number>) => {
    for (; performance.now() < end; await delay(pauseMs)) max[what] = Math.max(max[what], await look());
  };
  if (service === undefined) await delay(seconds * 1_000);
  else {
    const maxWaitMs = 4_000 * service.secondsUntilStored;
    await Promise.all([
      watch('megabytes', 200, () => memoryOf(processId, 'VmRSS')),
      watch('health', 200, () => timeHealth(origin)),
      watch('stored', 500, () => timeWebhook(target, maxWaitMs)),
    ]);
  }
  return { ...JSON.parse(await stopReading()), ...max };
}

/**
 * Starts what program.ts has under this name.
 *
 * @returns ends it, and gives the last line that it printed once it was at work, if any
 */
async function startProgram(name: string, origin: string, token: string): Promise<() => Promise<string>> {
  const command = ['--import', 'tsx', 'soak/program.ts', name, origin, token];
  const child = spawn(process.execPath, command, { stdio: ['pipe', 'pipe', 'inherit'] });
  const closed = once(child, 'close');
  const lines = createInterface(child.stdout);
  await Promise.race([once(lines, 'line'), closed]);
  let said = '';
  lines.on('line', line => {
    said = line;
  });
  return async () => {
    child.stdin.end();
    await closed;
    return said;
  };
}

async function timeHealth(origin: string): Promise<number> {
  const begin = performance.now();
  const reply = await fetch(`${origin}/healthz`).catch(() => undefined);
  return reply?.ok ? performance.now() - begin : Number.POSITIVE_INFINITY;
}

let titles = 0;

async function timeWebhook(target: Target, maxWaitMs: number): Promise<number> {
  titles += 1;
  const title = `Change ${titles}`;
  const begin = performance.now();
  if ((await editOnGithub(target, target.victim, titles, title)) !== 202) return Number.POSITIVE_INFINITY;
  for (; performance.now() - begin < maxWaitMs; await delay(20)) {
    if ((await target.database.executor.$count(pullRequests, eq(pullRequests.title, title))) > 0) {
      return performance.now() - begin;
    }
  }
  return Number.POSITIVE_INFINITY;
}

/** Changes one of the tenant's pull requests, and delivers the webhook. @returns what that was answered */
export async function editOnGithub({ github, origin }: Target, tenant: Tenant, place: number, title: string) {
  const pullRequest = tenant.pullRequests[place % tenant.pullRequests.length];
  if (pullRequest === undefined) throw new Error('the tenant has no pull request');
  const { status } = await github.deliver(`${origin}/webhooks/github`, webhookSecret, pullRequest.edit({ title }));
  return status;
}

/** Until the signal is aborted. */
export async function repeat(signal: AbortSignal, pauseMs: number, work: (times: number) => unknown): Promise<void> {
  for (let times = 0; !signal.aborted; times += 1) {
    await work(times);
    await delay(pauseMs);
  }
}

/** In processes of their own: see program.ts. */
export function inProcesses(...names: string[]): Attack {
  return async ({ origin, attacker: { token } }) => {
    const stops = await Promise.all(names.map(name => startProgram(name, origin, token)));
    // Until they have opened their connections.
    await delay(1_000);
    return async () => {
      const said = await Promise.all(stops.map(stop => stop()));
      for (const text of said) if (text !== '') print(`       at the end ${text}`);
      return undefined;
    };
  };
}
