import { expect, test } from 'vitest';
import { compileExpression } from '../../src/scoring/language/compile.ts';
import { parseExpression } from '../../src/scoring/language/expression.ts';
import { within } from './processor-time.ts';
import { evaluate, factsWith, problemOf } from './support.ts';

test('case matters to contains, starts_with, ends_with, glob and matches, but not to has_label', () => {
  const facts = { title: 'Fix', labels: ['BUG', 'stra\u00dfe'] };
  expect(evaluate('contains(title, "fix")', facts)).toBe(false);
  expect(evaluate('starts_with(title, "fix")', facts)).toBe(false);
  expect(evaluate('ends_with(title, "IX")', facts)).toBe(false);
  expect(evaluate('glob(title, "fix")', facts)).toBe(false);
  expect(evaluate('matches(title, "fix")', facts)).toBe(false);
  expect(evaluate('contains(labels, "bug")', facts)).toBe(false);
  expect(evaluate('has_label("Stra\u00dfe")', facts)).toBe(true);
  expect(evaluate('has_label(lower(title))', facts)).toBe(false);
});

test('any_label matches globs with whole labels, whatever their case', () => {
  const labels = ['Area/API', 'type/bug', 'Stra\u00dfe'];
  expect(evaluate('any_label("AREA/[A-C]??")', { labels })).toBe(true);
  expect(evaluate('any_label("nothing", "type/{bug,fix}")', { labels })).toBe(true);
  expect(evaluate('any_label("*bug")', { labels })).toBe(false);
  expect(evaluate('any_label("**bug")', { labels })).toBe(true);
  expect(evaluate('any_label("area")', { labels })).toBe(false);
  expect(evaluate('any_label("**")', { labels: [] })).toBe(false);
  expect(evaluate('any_label("/")', { labels: ['/'] })).toBe(true);
  expect(evaluate('any_label("ΤΥΠΟΣ:*")', { labels: ['ΤΥΠΟΣ:bug'] })).toBe(true);
  expect(evaluate('has_label("ΤΥΠΟΣ")', { labels: ['τυποσ'] })).toBe(true);
});

test('contains looks for a whole item of a list', () => {
  expect(evaluate('contains(labels, "bu")', { labels: ['bug'] })).toBe(false);
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
  // A Thursday.
  ['weekday(0)', 4],
  ['weekday(-1)', 3],
  ['weekday(86399.5)', 4],
  ['weekday(0, "-00:01")', 3],
  ['weekday(date("2024-02-29"), "+14:59")', 4],
  ['hour(0)', 0],
  ['hour(-1)', 23],
  ['hour(date("2024-02-29"), "+05:30")', 5],
  ['hour(date("2024-02-29"), "-09:30")', 14],
  ['hour(3599, "+00:00")', 0],
  ['default(0 / 0, 3)', 3],
  ['default(1 / 0, 3)', Number.POSITIVE_INFINITY],
  ['default(default(0 / 0, 0 / 0), 5)', 5],
  ['sqrt(0)', 0],
  ['sqrt(6.25)', 2.5],
  ['log(1)', 0],
  ['exp(0)', 1],
  ['round(log(exp(3)) * 1e9)', 3e9],
  ['exp(-1e9)', 0],
  ['exp(1e9)', Number.POSITIVE_INFINITY],
])('the value of %s is %d', (source, expected) => {
  expect(evaluate(source)).toBe(expected);
});

test.each([
  'sqrt(-1)',
  'log(0)',
  'log(-1)',
  'log(-0)',
  'sqrt(hours_to_merge)',
  'log(hours_to_merge)',
  'exp(hours_to_merge)',
  'weekday(merged_at)',
  'hour(merged_at, "+02:00")',
  'weekday(1 / 0)',
  'hour(-1 / 0)',
])('the value of %s is absent', source => {
  const facts = { hours_to_merge: null, merged_at: null };
  expect(evaluate(source, facts)).toBeNaN();
  expect(evaluate(`${source} + 1 > 0 || ${source} != 1`, facts)).toBe(false);
});

const withLines = {
  files: ['src/a.ts', 'src/b.lock', 'dist/a.js', 'yarn.lock'],
  file_changes: [10, 1, 20, 2, 300, 30, 4_000, 400],
};

