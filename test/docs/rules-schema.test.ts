import { readFileSync } from 'node:fs';
import Fastify from 'fastify';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { parse } from 'yaml';
import { RulesFile } from '../../scripts/rules-schema.ts';
import { parseRulesFile } from '../../src/scoring/file/rules-file.ts';

const committed = readFileSync('rules.schema.json', 'utf8');
const example = readFileSync('rules.example.yaml', 'utf8');

/** Fastify's validator stands in for an editor's; it must not change what it checks. */
const app = Fastify({ ajv: { customOptions: { coerceTypes: false, removeAdditional: false, useDefaults: false } } });
beforeAll(async () => {
  app.post('/', { schema: { body: JSON.parse(committed) } }, async () => 'valid');
  await app.ready();
});
afterAll(() => app.close());

async function complaint(file: string): Promise<string | undefined> {
  const reply = await app.inject({ method: 'POST', url: '/', payload: parse(file) });
  return reply.statusCode === 200 ? undefined : reply.json().message;
}

const problemsOf = (file: string) => parseRulesFile(file).problems.map(({ message }) => message);

test('the committed schema is up to date with the code and docs/rules.md; if not, run npm run rules', () => {
  expect(JSON.parse(committed)).toEqual(JSON.parse(JSON.stringify(RulesFile)));
});

test('the example rules name the schema in their first line, and are valid', async () => {
  const [, path = ''] = /^# yaml-language-server: \$schema=(.*)\n/.exec(example) ?? [];
  expect(readFileSync(path, 'utf8')).toBe(committed);
  expect(await complaint(example)).toBeUndefined();
});

/** One that is valid. */
const entry = '{ expression: merged, effect: { action: ADD, value: 1 } }';
const rule = (logic: string) => `rules:\n- name: R\n  logic:\n  ${logic}`;
const conditional = (when: string) => `rules:\n- name: R\n  when: ${when}\n  logic: [${entry}]`;
const withTest = (facts: string, score = '1') =>
  `rules: []\ntests:\n- { name: t, pull_request: { ${facts} }, score: ${score} }`;

test.each([
  ['values without quotes', rule('- { expression: true, effect: { action: ADD, value: 5 } }')],
  ['values with quotes', rule(`- { expression: "true", effect: { action: "ADD", value: '5' } }`)],
  ['fractions', rule('- { expression: merged, effect: { action: SUBTRACT, value: 2.5 } }')],
  ['names that look like numbers', `rules:\n- { name: 2026, logic: [${entry}] }`],
  ['no description and a quoted switch', `rules:\n- { name: R, description: , enabled: "false", logic: [${entry}] }`],
  ['a description of null', `rules:\n- { name: R, description: ~, logic: [${entry}] }`],
  ['no rules', 'rules: []'],
  ['no tests yet', 'rules: []\ntests:'],
  ['no definitions and no tests, said as null', 'define: ~\nrules: []\ntests: ~'],
  ['a test without facts', withTest('')],
  ['days and Unix times', withTest('created_at: 2026-01-31, merged_at: "2026-02-01", closed_at: 1769817600')],
  ['times as `explain` shows them', withTest('created_at: 2026-01-31T12:30:00Z')],
  ['absent facts', withTest('milestone: null, merged_at: ~, hours_to_merge:')],
  ['texts that look like other things', withTest('title: 5, author: true, labels: [1, yes, "a"]')],
  ['quoted numbers and switches', withTest('additions: "5", draft: "true"', '"-5"')],
  ['states', withTest('state: merged')],
  ['associations', withTest('author_association: FIRST_TIMER')],
  ['hours with fractions', withTest('hours_to_merge: 2.25, hours_to_first_review: "0.5"')],
  ['definitions', `define: { a: 5, B_2: 'merged && a > 1', c: true }\nrules: []`],
  ['lists as definitions', 'define:\n  core: [ada, "bob", 1]\n  none: []\n  more:\n  - eve\nrules: []'],
  ['rules for reviews', rule(`- ${entry}`).replace('rules:', 'rules: []\nreviews:')],
  ['no rules for reviews yet', 'rules: []\nreviews:'],
  [
    'a test of reviews alone',
    'rules: []\ntests:\n- { name: t, pull_request: {}, reviews: [{ reviewer: ada, hours_to_review: 1.5, verdict: ~, was_requested: true, score: 0 }] }',
  ],
  ['a test without reviews yet', 'rules: []\ntests:\n- { name: t, pull_request: {}, score: 0, reviews: }'],
  ['no definitions yet', 'define:\nrules: []'],
  ['a condition of a rule', conditional('merged')],
  ['a condition that looks like something else', conditional('true')],
])('`rules check` and the schema accept %s', async (_, file) => {
  expect(problemsOf(file)).toEqual([]);
  expect(await complaint(file)).toBeUndefined();
});

