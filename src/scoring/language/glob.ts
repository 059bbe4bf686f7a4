/**
 * Globs over paths: `*` and `?` stay within a folder, `**` crosses folders and may be empty, `[a-z]` and `[!a-z]` are
 * one character of a folder, `{a,b}` either. A leading dot is a character like any other, and case counts.
 */
import { compilePattern, type Pattern, PatternError } from './pattern.ts';
import { containsText, excerpt } from './text-operations.ts';

interface Translation {
  regex: string;
  /** Whether what follows starts a path segment. If it does, `**` and a slash may stand for no folder at all. */
  beginsSegment: boolean;
}

const maxNesting = 8;

const quote = (character: string) => (/[\w/]|[^\0-\x7f]/.test(character) ? character : `\\${character}`);

/** One range of a class in RE2 syntax, without the slash that it may span. */
function rangeOf(low: string, high: string): string {
  if ((high.codePointAt(0) ?? 0) < (low.codePointAt(0) ?? 0)) {
    const range = `${low}-${high}`;
    throw new PatternError(`has the range ${excerpt(range)} the wrong way round`);
  }
  const whole: [from: string, to: string][] = [[low, high]];
  const around: typeof whole = [
    [low, '.'],
    ['0', high],
  ];
  const ranges = low <= '/' && high >= '/' ? around.filter(([from, to]) => from <= to) : whole;
  return ranges.map(([from, to]) => `${quote(from)}-${quote(to)}`).join('');
}

const slashProblem = () => new PatternError('has a `/` between `[` and `]`, which stays within a folder');

/** Reads `[…]` from its opening bracket. No class ever matches a slash. */
function readClass(glob: string, start: number): { regex: string; end: number } {
  let index = start + 1;
  const negated = glob[index] === '!' || glob[index] === '^';
  if (negated) index++;
  const first = index;
  const items: { character: string; isDash: boolean }[] = [];
  while (glob[index] !== ']' || index === first) {
    const isEscaped = glob[index] === '\\';
    if (isEscaped) index++;
    const character = glob.codePointAt(index);
    if (character === undefined) {
      throw new PatternError('has a `[` without its `]`; write `\\\\[` for the bracket itself');
    }
    items.push({ character: String.fromCodePoint(character), isDash: !isEscaped && character === 0x2d });
    index += character > 0xffff ? 2 : 1;
  }
  let regex = negated ? '[^/' : '[';
  for (let at = 0; at < items.length; at++) {
    const low = items[at]?.character ?? '';
    const high = items[at + 1]?.isDash === true ? items[at + 2]?.character : undefined;
    if (high === undefined && low === '/') throw slashProblem();
    regex += high === undefined ? quote(low) : rangeOf(low, high);
    if (high !== undefined) at += 2;
  }
  // Such as `[/-/]`: without its slash, a range of slashes is empty.
  if (regex === '[') throw slashProblem();
  return { regex: `${regex}]`, end: index + 1 };
}

/** Splits `{a,b}` from its opening brace. Without a comma they are just braces, as in a shell. */
function readChoices(glob: string, start: number): { choices: string[]; end: number } {
  const choices: string[] = [];
  let depth = 0;
  let from = start + 1;
  for (let index = start; index < glob.length; index++) {
    const character = glob[index];
    if (character === '\\') index++;
    else if (character === '{') depth++;
    else if (character === ',' && depth === 1) {
      choices.push(glob.slice(from, index));
      from = index + 1;
    } else if (character === '}' && --depth === 0) {
      const last = glob.slice(from, index);
      if (choices.length === 0 && /^[^.]+\.\.[^.]+$/.test(last)) {
        throw new PatternError('has a range in braces; write each choice, such as {1,2,3}');
      }
      return { choices: [...choices, last], end: index + 1 };
    }
  }
  throw new PatternError('has a `{` without its `}`; write `\\\\{` for the brace itself');
}

