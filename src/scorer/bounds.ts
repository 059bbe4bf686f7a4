/** What rules may take of the process in which they run. It is ended if they take more. */

/** Processor time for a pull request. */
export const maxPullRequestMs = 2_000;

/** Processor time is what counts, because a busy machine slows a process down. This is for a process that does not run at all. */
export const maxSilenceMs = 20_000;

/** Of the JavaScript heap: the rules of an organisation at the limits, and the facts of some large pull requests. */
export const maxHeapMb = 256;

/** An entry of stored rules. */
export interface RuleEntry {
  version: number;
  rule: string;
  /** From 1. */
  entry: number;
}

/** Rules in force break a bound. */
export class BoundBroken extends Error {
  readonly entry: RuleEntry;

  /** @param entry the one that took most, or in which the process ended */
  constructor(entry: RuleEntry) {
    super('the rules take too much time or memory for one pull request');
    this.entry = entry;
  }
}
