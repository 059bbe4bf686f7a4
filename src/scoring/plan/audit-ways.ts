/** The cheap ways in which a pull request can be changed for more points: see `createAudit`. */
import { type Facts, hoursBetween, type SourceName } from '../facts.ts';
import { allParts, type TypedExpression } from '../language/tree.ts';

/** The pull requests that would replace one; undefined if the way does not apply. */
export type Change = (facts: Facts) => Facts | readonly Facts[] | undefined;

const paddingLines = 300;
const paddingFiles = ['package-lock.json', 'pnpm-lock.yaml', 'go.sum', 'dist/a.js', 'vendor/a.js', 'docs/notes.md'];
const manyCommits = 10;
const manyFiles = 10;
const filler = '\n\nThis change improves the overall quality of the code base and makes it easier to maintain. '.repeat(
  6,
);
const usualPrefixes = ['feat: ', 'fix: ', 'docs: ', 'chore: ', 'refactor: ', 'test: ', 'perf: '];

/** With the facts that follow from others. */
function changed(facts: Facts, change: Partial<Facts>): Facts {
  const all = { ...facts, ...change };
  return {
    ...all,
    size: all.additions + all.deletions,
    merged: all.state === 'merged',
    hours_to_merge: hoursBetween(all.created_at, all.merged_at),
    hours_to_close: hoursBetween(all.created_at, all.closed_at),
    hours_from_ready_to_merge: hoursBetween(all.ready_at, all.merged_at),
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
      changes && places.flatMap(place => [part(changes[2 * place] ?? 0), part(changes[2 * place + 1] ?? 0)]),
  };
}

export const split: Change = facts => {
  if (facts.size < 2) return undefined;
  const places = [...facts.files.keys()];
  return [Math.ceil, Math.floor].map((round, index) => {
    const half = (lines: number) => round(lines / 2);
    const own = places.filter(place => place % 2 === index);
    return changed(facts, {
      ...(places.length < 2 ? someFiles(facts, places, half) : someFiles(facts, own)),
      additions: half(facts.additions),
      deletions: facts.deletions - half(facts.deletions),
      changed_files: Math.max(1, half(facts.changed_files)),
      commits: Math.max(1, half(facts.commits)),
      comments: half(facts.comments),
      given_reviews:
        facts.given_reviews?.map(review => ({ ...review, review_comments: half(review.review_comments) })) ?? null,
    });
  });
};

const pad =
  (path: string): Change =>
  facts =>
    changed(facts, {
      additions: facts.additions + paddingLines,
      changed_files: facts.changed_files + 1,
      files: [...facts.files, path],
      file_changes: facts.file_changes && [...facts.file_changes, paddingLines, 0],
    });

const splitFile: Change = facts => {
  if (facts.changed_files === 0) return undefined;
  const [first, ...others] = facts.files.keys();
  const name = facts.files[first ?? 0] ?? '';
  const kept = someFiles(facts, others);
  const pieces = first === undefined ? 0 : manyFiles;
  const upTo = (side: number, piece: number) => Math.floor(((facts.file_changes?.[side] ?? 0) * piece) / manyFiles);
  const lines = (side: number, piece: number) => upTo(side, piece + 1) - upTo(side, piece);
  return changed(facts, {
    changed_files: facts.changed_files + manyFiles - 1,
    // The extension stays, so that globs match as before.
    files: [
      ...Array.from({ length: pieces }, (_, piece) => name.replace(/(\.[^./]*)?$/, `-${piece}$1`)),
      ...kept.files,
    ],
    file_changes: kept.file_changes && [
      ...Array.from({ length: pieces }, (_, piece) => [lines(0, piece), lines(1, piece)]).flat(),
      ...kept.file_changes,
    ],
  });
};

const reopen: Change = facts => {
  if (facts.merged) return undefined;
  return changed(facts, { state: facts.draft ? 'draft' : 'open', closed_at: null, updated_at: facts.updated_at + 60 });
};

const mergeAlone: Change = facts => {
  if (facts.self_merged) return undefined;
  const mergedAt = facts.merged_at ?? facts.closed_at ?? Math.max(facts.updated_at, facts.created_at);
  const merged = { state: 'merged', draft: false, merged_at: mergedAt, closed_at: mergedAt } as const;
  const readyAt = facts.draft ? mergedAt : facts.ready_at;
  return changed(facts, { ...merged, ready_at: readyAt, merged_by: facts.author, self_merged: true });
};

/** The comparisons that read a fact: the texts that they name, also by definitions, and their globs and patterns. */
export function* comparisonsWith(
  trees: readonly TypedExpression[],
  name: SourceName,
): Generator<{ texts: string[]; literals: readonly string[] }> {
  for (const part of allParts(trees)) {
    // A comparison, not what joins comparisons.
    if (part.type !== 'boolean' || part.parts.some(({ type }) => type === 'boolean')) continue;
    const inner = [...allParts(part.parts)];
    if (!inner.some(each => each.kind === 'fact' && each.name === name)) continue;
    const constants = inner.flatMap(each => (each.kind === 'constant' ? each.value : []));
    const options = part.kind === 'oneOf' ? part.options : [];
    const texts = [...constants, ...options].filter(text => typeof text === 'string');
    yield { texts, literals: part.kind === 'call' ? part.literals : [] };
  }
}

/** A text that a glob matches. */
const exampleOf = (glob: string): string =>
  glob
    .replace(/\{([^{},]*),[^{}]*\}/g, '$1')
    .replace(/\[([^!^])[^\]]*\]/g, '$1')
    .replace(/\*+|\?/g, 'x');

/** What the rules look for, and so what somebody gaming them would add. */
const findHints = (trees: readonly TypedExpression[]) => ({
  labels: new Set(
    [...comparisonsWith(trees, 'labels')].flatMap(({ texts, literals }) => [...texts, ...literals.map(exampleOf)]),
  ),
  titles: new Set([...comparisonsWith(trees, 'title')].flatMap(({ texts }) => texts)),
});

/** The changes to try for each way, of which the best counts. @param trees of the rules, which show what they look for */
export function changesOf(trees: readonly TypedExpression[]) {
  const { labels, titles } = findHints(trees);
  return {
    split: [split],
    pad: paddingFiles.map(pad),
    commits: [facts => ({ ...facts, commits: facts.commits + manyCommits })],
    body: [
      facts => ({ ...facts, body: facts.body + filler }),
      facts => ({ ...facts, body: `${facts.body}${filler}\n\nCloses #1`, linked_issues: facts.linked_issues + 1 }),
    ],
    title: [...usualPrefixes, ...titles].map(
      (prefix): Change =>
        facts =>
          facts.title.startsWith(prefix) ? undefined : { ...facts, title: prefix + facts.title },
    ),
    label: [...labels].map(
      (label): Change =>
        facts =>
          facts.labels.includes(label) ? undefined : { ...facts, labels: [...facts.labels, label] },
    ),
    reopen: [reopen],
    self_merge: [mergeAlone],
    bot_approval: [facts => ({ ...facts, bot_reviews: (facts.bot_reviews ?? 0) + 1 })],
    files: [splitFile],
  } satisfies Record<string, readonly Change[]>;
}

export type Way = keyof ReturnType<typeof changesOf>;

/** In the order in which reports list them if they gain equally. */
export const ways = Object.keys(changesOf([])) as Way[];
