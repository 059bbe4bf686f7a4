import { Writable } from 'node:stream';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { Context } from '../../src/commands/context.ts';
import { startProgress, withProgress } from '../../src/commands/progress.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const wait = (seconds: number) => vi.advanceTimersByTime(seconds * 1_000);

/** Standard error, and what is written there. */
function terminal(properties: { isTTY?: boolean; columns?: number } = {}) {
  let written = '';
  const stderr = new Writable({
    write(chunk, _encoding, done) {
      written += chunk;
      done();
    },
  });
  return { stderr: Object.assign(stderr, properties), text: () => written };
}

/** Progress, and what it writes. */
function start(...properties: Parameters<typeof terminal>) {
  const { stderr, text } = terminal(...properties);
  const progress = startProgress({ stderr } as unknown as Context, 'pull requests');
  return {
    progress,
    lines: () =>
      text()
        .split('\n')
        .filter(line => line !== ''),
    text,
  };
}

describe('progress without a terminal', () => {
  test('a line every ten seconds shows the progress, the rate and the time left', () => {
    const { progress, lines } = start();
    progress.update(0, 1_000, 'acme/web');
    for (let done = 50; done <= 1_000; done += 50) {
      wait(4);
      progress.update(done, 1_000, done > 500 ? '' : 'acme/web');
    }
    progress.stop();
    expect(lines().slice(0, 2)).toEqual([
      '100 of 1,000 pull requests, 13/s, 72 s left (acme/web)',
      '200 of 1,000 pull requests, 13/s, 64 s left (acme/web)',
    ]);
    expect(lines()).toHaveLength(8);
    expect(lines().at(-1)).toBe('950 of 1,000 pull requests, 13/s, 4 s left');
  });

  test('the rate of progress is that of the last minute, without the work of earlier runs', () => {
    const { progress, lines } = start();
    progress.update(900, 2_000, '', 0);
    wait(9);
    progress.update(990, 2_000, '', 90);
    for (let seconds = 0; seconds < 120; seconds += 1) {
      wait(1);
      progress.update(1_100 + seconds, 2_000, '', 200 + seconds);
    }
    wait(10);
    expect(lines()[0]).toBe('990 of 2,000 pull requests, 10/s, 101 s left');
    expect(lines().at(-1)).toBe('1,219 of 2,000 pull requests, 1.0/s, 13 min left');
  });

  test('leaves out an unknown rate or total', () => {
    const { progress, lines } = start();
    progress.update(0, 0);
    wait(9);
    progress.update(0, 0, 'acme/web: waiting until 14:05 UTC');
    wait(11);
    progress.update(40, 0, 'acme/web');
    wait(10);
    expect(lines()).toEqual([
      '0 pull requests (acme/web: waiting until 14:05 UTC)',
      '40 pull requests, 2.0/s (acme/web)',
    ]);
  });

  test('does not repeat a line that has not changed, and has no lines of others', () => {
    const { progress, lines } = start();
    progress.update(0, 0, 'acme/web: waiting until 14:05 UTC: GitHub says\u001b[2J\n::error::');
    wait(60);
    expect(lines()).toEqual(['0 pull requests (acme/web: waiting until 14:05 UTC: GitHub says [2J ::error::)']);
  });
});

describe('progress on a terminal', () => {
  const clear = '\r\u001b[K';

  test('a bar shows the rate and the time left, and ends as an empty line', () => {
    const { progress, text } = start({ isTTY: true, columns: 200 });
    progress.update(0, 100, 'acme/web');
    wait(5);
    progress.update(50, 100, 'acme/api');
    wait(1);
    progress.stop();
    wait(1);
    expect(text()).toBe(
      `${clear}${' '.repeat(20)} 0 of 100 pull requests (acme/web)\r` +
        `${clear}${'█'.repeat(10)}${' '.repeat(10)} 50 of 100 pull requests, 10/s, 5 s left (acme/api)\r${clear}`,
    );
  });

  test('a line of progress never wraps, and has no control characters of others', () => {
    const { progress, text } = start({ isTTY: true, columns: 30 });
    progress.update(0, 0, 'acme/a\u001b[31mweb and more');
    wait(1);
    expect(text()).toBe(`${clear}0 pull requests (acme/a [31m…\r`);
  });

  test('work that ends at once shows no progress', () => {
    const { progress, text } = start({ isTTY: true, columns: 200 });
    progress.update(0, 0);
    progress.stop();
    wait(1);
    expect(text()).toBe('');
  });
});

test('work that the operator interrupts ends with one clear line, after its progress', async () => {
  const interruption = new AbortController();
  const { stderr, text } = terminal();
  const context = { stderr, interrupted: interruption.signal } as unknown as Context;
  const working = withProgress(context, 'pull requests', async ({ signal, onProgress }) => {
    onProgress(3, 4);
    wait(10);
    interruption.abort();
    signal.throwIfAborted();
  });
  await expect(working).rejects.toThrow('Interrupted. Nothing was changed.');
  expect(text()).toContain('3 of 4 pull requests');
});
