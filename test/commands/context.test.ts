import { expect, test } from 'vitest';
import { table } from '../../src/commands/context.ts';

test('a table stays aligned and steers no terminal, whatever its texts hold', () => {
  const rows = [
    ['漢字', 'a\u001b[31mb\u202ec\nd', 'x'],
    ['ada', 'e', 'y'],
  ];
  expect(table(['NAME', 'TEXT', 'LAST'], rows, 'none').split('\n')).toEqual([
    'NAME  TEXT        LAST',
    '漢字  a [31mbc d  x',
    'ada   e           y',
  ]);
  expect(table(['NAME'], [], 'none')).toBe('none');
});

test('a table of very many rows is one too', () => {
  const rows = Array.from({ length: 200_000 }, () => ['']);
  expect(table(['NAME'], rows, '').split('\n')).toHaveLength(200_001);
});
