import type { Tally } from './arena.ts';
import { startServer } from './database.ts';
import { print } from './installation.ts';
import { describeCounterexample, playHistories } from './lanes.ts';

/**
 * Plays random histories against the service and a model. One that ends differently from the model is shortened as far
 * as possible and printed.
 *
 * @returns whether all were played and ended like the model
 */
export async function soakHistories({ runs, seed }: Record<'runs' | 'seed', number>): Promise<boolean> {
  const interrupt = new AbortController();
  const onInterrupt = () => {
    print('\nStopping after the current histories; press Ctrl-C again to stop at once.');
    interrupt.abort();
  };
  process.once('SIGINT', onInterrupt);

  const begin = performance.now();
  print(`Playing ${runs} histories, seed ${seed}.`);
  const { createDatabase, close } = await startServer();
  try {
    const { tally, counterexample } = await playHistories({
      ...{ runs, seed, createDatabase, print },
      signal: interrupt.signal,
    });
    print(`\n${report(tally, (performance.now() - begin) / 1000)}`);
    print(
      counterexample === undefined ? `No difference, seed ${seed}.` : `\n${describeCounterexample(counterexample)}`,
    );
    return counterexample === undefined && !interrupt.signal.aborted;
  } finally {
    process.off('SIGINT', onInterrupt);
    await close();
  }
}

function report({ histories, pullRequests, counts }: Tally, seconds: number): string {
  const rows: [string, number][] = [...counts].sort(([a], [b]) => (a < b ? -1 : 1));
  return [
    `${histories} histories in ${Math.round(seconds)} s, ${Math.round((1000 * seconds) / Math.max(histories, 1))} ms each:`,
    ...rows.map(([what, times]) => `${String(times).padStart(9)}  ${what}`),
    `${String(pullRequests).padStart(9)}  pull requests compared with the model at the ends`,
  ].join('\n');
}
