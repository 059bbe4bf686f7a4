import type { Logger } from 'pino';
import type { Database } from '../database/client.ts';
import { type InputOf, type JobKind, type JobOptions, jobs, priorities, type Scorer } from './jobs.ts';
import { createTurns } from './turns.ts';

/** Runs jobs in the process of a command: whatever its rules do, only the command waits. */
export function createLocalScorer(database: Database, log: Logger): Scorer {
  const takeTurns = createTurns();
  return {
    run<Kind extends JobKind>(
      kind: Kind,
      input: InputOf<Kind>,
      { signal = new AbortController().signal, onProgress }: JobOptions = {},
    ) {
      const { organisationId } = input;
      const work = {
        database,
        log,
        signal,
        isCareful: false,
        turn: takeTurns({ organisationId, priority: priorities[kind], signal, begin: () => undefined }),
        alive: () => undefined,
        progress: (done: number) => onProgress?.(done),
      };
      return jobs[kind](work, input);
    },
    // A command ends when its job has.
    close: async () => undefined,
  };
}
