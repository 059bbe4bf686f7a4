/** A scorer whose pull requests do, below the rule language, what their titles say: rules themselves can't. */
import { type Jobs, jobs } from '../../src/scorer/jobs.ts';
import { serveJobs } from '../../src/scorer/serve-jobs.ts';
import type { Work } from '../../src/scorer/work.ts';

const eightMegabytes = () => new Array(1_000_000).fill(0);

const acts: Readonly<Record<string, (alive: () => void) => void>> = {
  endless() {
    for (;;);
  },
  greedy(alive) {
    for (const held = []; ; alive()) held.push(eightMegabytes());
  },
  large(alive) {
    for (const held: unknown[] = []; held.length < 15; alive()) held.push(eightMegabytes());
  },
  crash: () => process.kill(process.pid, 'SIGKILL'),
};

const hoard: unknown[] = [];

const score: Jobs['score'] = async (work, input) => {
  const scores = [];
  for (const { title } of input.facts) {
    await work.turn();
    const [act = '', entry] = String(title).split(' of entry ');
    const place = entry === undefined ? undefined : { version: input.version, rule: 'Hostile', entry: Number(entry) };
    if (work.isCareful && place !== undefined) work.alive(place);
    if (act === 'wait') await goOn(work);
    if (act === 'hoard' && !work.isCareful) {
      // In steps: on a busy machine, all of it takes longer than one pull request may.
      for (; hoard.length < 22; await giveWay(work)) hoard.push(eightMegabytes());
      await goOn(work);
    }
    // A job that came later gets its turn.
    for (let round = 0; act === 'large' && round < 100; round += 1) await new Promise(setImmediate);
    await work.turn();
    work.progress(scores.length);
    acts[act]?.(() => work.alive(place));
    scores.push({ score: 1, breakdown: JSON.stringify([title]), reviewScores: null });
  }
  return scores;
};

/** It never ends, but gives way. */
async function goOn(work: Work): Promise<never> {
  await work.turn();
  work.progress(0);
  for (;;) await giveWay(work);
}

const giveWay = (work: Work) => work.turn() ?? new Promise(setImmediate);

const check: Jobs['check'] = async (work, input) => {
  if (input.file === 'endless') acts.endless?.(work.alive);
  return jobs.check(work, input);
};

serveJobs({ ...jobs, score, audit: goOn, check }, process.env);
