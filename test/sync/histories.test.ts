import { expect, test } from 'vitest';
import { playHistories } from '../../soak/histories.ts';
import { createDatabase } from '../support/service.ts';

/** A few of the histories of `npm run soak`, different ones each time. */
const runs = 5;

test('random histories with lost, doubled and late webhooks and killed replicas end as a simple model says', {
  timeout: 300_000,
}, async () => {
  expect(await playHistories(runs, Math.floor(Math.random() * 1_000_000_000), createDatabase)).toBeUndefined();
});
