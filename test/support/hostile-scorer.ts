/** A scorer whose pull requests do, below the rule language, what their titles say: rules themselves can't. */
import { setTimeout as delay } from 'node:timers/promises';
import { type Jobs, jobs } from '../../src/scorer/jobs.ts';
import { serveJobs } from '../../src/scorer/serve-jobs.ts';
import type { Work } from '../../src/scorer/work.ts';

/** Arrays of eight megabytes. On a busy machine, all together take longer than a pull request may without a report. */
function fill(arrays: number, report: () => void): unknown[] {
  const filled = [];
  for (; filled.length < arrays; report()) filled.push(new Array(1_000_000).fill(0));
  return filled;
}

const acts: Readonly<Record<string, (report: () => void) => void>> = {
  endless() {
    for (;;);
  },
  greedy: report => void fill(Infinity, report),
  large: report => void fill(15, report),
  stop: () => process.kill(process.pid, 'SIGSTOP'),
  crash: () => process.kill(process.pid, 'SIGKILL'),
};

const hoard: unknown[] = [];

const score: Jobs['score'] = async (work, input) => {
  const scores = [];
  for (const { title } of input.facts) {
    await work.turn();
    const [act = '', entry] = String(title).split(' of entry ');
    const ruleEntry =
      entry === undefined ? undefined : { version: input.version, rule: 'Hostile', entry: Number(entry) };
    const report = () => work.alive(ruleEntry);
    if (work.isCareful && ruleEntry !== undefined) report();
    if (act === 'wait') await goOn(work);
    if (act === 'hoard' && !work.isCareful) {
      hoard.push(fill(22, report));
      await goOn(work);
    }
    // A job that came later gets its turn.
    for (let round = 0; act === 'large' && round < 100; round += 1) await new Promise(setImmediate);
    await work.turn();
    work.progress(scores.length);
    acts[act]?.(report);
    scores.push({ score: 1, breakdown: JSON.stringify([title]), reviewScores: null });
  }
  return scores;
};

/** It never ends, but gives way, and waits without using the processor. */
async function goOn(work: Work): Promise<never> {
  await work.turn();
  work.progress(0);
  for (;;) await (work.turn() ?? delay(5));
}

const check: Jobs['check'] = async (work, input) => {
  if (input.file === 'endless') acts.endless?.(work.alive);
  return jobs.check(work, input);
};

serveJobs({ ...jobs, score, audit: goOn, check }, process.env);
