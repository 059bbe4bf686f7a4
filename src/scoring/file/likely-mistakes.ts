/** Parts of expressions that are valid and can hardly be meant. */
import { factOf, type SourceName } from '../facts.ts';
import { functionsOfItems } from '../language/hints.ts';
import { excerpt } from '../language/text-operations.ts';
import { allParts, factsRead, type TypedExpression } from '../language/tree.ts';
import { constantOf, isFact } from './constancy.ts';
import { neverMore } from './test-facts.ts';

/** A part that reads one fact and compares it with texts, or looks for them in it. */
interface Comparison {
  part: TypedExpression;
  /** Quoted. */
  shown: string;
  name: SourceName;
  /** Quoted, in a list or by a definition. */
  texts: string[];
  /** Whether the fact is to be one of the texts, or is not to be. */
  isWhole: boolean;
}

const quoted = (text: string) => excerpt(JSON.stringify(text));

const logins: readonly SourceName[] = ['author', 'merged_by', 'reviewer', 'assignees'];
const branches: readonly SourceName[] = ['base', 'head'];
const memberAssociations = ['MEMBER', 'OWNER'];

const isLower = (tree: TypedExpression): boolean =>
  tree.kind === 'defined' ? isLower(tree.parts[0]) : tree.kind === 'call' && tree.definition.name === 'lower';

const isDefault = (tree: TypedExpression) => tree.kind === 'call' && tree.definition.name === 'default';

const isCallOf = ({ part }: Comparison, ...names: string[]) =>
  part.kind === 'call' && names.includes(part.definition.name);

const functionsOfGlobs = 'glob any_label any_file all_files count_files lines lines_except added removed'.split(' ');

/** Each finds one kind of mistake in texts. */
const textMistakes: readonly ((comparison: Comparison) => string | undefined)[] = [
  function botSuffix({ name, texts, shown }) {
    if (!logins.includes(name) || !texts.some(text => /\[bot\\?\]/.test(text))) return undefined;
    return `${shown}: logins of apps have no \`[bot]\` here, and in a glob it is one of the letters b, o and t; leave it out`;
  },
  function loginForm({ name, texts, shown, isWhole, part }) {
    if (!logins.includes(name) || (!isWhole && part.kind !== 'itemOf')) return undefined;
    if (texts.some(text => text.startsWith('@'))) return `${shown}: logins have no \`@\` here; leave it out`;
    const spaced = texts.find(text => /\s/.test(text));
    return spaced && `${shown}: ${quoted(spaced)} has a space, which no login has; write the login, not the name`;
  },
  function globAsName({ part, texts, name, isWhole, shown }) {
    const [, globbing] = [...functionsOfItems].find(([list]) => part.parts.some(inner => isFact(inner, list))) ?? [];
    const glob = part.parts.map(constantOf).find(text => typeof text === 'string' && text.includes('*'));
    if (globbing !== undefined && glob !== undefined) {
      return `${shown} looks for exactly this name; write \`${globbing.name}(${JSON.stringify(glob)})\` for a glob`;
    }
    const starred = texts.find(text => text.includes('*'));
    if (!isWhole || starred === undefined || !['repository', ...logins, ...branches].includes(name)) return undefined;
    return `${shown} looks for exactly this name; write \`glob(${name}, ${JSON.stringify(starred)})\` for a glob`;
  },
  function associationOfOthers({ part, name, texts }) {
    const other = part.kind === 'call' ? undefined : texts.find(text => !memberAssociations.includes(text));
    if (name !== 'author_association' || other === undefined) return undefined;
    return `members never have the \`author_association\` ${quoted(other)}; theirs is \`"MEMBER"\` or \`"OWNER"\``;
  },
  function emptyText({ part, name, texts, isWhole, shown }) {
    if (!isWhole || name === 'body' || !texts.includes('') || (factOf(name)?.type ?? 'list') !== 'text')
      return undefined;
    if ([...allParts([part])].some(isDefault)) return undefined;
    const { absence } = factOf(name) ?? {};
    if (absence === undefined) return `${shown}: \`${name}\` is never empty`;
    // `!= ""` is true if there is one, which may be meant.
    if (part.kind === 'comparison' && part.operator === '!=') return undefined;
    const isAlone = texts.every(text => text === '');
    const problem = isAlone ? `${shown} can never be true` : `${shown}: the text is never empty`;
    return `${problem}: \`${name}\` is absent if ${absence}; write \`!known(${name})\``;
  },
  function repositoryWithoutOwner({ name, texts, isWhole, shown, ...comparison }) {
    if (name !== 'repository') return undefined;
    const isGlob = isCallOf({ name, texts, isWhole, shown, ...comparison }, 'glob');
    const wrong = texts.find(text => text !== '' && !text.includes('/') && !(isGlob && text.includes('**')));
    if ((!isWhole && !isGlob) || wrong === undefined || (isWhole && wrong.includes('*'))) return undefined;
    return `${shown}: \`repository\` is \`owner/name\`, and ${quoted(wrong)} has no \`/\`; put the owner before it`;
  },
  function branchWithPrefix({ name, texts, shown }) {
    const wrong = texts.find(text => text.startsWith('refs/'));
    if (!branches.includes(name) || wrong === undefined) return undefined;
    return `${shown}: branches have no \`refs/heads/\` here; write ${quoted(wrong.replace(/^refs\/heads\//, ''))}`;
  },
  function capitalsAfterLower(comparison) {
    const { part, texts, isWhole, shown } = comparison;
    const isSearch = isWhole || isCallOf(comparison, 'contains', 'starts_with', 'ends_with');
    const wrong = texts.find(text => text !== text.toLowerCase());
    if (!isSearch || !part.parts.some(isLower) || wrong === undefined) return undefined;
    return `${shown}: \`lower\` leaves no capital letters; write ${quoted(wrong.toLowerCase())}`;
  },
  function patternAsGlob(comparison) {
    if (!isCallOf(comparison, ...functionsOfGlobs)) return undefined;
    const wrong = comparison.texts.find(text => /^\^|\$$|\\[.dswDSW]|^\/.*\/[gimsuy]*$|\(.*\|.*\)/.test(text));
    return (
      wrong && `${comparison.shown}: ${quoted(wrong)} is a pattern for \`matches\`; a glob is written like \`"src/**"\``
    );
  },
  function globAsPattern(comparison) {
    const { name, texts, shown } = comparison;
    if (!isCallOf(comparison, 'matches')) return undefined;
    const [, pattern, flags] =
      texts.map(text => /^\/(.+)\/([gimsuy]*)$/.exec(text)).find(found => found !== null) ?? [];
    const mayHaveSlashes = ['repository', ...branches].includes(name);
    if (pattern !== undefined && (flags !== '' || !mayHaveSlashes)) {
      const instead = `${flags?.includes('i') ? '(?i)' : ''}${pattern}`;
      return `${shown}: the slashes around a pattern are part of it here; write ${quoted(instead)}`;
    }
    const starred = texts.find(text => /\/\*$/.test(text));
    return (
      starred &&
      `${shown}: in a pattern, \`/*\` is any number of slashes; write \`glob(${name}, ${JSON.stringify(starred)})\``
    );
  },
];

