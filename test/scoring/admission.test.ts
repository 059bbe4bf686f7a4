import { expect, onTestFinished, test, vi } from 'vitest';
import { judge } from '../../src/scoring/admission.ts';
import { parseRulesFile } from '../../src/scoring/file/rules-file.ts';
import { within } from './processor-time.ts';

/** A rules file with many entries, fifty to a rule. */
function fileOf(count: number, expressionOf: (index: number) => string, define = ''): string {
  const entries = Array.from(
    { length: count },
    (_, index) => `  - { expression: '${expressionOf(index)}', effect: { action: ADD, value: 1 } }\n`,
  );
  const rules = Array.from(
    { length: Math.ceil(count / 50) },
    (_, rule) => `- name: R${rule}\n  logic:\n${entries.slice(50 * rule, 50 * rule + 50).join('')}`,
  );
  return `${define}rules:\n${rules.join('')}`;
}

const reviewsOf = (count: number, expressionOf: (index: number) => string, define?: string) =>
  `${fileOf(count, expressionOf, define).replace('rules:', 'reviews:')}rules: []\n`;

const repeat = (count: number, expression: string) => Array.from({ length: count }, () => expression).join(' || ');

const messagesOf = (text: string) => parseRulesFile(text).problems.map(({ message }) => message);

const globs = Array.from({ length: 190 }, (_, index) => `"${index}/**"`).join(', ');

/** Letters keep it busy. */
const busy = (index: number, text = 'body') => `matches(${text}, "a.{100}${index}")`;

/** Definitions `m0` to `m19` that search texts of letters that keep them busy. */
const quoted = (length: number, textOf: (letters: string) => string) =>
  `define:\n${Array.from({ length: 20 }, (_, index) => `  m${index}: 'matches(${textOf('a'.repeat(length))}, "a.{125}[c${String.fromCharCode(100 + index)}]")'\n`).join('')}`;

// Most are far over the limit, which a small sample shows. What is near it is measured three times.
test.each([
  [
    'a definition with 190 plain globs in 100 entries',
    fileOf(100, () => 'many', `define:\n  many: count_files(${globs}) > 0\n`),
  ],
  [
    '2,500 searches of the description',
    fileOf(500, index => repeat(5, `contains(body, "some words to look for ${index}")`)),
  ],
  ['patterns that the letters of a description keep busy', fileOf(75, index => busy(index))],
  ['900 descriptions in lower case', fileOf(100, () => repeat(9, 'lower(body) == title'))],
  ['texts of which the description is one', fileOf(75, index => busy(index, 'merged ? title : body'))],
  ['slow work behind a condition that seldom holds', fileOf(75, index => `title == "x" && ${busy(index)}`)],
  ['slow globs behind one that always matches', fileOf(60, () => 'any_file("**/*", "**/[a-z]*/**/[a-z]*.[!a-z]*")')],
  [
    'two searches of the description for each of 500 reviewers',
    reviewsOf(2, index => `contains(body, reviewer) && review_comments > ${index}`),
  ],
  [
    'a search of the paths for each of 500 reviewers',
    reviewsOf(30, index => `found && reviews > ${index}`, `define:\n  found: ${repeat(12, 'reviewer in files')}\n`),
  ],
  [
    'a comparison of the description for each of 500 reviewers',
    reviewsOf(60, index => `body < lower(body) && review_comments > ${index}`),
  ],
  [
    'patterns for the names of 500 reviewers',
    reviewsOf(
      40,
      index => `found && reviews > ${index}`,
      `define:\n  found: ${repeat(20, 'glob(reviewer, "*a*b*c*")')}\n`,
    ),
  ],
  [
    'patterns for quoted texts',
    fileOf(
      400,
      index => `m${index % 20} == (size > ${index})`,
      quoted(1_880, letters => `"${letters}"`),
    ),
  ],
  [
    'patterns for quoted texts that each of 500 reviewers chooses',
    reviewsOf(
      50,
      index => `m${index % 20} && reviews > ${index}`,
      quoted(930, letters => `review_comments > 1 ? "${letters}b" : "${letters}"`),
    ),
  ],
])('a file with %s is refused as too slow, within seconds', (_, text) => {
  expect(within(4_000, () => messagesOf(text))).toEqual([
    /^The rules take too long to score one pull request: (about|more than) [\d,]+ ms for the largest one that GitHub can have, and the limit is 200 ms; the slowest are rule "R\d+", entry \d+ \([\d.,]+ ms\).*; use fewer/,
  ]);
});

