import { describe, expect, test } from 'vitest';
import { GithubError } from '../../src/github/errors.ts';
import { createPageSize, withPageSize } from '../../src/sync/page-sizes.ts';

const tooMuch = () => new GithubError('github_failed', 'Too much at once.', { tooMuch: true });

/** The size after some successful requests for `asked` entries. */
function grown(pageSize: ReturnType<typeof createPageSize>, asked: number, times: number): number {
  for (let index = 0; index < times; index += 1) pageSize.grow(asked);
  return pageSize.current;
}

describe('a page size', () => {
  test('starts with its maximum', () => {
    expect([createPageSize(50).current, createPageSize(7).current]).toEqual([50, 7]);
  });

  test('halves, rounded down, but not below one', () => {
    const pageSize = createPageSize(50);
    const sizes = [];
    while (pageSize.shrink(pageSize.current)) sizes.push(pageSize.current);
    expect(sizes).toEqual([25, 12, 6, 3, 1]);
    expect(pageSize.current).toBe(1);
  });

  test('shrinks to half of what was asked for, and never grows by it', () => {
    const pageSize = createPageSize(50);
    expect(pageSize.shrink(10)).toBe(true);
    expect(pageSize.current).toBe(5);
    expect(pageSize.shrink(50)).toBe(true);
    expect(pageSize.current).toBe(5);
  });

  test('doubles with every eighth success in a row, up to its maximum', () => {
    const pageSize = createPageSize(50);
    pageSize.shrink(24);
    expect(grown(pageSize, 12, 7)).toBe(12);
    expect(grown(pageSize, 12, 1)).toBe(24);
    expect(grown(pageSize, 24, 7)).toBe(24);
    expect(grown(pageSize, 24, 1)).toBe(48);
    expect(grown(pageSize, 48, 8)).toBe(50);
    expect(grown(pageSize, 50, 100)).toBe(50);
  });

  test('does not grow after requests that asked for less', () => {
    const pageSize = createPageSize(50);
    pageSize.shrink(24);
    expect(grown(pageSize, 11, 100)).toBe(12);
    expect(grown(pageSize, 13, 8)).toBe(24);
  });

  test.each([
    ['a failure', (pageSize: ReturnType<typeof createPageSize>) => pageSize.shrink(24)],
    ['a failure of one', (pageSize: ReturnType<typeof createPageSize>) => pageSize.shrink(1)],
  ])('counts successes from zero after %s', (_, fail) => {
    const pageSize = createPageSize(50);
    pageSize.shrink(24);
    grown(pageSize, 12, 7);
    fail(pageSize);
    expect(grown(pageSize, 12, 7)).toBe(12);
    expect(grown(pageSize, 12, 1)).toBe(24);
  });

  test('a restored page size is at its maximum, and has forgotten earlier successes', () => {
    const pageSize = createPageSize(50);
    pageSize.shrink(24);
    grown(pageSize, 12, 7);
    pageSize.restore();
    expect(grown(pageSize, 50, 7)).toBe(50);
    pageSize.shrink(24);
    expect(grown(pageSize, 12, 7)).toBe(12);
  });
});

describe('a request', () => {
  test('asks for the maximum first, and then for half of what was too much', async () => {
    const asked: number[] = [];
    const pageSize = createPageSize(40);
    const result = await withPageSize(pageSize, async size => {
      asked.push(size);
      if (size > 10) throw tooMuch();
      return 'done';
    });
    expect([result, asked, pageSize.current]).toEqual(['done', [40, 20, 10], 10]);
  });

  test('fails if even one entry is too much', async () => {
    const asked: number[] = [];
    const error = tooMuch();
    const request = withPageSize(createPageSize(4), async size => {
      asked.push(size);
      throw error;
    });
    await expect(request).rejects.toBe(error);
    expect(asked).toEqual([4, 2, 1]);
  });

  test.each([
    ['of GitHub', new GithubError('github_failed', 'Not now.')],
    ['of another kind', Object.assign(new Error('A defect.'), { tooMuch: true })],
  ])('is not repeated after an error %s', async (_, error) => {
    let asked = 0;
    const pageSize = createPageSize(50);
    const request = withPageSize(pageSize, async () => {
      asked += 1;
      throw error;
    });
    await expect(request).rejects.toBe(error);
    expect([asked, pageSize.current]).toEqual([1, 50]);
  });

  test('a request that succeeds lets the page size grow', async () => {
    const pageSize = createPageSize(50);
    pageSize.shrink(24);
    for (let index = 0; index < 8; index += 1) await withPageSize(pageSize, async size => size);
    expect(pageSize.current).toBe(24);
  });
});
