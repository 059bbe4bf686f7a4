import fc from 'fast-check';
import stringWidth from 'string-width';
import { describe, expect, test } from 'vitest';
import { jsonDocument } from '../../src/commands/command.ts';
import { bar, grid, labelled, lineWidth, plain, right, table, truncate } from '../../src/text/terminal.ts';
import { within } from '../scoring/processor-time.ts';

test.each([
  ['##[add-mask]x', '## [add-mask]x'],
  ['a ##VSO[task.setvariable variable=x]y', 'a ## VSO[task.setvariable variable=x]y'],
  [' ::stop-commands::x', ' : :stop-commands::x'],
  ['fix: std::vector, ## Heading', 'fix: std::vector, ## Heading'],
])('plain text has no commands for a CI service: %s', (text, expected) => {
  expect(plain(text)).toBe(expected);
});

test('JSON has no commands for a CI service, and means the same', () => {
  const titles = ['##[error]x', '##vso[task.complete]y', '::error::z'];
  const document = jsonDocument(titles);
  expect(document).not.toMatch(/##\[|##vso|^\s*::/m);
  expect(JSON.parse(document)).toEqual(titles);
});

test('JSON cannot control the terminal, and means the same', () => {
  const names = ['\u001b[31m', '\u009b31m\u007f', 'a\u202eb\u2066c\u200f\u061c', 'd\u2028e\u2029'];
  const document = jsonDocument(names);
  expect(document).toMatch(/^[\n -~]*$/);
  expect(JSON.parse(document)).toEqual(names);
});

test('plain text loses control characters and marks that change the direction, and nothing else', () => {
  expect(plain('a\u001b[31mb\r\nc\u202ed\u0000')).toBe('a [31mb cd ');
  expect(plain('Größe 漢字 مريم 👩‍💻')).toBe('Größe 漢字 مريم 👩‍💻');
});

describe('a text', () => {
  test.each([
    ['short', 'short'],
    ['longer', 'long…'],
    ['漢字漢字', '漢字…'],
    ['👩‍💻👩‍💻👩‍💻', '👩‍💻👩‍💻…'],
    ['1️⃣2️⃣3️⃣', '1️⃣2️⃣…'],
    ['कीकीकी', 'कीकी…'],
  ])('is cut by columns, never within a character: %s', (text, expected) => {
    expect(truncate(text, 5)).toBe(expected);
  });

  test('of any kind fits after it is cut', () => {
    const scripts = 'a 漢किี้ﾞ각ᅡ👩‍💻🏽🇩1️⃣م\u0301\u200b';
    const texts = fc.oneof(
      fc.string({ unit: 'grapheme', maxLength: 40 }),
      fc.string({ unit: fc.constantFrom(...scripts) }),
    );
    fc.assert(
      fc.property(texts, fc.integer({ min: 2, max: 30 }), (text, columns) => {
        expect(stringWidth(truncate(text, columns))).toBeLessThanOrEqual(columns);
      }),
    );
  });

  test('that is cut keeps the marks on a character, however many', () => {
    const marked = `a${'\u0301'.repeat(100_000)}`;
    expect(truncate(`${marked}bcdef`, 5)).toBe(`${marked}bcd…`);
  });

  test('of 64 KB is cut within milliseconds, whatever it holds', () => {
    const texts = ['Größe 漢字 ok ', '👩‍', '\u0301', 'कि'].map(part => part.repeat(65_536 / part.length));
    within(200, () => texts.map(text => truncate(text, 80)));
  });
});

test('words after a label wrap below each other', () => {
  expect(labelled('  ! ', 'one two three 漢字漢字 averylongword', 13)).toEqual([
    '  ! one two',
    '    three',
    '    漢字漢字',
    '    averylongword',
  ]);
});

test('no wrapped line is a command for a CI service', () => {
  const text = 'Rule ::error::one ::warning::two ##[group]three';
  for (let width = 8; width < 60; width += 1) {
    const lines = labelled('  paid by ', plain(text), width);
    expect(lines.join('\n')).not.toMatch(/^\s*::|##\[/m);
    expect(lines.join('').replace(/\s/g, '')).toBe(`paidby${text.replace(/\s/g, '')}`);
  }
});

test('a bar is in proportion, and every positive value has one', () => {
  const bars = [bar(0, 100, 10), bar(100, 100, 10), bar(50, 100, 10), bar(1, 1_000_000, 10), bar(0, 0, 10)];
  expect(bars).toEqual(['', '██████████', '█████', '▏', '']);
});

describe('a table', () => {
  test('stays aligned, and its texts control no terminal', () => {
    const rows = [
      ['漢字', 'a\u001b[31mb\u202ec\nd', 'x'],
      ['ada', 'e', 'y'],
    ];
    expect(table(['NAME', 'TEXT', 'LAST'], rows, 'none').split('\n')).toEqual([
      'NAME  TEXT        LAST',
      '漢字  a [31mbc d  x',
      'ada   e           y',
    ]);
  });

  test('without rows is a hint', () => {
    expect(table(['NAME'], [], 'none')).toBe('none');
  });

  test('can have 200,000 rows', () => {
    const rows = Array.from({ length: 200_000 }, () => ['']);
    expect(table(['NAME'], rows, '').split('\n')).toHaveLength(200_001);
  });

  test('has numbers on the right, and shrinks to the width', () => {
    const rows = [
      ['漢字漢字', '5'],
      ['a', '10'],
    ];
    expect(grid(['NAME', right('N')], rows, { indent: '  ' })).toEqual([
      '  NAME       N',
      '  漢字漢字   5',
      '  a         10',
    ]);
    const columns = [{ heading: 'NAME', shrinks: true }, right('N')];
    expect(grid(columns, [['A name that is too long', '5']], { width: 14 })).toEqual([
      'NAME         N',
      'A name tha…  5',
    ]);
  });
});

test.each([
  [undefined, undefined, 80],
  [0, '', 80],
  [60, undefined, 60],
  [300, '100', 300],
  [undefined, '200', 200],
  [undefined, 'wide', 80],
  [undefined, '-3', 20],
  [5, undefined, 20],
])('a terminal of %s columns with COLUMNS=%s has lines of %i', (columns, variable, width) => {
  expect(lineWidth({ columns }, variable)).toBe(width);
});
