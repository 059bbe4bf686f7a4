/** A scorer whose pull requests do, below the rule language, what their titles say: rules themselves can't. */
import { type Jobs, jobs } from '../../src/scorer/jobs.ts';
import { serveJobs } from '../../src/scorer/serve-jobs.ts';

const acts: Readonly<Record<string, () => void>> = {
  endless() {
    for (;;);
  },
  greedy() {
    for (const held = []; ; ) held.push(new Array(1_000_000).fill(0));
  },
  crash: () => process.kill(process.pid, 'SIGKILL'),
};

const score: Jobs['score'] = async (work, input) => {
  const scores = [];
  for (const { title } of input.facts) {
    await work.turn();
    const [act = '', entry] = String(title).split(' of entry ');
    if (work.isCareful && entry !== undefined) {
      work.alive({ version: input.version, rule: 'Hostile', entry: Number(entry) });
    }
    work.progress(scores.length);
    acts[act]?.();
    scores.push({ score: 1, breakdown: JSON.stringify([title]), reviewScores: null });
  }
  return scores;
};

/** It never ends, but gives way. */
const audit: Jobs['audit'] = async work => {
  await work.turn();
  work.progress(0);
  for (;;) await (work.turn() ?? new Promise(setImmediate));
};

const check: Jobs['check'] = async (work, input) => {
  if (input.file === 'endless') acts.endless?.();
  return jobs.check(work, input);
};

serveJobs({ ...jobs, score, audit, check }, process.env);
