import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { factTable } from '../../src/scoring/facts.ts';
import { checkRulesFile } from '../../src/scoring/file/check-rules-file.ts';
import { emptyFile, formatRulesFile, parseRulesFile } from '../../src/scoring/file/rules-file.ts';
import type { Ruleset } from '../../src/scoring/ruleset.ts';
import { within } from './processor-time.ts';
import { entry, rule } from './support.ts';

/** `line: message` of each problem. */
const problems = (text: string) => parseRulesFile(text).problems.map(({ line, message }) => `${line}: ${message}`);

const withLogic = (logic: string) => `rules:\n  - name: R\n    logic:\n${logic.replace(/^/gm, '      ')}\n`;

test('rules.example.yaml is valid and its tests pass', () => {
  const file = checkRulesFile(readFileSync(new URL('../../rules.example.yaml', import.meta.url)));
  expect([...file.problems, ...file.warnings]).toEqual([]);
  expect(file.rules.length).toBeGreaterThanOrEqual(5);
  expect(file.tests.length).toBeGreaterThanOrEqual(3);
});

test.each([
  ['5', '5'],
  ['-5', '-5'],
  ['0.50', '0.50'],
  ['1e2', '1e2'],
  ["'5'", '5'],
  ['"size"', 'size'],
  ['|\n      size\n      + 1\n', 'size\n+ 1'],
])('the value %s is taken as its text', (written, value) => {
  const { rules, problems: found } = parseRulesFile(
    withLogic(`- expression: true\n  effect:\n    action: ADD\n    value: ${written}`),
  );
  expect(found).toEqual([]);
  expect(rules[0]?.logic).toEqual([{ expression: 'true', effect: { action: 'ADD', value } }]);
});

test('a description of 2,000 characters is kept, and so is a score with a sign', () => {
  const description = '🙂'.repeat(2_000);
  const {
    rules,
    tests,
    problems: found,
  } = parseRulesFile(
    `rules:\n- name: R\n  description: ${description}\n  logic: [{expression: "true", effect: {action: ADD, value: 1}}]\n` +
      'tests: [{name: one, pull_request: {}, score: -1234567890}, {name: two, pull_request: {}, score: +7}]',
  );
  expect(found).toEqual([]);
  expect(rules[0]?.description).toBe(description);
  expect(tests.map(({ name, score }) => [name, score])).toEqual([
    ['one', -1_234_567_890],
    ['two', 7],
  ]);
});

test.each([
  ['', ''],
  ['~', ''],
  ['null', ''],
  ['""', ''],
  ['"~"', '~'],
  ["'null'", 'null'],
  ['nullified', 'nullified'],
])('the description %s is the text %j', (written, description) => {
  const { rules, problems: found } = parseRulesFile(
    `${withLogic('- {expression: merged, effect: {action: ADD, value: 1}}')}    enabled: true\n    description: ${written}\n`,
  );
  expect([rules[0]?.description, found]).toEqual([description, []]);
});

const fiveEntries = [
  ['merged', 'ADD', '5'],
  ['merged', 'ADD', '10'],
  ['draft', 'SUBTRACT', '4'],
  ['size > 0', 'ADD', 'size'],
  ['comments > 0', 'ADD', 'comments'],
].map(
  ([expression, action, value]) => `- { expression: ${expression}, effect: { action: ${action}, value: ${value} } }`,
);
const relevant = (facts: string, score: number) => {
  const tests = `tests: [{ name: t, pull_request: { ${facts} }, score: ${score} }]`;
  const [problem] = checkRulesFile(Buffer.from(withLogic(fiveEntries.join('\n')) + tests)).problems;
  return problem?.relevant?.map(place => place + 1);
};

test('the entries relevant to a failed test have a true condition, or would bring the score nearer', () => {
  expect(relevant('additions: 1', 6)).toEqual([1, 4]);
  expect(relevant('additions: 1', 11)).toEqual([1, 2, 4]);
  expect(relevant('additions: 7', 2)).toEqual([3, 4]);
  expect(relevant('', -5)).toEqual([3]);
});

test('the entries relevant to a failed test include those that overshoot, if all of them would', () => {
  expect(relevant('additions: 1', 3)).toEqual([1, 2, 4]);
  expect(relevant('draft: true', -3)).toEqual([1, 2, 3]);
});

test('names that differ only by case are those of two rules', () => {
  const rule = (name: string) => `- {name: ${name}, logic: [{expression: merged, effect: {action: ADD, value: 1}}]}\n`;
  const { rules, problems: found } = parseRulesFile(`rules:\n${rule('Size')}${rule('size')}`);
  expect([rules.map(({ name }) => name), found]).toEqual([['Size', 'size'], []]);
});

test.each([
  'rules: []',
  'rules: []\ntests: NULL',
  '\ufeffrules: []\r\n',
  ...['define:', 'define: {}', 'define: ~', 'define: null'].map(define => `${define}\nrules: []`),
])('a file may have no rules, tests or definitions: %j', text => {
  expect(parseRulesFile(text)).toEqual(emptyFile);
});

test.each([
  ['5', '1: The file must be a map with `define`, `rules`, `reviews`, `tests`, not a text'],
  ['- a', '1: The file must be a map with `define`, `rules`, `reviews`, `tests`, not a list'],
  ['rules:', '1: `rules` has no value; list the rules below it, or write `rules: []` for none'],
  ['rules: ~', '1: `rules` has no value; list the rules below it, or write `rules: []` for none'],
  ['rules: # none', '1: `rules` has no value; list the rules below it, or write `rules: []` for none'],
  ['rules: {}', '1: `rules` must be a list, each item beginning with `-`, not a map of keys'],
  ['rules: ""', '1: `rules` must be a list, each item beginning with `-`, not a text'],
  ['tests: []', '1: The file has no `rules`; add them, or `rules: []` for none'],
  ['rules: []\nrules: []', '2: `rules` is given twice; keep one'],
  ['rules: []\ntests: 5', '2: `tests` must be a list, each item beginning with `-`, not a text'],
])('the file %j has the problem %s', (text, problem) => {
  expect(problems(text)).toEqual([problem]);
});

