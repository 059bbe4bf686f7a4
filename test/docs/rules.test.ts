import { existsSync, readdirSync, readFileSync } from 'node:fs';
import {
  getNamedType,
  isCompositeType,
  isInterfaceType,
  isObjectType,
  isUnionType,
  Kind,
  parse as parseGraphql,
  type SelectionSetNode,
} from 'graphql';
import { expect, test } from 'vitest';
import { parse, stringify } from 'yaml';
import { readTables } from '../../scripts/tables.ts';
import { pullRequestsQuery } from '../../src/github/pull-request-queries.ts';
import { admissionLimits } from '../../src/scoring/admission.ts';
import { type FactName, type FactType, factNames, factTable, pullRequestFactNames } from '../../src/scoring/facts.ts';
import { checkRulesFile } from '../../src/scoring/file/check-rules-file.ts';
import { parseRulesFile } from '../../src/scoring/file/rules-file.ts';
import { fileLimits } from '../../src/scoring/file/yaml-reader.ts';
import { compileExpression } from '../../src/scoring/language/compile.ts';
import { definitionLimits } from '../../src/scoring/language/definitions.ts';
import { parseExpression } from '../../src/scoring/language/expression.ts';
import { functions } from '../../src/scoring/language/functions.ts';
import { patternLimits } from '../../src/scoring/language/pattern.ts';
import { expressionLimits } from '../../src/scoring/language/syntax.ts';
import { ruleLimits } from '../../src/scoring/ruleset.ts';
import { maxRefetchesPerHour } from '../../src/sync/sweep.ts';
import { subscribedEvents } from '../../src/webhooks/events.ts';
import { githubSchema } from '../support/github/schema.ts';

const page = readFileSync('docs/rules.md', 'utf8');

