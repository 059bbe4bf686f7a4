import { LRUCache } from 'lru-cache';

/** Organisations whose last turn is remembered; the others were served longer ago than any job waits. */
export const maxServed = 1_000;

/** A long job gives way to others after this. */
const stretchMs = 100;

export interface Turns {
  readonly organisationId: string;
  /** The lowest comes first. */
  readonly priority: number;
  readonly signal: AbortSignal;
  /** Called when the job goes on, so that the other side knows which one runs. */
  begin(): void;
}

/**
 * Lets the jobs of one process take turns: the most urgent kind first, and of one kind the organisation that was served
 * longest ago.
 *
 * @returns gives a job a function that it awaits before each pull request, and that throws if the job is cancelled
 */
export function createTurns(): (job: Turns) => () => Promise<void> | undefined {
  const waiting: { job: Turns; resume: () => void }[] = [];
  const servedAt = new LRUCache<string, number>({ max: maxServed });
  let current: Turns | undefined;

  const servedOf = ({ organisationId }: Turns) => servedAt.get(organisationId) ?? 0;

  /** One stretch for each round of the event loop: messages come in between. */
  function resumeNext(): void {
    waiting.sort(({ job: a }, { job: b }) => a.priority - b.priority || servedOf(a) - servedOf(b));
    waiting.shift()?.resume();
    if (waiting.length > 0) setImmediate(resumeNext);
  }

  return job => {
    let begunAt = 0;
    return () => {
      job.signal.throwIfAborted();
      // If another job is at work, this one comes back from a wait for the database.
      if (current === job && performance.now() - begunAt < stretchMs) return undefined;
      return new Promise(resolve => {
        const resume = () => {
          begunAt = performance.now();
          current = job;
          servedAt.set(job.organisationId, begunAt);
          job.begin();
          resolve();
        };
        if (waiting.push({ job, resume }) === 1) setImmediate(resumeNext);
      });
    };
  };
}
