import { setTimeout as delay } from 'node:timers/promises';
import { createRandom } from '../test/support/random.ts';
import { repeat } from './background.ts';
import { withInstallation } from './installation.ts';
import { startReads } from './reads.ts';
import { printCounted, startTraffic } from './traffic.ts';

const readsPerSecond = 300;
const webhooksPerSecond = 50;
const probeIntervalMs = 200;

/**
 * Restarts three replicas one after another behind a load balancer, as a deployment does, while clients read and
 * webhooks arrive: no request may fail, and nothing acknowledged may be lost.
 *
 * @param rounds how often each replica is restarted
 * @returns whether all is well
 */
export const soakRestarts = (rounds: number): Promise<boolean> =>
  withInstallation('restart', 3, { RATE_LIMIT: '0' }, async installation => {
    const { replicas, token } = installation;
    const balancer = startBalancer(replicas.map(({ origin }) => origin));
    const { urls } = balancer;
    const traffic = startTraffic(installation, urls, webhooksPerSecond, createRandom(1));
    let turn = 0;
    const nextUrl = () => `${urls[turn++ % urls.length]}/2025-04/pull-requests`;
    const reads = startReads({ nextUrl, token, rate: readsPerSecond });
    await delay(2_000);
    for (let round = 1; round <= rounds; round += 1) {
      for (const replica of replicas) {
        await replica.restart();
        // As a deployment does.
        while (urls.length < replicas.length) await delay(probeIntervalMs);
      }
      console.log(
        `  ${round} rounds, ${reads.latencies.length} reads, ${traffic.acknowledged.size} webhooks acknowledged`,
      );
    }
    await reads.stop();
    const isKept = await traffic.end();
    await balancer.stop();
    const failed = new Map([...reads.failures, ...traffic.refused]);
    console.log(`reads: ${reads.latencies.length}, failed requests: ${failed.size === 0 ? 'none' : ''}`);
    printCounted(failed);
    return isKept && failed.size === 0;
  });

/** A load balancer's list: the replicas whose `/readyz` answered 200 lately. It changes as they come and go. */
function startBalancer(all: readonly string[]) {
  const urls = [...all];
  const probe = async (url: string) => {
    const isReady = (await fetch(`${url}/readyz`).catch(() => undefined))?.ok === true;
    const place = urls.indexOf(url);
    if (isReady && place === -1) urls.push(url);
    // The last one stays: a load balancer that knows no better sends requests there.
    if (!isReady && place !== -1 && urls.length > 1) urls.splice(place, 1);
  };
  return { urls, stop: repeat(probeIntervalMs, () => Promise.all(all.map(probe))) };
}