test.each([
  ['lines("src/**")', 33],
  ['added("src/**")', 30],
  ['removed("src/**")', 3],
  // A file that several globs match counts once.
  ['lines("src/**", "**/*.lock", "**")', 4_763],
  ['lines("nothing")', 0],
  ['lines_except("**/*.lock", "dist/**")', 11],
  ['lines_except("nothing")', 4_763],
  ['lines_except("**")', 0],
  ['lines("docs/**") + lines_except("docs/**")', 4_763],
])('%s adds up to %d', (source, expected) => {
  expect(evaluate(source, withLines)).toBe(expected);
});

test.each([
  ['known(draft)', '`draft` is true or false, but `known` takes a number, a text or a list'],
  ['default(draft, merged)', '`draft` is true or false, but `default` takes a number or a text'],
  ['default(size, title) > 1', '`title` is a text, but here `default(x, y)` takes a number'],
  ['default(milestone, 0) == "a"', '`0` is a number, but here `default(text, other)` takes a text'],
  ['default(size) > 1', '`default(size)` has 1 value, but `default(x, y)` takes 2'],
  ['weekday(title) > 1', '`title` is a text, but here `weekday(time)` takes a number'],
  ['hour() > 1', '`hour()` has 0 values, but `hour(time)` takes 1'],
  ['hour(created_at, head) > 1', '`head` is not a quoted text, which `hour(time, "+02:00")` needs here'],
  ...['+2', '02:00', '+15:00', '+01:60', 'Z', '', '\u221201:00'].map(offset => [
    `hour(created_at, "${offset}") > 1`,
    `\`hour(created_at, "${offset}")\` has no valid offset from UTC; write it like "+02:00"`,
  ]),
])('%s is refused: %s', (source, message) => {
  expect(problemOf(source)).toBe(message);
});

test('lines are 0 without files, and absent if they are not known', () => {
  for (const name of ['lines', 'lines_except', 'added', 'removed']) {
    expect(evaluate(`${name}("**")`, { files: [], file_changes: [] })).toBe(0);
    expect(evaluate(`${name}("**")`, { files: ['a'], file_changes: null })).toBeNaN();
    expect(evaluate(`${name}("**") >= 0 || ${name}("**") < 0`, { files: ['a'], file_changes: null })).toBe(false);
  }
});

test('lines that are not those of the files are absent', () => {
  expect(evaluate('lines("**")', { files: ['a', 'b'], file_changes: [1, 2] })).toBeNaN();
  expect(evaluate('lines("**") >= 0', { files: ['a'], file_changes: [1, 2, 3, 4] })).toBe(false);
});

test('lines of thousands of files are found after the first hundred', () => {
  const files = Array.from({ length: 3_000 }, (_, index) => (index < 2_999 ? `vendor/${index}` : 'src/a.ts'));
  const file_changes = files.flatMap((_, index) => (index < 2_999 ? [0, 0] : [7, 5]));
  expect(evaluate('lines_except("vendor/**")', { files, file_changes })).toBe(12);
});

test('what functions read besides the facts has no name in rules', () => {
  expect(problemOf('length(file_changes) > 0')).toContain('`file_changes` is not a known fact');
});

test('all_files needs at least one file, and a matching glob for each', () => {
  const files = ['docs/a.md', 'README.md'];
  expect(evaluate('all_files("**")', { files: [] })).toBe(false);
  expect(evaluate('all_files("docs/**")', { files })).toBe(false);
  expect(evaluate('all_files("docs/**", "*.md")', { files })).toBe(true);
  expect(evaluate('any_file("src/**", "*.md")', { files })).toBe(true);
  expect(evaluate('count_files("**/*.md", "docs/**")', { files })).toBe(2);
});

const hostile = 'a'.repeat(1_000_000);
test.each([
  ['contains(body, title)', { body: hostile, title: `${'a'.repeat(30_000)}b${'a'.repeat(30_000)}` }],
  ['contains(body, title)', { body: `${hostile}b`, title: `${'a'.repeat(400_000)}b` }],
  ['starts_with(body, title)', { body: hostile, title: hostile }],
  ['lower(body) == body', { body: hostile }],
  ['length(body) > 5', { body: hostile }],
  ['body < title', { body: hostile, title: `${hostile}b` }],
  ['has_label("a")', { labels: Array.from({ length: 1000 }, () => 'x'.repeat(1000)) }],
])('%s takes less than 100 ms on long texts (case %$)', (source, facts) => {
  const run = compileExpression(parseExpression(source, 'boolean'));
  within(100, () => run(factsWith(facts)));
});
