import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { createRandom } from '../test/support/random.ts';
import { print, startInstallation, webhookSecret } from './installation.ts';
import { findLosses, timeUntilLevel, watchLease } from './killed-database.ts';
import type { KilledReplica, KilledServer } from './killed-processes.ts';
import { startTraffic, type Traffic } from './traffic.ts';

/** Max time from PostgreSQL's return to the first acknowledged webhook. */
const returnTargetSeconds = 2;
/** Max time from a replica's end until its leased work is resumed. */
const resumptionTargetSeconds = 10;

const victims = ['replica 1', 'replica 2', 'both replicas', 'PostgreSQL', 'a PostgreSQL process'] as const;
type Victim = (typeof victims)[number];

interface Scene {
  server: KilledServer;
  replicas: readonly KilledReplica[];
  traffic: Traffic;
  random: () => number;
}

/**
 * Kills two replicas of the service and PostgreSQL at random with SIGKILL while webhooks arrive: nothing acknowledged
 * may be lost.
 *
 * @param operands `--kills N --rate N --seed N`
 * @returns whether webhooks were acknowledged, leased work was resumed in time, the loops finished all work and nothing
 * was lost
 */
export async function soakKills(operands: readonly string[]): Promise<boolean> {
  const { values } = parseArgs({
    args: [...operands],
    options: { kills: { type: 'string' }, rate: { type: 'string' }, seed: { type: 'string' } },
  });
  const kills = Number(values.kills ?? 200);
  const rate = Number(values.rate ?? 200);
  const seed = Number(values.seed ?? Math.floor(Math.random() * 2 ** 31));
  if (![kills, rate, seed].every(value => Number.isInteger(value) && value >= 0)) {
    throw new RangeError('--kills, --rate and --seed take whole numbers');
  }
  print(`${kills} kills at ${rate} webhooks a second, seed ${seed}`);
  const random = createRandom(seed);
  const installation = await startInstallation('kill', 2);
  const { server, github, replicas } = installation;
  let clean = false;
  try {
    const urls = replicas.map(({ port }) => `http://127.0.0.1:${port}`);
    const traffic = startTraffic({ github, urls, secret: webhookSecret, rate, random });
    const begin = performance.now();
    const killed = await killAtRandom({ server, replicas, traffic, random }, kills);
    await traffic.stop();
    const seconds = (performance.now() - begin) / 1000;
    await Promise.all(replicas.map(replica => replica.ready()));
    const level = await timeUntilLevel(server.url);
    const losses = await findLosses(server.url, traffic);
    const ends = replicas.flatMap(replica => replica.ends);
    report(killed, { seconds, level, losses, ends, traffic, replicas });
    const inTime = killed.resumptions.every(milliseconds => milliseconds <= resumptionTargetSeconds * 1000);
    clean = traffic.acknowledged.size > 0 && inTime && level !== undefined && losses.length === 0 && ends.length === 0;
    return clean;
  } finally {
    await installation.stop(clean);
  }
}

interface Killed {
  counts: Map<Victim, number>;
  /** Milliseconds from each return of PostgreSQL that a replica survived to the first acknowledgement. */
  firstSuccesses: number[];
  /**
   * Milliseconds from a replica's end until all of its leased work was resumed, without the time in which no replica
   * was running.
   */
  resumptions: number[];
}

async function killAtRandom(scene: Scene, kills: number): Promise<Killed> {
  const { server, random } = scene;
  const killed: Killed = { counts: new Map(), firstSuccesses: [], resumptions: [] };
  const recoveries: Promise<void>[] = [];
  const failures: unknown[] = [];
  for (let done = 0; done < kills && failures.length === 0; done += 1) {
    // Sometimes the next kill hits the recovery from the last.
    await delay(300 + random() * 4_500);
    const possible = server.isUp ? victims : victims.slice(0, 3);
    const victim = possible[Math.floor(random() * possible.length)] ?? 'replica 1';
    killed.counts.set(victim, (killed.counts.get(victim) ?? 0) + 1);
    recoveries.push(kill(scene, victim, killed).catch(error => void failures.push(error)));
    if ((done + 1) % 10 === 0) {
      const { sent, acknowledged } = scene.traffic;
      print(`  ${done + 1} kills, ${sent} webhooks sent, ${acknowledged.size} acknowledged`);
    }
  }
  await Promise.all(recoveries);
  if (failures.length > 0) throw failures[0];
  return killed;
}

