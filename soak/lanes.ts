import { inspect } from 'node:util';
import fc from 'fast-check';
import { type Arena, openArena, type Tally } from './arena.ts';
import { play } from './play.ts';
import { describeHistory, type History, history } from './steps.ts';

interface HistoriesOptions {
  runs: number;
  seed: number;
  /** Creates a migrated database without organisations; called once every few hundred histories. */
  createDatabase(): Promise<{ url: string; drop(): Promise<void> }>;
  /** Ends after the current histories. */
  signal?: AbortSignal;
  onProgress?: (tally: Tally) => void;
  /** Called with the first history that fails, before it is shortened, and the number played until then. */
  onFailure?: (found: Counterexample, histories: number) => void;
}

export interface Counterexample {
  /** Plays the same histories again. */
  seed: number;
  /** The shortened history, step by step. */
  steps: string;
  differences: readonly string[];
}

/** Histories at once: more would only wait for each other. */
const lanes = 16;

/** Histories per arena: the stand-in for GitHub keeps everything, and grows. */
const lotSize = 600;

const shrinkingTimeoutMs = 45_000;

/** Concurrent steps differ from try to try: a shorter history must succeed this often to count as harmless. */
const shrinkingTries = 4;

/** Plays random histories, many at once, until one ends differently from the model. */
export async function playHistories(
  options: HistoriesOptions,
): Promise<{ tally: Tally; counterexample: Counterexample | undefined }> {
  const { runs, createDatabase, signal, onProgress, onFailure } = options;
  const tally: Tally = { histories: 0, pullRequests: 0, counts: new Map() };
  for (let done = 0, { seed } = options; done < runs && signal?.aborted !== true; done += lotSize, seed += lanes) {
    const database = await createDatabase();
    try {
      const arena = await openArena(database.url, tally);
      let counterexample: Counterexample | undefined;
      try {
        counterexample = await playLot(arena, Math.min(lotSize, runs - done), seed);
      } finally {
        await arena.close();
      }
      const differences = defectsOf(arena);
      if (differences.length > 0) counterexample ??= { seed, steps: '  after the last of its histories', differences };
      if (counterexample !== undefined) return { tally, counterexample };
    } finally {
      await database.drop();
    }
  }
  return { tally, counterexample: undefined };

  async function playLot(arena: Arena, lotRuns: number, seed: number): Promise<Counterexample | undefined> {
    let failed: Failure | undefined;
    await Promise.all(
      Array.from({ length: Math.min(lanes, lotRuns) }, (_, lane) => {
        const numRuns = Math.floor(lotRuns / lanes) + (lane < lotRuns % lanes ? 1 : 0);
        return playLane(arena, { seed: seed + lane, numRuns });
      }),
    );
    return failed?.shortest;

    async function playLane(its: Arena, parameters: { seed: number; numRuns: number }): Promise<void> {
      const { seed: laneSeed } = parameters;
      const property = fc.asyncProperty(history, async one => {
        const shrinking = failed?.seed === laneSeed;
        if (signal?.aborted || (failed !== undefined && !shrinking)) return;
        for (let tries = shrinking ? shrinkingTries : 1; tries > 0; tries -= 1) {
          if (failed !== undefined && performance.now() > failed.shrinkUntil) return;
          const differences = await playOne(its, one);
          if (differences.length === 0) continue;
          // Another lane's history is being shortened.
          if (failed !== undefined && failed.seed !== laneSeed) return;
          const shortest = { seed, steps: describeHistory(one), differences };
          if (failed === undefined) onFailure?.(shortest, tally.histories);
          failed = { shrinkUntil: performance.now() + shrinkingTimeoutMs, ...failed, seed: laneSeed, shortest };
          throw new Error('the end differs from the model');
        }
        onProgress?.(tally);
      });
      await fc.check(property, parameters);
    }

    async function playOne(its: Arena, one: History): Promise<string[]> {
      try {
        const differences = await play(its, one);
        return [...differences, ...defectsOf(its)];
      } catch (error) {
        return [`the history could not be played: ${inspect(error).slice(0, 2_000)}`];
      }
    }
  }
}

const defectsOf = (arena: Arena) => arena.takeDefects().map(text => `a replica logged: ${text}`);

interface Failure {
  /** The seed of the lane that found it. */
  seed: number;
  shrinkUntil: number;
  shortest: Counterexample;
}

/** Explains the difference and how to reproduce it. */
export const describeCounterexample = ({ seed, steps, differences }: Counterexample): string =>
  `seed ${seed}, the shortest history found that ends otherwise than the model says:\n${steps}\n${differences
    .map(difference => `- ${difference}`)
    .join('\n')}`;