test('a mistake is reported with its line, rule, entry and part, and does not hide others', () => {
  const long = (letter: string) => letter.repeat(90);
  const text = `
rule: []
weather: 1
${long('x')}: 1
rules:
- 5
- logic: []
- { name: "", logic: [] }
- { name: ~, logic: [] }
- { name: " ", logic: [] }
- { name: [R], logic: [] }
- { name: "a\\nb", logic: [] }
- { name: Empty }
- { name: ${long('n')}, logic: [] }
- { name: ${long('m')}, logic: 5 }
- { name: Map, logic: {} }
- name: Keys
  is_enabled: true
  logik: []
- name: Parts
  enabled: maybe
  when: [merged]
  description: [d]
  logic:
  - { expression: sice > 1, effect: { action: PLUS, value: sice } }
  - { expression: [merged], effect: { action: ADD, value: title } }
  - { expression: draft > 1 }
- { name: Parts, enabled: [true], logic: [{ expression: size, effect: { action: ADD, value: 1 } }] }
- logic:
  - { expression: size, effect: { action: ADD, value: 1 } }
  name: Keys
- name: Texts
  description: ${'d'.repeat(2001)}
  enabled: ${long('y')}
- { name: Blank, enabled: ~, logic: [{ expression: ~, effect: { action: null, value: null } }] }
- logic:
  - { expression: size, effect: { action: ADD, value: 1 } }
- name: Entries
  logic:
  - 5
  - { expression: merged, effect: 5 }
  - { expression: merged, effect: { action: [ADD], value: 1 } }
  - { expression: merged, effect: { action: ${long('A')}, value: 1 } }
  - { expression: merged, effect: { action: subtract, value: 1, by: me } }
  - { expression: merged, effekt: {} }
  - { effect: { action: ADD } }
  - expression: additons > 1
    effect:
      action: ADD
      value: min(1)
  - effect: { action: ADD, value: 1 }
    expression:
      weather > 1
tests:
- 5
- {}
- { name: "", pull_request: 5, score: ten }
- { name: ~, pull_request: {}, score: ~ }
- { score: 1.5, name: t, pull_request: {} }
- name: t
  score: 1
  pull_request:
    aditions: 1
    constructor: 1
    __proto__: 2
    ${long('f')}: 1
    additions: many
    deletions: 1e3
    draft: perhaps
    state: mergd
    labels: bug
    assignees: [b, [a]]
    title: [a]
    created_at: yesterday
    merged_at: 2026-02-30
    commits: ~
    body:
- pull_request: {}
  name: ${long('t')}
  score: ${'1'.repeat(90)}
  by: me
`;
  expect(problems(text)).toEqual([
    '2: The file has an unknown key `rule`; did you mean `rules`?',
    '3: The file has an unknown key `weather`; the known keys are `define`, `rules`, `reviews`, `tests`',
    `4: The file has an unknown key \`${'x'.repeat(39)}…\`; the known keys are \`define\`, \`rules\`, \`reviews\`, \`tests\``,
    '6: Rule 1 must be a map with `name`, `description`, `enabled`, `when`, `logic`, not a text',
    '7: Rule 2 has no `name`; add one',
    '8: Rule 3 has an empty name; write one',
    '9: Rule 4 has an empty name; write one',
    '10: Rule 5 has an empty name; write one',
    '11: Rule 6, name: it must be a single value, not a list; put it in quotes',
    '12: Rule "a\\nb" must have a name of one line and at most 200 characters',
    '13: Rule "Empty", logic: it has no entries; write at least one',
    `14: Rule "${'n'.repeat(60)}…", logic: it has no entries; write at least one`,
    `15: Rule "${'m'.repeat(60)}…", logic must be a list, each item beginning with \`-\`, not a text`,
    '16: Rule "Map", logic must be a list, each item beginning with `-`, not a map of keys',
    '18: Rule "Keys" has an unknown key `is_enabled`; did you mean `enabled`?',
    '19: Rule "Keys" has an unknown key `logik`; did you mean `logic`?',
    '21: Rule "Parts", enabled: `maybe` is neither true nor false',
    '22: Rule "Parts", when: it must be a single value, not a list; put it in quotes',
    '23: Rule "Parts", description: it must be a single value, not a list; put it in quotes',
    '25: Rule "Parts", entry 1, action: `PLUS` is not an action; write ADD or SUBTRACT',
    '25: Rule "Parts", entry 1, expression: `sice` is not a known fact; did you mean `size`?',
    '25: Rule "Parts", entry 1, value: `sice` is not a known fact; did you mean `size`?',
    '26: Rule "Parts", entry 2, expression: it must be a single value, not a list; put it in quotes',
    '26: Rule "Parts", entry 2, value: `title` is a text, but a value must be a number; choose one, as in `merged ? 10 : 0`',
    '27: Rule "Parts", entry 3 has no `effect`; add one, such as { action: ADD, value: "5" }',
    '27: Rule "Parts", entry 3, expression: `draft` is true or false and `1` is a number, but `>` compares values of the same type',
    '28: Rule "Parts" is in the file twice; give each rule its own name',
    '28: Rule "Parts", enabled: it must be a single value, not a list; put it in quotes',
    '28: Rule "Parts", entry 1, expression: `size` is a number, but a condition must be true or false; compare it, as in `size > 0`',
    '30: Rule "Keys", entry 1, expression: `size` is a number, but a condition must be true or false; compare it, as in `size > 0`',
    '31: Rule "Keys" is in the file twice; give each rule its own name',
    '33: Rule "Texts" has a description of more than 2000 characters; shorten it',
    `34: Rule "Texts", enabled: \`${'y'.repeat(39)}…\` is neither true nor false`,
    '35: Rule "Blank", enabled: an empty value is neither true nor false',
    '35: Rule "Blank", entry 1, action: an empty value is not an action; write ADD or SUBTRACT',
    '35: Rule "Blank", entry 1, expression: it is empty; write a value',
    '35: Rule "Blank", entry 1, value: it is empty; write a value',
    '36: Rule 18 has no `name`; add one',
    '37: Rule 18, entry 1, expression: `size` is a number, but a condition must be true or false; compare it, as in `size > 0`',
    '40: Rule "Entries", entry 1 must be a map with `expression`, `effect`, not a text',
    '41: Rule "Entries", entry 2, effect must be a map with `action`, `value`, not a text',
    '42: Rule "Entries", entry 3, effect, action: it must be a single value, not a list; put it in quotes',
    `43: Rule "Entries", entry 4, action: \`${'A'.repeat(39)}…\` is not an action; write ADD or SUBTRACT`,
    '44: Rule "Entries", entry 5, effect has an unknown key `by`; the known keys are `action`, `value`',
    '44: Rule "Entries", entry 5, action: `subtract` is not an action; did you mean `SUBTRACT`?',
    '45: Rule "Entries", entry 6 has an unknown key `effekt`; did you mean `effect`?',
    '45: Rule "Entries", entry 6 has no `effect`; add one, such as { action: ADD, value: "5" }',
    '46: Rule "Entries", entry 7 has no `expression`; add one',
    '46: Rule "Entries", entry 7, effect has no `value`; add one',
    '47: Rule "Entries", entry 8, expression: `additons` is not a known fact; did you mean `additions`?',
    '50: Rule "Entries", entry 8, value: `min(1)` has 1 value, but `min(a, b, …)` takes 2 or more',
    '53: Rule "Entries", entry 9, expression: `weather` is not a known fact; docs/rules.md lists all facts',
    '55: Test 1 must be a map with `name`, `pull_request`, `reviews`, `score`, not a text',
    '56: Test 2 has no `name`; add one',
    '56: Test 2 has no `score`; add one',
    '56: Test 2 has no `pull_request`; write the facts that matter, or {}',
    '57: Test 3 has an empty name; write one',
    '57: Test 3, score: `ten` is not a whole number',
    '57: Test 3, pull_request: it must be a map of facts, such as { additions: 10 }',
    '58: Test 4 has an empty name; write one',
    '58: Test 4, score: an empty value is not a whole number',
    '59: Test "t", score: `1.5` is not a whole number',
    '60: Test "t" is in the file twice; give each test its own name',
    '63: Test "t", pull_request: `aditions` is not a known fact; did you mean `additions`?',
    '64: Test "t", pull_request: `constructor` is not a known fact; docs/rules.md lists all facts',
    '65: Test "t", pull_request: `__proto__` is not a known fact; docs/rules.md lists all facts',
    `66: Test "t", pull_request: \`${'f'.repeat(39)}…\` is not a known fact; docs/rules.md lists all facts`,
    '67: Test "t", pull_request, additions: it must be a whole number from 0 to 2147483647',
    '68: Test "t", pull_request, deletions: it must be a whole number from 0 to 2147483647',
    '69: Test "t", pull_request, draft: it must be true or false',
    '70: Test "t", pull_request, state: it must be one of open, draft, closed, merged; did you mean `merged`?',
    '71: Test "t", pull_request, labels: it must be a list, such as [one, two]',
    '72: Test "t", pull_request, assignees: it must be a list of texts; quote those that contain `: ` or are empty',
    '73: Test "t", pull_request, title: it must be a single value; put it in quotes',
    '74: Test "t", pull_request, created_at: it must be a Unix time in whole seconds, a day such as 2026-01-31 or a time such as 2026-01-31T12:30:00Z',
    '75: Test "t", pull_request, merged_at: it must be a Unix time in whole seconds, a day such as 2026-01-31 or a time such as 2026-01-31T12:30:00Z',
    '76: Test "t", pull_request, commits: it always has a value; write one, or leave the fact out',
    '77: Test "t", pull_request, body: it always has a value; write one, or leave the fact out',
    `80: Test "${'t'.repeat(60)}…", score: \`${'1'.repeat(39)}…\` is not a whole number`,
    '81: Test 7 has an unknown key `by`; the known keys are `name`, `pull_request`, `reviews`, `score`',
  ]);
  expect(parseRulesFile(text)).toEqual({ ...emptyFile, problems: expect.any(Array) });
});

