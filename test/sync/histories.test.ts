import { expect, test } from 'vitest';
import { describeCounterexample, playHistories } from '../../soak/lanes.ts';
import { createDatabase } from '../support/service.ts';

/** A share of what `npm run soak` plays; other histories each time, so that another try would lose a counterexample. */
const runs = 24;
const options = { timeout: 180_000, retry: 0 };

test(
  'random histories, with webhooks lost, doubled and late and replicas killed, end as a simple model says',
  options,
  async () => {
    const seed = Math.floor(Math.random() * 1_000_000_000);
    const { counterexample, tally } = await playHistories({ runs, seed, createDatabase });
    expect(counterexample && describeCounterexample(counterexample)).toBeUndefined();
    expect(tally.histories).toBe(runs);
  },
);