/** The texts that a part names, quoted, in a list or by a definition. */
function textsIn(part: TypedExpression): string[] {
  const named = part.parts.flatMap(constantOf);
  const others = part.kind === 'call' ? part.literals : part.kind === 'oneOf' ? part.options : [];
  return [...named, ...others].filter(text => typeof text === 'string');
}

/** Of this and later times in seconds, all are in milliseconds: it would be the year 5138. */
const minMilliseconds = 1e11;

function mistakeInComparison(part: TypedExpression, shown: string): string | undefined {
  if (part.kind !== 'comparison') return undefined;
  const [left, right] = part.parts;
  const isOf = (one: SourceName, other: SourceName) =>
    (isFact(left, one) && isFact(right, other)) || (isFact(left, other) && isFact(right, one));
  if (part.operator === '==' && isOf('author', 'reviewer')) {
    return `${shown} can never be true: authors do not review their own pull requests`;
  }
  const times = [...factsRead(part.parts)].filter(name => name.endsWith('_at'));
  const milliseconds = part.parts.map(constantOf).find(value => typeof value === 'number' && value >= minMilliseconds);
  if (times.length > 0 && typeof milliseconds === 'number') {
    const day = new Date(Math.min(milliseconds, 8e15)).toISOString().slice(0, 10);
    return `${shown}: times are in seconds, and \`${milliseconds}\` is in milliseconds; write \`date("${day}")\``;
  }
  for (const [smaller, larger] of neverMore) {
    const isForward = isFact(left, smaller) && isFact(right, larger) && part.operator === '>';
    const isBackward = isFact(left, larger) && isFact(right, smaller) && part.operator === '<';
    if (isForward || isBackward) {
      const is = smaller.endsWith('_at') ? 'later' : 'more';
      return `${shown} can never be true: \`${smaller}\` is never ${is} than \`${larger}\``;
    }
  }
  return undefined;
}

/** What is probably wrong with a part, apart from its own parts. @param shown the part, quoted */
export function* likelyMistakesIn(part: TypedExpression, shown: string): Generator<string> {
  const found = mistakeInComparison(part, shown);
  if (found !== undefined) yield found;
  const texts = textsIn(part);
  const [name, ...others] = [...factsRead(part.parts)].filter(fact => fact !== 'file_changes');
  if (texts.length === 0 || name === undefined || others.length > 0) return;
  const isWhole = part.kind === 'oneOf' || (part.kind === 'comparison' && /[!=]=/.test(part.operator));
  for (const mistake of textMistakes) {
    const message = mistake({ part, shown, name, texts, isWhole });
    if (message !== undefined) yield message;
  }
}
