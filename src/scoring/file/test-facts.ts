/** The facts of a pull request in a test: checks that GitHub could have such a pull request, and fills in the rest. */

import { type PullRequestState, pullRequestStates } from '../../pull-request.ts';
import { maxUnixSeconds, readTime, startOfDay } from '../../text/times.ts';
import {
  emptyFacts,
  type FactName,
  type Facts,
  factTable,
  isFactName,
  pullRequestFactNames,
  type ReviewFacts,
} from '../facts.ts';
import type { Value } from '../language/functions.ts';
import { seeList } from '../language/hints.ts';
import { suggestion } from '../language/nearest-name.ts';
import { excerpt } from '../language/text-operations.ts';
import type { Report } from './keys.ts';
import { problemOfTruncation } from './quoting.ts';
import { isBlank, type YamlNode } from './yaml-node.ts';

type Given = { [Name in FactName]?: Value | null } & { file_changes?: readonly number[] };

/** GitHub's counts have 32 bits. */
const maxCount = 2 ** 31 - 1;

const wholeNumber = (text: string, max: number) =>
  /^\+?\d{1,12}$/.test(text) && Number(text) <= max ? Number(text) : undefined;

function readNumber(name: FactName, text: string): ReadFact {
  const [value, form] = name.endsWith('_at')
    ? [
        wholeNumber(text, maxUnixSeconds) ?? startOfDay(text) ?? readTime(text),
        'a Unix time in whole seconds, a day such as 2026-01-31 or a time such as 2026-01-31T12:30:00Z',
      ]
    : name.startsWith('hours_')
      ? [/^\+?\d{1,12}(?:\.\d+)?$/.test(text) ? Number(text) : undefined, 'a number of hours, 0 or more']
      : [wholeNumber(text, maxCount), `a whole number from 0 to ${maxCount}`];
  return value === undefined ? { problem: `must be ${form}` } : { value };
}

/** A file of a test: its path, or a map with `path`, `additions` and `deletions`. */
function readFile(node: YamlNode): { path: string; lines: [added: number, removed: number] } | undefined {
  if (isText(node)) return { path: node.text, lines: [0, 0] };
  if (node.kind !== 'map') return undefined;
  const { path, additions, deletions, ...others } = Object.fromEntries(node.entries);
  const [added, removed] = [additions, deletions].map(given =>
    given === undefined ? 0 : wholeNumber(given.kind === 'text' ? given.text : '', maxCount),
  );
  if (path === undefined || !isText(path) || added === undefined || removed === undefined) return undefined;
  return Object.keys(others).length > 0 ? undefined : { path: path.text, lines: [added, removed] };
}

type ReadText = YamlNode & { kind: 'text' };

const isText = (node: YamlNode): node is ReadText => node.kind === 'text' && !isBlank(node);

/** A value, for files with their `file_changes`, or what is wrong with it. */
type ReadFact = { value: Value | null; changes?: number[] } | { problem: string };

function readFiles(node: YamlNode): ReadFact {
  if (node.kind !== 'list') return { problem: 'must be a list of paths, such as [src/a.ts, README.md]' };
  const files = node.items.map(readFile);
  return files.every(file => file !== undefined)
    ? { value: files.map(({ path }) => path), changes: files.flatMap(({ lines }) => lines) }
    : { problem: 'must be a list of paths, or of files such as { path: src/a.ts, additions: 40, deletions: 12 }' };
}

/** Reads those of the facts that are given. @param fail called with what is wrong with one, the end of a message */
export function readFacts(
  names: readonly FactName[],
  nodeOf: (name: FactName) => YamlNode | undefined,
  fail: (name: FactName, problem: string) => void,
): Given {
  const given: Given = {};
  for (const name of names) {
    const node = nodeOf(name);
    if (node === undefined) continue;
    const truncation = problemOfTruncation(name, node);
    const read = readWhole(name, node);
    if (truncation !== undefined) fail(name, `, ${name}: ${truncation}`);
    else if ('problem' in read) fail(name, `, ${name}: it ${read.problem}`);
    else {
      given[name] = read.value;
      if (read.changes !== undefined) given.file_changes = read.changes;
    }
  }
  return given;
}

function readWhole(name: FactName, node: YamlNode): ReadFact {
  const { type, absence, values } = factTable[name];
  if (name === 'files') return readFiles(node);
  if (type === 'list') {
    if (node.kind !== 'list') return { problem: 'must be a list, such as [one, two]' };
    return node.items.every(isText)
      ? { value: node.items.map(({ text }) => text) }
      : { problem: 'must be a list of texts; quote those that contain `: ` or are empty' };
  }
  if (node.kind !== 'text') return { problem: 'must be a single value; put it in quotes' };
  const { text } = node;
  if (isBlank(node)) {
    return absence === undefined
      ? { problem: 'always has a value; write one, or leave the fact out' }
      : { value: null };
  }
  if (type === 'boolean') {
    return text === 'true' || text === 'false' ? { value: text === 'true' } : { problem: 'must be true or false' };
  }
  if (type === 'number') return readNumber(name, text);
  return values === undefined || values.includes(text)
    ? { value: text }
    : { problem: `must be one of ${values.join(', ')}${suggestion(text, values)}` };
}

