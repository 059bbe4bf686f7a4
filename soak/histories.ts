import { inspect } from 'node:util';
import fc from 'fast-check';
import { type Arena, openArena } from './arena.ts';
import { startServer } from './database.ts';
import { describeHistory, type History, history, play } from './play.ts';

/** Histories at once: more would only wait for each other. */
const lanes = 24;

/** Histories per database and stand-in for GitHub, which keep everything, and grow. */
const lotSize = 240;

/** Concurrent steps differ from try to try: a shorter history must succeed this often to count as harmless. */
const shrinkingTries = 4;

const shrinkingTimeoutMs = 45_000;

/** @throws Error if the history ends differently from the model */
async function playOne(arena: Arena, one: History) {
  const differences = await play(arena, one).catch(error => [
    `the history could not be played: ${inspect(error).slice(0, 2_000)}`,
  ]);
  differences.push(...arena.takeDefects());
  if (differences.length > 0) throw new Error(differences.map(each => `- ${each}`).join('\n'));
}

/** Plays some at once. @returns the shortest one that ends differently from the model, and how; undefined: none does */
async function playLot(arena: Arena, runs: number, seed: number, say: typeof console.log): Promise<string | undefined> {
  const property = fc.asyncProperty(history, one => playOne(arena, one));
  const playing = Array.from({ length: Math.min(lanes, runs) }, (_, lane) =>
    fc.check(property, { seed: seed + lane, numRuns: Math.ceil((runs - lane) / lanes), endOnFailure: true }),
  );
  const failed = (await Promise.all(playing)).find(each => each.failed);
  if (failed === undefined) return undefined;
  say(`A history ends differently from the model; shortening it.\n${failed.errorInstance}`);
  const again = fc.asyncProperty(history, async one => {
    for (let tries = shrinkingTries; tries > 0; tries -= 1) await playOne(arena, one);
  });
  const from = { seed: failed.seed, path: failed.counterexamplePath ?? '' };
  const shortened = await fc.check(again, { ...from, interruptAfterTimeLimit: shrinkingTimeoutMs });
  // Perhaps it did not fail again in time.
  const { counterexample, errorInstance } = shortened.counterexample === null ? failed : shortened;
  const [shortest] = counterexample ?? [];
  return `seed ${seed}, the shortest history found:\n${shortest && describeHistory(shortest)}\n${errorInstance}`;
}

/**
 * Plays random histories against the service and a model.
 *
 * @param createDatabase creates a migrated database without organisations
 * @param say hears how far it is
 * @returns the first history that ends differently from the model, as short as possible, with the seed; undefined: none
 */
export async function playHistories(
  runs: number,
  seed: number,
  createDatabase: () => Promise<{ url: string; drop(): Promise<void> }>,
  say: typeof console.log = () => undefined,
): Promise<string | undefined> {
  const begin = performance.now();
  for (let done = 0; done < runs; ) {
    const database = await createDatabase();
    const arena = await openArena(database.url);
    const lot = Math.min(lotSize, runs - done);
    const difference = await playLot(arena, lot, seed + done, say).finally(arena.close);
    await database.drop();
    if (difference !== undefined) return difference;
    done += lot;
    say(`${done} of ${runs} histories in ${Math.round((performance.now() - begin) / 1000)} s`);
  }
  return undefined;
}

export async function soakHistories(runs: number, seed: number): Promise<boolean> {
  console.log(`Playing ${runs} histories, seed ${seed}.`);
  const { createDatabase, close } = await startServer();
  const difference = await playHistories(runs, seed, createDatabase, console.log).finally(close);
  console.log(difference ?? `No difference, seed ${seed}.`);
  return difference === undefined;
}