test('slow rules are refused, even if the machine is slow at the moment that their time is compared with', () => {
  const { cpuUsage } = process;
  let calls = 0;
  const slow = vi.spyOn(process, 'cpuUsage').mockImplementation(begin => {
    const { user, system } = cpuUsage(begin);
    calls += 1;
    // The first two times.
    return { user: calls <= 4 && begin !== undefined ? user + 20_000 : user, system };
  });
  onTestFinished(() => slow.mockRestore());
  expect(messagesOf(fileOf(75, index => busy(index)))).toEqual([expect.stringContaining('The rules take too long')]);
});

test('the problem of rules that are too slow stands at the slowest entry', () => {
  const text = `rules:
- name: Fast
  logic:
  - { expression: merged, effect: { action: ADD, value: 1 } }
- name: Slow
  logic:
  - { expression: 'matches(title, "^fix")', effect: { action: ADD, value: 1 } }
  - { expression: '${Array.from({ length: 40 }, (_, index) => busy(index)).join(' || ')}', effect: { action: ADD, value: 1 } }
`;
  expect(parseRulesFile(text)).toMatchObject({
    problems: [{ line: 8, rule: 'Slow', entry: 2, part: 'expression' }],
    warnings: [],
  });
});

test('rules that are switched off are not measured', () => {
  expect(messagesOf(fileOf(75, index => busy(index)).replace(/- name: R\d+/g, '$&\n  enabled: false'))).toEqual([]);
});

test('a thousand usual entries are fast enough', () => {
  const usual = [
    'size > 10 && merged',
    'has_label("bug") && hours_to_merge <= 24',
    'matches(title, "^(feat|fix): ")',
    'approvals > 0 || author_is_bot',
    'state == "open" && "ada" in assignees',
    'glob(base, "release/*")',
    'author in ["renovate", "dependabot"]',
  ];
  expect(messagesOf(fileOf(1_000, index => usual[index % usual.length] ?? ''))).toEqual([]);
});

test('a search that is the same for all reviewers is fast enough', () => {
  const text = reviewsOf(
    10,
    index =>
      `contains(body, title) && contains(title, reviewer) && reviewer != author && verdict == "approved" && size > ${index}`,
  );
  expect(messagesOf(text)).toEqual([]);
});

test('a file says that it goes on while each entry is checked, and while it is measured', () => {
  let steps = 0;
  parseRulesFile(
    fileOf(50, () => 'any_file("src/**")'),
    () => ++steps,
  );
  expect(steps).toBeGreaterThanOrEqual(100);
});

test('rules that are nearly too slow get a warning', () => {
  const entries = [
    { rule: 'Files', entry: 2, ms: 120.4 },
    { rule: 'Title', entry: 1, ms: 0.123 },
  ];
  expect(judge({ ms: 139.9, isMore: false, entries })).toBeUndefined();
  expect(judge({ ms: 140, isMore: false, entries })).toEqual({
    isRefused: false,
    ...{ rule: 'Files', entry: 2, part: 'expression' },
    message:
      'The rules nearly take too long to score one pull request: about 140 ms for the largest one that GitHub can have, and the limit is 200 ms; the slowest are rule "Files", entry 2 (120 ms), rule "Title", entry 1 (0.12 ms); use fewer or smaller patterns and globs, or read `title` in place of `body`',
  });
  expect(judge({ ms: 200.1, isMore: false, entries })?.isRefused).toBe(true);
});
