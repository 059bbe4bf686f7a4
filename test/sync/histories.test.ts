import { expect, test } from 'vitest';
import { describeCounterexample, playHistories } from '../../soak/lanes.ts';
import { createDatabase } from '../support/service.ts';

/** A few of the histories of `npm run soak`, different ones each time. */
const runs = 5;

test('random histories with lost, doubled and late webhooks and killed replicas end as a simple model says', {
  timeout: 300_000,
}, async () => {
  const seed = Math.floor(Math.random() * 1_000_000_000);
  const { counterexample, tally } = await playHistories({ runs, seed, createDatabase });
  const description = counterexample && describeCounterexample(counterexample);
  if (description !== undefined) process.stderr.write(`${description}\n`);
  expect(description).toBeUndefined();
  expect(tally.histories).toBe(runs);
});