function translate(glob: string, beginsSegment: boolean, nesting: number): Translation {
  if (nesting > maxNesting) throw new PatternError(`has braces nested deeper than ${maxNesting} levels`);
  let regex = '';
  let begins = beginsSegment;
  let index = 0;
  while (index < glob.length) {
    const character = String.fromCodePoint(glob.codePointAt(index) ?? 0);
    const stars = /^\*+/.exec(glob.slice(index))?.[0].length ?? 0;
    if (stars > 1) {
      const crossesWhole = begins && glob[index + stars] === '/';
      regex += crossesWhole ? '(?:.*/)?' : '.*';
      index += crossesWhole ? stars + 1 : stars;
      begins = crossesWhole;
    } else if (character === '[') {
      const read = readClass(glob, index);
      regex += read.regex;
      index = read.end;
      begins = false;
    } else if (character === '{') {
      const { choices, end } = readChoices(glob, index);
      // A slash after `**` belongs to it, so it moves into the choices: `{src/**,lib}/a` is `{src/**/,lib/}a`.
      const moves = choices.length > 1 && glob[end] === '/' && choices.some(choice => /\*\*\}*$/.test(choice));
      const translations = choices.map(choice => translate(moves ? `${choice}/` : choice, begins, nesting + 1));
      const joined = translations.map(({ regex }) => regex).join('|');
      regex += translations.length === 1 ? `\\{${joined}\\}` : `(?:${joined})`;
      index = moves ? end + 1 : end;
      begins = translations.length > 1 && translations.every(({ beginsSegment }) => beginsSegment);
    } else {
      const escaped = character === '\\';
      if (escaped && index + 1 === glob.length) throw new PatternError('ends with a backslash that escapes nothing');
      const literal = escaped ? String.fromCodePoint(glob.codePointAt(index + 1) ?? 0) : character;
      if (!escaped && character === '*') regex += '[^/]*';
      else regex += !escaped && character === '?' ? '[^/]' : quote(literal);
      index += literal.length + (escaped ? 1 : 0);
      begins = literal === '/';
    }
  }
  return { regex, beginsSegment: begins };
}

type Test = (path: string) => boolean;

/** A name that may have a star or two, without `/`. */
function nameTest(name: string): Test | undefined {
  const [first = '', second, third, ...others] = name.split('*');
  if (second === undefined || others.length > 0) return undefined;
  const last = third ?? second;
  const middle = third === undefined ? '' : second;
  if (first === '' && middle === '') return path => path.endsWith(last);
  return path => {
    if (!path.endsWith(last)) return false;
    const start = path.lastIndexOf('/') + 1;
    if (!path.startsWith(first, start) || path.length - start < first.length + middle.length + last.length)
      return false;
    return middle === '' || containsText(path.slice(start + first.length, path.length - last.length), middle);
  };
}

/** The common shapes need no automaton, which takes a hundred times as long. */
function plainTest(glob: string): Test | undefined {
  if (!/[*?[\]{}\\]/.test(glob)) return path => path === glob;
  const [, before = '', choices, after = ''] =
    /^([^{}]*)\{([^{},*/?[\]\\]+(?:,[^{},*/?[\]\\]+)+)\}([^{}]*)$/.exec(glob) ?? [];
  if (choices !== undefined) {
    const tests = choices.split(',').map(choice => plainTest(before + choice + after));
    return tests.includes(undefined) ? undefined : path => tests.some(test => test?.(path));
  }
  if (/[?[\]{}\\]|\*{3}|[^/]\*\*|\*\*[^/]/.test(glob)) return undefined;
  const [, anywhere, folders = '', name = '', below] =
    /^(\*\*\/)?((?:[^*/]*\/)*)((?!\*\*$)[^/]+?)(\/\*\*)?$/.exec(glob) ?? [];
  const plain = folders + name;
  if (name === '') return undefined;
  if (!name.includes('*')) {
    const within = `${plain}/`;
    if (below === undefined) return path => path === plain || path.endsWith(`/${plain}`);
    if (anywhere === undefined) return path => path.startsWith(within);
    return path => path.startsWith(within) || containsText(path, `/${within}`);
  }
  const test = below === undefined ? nameTest(name) : undefined;
  if (test === undefined) return undefined;
  if (anywhere === undefined)
    return path => path.startsWith(folders) && !path.includes('/', folders.length) && test(path);
  return folders === '' ? test : undefined;
}

/** @throws PatternError if the glob matches no path of a repository */
export function checkPathGlob(glob: string): void {
  const inside = glob.replace(/^\.?\/+/, '');
  const instead = inside.replace(/\/$/, '/**') || '**';
  if (instead === glob) return;
  const why = inside === glob ? 'no path ends with `/`' : "paths begin at the repository's root without `/`";
  throw new PatternError(`has the glob ${excerpt(glob)}, which matches no file: ${why}; write ${excerpt(instead)}`);
}

/** A pattern that matches whole paths. @throws PatternError */
export function compileGlob(glob: string): Pattern {
  if (glob === '') throw new PatternError('is empty; write a path or a glob');
  if (glob.startsWith('!')) throw new PatternError('begins with `!`; put the `!` before the function instead');
  const test = plainTest(glob);
  if (test !== undefined) return { test, size: 0 };
  return compilePattern(`\\A(?s:${translate(glob, true, 0).regex})\\z`);
}