/** The states that a pull request with this value can have; all if the value says nothing about them. */
function statesWith(name: FactName, value: Value | null | undefined): readonly PullRequestState[] {
  switch (value === undefined ? undefined : name) {
    case 'state':
      return [value as PullRequestState];
    case 'draft':
      return value === true ? ['draft', 'closed'] : ['open', 'closed', 'merged'];
    case 'merged':
    case 'merged_at':
    case 'hours_to_merge':
      return value === null || value === false ? ['open', 'draft', 'closed'] : ['merged'];
    case 'merged_by':
    case 'hours_from_ready_to_merge':
    case 'self_merged':
      // If it is merged, this may still be unknown.
      return value === null || value === false ? pullRequestStates : ['merged'];
    case 'ready_at':
    case 'hours_from_ready_to_first_review':
      return value === null ? pullRequestStates : ['open', 'closed', 'merged'];
    case 'closed_at':
    case 'hours_to_close':
      return value === null ? ['open', 'draft'] : ['closed', 'merged'];
    default:
      return pullRequestStates;
  }
}

/** The first number is never larger than the second one. */
export const neverMore: readonly [smaller: FactName, larger: FactName][] = [
  ['created_at', 'updated_at'],
  ['created_at', 'merged_at'],
  ['created_at', 'closed_at'],
  ['created_at', 'ready_at'],
  ['additions', 'size'],
  ['deletions', 'size'],
  ['approvals', 'reviews'],
  ['distinct_reviewers', 'reviews'],
  ['changes_requested', 'reviews'],
  ['changes_requested', 'times_changes_requested'],
  ['writer_approvals', 'approvals'],
];

const totalOf = (changes: readonly number[] = [], column: number) =>
  changes.reduce((sum, value, index) => sum + (index % 2 === column ? value : 0), 0);

const filesOf = ({ files }: Given): readonly string[] => (Array.isArray(files) ? files : []);

/** What follows from other facts, if these are given: a fact, its value, and one of those others. */
function* derive(given: Given): Generator<[name: FactName, value: number | boolean, from: FactName]> {
  const { additions, deletions, file_changes: changes, created_at: created, merged_by: merger, author } = given;
  const { ready_at: ready, merged_at: merged } = given;
  if (typeof additions === 'number' || typeof deletions === 'number') {
    const [added, removed] = [additions ?? totalOf(changes, 0), deletions ?? totalOf(changes, 1)];
    yield ['size', Number(added) + Number(removed), additions === undefined ? 'deletions' : 'additions'];
  }
  for (const event of ['merge', 'close'] as const) {
    const end = given[`${event}d_at`];
    if (typeof created === 'number' && typeof end === 'number') {
      yield [`hours_to_${event}`, (end - created) / 3600, `${event}d_at`];
    }
  }
  if (typeof ready === 'number' && typeof merged === 'number') {
    yield ['hours_from_ready_to_merge', (merged - ready) / 3600, 'ready_at'];
  }
  if (typeof merger === 'string' && typeof author === 'string') yield ['self_merged', merger === author, 'merged_by'];
}

/** Two given facts that no pull request has together, and why if it is not obvious. */
function* contradictionsIn(given: Given): Generator<[one: FactName, other: FactName, reason: string]> {
  const known = Object.keys(given).filter(isFactName);
  for (const [index, name] of known.entries()) {
    const states = statesWith(name, given[name]);
    const other = known
      .slice(0, index)
      .find(before => !statesWith(before, given[before]).some(each => states.includes(each)));
    if (other !== undefined) yield [name, other, ''];
  }
  for (const name of ['ready_at', 'hours_from_ready_to_first_review'] as const) {
    // A closed draft was never ready, either.
    if (given.draft === true && typeof given[name] === 'number') yield [name, 'draft', ''];
  }
  for (const [smaller, larger] of neverMore) {
    const [low, high] = [given[smaller], given[larger]];
    const is = smaller.endsWith('_at') ? 'later' : 'more';
    if (typeof low === 'number' && typeof high === 'number' && low > high) {
      yield [smaller, larger, `\`${smaller}\` is never ${is} than \`${larger}\``];
    }
  }
  for (const [name, value, from] of derive(given)) {
    const found = given[name] ?? value;
    // Hours may be rounded.
    const isSame = typeof found === 'number' ? Math.abs(found - Number(value)) <= 0.01 : found === value;
    if (!isSame) yield [name, from, `it would be ${value}`];
  }
  if (given.reviews === 0 && typeof given.hours_to_first_review === 'number') {
    yield ['hours_to_first_review', 'reviews', ''];
  }
  const [additions, deletions] = [totalOf(given.file_changes, 0), totalOf(given.file_changes, 1)];
  const counted = { changed_files: filesOf(given).length, additions, deletions, size: additions + deletions };
  for (const name of ['changed_files', 'additions', 'deletions', 'size'] as const) {
    if (Number(given[name] ?? counted[name]) < counted[name]) yield [name, 'files', `these have ${counted[name]}`];
  }
}