test('a message shows the beginning of a long text, and never half a character', () => {
  const long = `x${'🙂'.repeat(99)}`;
  const messages = problems(`
define: { ${long}: 1 }
${long}: 1
rules:
- { name: ${long}, enabled: ${long}, logic: [{ expression: ${long}, effect: { action: ${long}, value: ${long} } }] }
- { name: ${long}, description: a${long}, b, logic: [] }
tests:
- { name: ${long}, pull_request: { ${long}: 1, base: ${long}, b }, score: ${long} }
- { name: ${long}, pull_request: { state: open, merged_by: ${long} }, score: 1 }
- { name: u, pull_request: {}, reviews: [{ reviewer: ${long}, score: 1 }, { reviewer: ${long}, score: 1 }] }
`);
  expect(messages.length).toBeGreaterThan(12);
  // Surrogates that are not in pairs are written as escapes in quotes.
  for (const message of messages) expect(message).not.toMatch(/\\u|\p{Surrogate}|🙂{61}/u);
});

test('a rule whose name is cut at a comma is named as it is read', () => {
  expect(
    problems('rules:\n- { name: $&, b, logic: [{ expression: sice > 1, effect: { action: ADD, value: 1 } }] }')[1],
  ).toMatch(/^2: Rule "\$&", entry 1, expression: `sice` is not/);
});

test('a file may have 200 rules, 50 entries in a rule and 200 characters in a name, and no more', () => {
  const entry = '{expression: "true", effect: {action: ADD, value: 1}}';
  const rule = (name: string, entries: number) =>
    `- {name: ${name}, logic: [${Array.from({ length: entries }, () => entry).join()}]}\n`;
  const rules = (count: number) =>
    `rules:\n${Array.from({ length: count }, (_, index) => rule(`R${index}`, 1)).join('')}`;
  expect(problems(rules(200))).toEqual([]);
  expect(problems(rules(201))).toEqual(['202: `rules` has 201 rules, more than 200']);
  expect(problems(`rules:\n${rule('R', 50)}`)).toEqual([]);
  for (const count of [51, 300]) {
    expect(problems(`rules:\n${rule('R', count)}`)).toEqual([
      `2: Rule "R", logic: it has ${count} entries, more than 50; split the rule`,
    ]);
  }
  expect(problems(`rules:\n${rule('\u{1F642}'.repeat(200), 1)}`)).toEqual([]);
  expect(problems(`rules:\n${rule('R'.repeat(201), 1)}`)[0]).toContain('at most 200 characters');
});

const logic = '  logic:\n  - {expression: small, effect: {action: ADD, value: points}}\n';

test('a file with definitions and conditions of rules is read, and its tests run', () => {
  const file = checkRulesFile(
    Buffer.from(
      `define:\n  small: size <= limit\n  limit: 200\n  points: "merged ? 5 : 2"\nrules:\n- name: R\n  when: '!draft'\n${logic}tests:\n- {name: t, pull_request: {additions: 200, merged: true}, score: 5}\n- {name: u, pull_request: {draft: true}, score: 0}\n`,
    ),
  );
  expect(file.problems).toEqual([]);
  expect(file.definitions).toEqual([
    { name: 'small', expression: 'size <= limit' },
    { name: 'limit', expression: '200' },
    { name: 'points', expression: 'merged ? 5 : 2' },
  ]);
  expect(file.rules).toEqual([
    {
      name: 'R',
      description: '',
      is_enabled: true,
      when: '!draft',
      logic: [{ expression: 'small', effect: { action: 'ADD', value: 'points' } }],
    },
  ]);
});

