import { setTimeout as delay } from 'node:timers/promises';
import { createRandom } from '../test/support/random.ts';
import { print, withInstallation } from './installation.ts';
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
 * @param options `rounds`: how often each replica is restarted
 * @returns whether all is well
 */
export const soakRestarts = ({ rounds }: { rounds: number }): Promise<boolean> =>
  withInstallation('restart', replicaCount, { RATE_LIMIT: '0' }, async installation => {
    const { github, replicas, token } = installation;
    const balancer = startBalancer(replicas.map(({ port }) => `http://127.0.0.1:${port}`));
    const traffic = startTraffic({ github, urls: balancer.urls, rate: webhooksPerSecond, random: createRandom(1) });
    const nextUrl = () => `${balancer.next()}/2025-04/pull-requests`;
    const reads = startReads({ nextUrl, token, rate: readsPerSecond });
    await delay(2_000);
    for (let round = 1; round <= rounds; round += 1) {
      for (const replica of replicas) {
        await replica.restart();
        // As a deployment does.
        await balancer.whole();
      }
      print(`  ${round} rounds, ${reads.latencies.length} reads, ${traffic.acknowledged.size} webhooks acknowledged`);
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
    return (await reportOutcome(installation, traffic)) && failed.size === 0;
  });
