import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { createRandom } from '../test/support/random.ts';
import { type Installation, withInstallation } from './installation.ts';
import { count } from './reads.ts';
import { printCounted, startTraffic } from './traffic.ts';

/** Each starts again by itself. */
const victims: Record<string, (installation: Installation, random: () => number) => void> = {
  'replica 1': ({ replicas }, random) => replicas[0]?.kill(random() * 500),
  'replica 2': ({ replicas }, random) => replicas[1]?.kill(random() * 500),
  'both replicas': ({ replicas }, random) => {
    for (const replica of replicas) replica.kill(random() * 500);
  },
  PostgreSQL: ({ server }) => processesOf(server).forEach(kill),
  // The server drops every session and recovers.
  'a PostgreSQL process': ({ server }, random) => {
    const [, ...others] = processesOf(server);
    const other = others[Math.floor(random() * others.length)];
    if (other !== undefined) kill(other);
  },
};

/**
 * Kills two replicas of the service and PostgreSQL at random with SIGKILL while webhooks arrive: nothing acknowledged
 * may be lost.
 *
 * @param rate webhooks a second
 * @returns whether webhooks were acknowledged, the loops finished all work and nothing was lost
 */
export async function soakKills(kills: number, rate: number, seed: number): Promise<boolean> {
  console.log(`${kills} kills at ${rate} webhooks a second, seed ${seed}`);
  const random = createRandom(seed);
  return withInstallation('kill', 2, {}, async installation => {
    const urls = installation.replicas.map(({ origin }) => origin);
    const traffic = startTraffic(installation, urls, rate, random);
    const killed = new Map<string, number>();
    for (let done = 1; done <= kills; done += 1) {
      // Sometimes the next kill hits the recovery from the last.
      await delay(300 + random() * 4_500);
      while (processesOf(installation.server).length === 0) await delay(50);
      const [name, killOne] = Object.entries(victims)[Math.floor(random() * Object.keys(victims).length)] ?? [];
      killOne?.(installation, random);
      count(killed, name ?? '');
      if (done % 10 === 0) console.log(`  ${done} kills, ${traffic.acknowledged.size} webhooks acknowledged`);
    }
    printCounted(killed);
    return traffic.end();
  });
}

/** The server's process first, then those that it has started. Empty while it does not run. */
function processesOf({ dataDirectory }: Installation['server']): number[] {
  const file = join(dataDirectory, 'postmaster.pid');
  const main = existsSync(file) ? Number.parseInt(readFileSync(file, 'utf8'), 10) : 0;
  const listed = execFileSync('ps', ['-axo', 'pid=,ppid=,comm='], { encoding: 'utf8' });
  const all = [...listed.matchAll(/(\d+) +(\d+) postgres/g)].map(([, id, parent]) => [Number(id), Number(parent)]);
  const own = all.filter(each => each.includes(main)).map(([id = 0]) => id);
  return own.includes(main) ? [main, ...own.filter(id => id !== main)] : [];
}

function kill(id: number): void {
  try {
    process.kill(id, 'SIGKILL');
  } catch {
    // It ended before the kill.
  }
}
