/**
 * Whether rules are fast enough to be put in force: they are measured with the largest pull requests that GitHub can have.
 *
 * Time is told as that of a usual machine: as a multiple of what a fixed calculation takes at the same moment, so that a
 * slow or busy machine refuses the same rules. This is not the wall, since another text may be slower than those written
 * here. The wall is the time that rules may take once they are in force: src/scorer.
 */
import { maxReviewers } from '../pull-request.ts';
import { decimal } from '../text/number-formats.ts';
import { type Facts, factOf } from './facts.ts';
import { type CheckedEntry, treesOf } from './language/compile.ts';
import { parseExpression } from './language/expression.ts';
import type { Value } from './language/functions.ts';
import type { Pattern } from './language/pattern.ts';
import { compareText, nameInQuotes } from './language/text-operations.ts';
import { allParts, factsRead, type TypedExpression } from './language/tree.ts';
import type { RuleProblem } from './ruleset.ts';
import { createWorstCases, isLarge, type Syllables, syllablesFor, usualSyllables } from './worst-cases.ts';

export const admissionLimits = {
  /** Milliseconds for one pull request, on a usual machine. */
  ms: 200,
  /** From here on there is a warning. */
  warningMs: 140,
} as const;

export interface Measurement {
  /** Of all entries together, for the slowest kind of text for each. */
  ms: number;
  /** Whether the measurement ended early, because it is clearly too much. */
  isMore: boolean;
  /** The slowest ones first. */
  entries: { rule: string; entry: number; ms: number }[];
}

const sizeOf = (value: Value) => (typeof value === 'string' ? value.length : 0);

const readingKinds: ReadonlySet<TypedExpression['kind']> = new Set(['call', 'comparison', 'oneOf', 'itemOf']);
const reads = ({ kind }: TypedExpression) => readingKinds.has(kind);

/** How often parts are done that are not done once. */
type Repetitions = ReadonlyMap<TypedExpression, number>;
const once: Repetitions = new Map();

/** Calls that read nothing of a review keep their result for the next reviewer: language/compile.ts. */
const runsForEachReview = (tree: TypedExpression) =>
  reads(tree) && (tree.kind !== 'call' || [...factsRead([tree])].some(name => factOf(name)?.isOfReview));

/** @param share of the size of large facts. Work that reads no large fact is repeated for this share of the reviewers. */
const repetitionsOf = (parts: readonly TypedExpression[], share: number): Repetitions =>
  new Map(
    [...allParts(parts)].filter(runsForEachReview).map(tree => {
      return [tree, [...factsRead([tree])].some(isLarge) ? maxReviewers : Math.ceil(share * maxReviewers)];
    }),
  );

/**
 * Does all the work that can be in an expression: also what `&&`, `?:` or the first match of a list would skip.
 *
 * @returns a value of its type
 */
function work(tree: TypedExpression, facts: Facts, repetitions = once): Value {
  if (tree.kind === 'constant') return tree.value;
  if (tree.kind === 'fact') return (facts[tree.name] ?? 1) as Value;
  const values = tree.parts.map(part => work(part, facts, repetitions));
  let result = workOn(tree, values);
  for (let done = 1; done < (repetitions.get(tree) ?? 1); done++) result = workOn(tree, values);
  return result;
}

function workOn(tree: TypedExpression, values: readonly Value[]): Value {
  const [first = 0, second = 0, third = 0] = values;
  if (tree.kind === 'defined') return first;
  if (tree.kind === 'choice') return sizeOf(second) > sizeOf(third) ? second : third;
  if (tree.kind === 'oneOf') return tree.options.some(option => option === first);
  if (tree.kind === 'itemOf') {
    const list = second as readonly Value[];
    // The last item takes longest to find.
    return list.includes(list.at(-1) ?? first);
  }
  if (tree.kind === 'comparison' && typeof first === 'string' && typeof second === 'string') {
    // Texts take longest if they are alike to the end of the shorter one.
    const shorter = first.length < second.length ? first : second;
    return compareText(shorter, shorter) === 0;
  }
  if (tree.kind === 'call') return call(tree, values);
  return tree.type === 'number' ? 1 : true;
}

function call({ definition, prepared, type }: TypedExpression & { kind: 'call' }, values: readonly Value[]): Value {
  if (!Array.isArray(prepared)) {
    return (definition.implementation as (...values: unknown[]) => Value)(...values, prepared);
  }
  const texts = [values[0] ?? 0].flat() as string[];
  let matches = 0;
  for (const pattern of prepared as Pattern[]) {
    for (const text of texts) if (pattern.test(text)) matches++;
  }
  return type === 'number' ? matches : matches > 0;
}

/** The parts of an expression that take time: those that read texts, also quoted ones. */
function slowParts(tree: TypedExpression): TypedExpression[] {
  if (!reads(tree)) return tree.parts.flatMap(slowParts);
  return [...allParts([tree])].some(({ type }) => type === 'text' || type === 'list') ? [tree] : [];
}

/** Processor time, because other processes may take the processor away. @returns milliseconds */
function time(run: () => unknown): number {
  const begin = process.cpuUsage();
  run();
  const { user, system } = process.cpuUsage(begin);
  return (user + system) / 1000;
}

