import { existsSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { changes } from './statement-changes.ts';

test.each(changes)('a change of a statement still has one place, in $file: $from', ({ file, from, tests }) => {
  expect(readFileSync(file, 'utf8').split(from)).toHaveLength(2);
  expect(tests.filter(path => !existsSync(path))).toEqual([]);
});
