/** The tests of a rules file: facts of a pull request, and the score that they must give. */
import {
  type FactName,
  type Facts,
  factTypes,
  hoursBetween,
  isFactName,
  isOptionalFact,
  type PullRequestState,
} from './facts.ts';
import type { Value } from './functions.ts';
import { suggestion } from './nearest-name.ts';
import { type BreakdownEntry, compileRuleset, type Ruleset } from './ruleset.ts';
import { startOfDay } from './text.ts';
import type { YamlNode } from './yaml-reader.ts';

export interface RuleTest {
  /** In the file, from 1. */
  line: number;
  name: string;
  facts: Facts;
  /** The expected score. */
  score: number;
}

export interface RuleTestResult {
  name: string;
  passed: boolean;
  expected: number;
  actual: number;
  breakdown: BreakdownEntry[];
}

const states: readonly string[] = ['closed', 'draft', 'merged', 'open'] satisfies PullRequestState[];
const plainNumber = /^[-+]?\d+(?:\.\d+)?$/;

type Given = { [Name in FactName]?: Value | null } & { file_changes?: readonly number[] };

function readNumber(name: FactName, text: string): number | undefined {
  if (plainNumber.test(text)) return Number(text);
  return name.endsWith('_at') ? startOfDay(text) : undefined;
}

/** A file of a test: its path, or a map with `path`, `additions` and `deletions`. */
function readFile(node: YamlNode): { path: string; lines: [added: number, removed: number] } | undefined {
  if (node.kind === 'text') return { path: node.text, lines: [0, 0] };
  if (node.kind !== 'map') return undefined;
  const { path, additions, deletions, ...others } = Object.fromEntries(node.entries);
  const lines = [additions, deletions].map(given => {
    const text = given === undefined ? '0' : given.kind === 'text' ? given.text : '';
    return /^\d{1,10}$/.test(text) ? Number(text) : undefined;
  });
  const [added, removed] = lines;
  if (path?.kind !== 'text' || added === undefined || removed === undefined) return undefined;
  return Object.keys(others).length > 0 ? undefined : { path: path.text, lines: [added, removed] };
}

/** A value, for files with their `file_changes`, or what is wrong with it. */
type ReadFact = { value: Value | null; changes?: number[] } | { problem: string };

function readFiles(node: YamlNode): ReadFact {
  if (node.kind !== 'list') return { problem: 'must be a list of paths, such as [src/a.ts, README.md]' };
  const files = node.items.map(readFile);
  return files.every(file => file !== undefined)
    ? { value: files.map(({ path }) => path), changes: files.flatMap(({ lines }) => [...lines, 0]) }
    : { problem: 'must be a list of paths, or of files such as { path: src/a.ts, additions: 40, deletions: 12 }' };
}

function readFact(name: FactName, node: YamlNode): ReadFact {
  const type = factTypes[name];
  if (type === 'list') {
    if (node.kind !== 'list') return { problem: 'must be a list, such as [one, two]' };
    const items = node.items.map(item => (item.kind === 'text' ? item.text : undefined));
    return items.every(item => item !== undefined) ? { value: items } : { problem: 'must be a list of texts' };
  }
  if (node.kind !== 'text') return { problem: 'must be a single value' };
  const { text, isQuoted } = node;
  if (!isQuoted && (text === '' || text === '~' || text === 'null')) {
    return isOptionalFact(name) ? { value: null } : { problem: 'is never absent; give it a value or leave it out' };
  }
  if (type === 'boolean') {
    return text === 'true' || text === 'false' ? { value: text === 'true' } : { problem: 'must be true or false' };
  }
  if (type === 'number') {
    const value = readNumber(name, text);
    const example = name.endsWith('_at') ? 'a Unix time in seconds or a day, such as 2026-01-31' : 'a number';
    return value === undefined ? { problem: `must be ${example}` } : { value };
  }
  if (name === 'state' && !states.includes(text)) return { problem: `must be one of ${states.join(', ')}` };
  return { value: text };
}

/** Derives what it can from the given facts, and leaves the others empty. */
function complete(given: Given): Facts {
  const number = (name: FactName) => (typeof given[name] === 'number' ? given[name] : 0);
  const time = (name: FactName) => (typeof given[name] === 'number' ? given[name] : null);
  const files = given.files as readonly string[] | undefined;
  const changes = given.file_changes ?? [];
  const lines = (column: number) => changes.reduce((sum, value, index) => sum + (index % 3 === column ? value : 0), 0);
  const [additions, deletions] = [given.additions ?? lines(0), given.deletions ?? lines(1)].map(Number) as [
    number,
    number,
  ];
  const author = typeof given.author === 'string' ? given.author : '';
  const state = given.merged === true ? 'merged' : given.draft === true ? 'draft' : 'open';
  const defaults: Facts = {
    number: 0,
    additions,
    deletions,
    size: additions + deletions,
    changed_files: files?.length ?? 0,
    commits: 0,
    comments: 0,
    reviews: 0,
    approvals: 0,
    changes_requested: 0,
    times_changes_requested: number('changes_requested'),
    writer_approvals: 0,
    bot_reviews: 0,
    linked_issues: 0,
    created_at: 0,
    updated_at: number('created_at'),
    merged_at: null,
    closed_at: time('merged_at'),
    hours_to_first_review: null,
    hours_to_merge: hoursBetween(time('created_at'), time('merged_at')),
    hours_to_close: hoursBetween(time('created_at'), time('closed_at') ?? time('merged_at')),
    title: '',
    body: '',
    state,
    author,
    author_association: '',
    base: '',
    head: '',
    repository: '',
    milestone: null,
    merged_by: given.self_merged === true ? author : null,
    draft: given.state === 'draft',
    merged: (given.state ?? state) === 'merged',
    from_fork: false,
    author_is_bot: false,
    self_merged: given.merged_by !== undefined && given.merged_by === given.author,
    labels: [],
    assignees: [],
    files: [],
    file_changes: changes,
  };
  return { ...defaults, ...(given as Partial<Facts>) };
}

/** Reads the facts of a test; undefined if there was a problem, which is reported. */
export function readTestFacts(
  node: YamlNode,
  place: string,
  report: (line: number, message: string) => void,
): Facts | undefined {
  if (node.kind !== 'map') {
    report(node.line, `${place}: it must be a map of facts, such as { additions: 10 }`);
    return undefined;
  }
  const given: Given = {};
  let isValid = true;
  for (const [name, value] of node.entries) {
    if (!isFactName(name)) {
      report(
        value.line,
        `${place}: \`${name.slice(0, 60)}\` is not a known fact${suggestion(name, Object.keys(factTypes))}`,
      );
      isValid = false;
      continue;
    }
    const read: ReadFact = name === 'files' ? readFiles(value) : readFact(name, value);
    if ('problem' in read) {
      report(value.line, `${place}, ${name}: it ${read.problem}`);
      isValid = false;
      continue;
    }
    given[name] = read.value;
    if (read.changes !== undefined) given.file_changes = read.changes;
  }
  return isValid ? complete(given) : undefined;
}

/** Scores each test's pull request under the rules. */
export function runRuleTests(ruleset: Ruleset, tests: readonly RuleTest[]): RuleTestResult[] {
  const { score } = compileRuleset(ruleset);
  return tests.map(({ name, facts, score: expected }) => {
    const { score: actual, breakdown } = score(facts);
    return {
      name,
      passed: actual === expected,
      expected,
      actual,
      breakdown: JSON.parse(breakdown) as BreakdownEntry[],
    };
  });
}