/** Reads texts in each of the ways that take time. */
function createReference() {
  const tree = parseExpression(
    'count_files("**/core-*/**/*.{test,spec}.ts") > 0 && matches(body, "x.{9}(q|#7)") && contains(lower(body), "7 the fixture ends")',
    'boolean',
  );
  return { tree, facts: createWorstCases(1 / 16)(factsRead([tree]), usualSyllables) };
}
/** What that takes on a usual machine, such as a virtual one of 2024. */
const referenceMs = 0.6;
let reference: ReturnType<typeof createReference> | undefined;

function timeReference(): number {
  if (reference === undefined) {
    reference = createReference();
    // In a new process it takes ten times as long, until V8 has compiled it.
    for (let run = 0; run < 10; run++) timeReference();
  }
  const { tree, facts } = reference;
  return time(() => work(tree, facts));
}

interface Candidate {
  checked: CheckedEntry;
  parts: readonly TypedExpression[];
  /** A kind of text, and the best time for it. */
  cases: { syllables: Syllables; ms: number }[];
}

const slowestOf = (cases: Candidate['cases']) => Math.max(...cases.map(({ ms }) => ms));

interface Effort {
  /** Of the size of the largest pull requests. What rules do takes linear time, so a part shows what the whole takes. */
  share: number;
  /** Nothing is measured again once all together take less. */
  enoughMs: number;
}

const maxRounds = 3;

/** Nothing else is measured once those before take more. Measured: a sample is off by half at most. */
const clearlyMs = 2 * admissionLimits.ms;

/** Measures entries up to three times, and keeps the best time of each. */
function measure(candidates: readonly Candidate[], { share, enoughMs }: Effort, onStep: () => void): Measurement {
  const write = createWorstCases(share);
  const writeForReviews = createWorstCases(share, { isSmallWhole: true });
  let referenceTime = Number.POSITIVE_INFINITY;
  const measureScale = () => {
    referenceTime = Math.min(referenceTime, timeReference(), timeReference());
    return referenceMs / referenceTime / share;
  };
  for (let round = 1; ; round++) {
    const maxMeasuredMs = clearlyMs / measureScale();
    let sum = 0;
    let measured = 0;
    for (const { checked, parts, cases } of candidates) {
      const { isOfReview } = checked;
      const names = factsRead(parts);
      const repetitions = isOfReview ? repetitionsOf(parts, share) : once;
      for (const each of cases) {
        onStep();
        const facts = (isOfReview ? writeForReviews : write)(names, each.syllables);
        each.ms = Math.min(
          each.ms,
          time(() => parts.map(part => work(part, facts, repetitions))),
        );
      }
      sum += slowestOf(cases);
      measured++;
      if (sum > maxMeasuredMs) break;
    }
    // Again: slow rules look fast if the machine was slow only while the first reference ran.
    const scale = measureScale();
    if (sum * scale > enoughMs && round < maxRounds) continue;
    const entries = candidates.slice(0, measured).map(({ checked: { name, entry }, cases }) => {
      return { rule: name, entry, ms: slowestOf(cases) * scale };
    });
    const isMore = measured < candidates.length;
    return { ms: sum * scale, isMore, entries: entries.sort((a, b) => b.ms - a.ms) };
  }
}

/**
 * Measures rules: in a few milliseconds if they are fast, and in about two seconds at most.
 *
 * @param onStep called before each step
 */
export function measureRules(entries: readonly CheckedEntry[], onStep = () => {}): Measurement {
  const candidates = entries.flatMap((checked): Candidate[] => {
    const parts = treesOf([checked]).flatMap(slowParts);
    const cases = syllablesFor(parts).map(syllables => ({ syllables, ms: Number.POSITIVE_INFINITY }));
    return parts.length === 0 ? [] : [{ checked, parts, cases }];
  });
  if (candidates.length === 0) return { ms: 0, isMore: false, entries: [] };
  const { ms } = admissionLimits;
  const sample = measure(candidates, { share: 1 / 32, enoughMs: ms / 2 }, onStep);
  if (sample.ms <= ms / 2 || sample.ms > clearlyMs) return sample;
  const slowest = candidates.map(({ cases, ...candidate }): Candidate => {
    const [{ syllables } = { syllables: usualSyllables }] = cases.sort((one, other) => other.ms - one.ms);
    return { ...candidate, cases: [{ syllables, ms: Number.POSITIVE_INFINITY }] };
  });
  return measure(slowest, { share: 1, enoughMs: admissionLimits.warningMs }, onStep);
}

const shown = 3;

const written = (ms: number) => `${decimal(Number(ms.toPrecision(2)))} ms`;

/** What is to be said about the slowest entry, and whether the rules are refused; undefined if they are fast. */
export function judge({ ms, isMore, entries }: Measurement): (RuleProblem & { isRefused: boolean }) | undefined {
  const [first] = entries;
  if (ms < admissionLimits.warningMs || first === undefined) return undefined;
  const isRefused = ms > admissionLimits.ms;
  const time = `${isMore ? 'more than' : 'about'} ${written(ms)} for the largest one that GitHub can have`;
  const slowest = entries
    .slice(0, shown)
    .map(({ rule, entry, ms }) => `rule ${nameInQuotes(rule)}, entry ${entry} (${written(ms)})`);
  const begin = isRefused ? 'The rules take too long' : 'The rules nearly take too long';
  const message =
    `${begin} to score one pull request: ${time}, and the limit is ${admissionLimits.ms} ms; the slowest are ` +
    `${slowest.join(', ')}; use fewer or smaller patterns and globs, or read \`title\` in place of \`body\``;
  return { rule: first.rule, entry: first.entry, part: 'expression', message, isRefused };
}
