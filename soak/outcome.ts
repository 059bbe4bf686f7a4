import { type Installation, print } from './installation.ts';
import { findLosses, timeUntilLevel } from './killed-database.ts';
import type { Traffic } from './traffic.ts';

const maxShownLosses = 50;

/** Counted reasons, the commonest first. */
export const listCounted = (counted: ReadonlyMap<string, number>) =>
  [...counted].sort(([, a], [, b]) => b - a).map(([what, times]) => `  ${times} × ${what}`);

/**
 * Waits until all work is done, and prints what became of it.
 *
 * @returns whether webhooks were acknowledged, the loops finished, nothing was lost and no replica ended by itself
 */
export async function reportOutcome({ server, replicas }: Installation, traffic: Traffic): Promise<boolean> {
  await Promise.all(replicas.map(replica => replica.ready()));
  const level = await timeUntilLevel(server.url);
  const losses = await findLosses(server.url, traffic);
  const ends = replicas.flatMap(replica => replica.ends);
  const { sent, acknowledged, redelivered, heldBack, refused } = traffic;
  print(
    [
      `webhooks sent: ${sent}, redelivered: ${redelivered}, held back: ${heldBack}, acknowledged: ${acknowledged.size}`,
      'not acknowledged:',
      ...listCounted(refused),
      level === undefined
        ? 'The loops did not finish their work.'
        : `all work done after ${(level / 1000).toFixed(1)} s`,
      ...ends,
      `lost: ${losses.length}`,
      ...losses.slice(0, maxShownLosses).map(loss => `  ${loss}`),
    ].join('\n'),
  );
  return acknowledged.size > 0 && level !== undefined && losses.length === 0 && ends.length === 0;
}
