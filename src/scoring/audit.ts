/**
 * How rules can be gamed: changes stored pull requests in small, cheap ways, scores them again, and tallies which ways
 * gain points. Memory grows with the number of rules only.
 */
import { clampScore, compileEffects } from './compile.ts';
import { type Facts, factTypes, hoursBetween, type SourceName } from './facts.ts';
import { factsOfEntries, type Ruleset } from './ruleset.ts';
import { checkRules } from './tallies.ts';
import { partsOf, type TypedExpression } from './tree.ts';

/** In the order in which reports list them if they gain equally. */
export const ways = [
  'split',
  'pad',
  'commits',
  'body',
  'title',
  'label',
  'reopen',
  'self_merge',
  'bot_approval',
  'files',
] as const;

export type Way = (typeof ways)[number];

/** The pull requests that would stand in the place of one; undefined if the way is not open for it. */
type Change = (facts: Facts) => readonly Facts[] | undefined;

export interface AuditExample {
  id: string;
  before: number;
  /** The sum, if there are several pull requests afterwards. */
  after: number;
}

export interface AuditedWay {
  way: Way;
  /** Of the pull requests, how many gain points, between 0 and 1. */
  share: number;
  /** Of those that gain; 0 if none does. */
  medianGain: number;
  largestGain: number;
  /** Which rules pay, as shares of all points gained, the largest first. */
  rules: { name: string; share: number }[];
  /** The one that gains most. */
  example: AuditExample | undefined;
}

export interface Audit {
  /** The facts that the rules read, and those that the ways change. */
  facts: ReadonlySet<SourceName>;
  /** Adds a pull request, once. */
  add(id: string, facts: Facts): void;
  /** The ways that gain on most pull requests first. */
  result(): { pullRequests: number; ways: AuditedWay[] };
}

/** Texts of any length: read only if the rules do. */
const largeFacts: ReadonlySet<SourceName> = new Set<SourceName>(['body', 'files', 'file_changes']);

const paddingLines = 300;
const paddingFiles = ['package-lock.json', 'dist/bundle.js', 'docs/notes.md'];
const manyCommits = 10;
const manyFiles = 10;
const filler = '\n\nThis change improves the overall quality of the code base and makes it easier to maintain. '.repeat(
  6,
);
const usualPrefixes = ['feat: ', 'fix: ', 'docs: ', 'chore: ', 'refactor: ', 'test: ', 'perf: '];

/** The place of `modified` and `added` among the kinds of a file's change. */
const [modified, added] = [0, 1];

/** With the facts that follow from others. */
function changed(facts: Facts, change: Partial<Facts>): Facts {
  const all = { ...facts, ...change };
  return {
    ...all,
    size: all.additions + all.deletions,
    merged: all.state === 'merged',
    hours_to_merge: hoursBetween(all.created_at, all.merged_at),
    hours_to_close: hoursBetween(all.created_at, all.closed_at),
  };
}

/** The files with these places, each with all of its lines, or with the given part of them. */
function someFiles(
  { files, file_changes: changes }: Facts,
  places: readonly number[],
  part: (lines: number) => number = lines => lines,
): Pick<Facts, 'files' | 'file_changes'> {
  return {
    files: places.map(place => files[place] ?? ''),
    file_changes:
      changes &&
      places.flatMap(place => [
        part(changes[3 * place] ?? 0),
        part(changes[3 * place + 1] ?? 0),
        changes[3 * place + 2] ?? modified,
      ]),
  };
}

const split: Change = facts => {
  if (facts.size < 2) return undefined;
  const places = [...facts.files.keys()];
  const parts = [Math.ceil, Math.floor].map((round, index) => {
    const half = (lines: number) => round(lines / 2);
    const files =
      places.length < 2
        ? someFiles(facts, places, half)
        : someFiles(
            facts,
            places.filter(place => place % 2 === index),
          );
    return changed(facts, {
      ...files,
      additions: half(facts.additions),
      deletions: facts.deletions - half(facts.deletions),
      changed_files: Math.max(1, half(facts.changed_files)),
      commits: Math.max(1, half(facts.commits)),
      comments: half(facts.comments),
    });
  });
  return parts;
};

