import { Writable } from 'node:stream';
import { describe, expect, test } from 'vitest';
import type { Context } from '../../src/commands/context.ts';
import { addAll, startProgress } from '../../src/commands/progress.ts';

/** Progress with a clock of its own, and what it writes. */
function start(isTTY: boolean) {
  let written = '';
  let milliseconds = 0;
  const stderr = Object.assign(
    new Writable({
      write(chunk, _encoding, done) {
        written += chunk;
        done();
      },
    }),
    { isTTY, columns: 200, cursorTo: () => true, clearLine: () => true, moveCursor: () => true },
  );
  const progress = startProgress({ stderr } as unknown as Context, 'pull requests', () => milliseconds);
  return {
    progress,
    wait: (seconds: number) => {
      milliseconds += seconds * 1_000;
    },
    lines: () => written.split('\n').filter(line => line !== ''),
    text: () => written,
  };
}

describe('without a terminal', () => {
  test('a line every ten seconds shows the progress, the rate and the time left', () => {
    const { progress, wait, lines } = start(false);
    progress.update(0, 1_000, 'acme/web');
    for (let done = 50; done <= 1_000; done += 50) {
      wait(4);
      progress.update(done, 1_000, done > 500 ? '' : 'acme/web');
    }
    progress.stop();
    expect(lines().slice(0, 2)).toEqual([
      '150 of 1000 pull requests, 13/s, 68 s left (acme/web)',
      '300 of 1000 pull requests, 13/s, 56 s left (acme/web)',
    ]);
    expect(lines()).toHaveLength(6);
    expect(lines().at(-1)).toBe('900 of 1000 pull requests, 13/s, 8 s left');
  });

  test('the rate is that of the last minute, without the work of earlier runs', () => {
    const { progress, wait, lines } = start(false);
    progress.update(900, 2_000, '', 0);
    wait(10);
    progress.update(1_000, 2_000, '', 100);
    for (let seconds = 0; seconds < 120; seconds += 1) {
      wait(1);
      progress.update(1_100 + seconds, 2_000, '', 200 + seconds);
    }
    expect(lines()[0]).toBe('1000 of 2000 pull requests, 10/s, 100 s left');
    expect(lines().at(-1)).toBe('1219 of 2000 pull requests, 1.0/s, 13 min left');
  });

  test('an unknown rate or total is left out', () => {
    const { progress, wait, lines } = start(false);
    progress.update(0, 0, '');
    wait(10);
    progress.update(0, 0, 'acme/web: waits until 14:05 UTC');
    wait(10);
    progress.update(40, 0, 'acme/web');
    expect(lines()).toEqual([
      '0 pull requests (acme/web: waits until 14:05 UTC)',
      '40 pull requests, 2.0/s (acme/web)',
    ]);
  });
});

test('on a terminal, the bar shows the rate and the time left', () => {
  const { progress, wait, text } = start(true);
  progress.update(0, 100, 'acme/web');
  wait(5);
  progress.update(50, 100, 'acme/api');
  progress.stop();
  expect(text()).toContain('50/100 pull requests  10/s, 5 s left  acme/api');
});

test('pull requests are handed over in their order, until the operator interrupts', async () => {
  const interruption = new AbortController();
  async function* batches() {
    yield [1, 2];
    yield [3];
    interruption.abort();
    yield [4];
  }
  const context = { stderr: new Writable(), interrupted: interruption.signal } as unknown as Context;
  const added: number[] = [];
  await expect(addAll(context, batches(), 4, one => added.push(one))).rejects.toThrow(
    'Interrupted. Nothing was changed.',
  );
  expect(added).toEqual([1, 2, 3]);
});
