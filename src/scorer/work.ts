import type { Logger } from 'pino';
import type { Database } from '../database/client.ts';
import type { RuleEntry } from './bounds.ts';

/** What a job is given besides its input. */
export interface Work {
  readonly database: Database;
  readonly log: Logger;
  /** Aborted once no caller waits for the result. */
  readonly signal: AbortSignal;
  /**
   * Awaited before each pull request: other jobs go first if this one has had its time.
   *
   * @throws if the job is cancelled
   */
  turn(): Promise<void> | undefined;
  /** Called while a job can't give way: it shows that the job goes on. @param entry the one that is next */
  alive(entry?: RuleEntry): void;
  /** @param done how many pull requests so far */
  progress(done: number): void;
  /** A process has ended in this job: entries are evaluated one by one, so that the one behind it is known. */
  readonly isCareful: boolean;
}
