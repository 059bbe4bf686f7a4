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
  /** Says now and then how far it is, and which history fails before it is shortened. */
  print?(text: string): void;
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

const progressIntervalMs = 10_000;

const shrinkingTimeoutMs = 45_000;

/** Concurrent steps differ from try to try: a shorter history must succeed this often to count as harmless. */
const shrinkingTries = 4;

const defectsOf = (arena: Arena) => arena.takeDefects().map(text => `a replica logged: ${text}`);

async function playOne(arena: Arena, one: History): Promise<string[]> {
  try {
    const differences = await play(arena, one);
    return [...differences, ...defectsOf(arena)];
  } catch (error) {
    return [`the history could not be played: ${inspect(error).slice(0, 2_000)}`];
  }
}

/** Plays random histories, many at once, until one ends differently from the model. */
export async function playHistories({ runs, seed, createDatabase, signal, print }: HistoriesOptions) {
  const tally: Tally = { histories: 0, pullRequests: 0, counts: new Map() };
  const begin = performance.now();
  let printedAt = begin;
  let counterexample: Counterexample | undefined;

  function printProgress(): void {
    const now = performance.now();
    if (now - printedAt < progressIntervalMs) return;
    printedAt = now;
    const { histories, pullRequests } = tally;
    print?.(
      `  ${histories} of ${runs} histories, ${pullRequests} pull requests, ${Math.round((now - begin) / 1000)} s`,
    );
  }

  /** Of the lane that fails first, the history is shortened; the others stop. */
  async function playLot(arena: Arena, lotRuns: number, lotSeed: number): Promise<void> {
    let failed: { lane: number; shrinkUntil: number } | undefined;

    async function playLane(lane: number): Promise<void> {
      const property = fc.asyncProperty(history, async one => {
        if (signal?.aborted || (failed !== undefined && failed.lane !== lane)) return;
        for (let tries = failed === undefined ? 1 : shrinkingTries; tries > 0; tries -= 1) {
          if (failed !== undefined && performance.now() > failed.shrinkUntil) return;
          const differences = await playOne(arena, one);
          if (differences.length === 0) continue;
          // Another lane's history is being shortened.
          if (failed !== undefined && failed.lane !== lane) return;
          if (failed === undefined) {
            print?.(`\nHistory ${tally.histories} ends differently from the model; shortening it.`);
            print?.(differences.join('\n'));
          }
          failed ??= { lane, shrinkUntil: performance.now() + shrinkingTimeoutMs };
          counterexample = { seed: lotSeed, steps: describeHistory(one), differences };
          throw new Error('the end differs from the model');
        }
        printProgress();
      });
      const numRuns = Math.floor(lotRuns / lanes) + (lane < lotRuns % lanes ? 1 : 0);
      await fc.check(property, { seed: lotSeed + lane, numRuns });
    }

    await Promise.all(Array.from({ length: Math.min(lanes, lotRuns) }, (_, lane) => playLane(lane)));
  }

  for (let done = 0, lotSeed = seed; done < runs && !signal?.aborted; done += lotSize, lotSeed += lanes) {
    const database = await createDatabase();
    try {
      const arena = await openArena(database.url, tally);
      await playLot(arena, Math.min(lotSize, runs - done), lotSeed).finally(arena.close);
      const differences = defectsOf(arena);
      if (differences.length > 0) {
        counterexample ??= { seed: lotSeed, steps: '  after the last of its histories', differences };
      }
      if (counterexample !== undefined) break;
    } finally {
      await database.drop();
    }
  }
  return { tally, counterexample };
}

/** Explains the difference and how to reproduce it. */
export const describeCounterexample = ({ seed, steps, differences }: Counterexample): string =>
  `seed ${seed}, the shortest history found that ends otherwise than the model says:\n${steps}\n${differences
    .map(difference => `- ${difference}`)
    .join('\n')}`;
