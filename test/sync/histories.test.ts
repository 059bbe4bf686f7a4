import { expect, test } from 'vitest';
import { describeCounterexample, playHistories } from '../../soak/lanes.ts';
import { createDatabase } from '../support/service.ts';

/** A share of what `npm run soak` plays; other histories each time. */
const runs = 20;

test('random histories, with webhooks lost, doubled and late and replicas killed, end as a simple model says', {
  timeout: 300_000,
}, async () => {
  const seed = Math.floor(Math.random() * 1_000_000_000);
  const { counterexample, tally } = await playHistories({ runs, seed, createDatabase });
  const description = counterexample && describeCounterexample(counterexample);
  if (description !== undefined) process.stderr.write(`${description}\n`);
  expect(description).toBeUndefined();
  expect(tally.histories).toBe(runs);
});
