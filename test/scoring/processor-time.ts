/**
 * Milliseconds of processor time that a run takes, which other processes do not affect. A run is slow only if it is slow
 * every time, so a slow one is repeated.
 */
export function processorTime(run: () => unknown, limitMs: number): number {
  let minMs = Number.POSITIVE_INFINITY;
  for (let attempt = 0; attempt < 10 && minMs >= limitMs; attempt++) {
    const before = process.cpuUsage();
    run();
    const { user, system } = process.cpuUsage(before);
    minMs = Math.min(minMs, (user + system) / 1000);
  }
  return minMs;
}
