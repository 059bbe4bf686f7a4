import { setTimeout as delay } from 'node:timers/promises';
import { createRandom } from '../test/support/random.ts';
import { createBackground } from './background.ts';
import { type Installation, print, withInstallation } from './installation.ts';
import { listCounted, reportOutcome } from './outcome.ts';
import { count } from './reads.ts';
import { startTraffic, type Traffic } from './traffic.ts';

/** Each resolves when it is started again, or will be by itself. */
const victims: Record<string, (installation: Installation, random: () => number) => Promise<void> | void> = {
  'replica 1': ({ replicas }, random) => replicas[0]?.kill(random() * 500),
  'replica 2': ({ replicas }, random) => replicas[1]?.kill(random() * 500),
  'both replicas': ({ replicas }, random) => {
    for (const replica of replicas) replica.kill(random() * 500);
  },
  PostgreSQL: ({ server }, random) => server.killAll(random() * 1_500),
  'a PostgreSQL process': ({ server }, random) => server.killOne(ids => ids[Math.floor(random() * ids.length)]),
};

/**
 * Kills two replicas of the service and PostgreSQL at random with SIGKILL while webhooks arrive: nothing acknowledged
 * may be lost.
 *
 * @param options `rate`: webhooks a second
 * @returns whether webhooks were acknowledged, the loops finished all work and nothing was lost
 */
export async function soakKills({ kills, rate, seed }: Record<'kills' | 'rate' | 'seed', number>): Promise<boolean> {
  print(`${kills} kills at ${rate} webhooks a second, seed ${seed}`);
  const random = createRandom(seed);
  return withInstallation('kill', 2, {}, async installation => {
    const urls = installation.replicas.map(({ port }) => `http://127.0.0.1:${port}`);
    const traffic = startTraffic({ github: installation.github, urls, rate, random });
    const begin = performance.now();
    const killed = await killAtRandom(installation, traffic, random, kills);
    await traffic.stop();
    print(
      [`\n${kills} kills in ${Math.round((performance.now() - begin) / 1000)} s:`, ...listCounted(killed)].join('\n'),
    );
    return reportOutcome(installation, traffic);
  });
}

async function killAtRandom(installation: Installation, traffic: Traffic, random: () => number, kills: number) {
  const killed = new Map<string, number>();
  const recoveries = createBackground();
  const failures: unknown[] = [];
  for (let done = 1; done <= kills && failures.length === 0; done += 1) {
    // Sometimes the next kill hits the recovery from the last.
    await delay(300 + random() * 4_500);
    const possible = Object.entries(victims).filter(([name]) => installation.server.isUp || !name.includes('SQL'));
    const [name, kill] = possible[Math.floor(random() * possible.length)] ?? [];
    count(killed, name ?? '');
    recoveries.add(Promise.resolve(kill?.(installation, random)).catch(error => void failures.push(error)));
    if (done % 10 === 0) {
      print(`  ${done} kills, ${traffic.sent} webhooks sent, ${traffic.acknowledged.size} acknowledged`);
    }
  }
  await recoveries.join();
  if (failures.length > 0) throw failures[0];
  return killed;
}