test('rules are written as they were read, in their order', () => {
  const long = `title != "${'x'.repeat(300)}"`;
  const ruleset: Ruleset = {
    definitions: [
      { name: 'zebra', expression: 'title == "a: b" && ape > 1\n&& merged' },
      { name: 'ape', expression: '5' },
      { name: 'constructor', expression: 'size' },
    ],
    rules: [
      { ...rule('R', entry('true', 'ape')), is_enabled: false, when: '!draft && zebra' },
      { ...rule('Small: "and" merged', entry(long, 'size', 'SUBTRACT')), description: 'Two\nlines.' },
    ],
    reviews: [rule('true', entry('hours_to_review < 2', 'constructor'))],
  };
  const text = formatRulesFile(ruleset);
  expect(parseRulesFile(text)).toMatchObject({ ...ruleset, tests: [], problems: [] });
  // Nothing is folded, so that a change of one line is a difference of one line.
  expect(text).toBe(`define:
  zebra: |-
    title == "a: b" && ape > 1
    && merged
  ape: "5"
  constructor: size
rules:
  - name: R
    enabled: false
    when: "!draft && zebra"
    logic:
      - expression: "true"
        effect:
          action: ADD
          value: ape
  - name: 'Small: "and" merged'
    description: |-
      Two
      lines.
    logic:
      - expression: ${long}
        effect:
          action: SUBTRACT
          value: size
reviews:
  - name: "true"
    logic:
      - expression: hours_to_review < 2
        effect:
          action: ADD
          value: constructor
`);
  expect(formatRulesFile({ ...ruleset, reviews: [], definitions: [] })).toMatch(/^rules:(?![\s\S]*reviews:)/);
});

test.each<[string, string[]]>([
  ['define: [a]', ['1: `define` must be a map of names to expressions, not a list']],
  ['define: size', ['1: `define` must be a map of names to expressions, not a text']],
  ['define:\n  a: [x, ~]', ['2: Definition "a": each item of its list must be a text']],
  ['define:\n  a: [[x]]', ['2: Definition "a": each item of its list must be a text']],
  [
    'define:\n  a:\n    b: 1',
    ['3: Definition "a": it must be an expression such as `size > 0`, or a list of texts, not a map of keys'],
  ],
  ['define:\n  a: 1\n  a: 2', ['3: `a` is given twice; keep one']],
  ...['true', 'false', 'null', 'undefined', 'in', 'and', 'or', 'not'].map((name): [string, string[]] => [
    `define:\n  ${name}: 1`,
    [`2: Definition "${name}": its name is a word of the rule language; choose another one`],
  ]),
  ...['__proto__', '_a', '1a', 'a-b', 'a.b', 'a b', '$a', 'a$', 'naïve', '', 'a\u200b', 'a'.repeat(61)].map(
    (name): [string, string[]] => [
      `define:\n  ${JSON.stringify(name)}: 1`,
      [
        `2: Definition ${JSON.stringify(name)}: its name must begin with a letter and consist of at most 60 letters, digits and \`_\``,
      ],
    ],
  ),
])('definitions that are not valid are told in one line: %j', (define, expected) => {
  expect(problems(`${define}\nrules: []`)).toEqual(expected);
});

test('a rule does not fail a second time if only the name of a definition is wrong', () => {
  const used = '- {name: R, logic: [{expression: size == 1, effect: {action: ADD, value: size}}]}';
  expect(problems(`define:\n  size: 1\nrules:\n${used}`)).toHaveLength(1);
});

test('a definition that stands for a fact or a text is checked like these', () => {
  const wrong = '`"Merged"` is not a value of `state`; did you mean `"merged"`?';
  expect(
    problems(
      `define:\n  its_state: state\n  done: its_state == "Merged"\n  wanted: draft ? "draft" :"Merged"\nrules:\n- {name: R, when: wanted == its_state, logic: [{expression: 'its_state in ["Merged"]', effect: {action: ADD, value: 1}}]}`,
    ),
  ).toEqual([
    `3: Definition "done": ${wrong}`,
    `6: Rule "R", when: ${wrong}`,
    `6: Rule "R", entry 1, expression: ${wrong}`,
  ]);
});

test('a file may have 200 definitions, and no more', () => {
  const defined = (count: number) =>
    `define:\n${Array.from({ length: count }, (_, index) => `  d${index}: size > ${index}\n`).join('')}rules: []`;
  expect(problems(defined(200))).toEqual([]);
  // The others are not checked.
  const wrong = defined(201).replace('size > 200', 'sice > 200');
  expect(problems(wrong)).toEqual(['2: The file has 201 definitions, more than 200']);
});

test('hundreds of unknown names end the check within a second', () => {
  const defined = Array.from({ length: 100 }, (_, index) => `  ${'d'.repeat(50)}${index}: 1\n`).join('');
  const entry = `{expression: ${'e'.repeat(55)}, effect: {action: ADD, value: ${'f'.repeat(55)}}}`;
  const entries = Array.from({ length: 50 }, () => entry).join();
  const rules = Array.from({ length: 5 }, (_, index) => `- {name: R${index}, logic: [${entries}]}\n`).join('');
  expect(within(1_000, () => problems(`define:\n${defined}rules:\n${rules}`)).slice(100)).toEqual([
    '104: The check ends here; fix the other problems first',
  ]);
});

const found = (text: string) => parseRulesFile(text).problems;
const commaIn = (cut: string, quoted: string) =>
  `inside { } a comma ends a value, so this one is only \`${cut}\`; put it in quotes: ${quoted}`;

test.each([
  ['{ value: clamp(size, 1, 5), action: ADD }', 'clamp(size', '"clamp(size, 1, 5)"'],
  ['{action: ADD, value: max(1,min(5 ,size) )}', 'max(1', '"max(1,min(5 ,size) )"'],
])('a value cut at a comma in %s is told with the whole value in quotes', (effect, cut, quoted) => {
  expect(found(withLogic(`- expression: merged\n  effect: ${effect}`))).toEqual([
    {
      line: 5,
      message: `Rule "R", entry 1, effect, value: ${commaIn(cut, quoted)}`,
      rule: 'R',
      entry: 1,
      part: 'value',
    },
  ]);
});

test('a value cut at a comma in a definition, a description or a test is told', () => {
  expect(
    problems(
      'define: { most: min(5, size), b: 1 }\nrules:\n- { name: R, description: Yes, please, logic: [{ expression: "true", effect: { action: ADD, value: 1 } }] }\ntests:\n- { name: t, pull_request: { title: a, b }, score: 1 }',
    ),
  ).toEqual([
    `1: Definition "most": ${commaIn('min(5', '"min(5, size)"')}`,
    `3: Rule "R", description: ${commaIn('Yes', '"Yes, please"')}`,
    `5: Test "t", pull_request, title: ${commaIn('a', '"a, b"')}`,
  ]);
});

test('an unknown key is reported at its own line, wherever its value begins', () => {
  expect(problems('rules: []\nrule:\n\n  # The first one.\n  - name: A\ntest:\n  - name: t\n')).toEqual([
    '2: The file has an unknown key `rule`; did you mean `rules`?',
    '6: The file has an unknown key `test`; did you mean `tests`?',
  ]);
});