const rows = readTables(page);
const rowsWith = (...headings: string[]) => rows.filter(row => headings.every(heading => heading in row));
const uncoded = (cell: string | undefined) => /^`(.*)`$/.exec(cell ?? '')?.[1] ?? '';
/** The texts in backquotes. */
const codesIn = (cell = '') => Array.from(cell.matchAll(/`([^`]+)`/g), ([, code = '']) => code);
const sorted = (values: Iterable<string>) => [...values].sort();

const sections: Record<string, (name: FactName) => boolean> = {
  Counts: name => isOf(name, 'number') && !/^hours_|_at$/.test(name),
  Times: name => isOf(name, 'number') && /^hours_|_at$/.test(name),
  Texts: name => isOf(name, 'text'),
  'True or false': name => isOf(name, 'boolean'),
  Lists: name => isOf(name, 'list'),
  Reviews: name => !pullRequestFactNames.includes(name),
};
const isOf = (name: FactName, type: FactType) => pullRequestFactNames.includes(name) && factTable[name].type === type;

test('the tables of docs/rules.md list all facts by their types, and nothing else', () => {
  const listed = rowsWith('Fact').map(row => [row.section, uncoded(row.Fact)]);
  expect(listed).toEqual(
    Object.entries(sections).flatMap(([section, isIn]) => factNames.filter(isIn).map(name => [section, name])),
  );
});

test('docs/rules.md says when and why each fact is absent', () => {
  for (const row of rowsWith('Fact')) {
    const name = uncoded(row.Fact) as FactName;
    expect([name, row['Absent if'] ?? 'never']).toEqual([name, factTable[name].absence ?? 'never']);
  }
});

test('docs/rules.md lists the values of each fact that has only a few', () => {
  for (const [name, { values }] of Object.entries(factTable)) {
    if (values === undefined) continue;
    const row = rowsWith('Fact').find(({ Fact }) => uncoded(Fact) === name);
    expect(sorted(codesIn(row?.Meaning))).toEqual(sorted(values.map(value => `"${value}"`)));
  }
});

test('docs/rules.md lists all functions with their signatures, and an example of each', () => {
  const rows = rowsWith('Function');
  const signatures = [...functions.values()].flat().map(({ signature }) => signature);
  expect(sorted(rows.map(row => uncoded(row.Function)))).toEqual(sorted(signatures));
  for (const row of rows) expect(row.Example).toContain(uncoded(row.Function).replace(/\(.*/, '('));
});

test('docs/rules.md describes every fact and function in whole sentences', () => {
  for (const { Meaning } of rowsWith('Fact')) expect(Meaning).toMatch(/^\S.*\.$/);
  for (const { Gives } of rowsWith('Function')) expect(Gives).toMatch(/^\S.*\.$/);
});

function evaluate(expression: string, given: string) {
  const { tests, problems } = parseRulesFile(`rules: []\ntests:\n- {name: t, pull_request: {${given}}, score: 0}`);
  expect(problems).toEqual([]);
  const facts = tests[0]?.facts;
  if (facts === undefined) throw new Error('no facts');
  for (const type of ['boolean', 'number'] as const) {
    try {
      return compileExpression(parseExpression(expression, type))(facts);
    } catch (error) {
      if (type === 'number') throw error;
    }
  }
  return undefined;
}

test.each(
  rowsWith('Example', 'With', 'Result').map(row => [uncoded(row.Example), uncoded(row.With), row.Result ?? '']),
)('the documented example %s with %s gives %s', (expression, given, expected) => {
  const words: Record<string, number> = { absent: Number.NaN, infinite: Number.POSITIVE_INFINITY };
  expect(expression).not.toBe('');
  expect(evaluate(expression, given)).toBe(words[expected] ?? JSON.parse(uncoded(expected)));
});

test('the unfair and the fairer expressions of docs/rules.md are valid', () => {
  const expressions = rowsWith('Unfair', 'Fairer').flatMap(row => [...codesIn(row.Unfair), ...codesIn(row.Fairer)]);
  expect(expressions.length).toBeGreaterThan(10);
  for (const expression of expressions) {
    const { problems, warnings } = parseRulesFile(
      JSON.stringify({ rules: [{ name: 'R', logic: [{ expression, effect: { action: 'ADD', value: 1 } }] }] }),
    );
    expect([...problems, ...warnings]).toEqual([]);
  }
});

test.each(rowsWith('Refused', 'Message').map(row => [uncoded(row.Refused), row.Message ?? '']))(
  'the documented mistake %s gets the message %s',
  (expression, message) => {
    expect(() => parseExpression(expression, 'boolean')).toThrow(
      expect.objectContaining({ name: 'ExpressionError', message }),
    );
  },
);

const withoutPlace = (places: { message: string }[]) =>
  places.map(({ message }) => message.replace(/^Definition "[^"]*": |^Rule "R", entry 1, (effect, )?\w+: /, ''));

test.each(rowsWith('Definitions refused', 'Message').map(row => [row['Definitions refused'] ?? '', row.Message]))(
  'the documented definitions %s get the message %s',
  (cell, message) => {
    const lines = codesIn(cell).map(line => `  ${line}\n`);
    expect(withoutPlace(parseRulesFile(`define:\n${lines.join('')}rules: []`).problems)).toEqual([message]);
  },
);

/** Rules with the line in an entry, and with another one that is valid. */
function rulesWith(line: string): string {
  const others = ['expression: draft', 'effect: { action: ADD, value: 1 }'];
  const entry = [...others.filter(other => !other.startsWith(line.replace(/:.*/, ':'))), line];
  return `rules:\n- name: R\n  logic:\n  - ${entry.join('\n    ')}\n  - ${others.join('\n    ')}\n`;
}

test.each(rowsWith('Line refused', 'Message').map(row => [uncoded(row['Line refused']), row.Message]))(
  'the documented line %s gets the message %s',
  (line, message) => {
    expect(withoutPlace(parseRulesFile(rulesWith(line)).problems)).toEqual([message]);
  },
);

test.each(rowsWith('Line', 'Warning').map(row => [uncoded(row.Line), row.Warning]))(
  'the documented line %s gets the warning %s',
  (line, message) => {
    const { problems, warnings } = parseRulesFile(rulesWith(line));
    expect([problems, withoutPlace(warnings)]).toEqual([[], [message]]);
  },
);

const rulesFilesIn = (text: string) =>
  [...text.matchAll(/```yaml\n((?:define|rules):[\s\S]*?)```/g)].map(([, file]) => file ?? '');

test('the rules files of the documents are valid, without warnings, and their tests pass', () => {
  const recipesPage = readFileSync('docs/recipes.md', 'utf8');
  const recipes = rulesFilesIn(recipesPage);
  expect(recipes.length).toBeGreaterThan(20);
  // None begins in another way, unseen.
  expect(recipesPage.match(/^```yaml$/gm)).toHaveLength(recipes.length);
  const others = rulesFilesIn(page + readFileSync('README.md', 'utf8'));
  expect(others.length).toBeGreaterThan(4);
  for (const text of [...recipes, ...others]) {
    const file = checkRulesFile(Buffer.from(text));
    if (recipes.includes(text)) expect(file.tests, text).not.toEqual([]);
    expect([...file.problems, ...file.warnings]).toEqual([]);
  }
});

test('all recipes fit into one file once only one rule is named Work', () => {
  const files = rulesFilesIn(readFileSync('docs/recipes.md', 'utf8')).map(text => parse(text));
  const all = files.flatMap(({ rules }, index) =>
    rules.map((rule: { name: string }) => (rule.name === 'Work' ? { ...rule, name: `Work ${index}` } : rule)),
  );
  const definitions = files.flatMap(({ define = {} }) => Object.entries(define));
  const reviews = files.flatMap(({ reviews = [] }) => reviews);
  const together = { define: Object.fromEntries(definitions), rules: all, reviews };
  expect(Object.keys(together.define)).toHaveLength(definitions.length);
  const { problems, warnings } = parseRulesFile(stringify(together));
  expect([...problems, ...warnings]).toEqual([]);
});