const pad = (path: string): Change => {
  return facts => [
    changed(facts, {
      additions: facts.additions + paddingLines,
      changed_files: facts.changed_files + 1,
      files: [...facts.files, path],
      file_changes: facts.file_changes && [...facts.file_changes, paddingLines, 0, added],
    }),
  ];
};

const splitFile: Change = facts => {
  if (facts.changed_files === 0) return undefined;
  const [first, ...others] = facts.files.keys();
  const name = facts.files[first ?? 0] ?? '';
  const kept = someFiles(facts, others);
  const pieces = first === undefined ? 0 : manyFiles;
  const upTo = (side: number, piece: number) => Math.floor(((facts.file_changes?.[side] ?? 0) * piece) / manyFiles);
  const lines = (side: number, piece: number) => upTo(side, piece + 1) - upTo(side, piece);
  return [
    changed(facts, {
      changed_files: facts.changed_files + manyFiles - 1,
      // The extension stays, so that globs match as before.
      files: [
        ...Array.from({ length: pieces }, (_, piece) => name.replace(/(\.[^./]*)?$/, `-${piece}$1`)),
        ...kept.files,
      ],
      file_changes: kept.file_changes && [
        ...Array.from({ length: pieces }, (_, piece) => [lines(0, piece), lines(1, piece), added]).flat(),
        ...kept.file_changes,
      ],
    }),
  ];
};

const reopen: Change = facts => {
  if (facts.merged) return undefined;
  return [changed(facts, { state: 'open', closed_at: null, updated_at: facts.updated_at + 60 })];
};

const mergeAlone: Change = facts => {
  if (facts.self_merged) return undefined;
  const mergedAt = facts.merged_at ?? facts.closed_at ?? Math.max(facts.updated_at, facts.created_at);
  return [
    changed(facts, {
      state: 'merged',
      draft: false,
      merged_at: mergedAt,
      closed_at: mergedAt,
      merged_by: facts.author,
      self_merged: true,
    }),
  ];
};

/** What the rules look for, which whoever games them looks for, too. */
interface Hints {
  labels: Set<string>;
  titles: Set<string>;
}

function findHints(trees: readonly TypedExpression[]): Hints {
  const hints: Hints = { labels: new Set(), titles: new Set() };
  const isFact = (tree: TypedExpression, name: SourceName) => tree.kind === 'fact' && tree.name === name;
  const waiting = [...trees];
  for (let tree = waiting.pop(); tree !== undefined; tree = waiting.pop()) {
    const parts = partsOf(tree);
    const texts = parts.flatMap(part =>
      part.kind === 'constant' && typeof part.value === 'string' ? [part.value] : [],
    );
    if (parts.some(part => isFact(part, 'labels'))) for (const text of texts) hints.labels.add(text);
    if (parts.some(part => isFact(part, 'title'))) for (const text of texts) hints.titles.add(text);
    waiting.push(...parts);
  }
  return hints;
}

function changesOf({ labels, titles }: Hints): Record<Way, readonly Change[]> {
  return {
    split: [split],
    pad: paddingFiles.map(pad),
    commits: [facts => [{ ...facts, commits: facts.commits + manyCommits }]],
    body: [
      facts => [{ ...facts, body: facts.body + filler }],
      facts => [{ ...facts, body: `${facts.body}${filler}\n\nCloses #1`, linked_issues: facts.linked_issues + 1 }],
    ],
    title: [...usualPrefixes, ...titles].map(
      (prefix): Change =>
        facts =>
          facts.title.startsWith(prefix) ? undefined : [{ ...facts, title: prefix + facts.title }],
    ),
    label: [...labels].map(
      (label): Change =>
        facts =>
          facts.labels.includes(label) ? undefined : [{ ...facts, labels: [...facts.labels, label] }],
    ),
    reopen: [reopen],
    self_merge: [mergeAlone],
    bot_approval: [facts => [{ ...facts, bot_reviews: (facts.bot_reviews ?? 0) + 1 }]],
    files: [splitFile],
  };
}