test('the message about a comma quotes no whole value if what follows can be no part of it', () => {
  expect(problems(withLogic('- { expression: merged, effect: { action: ADD, value: 5, by } }'))).toEqual([
    '4: Rule "R", entry 1, effect, value: inside { } a comma ends a value, so this one is only `5`; remove what follows, or put all of it in quotes',
  ]);
  expect(problems(withLogic('- { expression: merged, effect: { action: ADD, value } }'))).toEqual([
    '4: Rule "R", entry 1, value: it is empty; write a value',
  ]);
  expect(problems(withLogic('- { expression: merged, effect: { action:ADD, value: 5 } }'))[0]).toBe(
    '4: Rule "R", entry 1, effect has an unknown key `action:ADD`; write a space after `action:`',
  );
});

const comment = (cut: string) => `in YAML, \`#\` after a space starts a comment, which cut off \`${cut}\``;

test.each([
  ['title == a #b', `\`a\` is not a known fact; did you mean the text \`"a"\`? ${comment('#b').replace('in', 'In')}`],
  ['merged && #all of them', `a value is missing after \`&&\`; ${comment('#all of them')}`],
])('an expression cut at # in %s is told if the rest is not valid', (expression, message) => {
  expect(problems(withLogic(`- expression: ${expression}\n  effect: { action: ADD, value: 1 }`))).toEqual([
    `4: Rule "R", entry 1, expression: ${message}`,
  ]);
  expect(problems(`define:\n  a: ${expression}\nrules: []`)[0]).toContain(' YAML, `#` after a space starts a comment');
});

test('a comment after # is fine if the rest is valid, and so is # in quotes', () => {
  const rule = (expression: string) =>
    problems(withLogic(`- expression: ${expression}\n  effect: { action: ADD, value: 1 }`));
  expect(rule('merged # by anybody')).toEqual([]);
  expect(rule('matches(title, "#12")')).toEqual([]);
  expect(rule(`'matches(title, "fix #12")' # or later`)).toEqual([]);
  expect(rule('"titel == 1" # or later').join()).not.toContain('comment');
});

const advice = (line: string) =>
  parseRulesFile(
    `rules:\n  - name: R\n    logic:\n      - expression: merged\n        effect: { action: ADD, value: 5 }\n  ${line}`,
  )
    .problems.map(({ line, part, message }) => `${line} ${part}: ${message.split('; ').slice(1).join('; ')}`)
    .join();

test.each([
  ['- name: S: T', 'name', `"S: T"`],
  ['- name: &S T', 'name', `"&S T"`],
  ["- { name: S: don't, logic: [] }", 'name', `"S: don't"`],
  ['- name: "S" and T', 'name', `'"S" and T'`],
  ['  when: !draft', 'when', '"!draft"'],
  ['  when: !any_file("a")', 'when', `'!any_file("a")'`],
  ['  when: merged ? draft : false', 'when', '"merged ? draft : false"'],
  ['  when: matches(title, "^fix: ")', 'when', `'matches(title, "^fix: ")'`],
  ['  when: "bug" in labels', 'when', `'"bug" in labels'`],
  ['  when: "has_label("bug")"', 'when', `'has_label("bug")'`],
  ["  when: 'has_label('bug')'", 'when', `"has_label('bug')"`],
  ["  when: 'title == 'a' || matches(title, '\\d')'", 'when', `'title == ''a'' || matches(title, ''\\\\d'')'`],
  [`  when: "matches(title, '\\d+')"`, 'when', `'matches(title, ''\\\\d+'')'`],
  ['  when: "matches(title, \\"\\d+\\")"', 'when', `'matches(title, "\\\\d+")'`],
  [
    '- { name: S, logic: [{ expression: contains(title, "a"), effect: { action: ADD, value: 1 } }] }',
    'expression',
    `'contains(title, "a")'`,
  ],
  [
    '- { name: S, logic: [{ expression: merged, effect: { action: ADD, value: merged ? 1 : 2 } }] }',
    'value',
    `"merged ? 1 : 2"`,
  ],
  [
    '- { name: S, logic: [{ expression: "merged", effect: { action: ADD, value: "min(5, lines("a/**"))" } }] }',
    'value',
    `'min(5, lines("a/**"))'`,
  ],
])('the message about the line %s names the part %s, and shows it as %s', (line, part, quoted) => {
  const quotes = quoted.startsWith("'") ? 'single quotes' : 'quotes';
  expect(advice(line)).toBe(`6 ${part}: put the value of \`${part}\` in ${quotes}: ${quoted}`);
});

test.each([
  [
    '- { name: S, logic: [{ expression: merged effect: { action: ADD, value: 1 } }] }',
    '6 null: separate the keys inside { } by commas',
  ],
  ['- name: S\n     logic: []', '6 null: indent the keys of one map alike'],
  ['  when: > 5', '6 null: compare it with rules.example.yaml'],
  ['  when: @x', '6 null: compare it with rules.example.yaml'],
  ['  when: "merged\n', '6 null: close it'],
  ['- { name: S, logic: [ # none yet ] }\n', '6 null: close it; `#` after a space starts a comment'],
  ['  tags: [a\n', '6 null: close it'],
  ['\t- name: S', '6 null: indent with spaces, not tabs'],
  ['  when: !!set {}', '6 null: leave it out'],
])('the message about the line %s suggests no quotes', (line, expected) => {
  expect(advice(line)).toBe(expected);
});

test('the message about an unclosed quote or bracket names the line where it begins', () => {
  expect(problems('rules:\n- name: "R\n  logic: []\n')).toEqual([
    '2: The file is not YAML: `"` is not closed; close it',
  ]);
  expect(problems('rules:\n- name: R\n  logic: [\n')).toEqual(['3: The file is not YAML: `[` is not closed; close it']);
});

test('backslashes in double quotes are told to stand in single ones', () => {
  const when = (text: string) =>
    problems(`${withLogic('- { expression: merged, effect: { action: ADD, value: 1 } }')}    when: ${text}`);
  const message = (rest: string) => [
    `5: Rule "R", when: \`\\d\` is not a valid escape; write \`\\\\d\` for a backslash${rest}`,
  ];
  expect(when('"matches(title, \\"\\\\d\\")"')).toEqual(
    message(`; YAML's double quotes halve backslashes: put the expression in single quotes: 'matches(title, "\\\\d")'`),
  );
  expect(when(`'matches(title, "\\d")'`)).toEqual(message(''));
  expect(when('matches(title, "\\d")')).toEqual(message(''));
});

test.each(['', '\n \n', '# nothing yet\n', '---\n', '\ufeff', '~'])('the empty file %j is called empty', text => {
  expect(parseRulesFile(text).problems).toEqual([
    {
      line: 1,
      message: 'The file is empty; write its `rules`, as rules.example.yaml does',
      rule: null,
      entry: null,
      part: null,
    },
  ]);
});

