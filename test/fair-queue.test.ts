import { expect, test } from 'vitest';
import { createFairQueue } from '../src/fair-queue.ts';

const never = new AbortController().signal;

/** Work that ends when it is told to. */
function startWork(inTurns: ReturnType<typeof createFairQueue>, organisationId: string, signal = never) {
  let hasBegun = false;
  let end: () => void = () => undefined;
  const done = inTurns(organisationId, signal, () => {
    hasBegun = true;
    return new Promise<void>(resolve => {
      end = resolve;
    });
  });
  return { done, hasBegun: () => hasBegun, end: () => end() };
}

const settled = () => new Promise(setImmediate);

test('an organisation has one place at a time, and others do not wait for its queue', async () => {
  const inTurns = createFairQueue(2);
  const [first, second, other, last] = ['busy', 'busy', 'other', 'last'].map(id => startWork(inTurns, id));
  await settled();
  expect([first, second, other, last].map(work => work?.hasBegun())).toEqual([true, false, true, false]);
  other?.end();
  await other?.done;
  await settled();
  expect([second, last].map(work => work?.hasBegun())).toEqual([false, true]);
  first?.end();
  await first?.done;
  await settled();
  expect(second?.hasBegun()).toBe(true);
});

test('a read whose client has left while it waited is not begun, and its place is free', async () => {
  const inTurns = createFairQueue(1);
  const gone = new AbortController();
  const first = startWork(inTurns, 'one');
  const left = startWork(inTurns, 'two', gone.signal);
  await settled();
  gone.abort(new Error('gone'));
  first.end();
  await expect(left.done).rejects.toThrow('gone');
  expect(left.hasBegun()).toBe(false);
  expect(await inTurns('three', never, async () => 'done')).toBe('done');
});

test('a read that fails frees its place', async () => {
  const inTurns = createFairQueue(1);
  await expect(inTurns('one', never, () => Promise.reject(new Error('failed')))).rejects.toThrow('failed');
  expect(await inTurns('two', never, async () => 'done')).toBe('done');
});
