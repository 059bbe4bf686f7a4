/**
 * Regular expressions in RE2 syntax, with a bound on time that holds for every pattern and every text.
 *
 * re2js parses and compiles. Its own matching is linear too, but a text that keeps leading its automaton to new states
 * costs up to 5 µs a character (`a.{100}$` over random a and b: 0.3 s for 64 KB). So its compiled program is run here
 * as a bit set: for each character the set of steps that can read it, then the union of what may follow those, four
 * steps at a time from a table. A character costs at most size²/128 word operations, whatever the text.
 */
import { RE2JS, RE2JSException } from 're2js';
import { characterCount } from './text-operations.ts';

/** Why a pattern is refused; `message` is the end of a sentence about it. */
export class PatternError extends Error {}

export interface Pattern {
  /** Whether the pattern matches anywhere in the text. */
  test(text: string): boolean;
  /** The characters that it reads with its repeats written out; 0 if it needs no automaton. */
  size: number;
}

export const patternLimits = {
  /** Of its source. */
  characters: 1_000,
  /** Steps of one pattern; 64 KB then take 30 ms. */
  size: 128,
  /** Different patterns and globs of a ruleset. */
  count: 1_000,
  /** Steps of all of them together; their tables take up to 2 KB for each. */
  totalSize: 16_000,
  /** Steps with repeats written out, which re2js does before the size is known: a microsecond for each step. */
  unrolled: 20_000,
  /** Characters in ranges of a pattern that ignores case: re2js looks up each of them. */
  foldedCharacters: 8_192,
} as const;

// The parts of re2js's compiled program that are read here. A test compares every construct with re2js's own matching.
interface Instruction {
  op: number;
  out: number;
  arg: number;
  matchRune(rune: number): boolean;
}
interface Program {
  start: number;
  numInst(): number;
  getInst(counter: number): Instruction;
}
const operation = { alternative: 1, alternativeMatch: 2, capture: 3, assertion: 4, match: 6, nothing: 7, rune: 8 };
const assertion = { lineStart: 1, lineEnd: 2, textStart: 4, textEnd: 8, wordBoundary: 16, noWordBoundary: 32 };

/** The neighbours of a position that assertions distinguish. */
const edge = 0;
const newline = 1;
const word = 2;
const other = 3;

function kindOf(code: number): number {
  if (code === -1) return edge;
  if (code === 10) return newline;
  const isWord = (code >= 97 && code <= 122) || (code >= 65 && code <= 90) || (code >= 48 && code <= 57) || code === 95;
  return isWord ? word : other;
}

/** The assertions that hold between two kinds of neighbours. */
function assertionsBetween(before: number, after: number): number {
  let held = (before === word) === (after === word) ? assertion.noWordBoundary : assertion.wordBoundary;
  if (before === edge) held |= assertion.textStart | assertion.lineStart;
  if (before === newline) held |= assertion.lineStart;
  if (after === edge) held |= assertion.textEnd | assertion.lineEnd;
  if (after === newline) held |= assertion.lineEnd;
  return held;
}

/** The steps that can come next if certain assertions hold, as bit sets of `words` 32-bit words. */
interface Transitions {
  start: Int32Array;
  /** For each group of four steps and each subset of it: the union of what follows those. */
  follow: Int32Array;
}

interface Tables {
  words: number;
  /** The bit after the last step, which means a match. */
  matchWord: number;
  matchBit: number;
  /** The first character of each class of characters that the pattern distinguishes, except for the first class. */
  bounds: Int32Array;
  asciiClass: Uint16Array;
  /** For each class the steps that read it. */
  readers: Int32Array;
  /** For each class, 1 if a match can begin with it after the first character. */
  begins: Uint8Array;
  /** By kind before * 4 + kind after. */
  between: readonly Transitions[];
}

function classOf(bounds: Int32Array, rune: number): number {
  let low = 0;
  let high = bounds.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((bounds[middle] ?? 0) <= rune) low = middle + 1;
    else high = middle;
  }
  return low;
}

function addBit(set: Int32Array, offset: number, bit: number): void {
  const index = offset + (bit >> 5);
  set[index] = (set[index] ?? 0) | (1 << (bit & 31));
}