test.each([
  ['a misspelt key', 'rule: []'],
  ['no rules at all', 'tests: []'],
  ['rules without a value', 'rules:\ntests: []'],
  ['a list at the top', '- name: R'],
  ['a rule without a name', `rules:\n- logic: [${entry}]`],
  ['null for a name', `rules:\n- { name: ~, logic: [${entry}] }`],
  ['null for an expression', rule('- { expression: null, effect: { action: ADD, value: 1 } }')],
  ['null for a condition', conditional('~')],
  ['a rule without logic', 'rules:\n- name: R'],
  ['a rule without entries', 'rules:\n- { name: R, logic: [] }'],
  ['logic that is not a list', `rules:\n- { name: R, logic: ${entry} }`],
  ['a misspelt key of a rule', `rules:\n- { name: R, enable: true, logic: [${entry}] }`],
  ['a switch that is neither on nor off', `rules:\n- { name: R, enabled: maybe, logic: [${entry}] }`],
  ['an entry without an effect', rule('- { expression: merged }')],
  ['an entry without an expression', rule('- { effect: { action: ADD, value: 1 } }')],
  ['an effect beside its entry', rule('- { expression: merged, action: ADD, value: 1 }')],
  ['an unknown action', rule('- { expression: merged, effect: { action: MULTIPLY, value: 1 } }')],
  ['an action in lower case', rule('- { expression: merged, effect: { action: add, value: 1 } }')],
  ['a value that is a list', rule('- { expression: merged, effect: { action: ADD, value: [1] } }')],
  ['51 entries', rule(`- ${entry}\n  `.repeat(51))],
  [
    'an expression of 2,001 characters',
    rule(`- { expression: "${'!'.repeat(1995)}merged", effect: { action: ADD, value: 1 } }`),
  ],
  ['an unknown fact', withTest('aditions: 5')],
  ['a number in words', withTest('additions: many')],
  ['a text in place of a list', withTest('labels: bug')],
  ['an unknown state', withTest('state: mergd')],
  ['an association in lower case', withTest('author_association: member')],
  ['a negative count', withTest('additions: -1')],
  ['a quoted negative count', withTest('additions: "-1"')],
  ['half a commit', withTest('commits: 1.5')],
  ['a count of more than 32 bits', withTest('commits: 2147483648')],
  ['half a second', withTest('merged_at: 1769817600.5')],
  ['negative hours', withTest('hours_to_merge: -1')],
  ['a label that is absent', withTest('labels: [a, ~]')],
  ['half a line of a file', withTest('files: [{ path: a, additions: 0.5 }]')],
  ['a time that is not a day', withTest('merged_at: yesterday')],
  ['a time without seconds', withTest('merged_at: 2026-01-31T12:30Z')],
  ['null for a fact that is never absent', withTest('title: null')],
  ['a test with an empty name', 'rules: []\ntests:\n- { name: "", pull_request: {}, score: 1 }'],
  ['a test without a score', 'rules: []\ntests:\n- { name: t, pull_request: {} }'],
  ['half a point', withTest('', '1.5')],
  ['definitions as a list', 'define: [size]\nrules: []'],
  ['a list of lists as a definition', 'define: { a: [[x]] }\nrules: []'],
  ['a list with nothing in an item as a definition', 'define: { a: [x, ~] }\nrules: []'],
  ['a map as a definition', 'define: { a: { b: x } }\nrules: []'],
  ['a definition with a hyphen', 'define: { a-b: 1 }\nrules: []'],
  ['a definition with a long name', `define: { ${'a'.repeat(61)}: 1 }\nrules: []`],
  ['201 definitions', `define:\n${Array.from({ length: 201 }, (_, index) => `  d${index}: 1\n`).join('')}rules: []`],
  ['a condition that is a list', conditional('[merged]')],
  ['an empty condition', conditional('""')],
])('`rules check` and the schema refuse %s', async (_, file) => {
  expect(problemsOf(file)).not.toEqual([]);
  expect(await complaint(file)).toMatch(/^body/);
});

test('every key of the schema has a description', () => {
  const undescribed: string[] = [];
  const visit = (schema: Record<string, unknown>, path: string) => {
    for (const [name, inner] of Object.entries((schema.properties ?? {}) as Record<string, Record<string, unknown>>)) {
      if (typeof inner.description !== 'string') undescribed.push(`${path}.${name}`);
      visit(inner, `${path}.${name}`);
    }
    for (const inner of [schema.items, ...((schema.anyOf ?? []) as unknown[])]) {
      if (typeof inner === 'object' && inner !== null) visit(inner as Record<string, unknown>, path);
    }
  };
  visit(JSON.parse(committed), '');
  expect(undescribed).toEqual([]);
});