interface Tally {
  way: Way;
  changes: readonly Change[];
  /** How many pull requests gain so many points. */
  gains: Map<number, number>;
  paid: Float64Array;
  example: AuditExample | undefined;
}

export function createAudit(ruleset: Ruleset): Audit {
  const entries = [...checkRules(ruleset).values()].flatMap(rule => rule.entries.map(({ checked }) => checked));
  const trees = entries.flatMap(({ condition, value }) => [condition, value]);
  const read = factsOfEntries(entries);
  const facts = new Set<SourceName>(read);
  for (const name of Object.keys(factTypes) as (keyof typeof factTypes)[]) if (!largeFacts.has(name)) facts.add(name);
  const names = [...new Set(entries.map(({ name }) => name))];
  const ruleOf = entries.map(({ name }) => names.indexOf(name));
  const evaluate = compileEffects(entries);
  const effects = new Float64Array(entries.length);
  const changes = changesOf(findHints(trees));
  const tallies = ways.map(
    (way): Tally => ({
      way,
      changes: changes[way],
      gains: new Map(),
      paid: new Float64Array(names.length),
      example: undefined,
    }),
  );
  let pullRequests = 0;

  /** Adds the points of each rule to `points`. @returns the score */
  function score(of: Facts, points: Float64Array): number {
    evaluate(of, effects);
    let sum = 0;
    for (const [index, effect] of effects.entries()) {
      sum += effect;
      const rule = ruleOf[index] ?? 0;
      points[rule] = (points[rule] ?? 0) + effect;
    }
    return clampScore(sum);
  }

  const before = new Float64Array(names.length);

  function tryWay(tally: Tally, id: string, original: Facts, from: number): void {
    let best: { after: number; points: Float64Array } | undefined;
    for (const change of tally.changes) {
      const results = change(original);
      if (results === undefined) continue;
      const points = new Float64Array(names.length);
      const after = results.reduce((sum, result) => sum + score(result, points), 0);
      if (after > (best?.after ?? from)) best = { after, points };
    }
    if (best === undefined) return;
    const gain = best.after - from;
    tally.gains.set(gain, (tally.gains.get(gain) ?? 0) + 1);
    for (const [rule, points] of best.points.entries()) {
      tally.paid[rule] = (tally.paid[rule] ?? 0) + Math.max(0, points - (before[rule] ?? 0));
    }
    const { example } = tally;
    if (example === undefined || gain > example.after - example.before) {
      tally.example = { id, before: from, after: best.after };
    }
  }

  return {
    facts,
    add(id, original) {
      pullRequests += 1;
      before.fill(0);
      const from = score(original, before);
      for (const tally of tallies) tryWay(tally, id, original, from);
    },
    result() {
      const audited = tallies.map((tally): AuditedWay => {
        const { way, gains, paid, example } = tally;
        const gaining = [...gains.values()].reduce((sum, count) => sum + count, 0);
        const total = paid.reduce((sum, points) => sum + points, 0);
        return {
          way,
          share: pullRequests === 0 ? 0 : gaining / pullRequests,
          medianGain: medianOf(gains, gaining),
          largestGain: Math.max(0, ...gains.keys()),
          rules: names
            .map((name, rule) => ({ name, share: total === 0 ? 0 : (paid[rule] ?? 0) / total }))
            .filter(({ share }) => share > 0)
            .sort((a, b) => b.share - a.share),
          example,
        };
      });
      return { pullRequests, ways: audited.sort((a, b) => b.share - a.share) };
    },
  };
}

/** The lower one of two in the middle. */
function medianOf(counts: ReadonlyMap<number, number>, total: number): number {
  let passed = 0;
  for (const [value, count] of [...counts].sort(([a], [b]) => a - b)) {
    passed += count;
    if (passed * 2 >= total) return value;
  }
  return 0;
}
