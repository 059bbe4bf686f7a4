/** The largest pull requests that GitHub can have, written in letters that take rules long to read. */
import { emptyFacts, type Facts, factOf, type SourceName } from './facts.ts';
import { allParts, type TypedExpression } from './language/tree.ts';

/** In UTF-16 units. GitHub's limits, and ours on all paths of a pull request together: src/github/pull-request.ts. */
const sizes: { readonly [Name in SourceName]?: { count: number; characters: number } } = {
  body: { count: 1, characters: 65_536 },
  files: { count: 3_000, characters: 87 },
  labels: { count: 100, characters: 50 },
  assignees: { count: 20, characters: 39 },
  reviewer: { count: 1, characters: 39 },
};
/** Whether reading it takes a time worth measuring. */
export const isLarge = (name: SourceName): boolean => name in sizes && name !== 'reviewer';

const otherText = { count: 1, characters: 256 };

/** What a text is made of, in random order. */
export type Syllables = readonly string[];

export const usualSyllables: Syllables = [
  'The ',
  'fix',
  'core-12/',
  'Users',
  '.test',
  '.ts ',
  'x',
  'q',
  '/src/',
  '_\n',
  '#7 ',
];

/** Slow to convert to lower case, and to count. */
const slowSyllables: Syllables = ['İ', '🙂', 'İ'];

/**
 * The kinds of text that an expression may be slow for: usual ones, rare letters, and two that lead its own patterns and
 * texts as far as possible, or almost.
 */
export function syllablesFor(trees: readonly TypedExpression[]): Syllables[] {
  const whole = new Set<string>();
  const almost = new Set<string>();
  for (const part of allParts(trees)) {
    if (part.kind === 'constant' && typeof part.value === 'string') almost.add(part.value.slice(0, -1));
    if (part.kind !== 'call') continue;
    for (const literal of part.literals) {
      const runs = Array.from(literal.matchAll(/[\p{L}\p{N}]+/gu), ([run]) => run);
      for (const run of runs) whole.add(run);
      for (const run of runs.slice(0, -1)) almost.add(run);
      if (runs.length === 1) almost.add(literal.slice(0, -1));
    }
  }
  const own = [whole, almost].map(texts => [...texts].filter(text => text !== '')).filter(({ length }) => length > 0);
  return [usualSyllables, slowSyllables, ...own];
}

/** Joined of pieces, because V8 would keep slices and sums in pieces, which are slower to read. */
function write(syllables: Syllables, length: number): string {
  let random = 1;
  let pattern = '';
  while (pattern.length < Math.min(length, 1_024)) {
    random = (Math.imul(random, 1_664_525) + 1_013_904_223) >>> 0;
    pattern += syllables[(random >>> 16) % syllables.length] ?? '';
  }
  const pieces = Array.from({ length: Math.floor(length / pattern.length) }, () => pattern);
  return [...pieces, pattern.slice(0, length % pattern.length)].join('');
}

function writeFact(name: SourceName, syllables: Syllables, share: number): unknown {
  const { type = 'list' } = factOf(name) ?? {};
  const { count, characters } = sizes[name] ?? otherText;
  // A search for it does not end at the beginning.
  if (name === 'reviewer') return write(syllables, characters).replace(/(?<=^.{20})./su, '\0');
  if (type === 'text') return write(syllables, Math.ceil(share * characters));
  if (type !== 'list') return emptyFacts[name];
  const text = write(syllables, 20 * characters);
  return Array.from({ length: Math.ceil(share * count) }, (_, index) => {
    const begin = (index * 7) % (text.length - characters);
    const middle = begin + Math.floor(characters / 2);
    return [text.slice(begin, middle), text.slice(middle, begin + characters)].join('');
  });
}

/**
 * Writes worst cases, as far as these facts go.
 *
 * @param share of the size that GitHub allows
 * @param options `isSmallWhole`: facts that are not large have their whole size
 */
export function createWorstCases(share: number, { isSmallWhole = false } = {}) {
  /** Of the kinds of text that entries have in common. */
  const known = new Map([usualSyllables, slowSyllables].map(syllables => [syllables, new Map<SourceName, unknown>()]));
  return (names: Iterable<SourceName>, syllables: Syllables): Facts => {
    const values = Array.from(names, name => {
      const value =
        known.get(syllables)?.get(name) ?? writeFact(name, syllables, isSmallWhole && !isLarge(name) ? 1 : share);
      known.get(syllables)?.set(name, value);
      return [name, value] as const;
    });
    return { ...emptyFacts, ...Object.fromEntries(values) };
  };
}
