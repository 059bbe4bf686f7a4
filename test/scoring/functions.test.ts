import { describe, expect, test } from 'vitest';
import { compileExpression } from '../../src/scoring/compile.ts';
import { parseExpression } from '../../src/scoring/expression.ts';
import type { FactName } from '../../src/scoring/facts.ts';
import { functions, type Value } from '../../src/scoring/functions.ts';
import { factsWith } from './generate.ts';
import { processorTime } from './processor-time.ts';

function result(
  source: string,
  facts: { [Name in FactName]?: Value | null } = {},
  type: 'boolean' | 'number' = 'boolean',
) {
  return compileExpression(parseExpression(source, type))(factsWith(facts));
}

const numberOf = (source: string, facts: { [Name in FactName]?: Value | null } = {}) => result(source, facts, 'number');

test.each([...functions.values()].flat())('the example of $signature holds', ({ example, name, description }) => {
  const { expression, facts, result: expected } = example;
  expect(result(expression, facts, typeof expected === 'number' ? 'number' : 'boolean')).toBe(expected);
  expect(expression).toContain(`${name}(`);
  expect(description).toMatch(/\.$/);
});

test('case counts, except in has_label', () => {
  const facts = { title: 'Fix', labels: ['BUG', 'stra\u00dfe'] };
  expect(result('contains(title, "fix")', facts)).toBe(false);
  expect(result('starts_with(title, "fix")', facts)).toBe(false);
  expect(result('ends_with(title, "IX")', facts)).toBe(false);
  expect(result('glob(title, "fix")', facts)).toBe(false);
  expect(result('matches(title, "fix")', facts)).toBe(false);
  expect(result('matches(title, "(?i)fix")', facts)).toBe(true);
  expect(result('contains(labels, "bug")', facts)).toBe(false);
  expect(result('has_label("bug")', facts)).toBe(true);
  expect(result('has_label("Stra\u00dfe")', facts)).toBe(true);
  expect(result('has_label(lower(title))', facts)).toBe(false);
});

test('contains of a list means a whole item', () => {
  expect(result('contains(labels, "bu")', { labels: ['bug'] })).toBe(false);
});

test('length counts characters, not UTF-16 units', () => {
  expect(numberOf('length(title)', { title: '\u{1F642}\u{1F642}a\uD83D' })).toBe(4);
  expect(numberOf('length(title)', { title: '' })).toBe(0);
});

test.each([
  ['round(0.5)', 1],
  ['round(-0.5)', -1],
  ['round(-2.5)', -3],
  ['round(2.4)', 2],
  ['round(0.49999999999999994)', 0],
  ['per(59, 20)', 2],
  ['per(60, 20)', 3],
  ['per(-59, 20)', -2],
  ['per(5, 0)', Number.POSITIVE_INFINITY],
  ['clamp(5, 10, 3)', 3],
  ['clamp(-5, 0, 3)', 0],
  ['min(3, 1, 2)', 1],
  ['max(3, 1, 2)', 3],
  ['ceil(0.1)', 1],
  ['floor(-0.1)', -1],
  ['date("1970-01-02")', 86_400],
  ['date("2024-02-29")', 1_709_164_800],
])('%s is %d', (source, expected) => {
  expect(numberOf(source)).toBe(expected);
});

test('all_files needs a file, and each file one of the globs', () => {
  const files = ['docs/a.md', 'README.md'];
  expect(result('all_files("**")', { files: [] })).toBe(false);
  expect(result('all_files("docs/**")', { files })).toBe(false);
  expect(result('all_files("docs/**", "*.md")', { files })).toBe(true);
  expect(result('any_file("src/**", "*.md")', { files })).toBe(true);
  expect(numberOf('count_files("**/*.md", "docs/**")', { files })).toBe(2);
});

describe('no text takes long', () => {
  const hostile = 'a'.repeat(1_000_000);
  test.each([
    ['contains(body, title)', { body: hostile, title: `${'a'.repeat(30_000)}b${'a'.repeat(30_000)}` }],
    ['contains(body, title)', { body: `${hostile}b`, title: `${'a'.repeat(400_000)}b` }],
    ['starts_with(body, title)', { body: hostile, title: hostile }],
    ['lower(body) == body', { body: hostile }],
    ['length(body) > 5', { body: hostile }],
    ['body < title', { body: hostile, title: `${hostile}b` }],
    ['has_label("a")', { labels: Array.from({ length: 1000 }, () => 'x'.repeat(1000)) }],
  ])('%s', (source, facts) => {
    const run = compileExpression(parseExpression(source, 'boolean'));
    expect(processorTime(() => run(factsWith(facts)), 100)).toBeLessThan(100);
  });

  test('a long search finds what the plain one finds', () => {
    const text = 'abcab'.repeat(60_000);
    for (const part of [
      'abcababcab'.repeat(30),
      `${'abcab'.repeat(40)}x`,
      `c${'ababc'.repeat(50)}`,
      'abcab'.repeat(60_001),
    ]) {
      expect(result('contains(body, title)', { body: text, title: part })).toBe(text.includes(part));
    }
    expect(result('contains(body, title)', { body: `${text}xyz`, title: `${'abcab'.repeat(10)}xyz` })).toBe(true);
  });
});
