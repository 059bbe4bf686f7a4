/** A scorer whose pull requests do, below the rule language, what their titles say: rules themselves can't. */
import { type Jobs, jobs } from '../../src/scorer/jobs.ts';
import { serveJobs } from '../../src/scorer/serve-jobs.ts';
import type { Work } from '../../src/scorer/work.ts';

/** Eight megabytes each. */
const fill = (arrays: number) => Array.from({ length: arrays }, () => new Array(1_000_000).fill(0));

const acts: Readonly<Record<string, () => void>> = {
  endless() {
    for (;;);
  },
  greedy() {
    for (const held = []; ; ) held.push(fill(1));
  },
  large: () => void fill(15),
  crash: () => process.kill(process.pid, 'SIGKILL'),
};

const hoard: unknown[] = [];

const score: Jobs['score'] = async (work, input) => {
  const scores = [];
  for (const { title } of input.facts) {
    await work.turn();
    const [act = '', entry] = String(title).split(' of entry ');
    if (work.isCareful && entry !== undefined) {
      work.alive({ version: input.version, rule: 'Hostile', entry: Number(entry) });
    }
    if (act === 'wait') await goOn(work);
    if (act === 'hoard' && !work.isCareful) {
      hoard.push(fill(22));
      await goOn(work);
    }
    // A job that came later gets its turn.
    for (let round = 0; act === 'large' && round < 100; round += 1) await new Promise(setImmediate);
    await work.turn();
    work.progress(scores.length);
    acts[act]?.();
    scores.push({ score: 1, breakdown: JSON.stringify([title]), reviewScores: null });
  }
  return scores;
};

/** It never ends, but gives way. */
async function goOn(work: Work): Promise<never> {
  await work.turn();
  work.progress(0);
  for (;;) await (work.turn() ?? new Promise(setImmediate));
}

const check: Jobs['check'] = async (work, input) => {
  if (input.file === 'endless') acts.endless?.();
  return jobs.check(work, input);
};

serveJobs({ ...jobs, score, audit: goOn, check }, process.env);
