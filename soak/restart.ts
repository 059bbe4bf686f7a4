import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { createRandom } from '../test/support/random.ts';
import { print, startInstallation, webhookSecret } from './installation.ts';
import { listCounted, reportOutcome } from './outcome.ts';
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
  const { github, replicas, token } = installation;
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
    const failed = new Map([...reads.failures, ...traffic.refused]);
    print(
      [
        `${rounds * replicaCount} restarts under ${readsPerSecond} reads and ${webhooksPerSecond} webhooks a second`,
        `reads: ${reads.latencies.length}, failed requests: ${failed.size === 0 ? 'none' : ''}`,
        ...listCounted(failed),
      ].join('\n'),
    );
    clean = (await reportOutcome(installation, traffic)) && failed.size === 0;
    return clean;
  } finally {
    await installation.stop(clean);
  }
}