test.each([
  ['anchors and aliases', 'a: &a [x]\nrules: *a', '2: `*a`: aliases are not supported; write the value out'],
  [
    'an alias bomb',
    `a: &a [${'x,'.repeat(50)}]\nb: &b [${'*a,'.repeat(50)}]\nrules: [*b]`,
    'aliases are not supported',
  ],
  [
    'an anchor that begins a text',
    'rules: []\ntests:\n- { name: t, pull_request: { labels: [&a b] }, score: 0 }',
    '3: `&a` is an anchor in YAML, which is not supported; leave it out, or put the text in quotes',
  ],
  ['merge keys', 'rules:\n- <<: {name: A}', 'unknown key `<<`'],
  ['NUL', 'rules:\n- name: "a\\0b"', '2: A text contains NUL'],
  ['half a character', 'rules:\n- name: "a\\ud800"', 'half of a surrogate pair'],
  ['a key that is a map', 'rules: []\n? {a: b}\n: c', '2: A key must be a plain word'],
  [
    'a key twice, however long',
    `a: 1\n${'k'.repeat(70)}: 1\n${'k'.repeat(70)}: 2`,
    `3: \`${'k'.repeat(39)}…\` is given twice; keep one`,
  ],
  ['a second document', 'rules: []\n---\nrules: []', '2: The file holds more than one YAML document; keep one'],
  ['a list in a rule', 'rules:\n- name: a\n  logic: !x []', '3: `!x` is a tag in YAML'],
  [
    'depth further down',
    `rules:\n- ${'['.repeat(40)}${']'.repeat(40)}`,
    '2: The file is nested too deeply for a rules file',
  ],
  [
    'one character too many',
    `rules: [] #${'x'.repeat(1_000_000 - 10)}`,
    '1: The file is longer than 1000000 characters; shorten it',
  ],
  ['100,000 open brackets', '['.repeat(100_000), 'nested too deeply'],
  ['100,000 dashes', '- '.repeat(100_000), 'nested too deeply'],
  ['100,000 maps in maps', '{a: '.repeat(100_000), 'nested too deeply'],
  ['keys in keys', '? '.repeat(100_000), 'nested too deeply'],
  [
    'deep indentation',
    Array.from({ length: 1000 }, (_, depth) => `${' '.repeat(depth)}a:`).join('\n'),
    'nested too deeply',
  ],
  ['2 MB', `rules: [] #${'x'.repeat(2_000_000)}`, 'longer than 1000000 characters'],
  ['10,000 values in one line', `rules: [${'{a: ('.repeat(5)}${', b: ('.repeat(10_000)}`, 'The file is not YAML'],
  ['5,000 characters in one line', `rules: [${'{a: ('.repeat(5)}${', b: ('.repeat(800)}`, 'The file is not YAML'],
  [
    'a long gap before a comma',
    `rules: [{ name: R, description: a${' '.repeat(400_000)}\n${' '.repeat(400_000)}b, c }]`,
    'a comma ends a value',
  ],
  ['20,000 keys without values', `rules: [{ name: R, description: a${', b'.repeat(20_000)} }]`, 'a comma ends a value'],
  ['half a million parts', '- a\n'.repeat(200_000), 'too many parts'],
  ['20,000 keys', Array.from({ length: 20_000 }, (_, index) => `k${index}: 1`).join('\n'), 'has an unknown key'],
])('YAML with %s is refused within two seconds', (_, text, message) => {
  expect(within(2_000, () => problems(text)).join('\n')).toContain(message);
});

test('a rules file may be 32 levels deep, the map and its text included', () => {
  const nested = (depth: number) => problems(`rules: ${'['.repeat(depth)}${']'.repeat(depth)}`).join();
  expect(nested(30)).not.toContain('nested too deeply');
  expect(nested(31)).toContain('nested too deeply');
});

test.each([
  ['{}', 'state == "open" && !merged && !draft && size == 0 && title == "" && length(files) == 0'],
  ['{}', '!(merged_at >= 0) && !(hours_to_merge >= 0) && !(milestone == "")'],
  [
    '{}',
    'body == "" && author == "" && length(author_association) == 0 && base == "" && head == "" && repository == "" && !from_fork && !author_is_bot',
  ],
  ['{}', 'length(labels) + length(assignees) + number + commits + comments + reviews + approvals + updated_at == 0'],
  ['{hours_to_merge: ~}', '!(hours_to_merge >= 0)'],
  ['{created_at: 0, closed_at: 7200}', 'hours_to_close == 2 && !(hours_to_merge >= 0)'],
  ['{created_at: 0, closed_at: 7200, merged_at: 3600}', 'hours_to_close == 2 && hours_to_merge == 1'],
  ['{closed_at: 7200}', '!(hours_to_close >= 0)'],
  ['{created_at: 0, merged_at: ~}', '!(hours_to_merge >= 0)'],
  ['{additions: +5, deletions: 2}', 'size == 7'],
  ['{state: merged}', 'merged'],
  ['{merged_at: 2026-01-02}', 'merged && state == "merged" && !(hours_to_merge > 0)'],
  ['{hours_to_merge: 2}', 'merged'],
  ['{merged_by: ada}', 'merged'],
  ['{closed_at: 2026-01-02}', 'state == "closed" && !merged && !draft'],
  ['{closed_at: 2026-01-02, draft: true}', 'state == "closed" && draft'],
  ['{closed_at: 2026-01-02, merged: true}', 'state == "merged"'],
  ['{merged: true}', 'state == "merged"'],
  ['{state: draft}', 'draft'],
  ['{draft: true}', 'state == "draft"'],
  ['{draft: true, state: closed}', 'draft && state == "closed"'],
  ['{created_at: 2026-01-01, merged_at: 2026-01-02}', 'hours_to_merge == 24 && hours_to_close == 24'],
  ['{created_at: 2026-01-02T17:00:30Z}', 'created_at == date("2026-01-02") + 17 * 3600 + 30'],
  ['{hours_to_merge: 2.25}', 'hours_to_merge == 2.25'],
  ['{from_fork: false, author_is_bot: true}', '!from_fork && author_is_bot'],
  ['{milestone: , title: ""}', '!(milestone == "") && title == ""'],
  ['{created_at: 1767225600}', 'created_at == date("2026-01-01") && updated_at == created_at'],
  ['{files: [a, b]}', 'changed_files == 2 && "a" in files'],
  ['{files: [a, b], changed_files: 200}', 'changed_files == 200'],
  [
    '{files: [{path: a, additions: 40, deletions: 12}, b, {path: c, deletions: "3"}]}',
    'lines("a") == 52 && lines_except("a") == 3 && lines("b") == 0 && additions == 40 && deletions == 15 && size == 55',
  ],
  ['{files: [{path: a, additions: 40}], additions: 90}', 'added("a") == 40 && additions == 90 && size == 90'],
  ['{additions: 90}', 'lines("**") == 0 && lines_except("x") == 0'],
  ['{changes_requested: 2}', 'times_changes_requested == 2'],
  ['{}', 'bot_reviews + writer_approvals + times_changes_requested == 0 && !self_merged && !(merged_by >= "")'],
  ['{author: ada, merged_by: ada}', 'self_merged'],
  ['{author: ada, merged_by: bob}', '!self_merged && merged_by == "bob"'],
  ['{author: ada, self_merged: true}', 'merged && merged_by == "ada"'],
  ['{milestone: ~, title: "~"}', '!(milestone != "x") && title == "~"'],
  ['{milestone: ""}', 'milestone == ""'],
  ['{title: 5, author: true}', 'title == "5" && author == "true"'],
  ['{created_at: 0, merged_at: 7200}', 'ready_at == 0 && hours_from_ready_to_merge == 2'],
  ['{created_at: 0, ready_at: 3600, merged_at: 7200}', 'hours_to_merge == 2 && hours_from_ready_to_merge == 1'],
  ['{created_at: 0, draft: true}', '!known(ready_at)'],
  ['{ready_at: 0}', 'state == "open" && !known(hours_from_ready_to_merge)'],
  ['{hours_from_ready_to_merge: 3}', 'merged'],
  ['{reviews: 3}', 'distinct_reviewers == 1'],
  ['{}', 'distinct_reviewers == 0 && !known(review_decision) && !repository_is_archived && !repository_is_private'],
  ['{labels: [1, "true"]}', '"1" in labels && has_label("TRUE")'],
])('a test with the facts %s meets %s', (facts, expression) => {
  const logic = withLogic(`- expression: ${JSON.stringify(expression)}\n  effect: {action: ADD, value: 7}`);
  const text = `${logic}tests:\n- {name: t, pull_request: ${facts}, score: 7}`;
  expect(checkRulesFile(Buffer.from(text)).problems).toEqual([]);
});