function makeTables(program: Program, steps: readonly number[], bounds: Int32Array): Tables {
  const size = steps.length;
  const words = (size >> 5) + 1;
  const stepOf = new Map(steps.map((counter, step) => [counter, step]));

  /** The steps, and the match, that can come next at a program counter if these assertions hold. */
  function closure(from: number, held: number): Int32Array {
    const reached = new Int32Array(words);
    const seen = new Set<number>();
    const pending = [from];
    for (let counter = pending.pop(); counter !== undefined; counter = pending.pop()) {
      if (seen.has(counter)) continue;
      seen.add(counter);
      const { op, out, arg } = program.getInst(counter);
      const step = stepOf.get(counter);
      if (step !== undefined) addBit(reached, 0, step);
      else if (op === operation.match) addBit(reached, 0, size);
      else if (op === operation.alternative || op === operation.alternativeMatch) pending.push(out, arg);
      else if (op === operation.capture || op === operation.nothing) pending.push(out);
      else if (op === operation.assertion && (arg & ~held) === 0) pending.push(out);
    }
    return reached;
  }

  function transitions(held: number): Transitions {
    const follow = new Int32Array(words * 8 * 16 * words);
    for (const [step, counter] of steps.entries()) {
      const next = closure(program.getInst(counter).out, held);
      for (let subset = 0; subset < 16; subset++) {
        if ((subset & (1 << (step & 3))) === 0) continue;
        const row = ((step >> 2) * 16 + subset) * words;
        for (let word = 0; word < words; word++) follow[row + word] = (follow[row + word] ?? 0) | (next[word] ?? 0);
      }
    }
    return { start: closure(program.start, held), follow };
  }

  let used = 0;
  for (let counter = 0; counter < program.numInst(); counter++) {
    const { op, arg } = program.getInst(counter);
    if (op === operation.assertion) used |= arg;
  }
  const known = new Map<number, Transitions>();
  const between = Array.from({ length: 16 }, (_, pair) => {
    const held = assertionsBetween(pair >> 2, pair & 3) & used;
    const found = known.get(held) ?? transitions(held);
    known.set(held, found);
    return found;
  });

  const later = closure(program.start, ~assertion.textStart);
  const matchWord = size >> 5;
  const matchBit = 1 << (size & 31);
  const matchesEmpty = ((later[matchWord] ?? 0) & matchBit) !== 0;
  const readers = new Int32Array((bounds.length + 1) * words);
  const begins = new Uint8Array(bounds.length + 1).fill(matchesEmpty ? 1 : 0);
  for (let index = 0; index < begins.length; index++) {
    const rune = index === 0 ? 0 : (bounds[index - 1] ?? 0);
    for (const [step, counter] of steps.entries()) {
      if (!program.getInst(counter).matchRune(rune)) continue;
      addBit(readers, index * words, step);
      if (((later[step >> 5] ?? 0) & (1 << (step & 31))) !== 0) begins[index] = 1;
    }
  }
  const asciiClass = Uint16Array.from({ length: 128 }, (_, rune) => classOf(bounds, rune));
  return { words, matchWord, matchBit, bounds, asciiClass, readers, begins, between };
}

/** One character, surrogates joined as re2js does; -1 after the end. */
function runeAt(text: string, position: number): number {
  return position < text.length ? (text.codePointAt(position) ?? -1) : -1;
}

function run(tables: Tables, text: string): boolean {
  const { words, matchWord, matchBit, bounds, asciiClass, readers, begins, between } = tables;
  const none = between[0];
  if (none === undefined) return false;
  let rune = runeAt(text, 0);
  let active = Int32Array.from((between[edge * 4 + kindOf(rune)] ?? none).start);
  let next = new Int32Array(words);
  let position = 0;
  for (;;) {
    if (((active[matchWord] ?? 0) & matchBit) !== 0) return true;
    if (rune === -1) return false;
    const row = (rune < 128 ? (asciiClass[rune] ?? 0) : classOf(bounds, rune)) * words;
    let before = kindOf(rune);
    position += rune > 0xffff ? 2 : 1;
    rune = runeAt(text, position);
    let read = 0;
    for (let word = 0; word < words; word++) read |= (active[word] ?? 0) & (readers[row + word] ?? 0);
    if (read === 0) {
      // No match has begun: skip to the next character that can begin one.
      while (rune !== -1 && begins[rune < 128 ? (asciiClass[rune] ?? 0) : classOf(bounds, rune)] === 0) {
        before = kindOf(rune);
        position += rune > 0xffff ? 2 : 1;
        rune = runeAt(text, position);
      }
    }
    const { start, follow } = between[before * 4 + kindOf(rune)] ?? none;
    next.set(start);
    if (read !== 0) {
      for (let word = 0; word < words; word++) {
        let reading = (active[word] ?? 0) & (readers[row + word] ?? 0);
        for (let group = word * 8; reading !== 0; group++, reading >>>= 4) {
          if ((reading & 15) === 0) continue;
          const union = (group * 16 + (reading & 15)) * words;
          for (let at = 0; at < words; at++) next[at] = (next[at] ?? 0) | (follow[union + at] ?? 0);
        }
      }
    }
    const spent = active;
    active = next;
    next = spent;
  }
}

/** An upper bound on the steps that re2js writes out; it refuses nested repeats over 1,000. */
function unrolledBound(source: string): number {
  let factor = 1;
  for (const [, min = '', max = ''] of source.matchAll(/\{(\d+)(?:,(\d*))?\}/g)) {
    factor = Math.min(1000, factor * Math.max(1, Number(min), Number(max)));
  }
  return factor * source.length;
}

