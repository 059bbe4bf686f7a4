/** A long job gives way to others after this. */
const stretchMs = 100;

/** Organisations whose last turn is remembered; the others were served longer ago than any job waits. */
const maxOrganisations = 1_000;

export interface Turns {
  readonly organisationId: string;
  /** The lowest comes first. */
  readonly priority: number;
  /** Called when the job goes on, so that the other side knows which one runs. */
  begin(): void;
}

/**
 * Lets the jobs of one process take turns: the most urgent kind first, and of one kind the organisation that was served
 * longest ago.
 *
 * @returns gives a job a function that it awaits before each pull request
 */
export function createTurns(): (job: Turns) => () => Promise<void> | undefined {
  const waiting: { job: Turns; resume: () => void }[] = [];
  /** By organisation, the latest last. */
  const servedAt = new Map<string, number>();
  let current: Turns | undefined;

  const servedOf = ({ organisationId }: Turns) => servedAt.get(organisationId) ?? 0;

  /** One stretch for each round of the event loop: messages come in between. */
  function resumeNext(): void {
    waiting.sort(({ job: a }, { job: b }) => a.priority - b.priority || servedOf(a) - servedOf(b));
    waiting.shift()?.resume();
    if (waiting.length > 0) setImmediate(resumeNext);
  }

  function begin(job: Turns): number {
    const now = performance.now();
    current = job;
    servedAt.delete(job.organisationId);
    servedAt.set(job.organisationId, now);
    const [oldest] = servedAt.keys();
    if (servedAt.size > maxOrganisations && oldest !== undefined) servedAt.delete(oldest);
    job.begin();
    return now;
  }

  return job => {
    let begunAt = 0;
    return () => {
      // It comes back from a wait for the database: other jobs ran meanwhile.
      const isNew = current !== job;
      if (!isNew && performance.now() - begunAt < stretchMs) return undefined;
      return new Promise(resolve => {
        const resume = () => {
          begunAt = begin(job);
          resolve();
        };
        if (waiting.push({ job, resume }) === 1) setImmediate(resumeNext);
      });
    };
  };
}
