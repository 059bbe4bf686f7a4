import { setTimeout as delay } from 'node:timers/promises';
import { createRandom } from '../test/support/random.ts';
import { type Installation, print, withInstallation } from './installation.ts';
import { listCounted, reportOutcome } from './outcome.ts';
import { startTraffic, type Traffic } from './traffic.ts';

const victims = ['replica 1', 'replica 2', 'both replicas', 'PostgreSQL', 'a PostgreSQL process'] as const;
type Victim = (typeof victims)[number];

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
  const { server } = installation;
  const killed = new Map<Victim, number>();
  const recoveries: Promise<void>[] = [];
  const failures: unknown[] = [];
  for (let done = 1; done <= kills && failures.length === 0; done += 1) {
    // Sometimes the next kill hits the recovery from the last.
    await delay(300 + random() * 4_500);
    const possible = server.isUp ? victims : victims.slice(0, 3);
    const victim = possible[Math.floor(random() * possible.length)] ?? 'replica 1';
    killed.set(victim, (killed.get(victim) ?? 0) + 1);
    recoveries.push(kill(installation, random, victim).catch(error => void failures.push(error)));
    if (done % 10 === 0) {
      print(`  ${done} kills, ${traffic.sent} webhooks sent, ${traffic.acknowledged.size} acknowledged`);
    }
  }
  await Promise.all(recoveries);
  if (failures.length > 0) throw failures[0];
  return killed;
}

/** Resolves when what was killed is started again. */
async function kill({ server, replicas }: Installation, random: () => number, victim: Victim): Promise<void> {
  if (victim === 'PostgreSQL') return server.killAll(random() * 1_500);
  if (victim === 'a PostgreSQL process') return server.killOne(ids => ids[Math.floor(random() * ids.length)]);
  const [first, second] = replicas;
  const chosen = victim === 'both replicas' ? replicas : [victim === 'replica 1' ? first : second];
  for (const replica of chosen) replica?.kill(random() * 500);
}