/** A character, as it is written in a pattern: `\\x{10FFFF}`, `\\xFF`, `\\177`, or itself, with a backslash or without. */
const writtenCharacter = /\\x\{([0-9a-f]+)\}|\\x([0-9a-f]{2})|\\([0-7]{1,3})|\\?(.)/gisu;

/** An upper bound on the characters in the ranges of a pattern that ignores case; 0 for any other. */
function foldedBound(source: string): number {
  if (!/\(\?[a-z]*i/i.test(source)) return 0;
  const codes = [...source.matchAll(writtenCharacter)].map(([, braced, short, octal, plain]) =>
    plain === undefined ? Number.parseInt(braced ?? short ?? octal ?? '', octal ? 8 : 16) : (plain.codePointAt(0) ?? 0),
  );
  const hyphen = 45;
  return codes.reduce((sum, code, index) => {
    const isRange = code === hyphen && index > 0 && index + 1 < codes.length;
    return isRange ? sum + Math.max(0, (codes[index + 1] ?? 0) - (codes[index - 1] ?? 0)) : sum;
  }, 0);
}

/** @throws PatternError if the syntax is wrong or the pattern too large */
export function compilePattern(source: string): Pattern {
  const characters = characterCount(source);
  if (characters > patternLimits.characters) {
    throw new PatternError(`has a pattern of ${characters} characters; the limit is ${patternLimits.characters}`);
  }
  const folded = foldedBound(source);
  if (folded > patternLimits.foldedCharacters) {
    throw new PatternError(
      'ignores the case of ranges that are too wide; use a class such as `\\\\p{L}`, or ranges of single alphabets',
    );
  }
  if (unrolledBound(source) > patternLimits.unrolled) {
    throw new PatternError('is too large with its repeats written out; shorten it or lower its repeat counts');
  }
  let compiled: RE2JS;
  try {
    compiled = RE2JS.compile(source);
  } catch (error) {
    if (!(error instanceof RE2JSException)) throw error;
    // The reason repeats the pattern, or a part of it.
    const reason = error.message
      .replace(/^error parsing regexp: /, '')
      .replace(/\s+/g, ' ')
      .replace(/[\p{Cc}\p{Cf}\p{Surrogate}]/gu, '\uFFFD');
    throw new PatternError(`is not a pattern in RE2 syntax: ${[...reason].slice(0, 200).join('')}`);
  }
  const { prog, dfa } = compiled.re2();
  const program: Program = prog;
  const counters = Array.from({ length: program.numInst() }, (_, counter) => counter);
  const steps = counters.filter(counter => program.getInst(counter).op >= operation.rune);
  if (steps.length > patternLimits.size || program.numInst() > 4 * patternLimits.size) {
    throw new PatternError(
      `reads ${steps.length} characters with its repeats written out; the limit is ${patternLimits.size}; shorten it or lower its repeat counts`,
    );
  }
  const tables = makeTables(program, steps, dfa.classBounds);
  return { test: text => run(tables, text), size: steps.length };
}

export const matchesAny = (text: string, patterns: readonly Pattern[]) => patterns.some(pattern => pattern.test(text));

/** Compiles patterns: the same source always gives the same pattern. @throws PatternError */
export type Compile = (source: string) => Pattern;

/**
 * The patterns of one ruleset. Each is compiled once, and all together keep to limits. What is refused counts like the
 * largest, because it took as long.
 */
export function createPatterns() {
  const known = new Map<Compile, Map<string, Pattern | PatternError>>();
  let count = 0;
  let size = 0;
  function checkLimits(): void {
    if (count > patternLimits.count) {
      throw new PatternError(`is one too many: a file may have ${patternLimits.count} different patterns and globs`);
    }
    if (size > patternLimits.totalSize) {
      throw new PatternError(
        `makes the patterns and globs of the rules too large together: the limit is ${patternLimits.totalSize} characters ` +
          'that they read with their repeats written out; use fewer, shorter or simpler ones',
      );
    }
  }
  return {
    compileOnce(compile: Compile, source: string): Pattern {
      const ofKind = known.get(compile) ?? new Map<string, Pattern | PatternError>();
      known.set(compile, ofKind);
      let found = ofKind.get(source);
      if (found === undefined) {
        count += 1;
        checkLimits();
        try {
          found = compile(source);
        } catch (error) {
          if (!(error instanceof PatternError)) throw error;
          found = error;
        }
        size += found instanceof PatternError ? patternLimits.size : found.size;
        ofKind.set(source, found);
        checkLimits();
      }
      if (found instanceof PatternError) throw found;
      return found;
    },
  };
}

export type Patterns = ReturnType<typeof createPatterns>;

/** Compiles the literals of a call. */
export const prepareWith = (compile: Compile) => (sources: readonly string[], patterns: Patterns) =>
  sources.map(source => patterns.compileOnce(compile, source));