const factProblems = (facts: string) =>
  parseRulesFile(
    `rules: []\ntests:\n- name: t\n  score: 0\n  pull_request: {\n    ${facts.replaceAll('; ', ',\n    ')} }\n`,
  ).problems;

const listOfFiles = 'a list of paths, or of files such as { path: src/a.ts, additions: 40, deletions: 12 }';

test.each([
  ['additions: -1', 'a whole number from 0 to 2147483647'],
  ['commits: 1.5', 'a whole number from 0 to 2147483647'],
  ['reviews: 2147483648', 'a whole number from 0 to 2147483647'],
  ['hours_to_merge: -0.5', 'a number of hours, 0 or more'],
  ...['-1', '1767225600.5', '253402300800', '2026-02-30T12:30:00Z', '2026-01-31T24:00:00Z', '2026-01-31T12:30Z'].map(
    time => [
      `created_at: ${time}`,
      'a Unix time in whole seconds, a day such as 2026-01-31 or a time such as 2026-01-31T12:30:00Z',
    ],
  ),
  ['author_association: member', `one of ${factTable.author_association.values?.join(', ')}; did you mean \`MEMBER\`?`],
  ['state: done', 'one of open, draft, closed, merged'],
  ['labels: [a, null]', 'a list of texts; quote those that contain `: ` or are empty'],
  ['labels: [a: b]', 'a list of texts; quote those that contain `: ` or are empty'],
  ['files: [~]', listOfFiles],
  ['files: [{ path: a, additions: -1 }]', listOfFiles],
  ['files: [{ path: a, additions: 1.5 }]', listOfFiles],
])('a test refuses what GitHub never says: %s', (fact, form) => {
  const [name = ''] = fact.split(':');
  expect(factProblems(fact)).toEqual([
    {
      ...{ line: 6, rule: null, entry: null, part: name },
      message: `Test "t", pull_request, ${name}: it must be ${form}`,
    },
  ]);
});

test.each([
  ['merged: true; state: open', 'state', 'merged'],
  ['state: merged; merged: false', 'merged', 'state'],
  ['draft: true; merged: true', 'merged', 'draft'],
  ['draft: true; state: open', 'state', 'draft'],
  ['draft: false; state: draft', 'state', 'draft'],
  ['state: closed; merged_at: 2026-01-02', 'merged_at', 'state'],
  ['merged: true; merged_at: ~', 'merged_at', 'merged'],
  ['merged: false; hours_to_merge: 2', 'hours_to_merge', 'merged'],
  ['state: merged; hours_to_merge:', 'hours_to_merge', 'state'],
  ['state: open; merged_by: ada', 'merged_by', 'state'],
  ['state: draft; self_merged: true', 'self_merged', 'state'],
  ['state: open; closed_at: 2026-01-02', 'closed_at', 'state'],
  ['state: closed; closed_at: null', 'closed_at', 'state'],
  ['draft: true; hours_to_close: 2; merged: true', 'merged', 'draft'],
  ['state: draft; ready_at: 2026-01-02', 'ready_at', 'state'],
  ['draft: true; ready_at: 2026-01-02', 'ready_at', 'draft'],
  ['hours_from_ready_to_first_review: 1; state: closed; draft: true', 'hours_from_ready_to_first_review', 'draft'],
  ['hours_from_ready_to_merge: 1; state: open', 'state', 'hours_from_ready_to_merge'],
  ['created_at: 2026-01-02; ready_at: 2026-01-01', 'created_at', 'ready_at', 'never later'],
  ['distinct_reviewers: 3; reviews: 2', 'distinct_reviewers', 'reviews', 'never more'],
  [
    'ready_at: 2026-01-01; merged_at: 2026-01-02; hours_from_ready_to_merge: 23',
    'hours_from_ready_to_merge',
    'ready_at',
    'it would be 24',
  ],
  ['reviews: 0; hours_to_first_review: 2', 'hours_to_first_review', 'reviews'],
  ['additions: 1; deletions: 2; size: 4', 'size', 'additions', 'it would be 3'],
  ['additions: 5; size: 4', 'additions', 'size', 'never more'],
  ['approvals: 3; reviews: 2', 'approvals', 'reviews', 'never more'],
  ['writer_approvals: 2; approvals: 1', 'writer_approvals', 'approvals', 'never more'],
  ['created_at: 2026-01-02; merged_at: 2026-01-01', 'created_at', 'merged_at', 'never later'],
  [
    'created_at: 2026-01-01; merged_at: 2026-01-02; hours_to_merge: 23',
    'hours_to_merge',
    'merged_at',
    'it would be 24',
  ],
  ['author: ada; merged_by: bob; self_merged: true', 'self_merged', 'merged_by', 'it would be false'],
  ['size: 6; additions: 3', 'size', 'additions', 'it would be 3'],
  ['size: 6; deletions: 5', 'size', 'deletions', 'it would be 5'],
  ['files: [a, b]; changed_files: 1', 'changed_files', 'files', 'these have 2'],
  ['files: [{ path: a, additions: 5 }]; additions: 4', 'additions', 'files', 'these have 5'],
  ['files: [{ path: a, deletions: 5 }]; deletions: 4', 'deletions', 'files', 'these have 5'],
  ['files: [{ path: a, additions: 3, deletions: 2 }]; size: 4', 'size', 'files', 'these have 5'],
])('a test refuses facts that contradict each other: %s', (facts, one, other, reason = '') => {
  const given = facts.split('; ');
  const shown = (name: string) => {
    const [fact = ''] = given.filter(each => each.startsWith(`${name}:`));
    return name === 'files' ? '`files`' : `\`${fact.replace(/:$/, ': ')}\``;
  };
  const because = reason.startsWith('never') ? `\`${one}\` is ${reason} than \`${other}\`` : reason;
  const message = `${shown(one)} contradicts ${shown(other)}${reason && `: ${because}`}; correct one, or leave it out`;
  const line = 6 + given.findIndex(fact => fact.startsWith(`${one}:`));
  expect(factProblems(facts)).toEqual([
    { line, rule: null, entry: null, part: one, message: `Test "t", pull_request: ${message}` },
  ]);
});