/** What a pull request with these reviews has at least. */
function countReviews(reviews: readonly ReviewFacts[]) {
  const people = reviews.filter(({ reviewer_is_bot: isBot }) => !isBot);
  const approving = people.filter(({ verdict }) => verdict === 'approved');
  return {
    reviews: people.length,
    distinct_reviewers: people.length,
    approvals: approving.length,
    writer_approvals: approving.filter(({ reviewer_may_write: mayWrite }) => mayWrite).length,
    changes_requested: people.filter(({ verdict }) => verdict === 'changes_requested').length,
    bot_reviews: reviews.length - people.length,
  };
}

/** Derives what it can from the given facts and reviews, and leaves the others empty. */
function complete(given: Given, reviews: readonly ReviewFacts[]): Facts {
  const counted = countReviews(reviews);
  const isPossible = (state: PullRequestState) =>
    pullRequestFactNames.every(name => statesWith(name, given[name]).includes(state));
  const state = pullRequestStates.find(isPossible) ?? 'open';
  const assumed: Given = {
    additions: totalOf(given.file_changes, 0),
    deletions: totalOf(given.file_changes, 1),
    changed_files: filesOf(given).length,
    ...counted,
    times_changes_requested: given.changes_requested ?? counted.changes_requested,
    distinct_reviewers: Math.max(counted.distinct_reviewers, Math.min(Number(given.reviews ?? 0), 1)),
    ready_at: state === 'draft' || given.draft === true ? null : (given.created_at ?? null),
    updated_at: given.created_at ?? 0,
    closed_at: given.merged_at ?? null,
    merged_by: given.self_merged === true ? (given.author ?? '') : null,
    state,
    draft: state === 'draft',
    merged: state === 'merged',
    ...given,
  };
  const derived = Object.fromEntries(Array.from(derive(assumed), ([name, value]) => [name, value]));
  return { ...emptyFacts, ...derived, ...assumed, given_reviews: reviews } as Facts;
}

/** Reads the facts of a test. Reports problems: what is read is then not used. @param reviews that it has */
export function readTestFacts(
  node: YamlNode,
  place: string,
  reviews: readonly ReviewFacts[],
  report: Report,
): Facts | undefined {
  if (node.kind !== 'map') {
    report(node.line, `${place}: it must be a map of facts, such as { additions: 10 }`);
    return undefined;
  }
  const { entries } = node;
  const fail = (name: string, problem: string) =>
    report(entries.get(name)?.line ?? node.line, `${place}${problem}`, { part: name });
  const names = [...entries.keys()].filter((name): name is FactName => {
    if (isFactName(name) && !factTable[name].isOfReview) return true;
    const hint = suggestion(name, pullRequestFactNames) || seeList('fact');
    const problem = isFactName(name)
      ? `\`${name}\` is a fact of reviews; write it below the test's \`reviews:\``
      : `${excerpt(name)} is not a known fact${hint}`;
    fail(name, `: ${problem}`);
    return false;
  });
  const given = readFacts(names, name => entries.get(name), fail);
  const shown = (name: FactName) => {
    const value = entries.get(name);
    return value?.kind === 'text' ? excerpt(`${name}: ${value.text}`) : `\`${name}\``;
  };
  const told = new Set<string>();
  for (const [one, other, reason] of contradictionsIn(given)) {
    const pair = [one, other].sort().join();
    if (told.has(pair)) continue;
    told.add(pair);
    const because = reason === '' ? '' : `: ${reason}`;
    fail(one, `: ${shown(one)} contradicts ${shown(other)}${because}; correct one, or leave it out`);
  }
  for (const [name, count] of Object.entries(countReviews(reviews))) {
    if (Number(given[name as FactName] ?? count) >= count) continue;
    fail(name, `: ${shown(name as FactName)} contradicts the test's reviews, which are ${count}; correct one`);
  }
  if (reviews.some(({ reviewer }) => typeof given.author === 'string' && reviewer === given.author)) {
    fail('author', `: ${shown('author')} is one of the test's reviewers, and authors do not count as such`);
  }
  return complete(given, reviews);
}
