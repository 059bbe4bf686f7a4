import { expect, test } from 'vitest';
import { createTurns } from '../../src/scorer/turns.ts';

/** Jobs whose turns are noted. */
function startJobs() {
  const begun: string[] = [];
  const take = createTurns();
  const { signal } = new AbortController();
  const job = (organisationId: string, priority: number) =>
    take({ organisationId, priority, signal, begin: () => void begun.push(`${organisationId}${priority}`) });
  return { begun, job };
}

test('the most urgent kind of job goes first, then the organisation served longest ago', async () => {
  const { begun, job } = startJobs();
  const [a, b, urgent] = [job('a', 3), job('b', 3), job('c', 0)];
  await Promise.all([b(), a(), urgent()]);
  expect(begun.splice(0)).toEqual(['c0', 'b3', 'a3']);
  await urgent();
  await Promise.all([a(), b()]);
  expect(begun).toEqual(['c0', 'b3', 'a3']);
});

test('a job gives way to others after 100 ms', async () => {
  const { begun, job } = startJobs();
  const [long, other] = [job('a', 3), job('b', 3)];
  const begunAt = performance.now();
  await long();
  const others = other();
  while (begun.length < 3) await long();
  expect(begun).toEqual(['a3', 'b3', 'a3']);
  expect(performance.now() - begunAt).toBeGreaterThan(99);
  await others;
});