async function kill(scene: Scene, victim: Victim, killed: Killed): Promise<void> {
  const { server, replicas, random } = scene;
  const [first, second] = replicas;
  if (victim === 'PostgreSQL') return timeReturn(scene, killed, server.killAll(random() * 1_500));
  if (victim === 'a PostgreSQL process') {
    return timeReturn(
      scene,
      killed,
      server.killOne(ids => ids[Math.floor(random() * ids.length)]),
    );
  }
  const chosen = victim === 'both replicas' ? replicas : [victim === 'replica 1' ? first : second];
  for (const replica of chosen) replica?.kill(random() * 500);
  const { lives } = server;
  if (!server.isUp) return;
  const resumed = await watchLease(server.url, {
    counts: () => server.isUp && server.lives === lives,
    isServed: () => replicas.some(({ life }) => life !== 0),
  });
  if (resumed !== undefined) killed.resumptions.push(resumed);
}

/** Measures the time from PostgreSQL's return to the first acknowledgement, if a replica ran throughout. */
async function timeReturn({ traffic, replicas, server }: Scene, killed: Killed, returning: Promise<void>) {
  await returning;
  const returned = performance.now();
  const { lives } = server;
  const before = replicas.map(({ life }) => life);
  const acknowledged = await Promise.race([traffic.nextAcknowledgement(), delay(20_000, undefined, { ref: false })]);
  const lived = replicas.some(({ life }, index) => life !== 0 && life === before[index]);
  if (!lived || server.lives !== lives || !server.isUp) return;
  killed.firstSuccesses.push((acknowledged ?? performance.now()) - returned);
}

interface Outcome {
  seconds: number;
  /** Milliseconds until all work was done; undefined if that took too long. */
  level: number | undefined;
  losses: readonly string[];
  ends: readonly string[];
  traffic: Traffic;
  replicas: readonly KilledReplica[];
}

function report({ counts, firstSuccesses, resumptions }: Killed, outcome: Outcome): void {
  const { seconds, level, losses, ends, traffic, replicas } = outcome;
  const list = (counted: ReadonlyMap<string, number>) =>
    [...counted]
      .sort(([, a], [, b]) => b - a)
      .map(([what, count]) => `\n    ${count} × ${what}`)
      .join('');
  const slowest = (values: readonly number[], target: number) => {
    if (values.length === 0) return 'never measured';
    const max = Math.max(...values) / 1000;
    return `${max.toFixed(2)} s (target ${target} s: ${max <= target ? 'reached' : 'MISSED'}; ${values.length} measured)`;
  };
  const total = [...counts.values()].reduce((sum, count) => sum + count, 0);
  print(
    [
      `\n${total} kills in ${Math.round(seconds)} s:${list(counts)}`,
      `webhooks sent: ${traffic.sent}, redelivered: ${traffic.redelivered}, held back: ${traffic.heldBack}`,
      `acknowledged: ${traffic.acknowledged.size}`,
      `not acknowledged:${list(traffic.refused)}`,
      `slowest first success after PostgreSQL's return: ${slowest(firstSuccesses, returnTargetSeconds)}`,
      `slowest resumption of a killed replica's work: ${slowest(resumptions, resumptionTargetSeconds)}`,
      `starts that failed without PostgreSQL: ${replicas.reduce((sum, { failedStarts }) => sum + failedStarts, 0)}`,
      level === undefined
        ? 'The loops did not finish their work.'
        : `all work done after ${(level / 1000).toFixed(1)} s`,
      ...ends,
      `lost: ${losses.length}`,
      ...losses.slice(0, 50).map(loss => `  ${loss}`),
    ].join('\n'),
  );
}
