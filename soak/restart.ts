import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { createRandom } from '../test/support/random.ts';
import { print, startInstallation, webhookSecret } from './installation.ts';
import { findLosses, timeUntilLevel } from './killed-database.ts';
import { startBalancer, startReads } from './reads.ts';
import { startTraffic } from './traffic.ts';

const replicaCount = 3;
const readsPerSecond = 300;
const webhooksPerSecond = 50;

/**
 * Restarts three replicas one after another behind a load balancer, as a deployment does, while clients read and
 * webhooks arrive: no request may fail, and nothing acknowledged may be lost.
 *
 * @param operands `--rounds N`: how often each replica is restarted
 * @returns whether all is well
 */
export async function soakRestarts(operands: readonly string[]): Promise<boolean> {
  const { values } = parseArgs({ args: [...operands], options: { rounds: { type: 'string' } } });
  const rounds = Number(values.rounds ?? 5);
  if (!Number.isInteger(rounds) || rounds < 1) throw new RangeError('--rounds takes a whole number from 1');
  const installation = await startInstallation('restart', replicaCount, { RATE_LIMIT: '0' });
  const { server, github, replicas, token } = installation;
  let clean = false;
  try {
    const balancer = startBalancer(replicas.map(({ port }) => `http://127.0.0.1:${port}`));
    const traffic = startTraffic({
      github,
      urls: balancer.urls,
      secret: webhookSecret,
      rate: webhooksPerSecond,
      random: createRandom(1),
    });
    const reads = startReads({
      nextUrl: () => `${balancer.next()}/2025-04/pull-requests`,
      token,
      rate: readsPerSecond,
    });
    await delay(2_000);
    for (let round = 0; round < rounds; round += 1) {
      for (const replica of replicas) {
        await replica.restart();
        // As a deployment does.
        await balancer.whole();
      }
      print(
        `  ${round + 1} rounds, ${reads.latencies.length} reads, ${traffic.acknowledged.size} webhooks acknowledged`,
      );
    }
    await Promise.all([reads.stop(), traffic.stop()]);
    await balancer.stop();
    const level = await timeUntilLevel(server.url);
    const losses = await findLosses(server.url, traffic);
    const ends = replicas.flatMap(replica => replica.ends);
    const failures = [...reads.failures, ...traffic.refused];
    print(
      [
        `${rounds * replicaCount} restarts under ${readsPerSecond} reads and ${webhooksPerSecond} webhooks a second`,
        `reads: ${reads.latencies.length}, webhooks: ${traffic.sent}, acknowledged: ${traffic.acknowledged.size}`,
        `failed: ${failures.length === 0 ? 'none' : ''}`,
        ...failures.map(([reason, count]) => `  ${count} × ${reason}`),
        level === undefined
          ? 'The loops did not finish their work.'
          : `all work done after ${(level / 1000).toFixed(1)} s`,
        ...ends,
        `lost: ${losses.length}`,
        ...losses.slice(0, 50).map(loss => `  ${loss}`),
      ].join('\n'),
    );
    clean = failures.length === 0 && level !== undefined && losses.length === 0 && ends.length === 0;
    return clean;
  } finally {
    await installation.stop(clean);
  }
}