test('a test tells all that is wrong with its facts at once', () => {
  expect(factProblems('merged: true; commits: -1; state: open').map(({ part }) => part)).toEqual(['commits', 'state']);
});

test.each([
  'draft: true; state: closed; closed_at: 2026-01-02',
  'merged: true; merged_by: ~',
  'merged: false; self_merged: false',
  'created_at: 0; merged_at: 3600; hours_to_merge: 1; hours_to_close: 1',
  'created_at: 0; merged_at: 1200; hours_to_merge: 0.33',
  'files: [a]; changed_files: 4000; additions: 9',
  'approvals: 2',
  'author: ada; merged_by: ada; self_merged: true',
])('a test accepts the facts %s', facts => {
  expect(factProblems(facts)).toEqual([]);
});

test('a failed test is not explained if twenty others have failed', () => {
  const tests = Array.from({ length: 21 }, (_, index) => `- {name: t${index}, pull_request: {}, score: 1}\n`).join('');
  const { problems } = checkRulesFile(Buffer.from(`rules: []\ntests:\n${tests}`));
  expect(problems.map(({ explanation }) => explanation !== undefined)).toEqual([...Array(20).fill(true), false]);
});

test.each([
  ['\u001b', 'U+001B'],
  ['\u0000', 'U+0000'],
  ['\u009b', 'U+009B'],
])('a control character, which a terminal would obey, is refused even in a comment: %j', (character, code) => {
  const { problems } = parseRulesFile(`rules: []\n# hidden ${character}[8m`);
  expect(problems).toMatchObject([{ line: 2, message: `The file has a control character (${code}); remove it` }]);
  expect(parseRulesFile('rules: []\t# 日本語 🙂\r\n').problems).toEqual([]);
});

const fileOf = (rules: number, entries: number, when: string, expression = 'merged') => {
  const entry = `{expression: ${expression}, effect: {action: ADD, value: 1}}`;
  const logic = Array.from({ length: entries }, () => entry).join();
  return `rules:\n${Array.from(
    { length: rules },
    (_, index) => `- name: R${index}\n  when: '${when.replaceAll('INDEX', String(index))}'\n  logic: [${logic}]\n`,
  ).join('')}`;
};

test.each([
  ['1,050 entries', fileOf(21, 50, 'no_such_fact'), /1050 entries, more than 1000/],
  [
    'a long condition in front of every entry',
    fileOf(4, 50, `no_such_fact != "${'x'.repeat(1_700)}"`),
    /breakdown of one pull request could have 3\d{2} KB, more than 256 KB/,
  ],
])('a file with %s is refused before its expressions are checked', (_, file, reason) => {
  expect(problems(file)).toEqual([expect.stringMatching(reason)]);
});

test('a rule that is switched off takes no room in a breakdown', () => {
  const file = fileOf(3, 50, `title != "${'x'.repeat(1_900)}"`);
  expect(problems(file)).toEqual([expect.stringContaining('more than 256 KB')]);
  expect(problems(file.replace(/name: R[12]/g, '$&\n  enabled: false'))).toEqual([]);
});

let globs = 0;
const wide = Array.from({ length: 300 }, (_, index) => `${String.fromCodePoint(0x100 + index)}-\u{10fff0}`).join('');

test.each([
  ['ranges without end whose case is ignored', fileOf(1, 1, `matches("", "(?i)[${wide}]")`), /case of ranges/],
  [
    'many different patterns',
    fileOf(160, 1, String.raw`matches("", "(?m)(^|\\b|\\B|$|\\A|\\z)INDEX.{100}")`),
    /patterns and globs .* too large together/,
  ],
  ['many patterns that are too large', fileOf(60, 1, 'matches("", "INDEX(a{9}){60}")'), /reads 54\d char/],
  [
    'many wide ranges whose case is ignored',
    fileOf(160, 1, String.raw`matches("", "(?i)[\\x{0}-\\x{1FF0}]INDEX{100}")`),
    /too large together/,
  ],
  [
    'a thousand and more globs',
    fileOf(2, 3, 'merged').replace(/value: 1/g, () => {
      return `value: 'count_files(${Array.from({ length: 190 }, () => `"${(globs++).toString(36)}"`).join()})'`;
    }),
    /`count_files.* is one too many: a file may have 1000 different patterns and globs/,
  ],
])('a file with %s is refused within seconds', (_, file, reason) => {
  expect(within(2_000, () => problems(file)).join('\n')).toMatch(reason);
});

const patternOfAlphabets = String.raw`^(?i:build|chore|ci|docs|feat|fix|perf|refactor|revert|style|test)(\\([\\pL\\d-]+\\))?!?: \\pL`;
const patternOfRule =
  '^(feat|fix|docs|style|refactor|perf|test|build|ci|chore|revertINDEX)(\\\\([\\\\w\\\\-./ ]+\\\\))?!?: ';

test.each([
  ['a long pattern with letters of all alphabets', fileOf(10, 2, `matches(title, "${patternOfAlphabets}INDEX")`)],
  ['two hundred rules with patterns of their own', fileOf(200, 1, `matches(title, "${patternOfRule}")`)],
  // A hundred and thirty would be too large together.
  [
    'a pattern in 130 entries, which is compiled once',
    fileOf(130, 1, String.raw`matches(title, "(?m)(^|\\b|\\B|$|\\A|\\z).{127}")`),
  ],
  ['a million characters', `rules: [] #${'x'.repeat(1_000_000 - 11)}`],
  ['a definition with a name of 60 characters', `define:\n  ${'a'.repeat(60)}: 1\nrules: []`],
])('a file may have %s', (_, file) => {
  expect(problems(file)).toEqual([]);
});