test('the documented limits are those of the code', () => {
  const number = (value: number) => value.toLocaleString('en');
  const limits = rowsWith('What', 'Maximum').map(row => row.Maximum);
  expect(limits).toEqual([
    number(ruleLimits.rules),
    `${number(ruleLimits.entries)}, ${number(ruleLimits.allEntries)}`,
    `${ruleLimits.breakdownBytes / 1024} KB`,
    `${ruleLimits.reviewBreakdownBytes / 1024} KB`,
    number(definitionLimits.definitions),
    `${number(ruleLimits.nameCharacters)}, ${number(ruleLimits.descriptionCharacters)}`,
    number(expressionLimits.characters),
    number(expressionLimits.nodes),
    number(expressionLimits.depth),
    number(definitionLimits.nameCharacters),
    number(patternLimits.characters),
    number(patternLimits.size),
    number(patternLimits.count),
    number(patternLimits.totalSize),
    number(patternLimits.foldedCharacters),
    number(patternLimits.unrolled),
    `${admissionLimits.ms} ms`,
    `${number(fileLimits.characters)}, ${number(fileLimits.lexemes)}, ${fileLimits.depth}`,
  ]);
  const all = [ruleLimits, definitionLimits, expressionLimits, patternLimits, fileLimits].flatMap(Object.values);
  // One more is that of time.
  expect(limits.flatMap(text => text?.split(', ') ?? [])).toHaveLength(all.length + 1);
});

test('every subscribed webhook refreshes a fact, and facts name no others', () => {
  const named = new Set(rowsWith('Fact').flatMap(row => codesIn(row['Maximum age'])));
  expect(sorted(named)).toEqual(sorted(subscribedEvents.keys()));
});

test('the documented rate of refetching is that of the code', () => {
  const pace = maxRefetchesPerHour.toLocaleString('en');
  expect(page.replace(/\s+/g, ' ')).toContain(`about ${pace} pull requests an hour`);
  expect(page).toContain(`number divided by ${pace}, in hours`);
});

const anchorsIn = (text: string) =>
  [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replace(/[^\w -]/g, '')
      .replaceAll(' ', '-'),
  );

test.each(readdirSync('docs').filter(name => name.endsWith('.md')))('all links of docs/%s have a target', name => {
  const text = readFileSync(`docs/${name}`, 'utf8');
  for (const [, target = ''] of text.matchAll(/\]\(([^)\s]+)\)/g)) {
    if (/^https?:/.test(target)) continue;
    const [path = '', anchor] = target.split('#');
    const place = path === '' ? `docs/${name}` : `docs/${path}`;
    expect([target, existsSync(place)]).toEqual([target, true]);
    if (anchor !== undefined)
      expect([target, anchorsIn(readFileSync(place, 'utf8'))]).toEqual([target, expect.arrayContaining([anchor])]);
  }
});

/** The paths of selected fields, such as `commits.totalCount`. */
function selected(set: SelectionSetNode | undefined, before = ''): string[] {
  return (set?.selections ?? []).flatMap(selection => {
    if (selection.kind === Kind.INLINE_FRAGMENT) return selected(selection.selectionSet, before);
    if (selection.kind !== Kind.FIELD) return [];
    const path = `${before}${selection.name.value}`;
    return [path, ...selected(selection.selectionSet, `${path}.`)];
  });
}

test('every source of a fact is a GitHub field that the query selects', () => {
  const fragment = parseGraphql(pullRequestsQuery).definitions.find(({ kind }) => kind === Kind.FRAGMENT_DEFINITION);
  const asked = new Set(fragment?.kind === Kind.FRAGMENT_DEFINITION ? selected(fragment.selectionSet) : []);
  const exists = (path: string) => {
    let type = githubSchema().getType('PullRequest');
    for (const name of path.split('.')) {
      if (name === '__typename' && isCompositeType(type)) return true;
      const types: unknown[] = isUnionType(type) ? [...type.getTypes()] : [type];
      const field = types
        .flatMap(each => (isObjectType(each) || isInterfaceType(each) ? (each.getFields()[name] ?? []) : []))
        .at(0);
      if (field === undefined) return false;
      type = getNamedType(field.type);
    }
    return true;
  };
  for (const row of rowsWith('Fact')) {
    const sources = codesIn(row['On GitHub']);
    expect(sources).not.toEqual([]);
    for (const source of sources) {
      expect(asked).toContain(source);
      expect(exists(source), source).toBe(true);
    }
  }
});
