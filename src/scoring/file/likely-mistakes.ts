/** Parts of expressions that are valid and can hardly be meant. */

import { maxUnixSeconds } from '../../text/times.ts';
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

/** What is probably wrong with the texts. */
function* mistakesInTexts({ part, shown, name, texts, isWhole }: Comparison): Generator<string> {
  const find = (form: RegExp) => texts.find(text => form.test(text));
  const isCallOf = (...names: string[]) => part.kind === 'call' && names.includes(part.definition.name);
  const isLogin = logins.includes(name);
  const isBranch = branches.includes(name);
  const { type, absence } = factOf(name) ?? {};

  if (isLogin && find(/\[bot\\?\]/) !== undefined) {
    yield `${shown}: logins of apps have no \`[bot]\` here, and in a glob it is one of the letters b, o and t; leave it out`;
  }
  if (isLogin && (isWhole || part.kind === 'itemOf')) {
    const spaced = find(/\s/);
    if (find(/^@/) !== undefined) yield `${shown}: logins have no \`@\` here; leave it out`;
    else if (spaced !== undefined) {
      yield `${shown}: ${quoted(spaced)} has a space, which no login has; write the login, not the name`;
    }
  }

  const [, ofItems] = [...functionsOfItems].find(([list]) => part.parts.some(inner => isFact(inner, list))) ?? [];
  const item = part.parts.map(constantOf).find(text => typeof text === 'string' && text.includes('*'));
  const starred = find(/\*/);
  let glob: string | undefined;
  if (ofItems !== undefined && item !== undefined) glob = `${ofItems.name}(${JSON.stringify(item)})`;
  else if (starred !== undefined && isWhole && (name === 'repository' || isLogin || isBranch)) {
    glob = `glob(${name}, ${JSON.stringify(starred)})`;
  }
  if (glob !== undefined) yield `${shown} looks for exactly this name; write \`${glob}\` for a glob`;

  const other = texts.find(text => !memberAssociations.includes(text));
  if (name === 'author_association' && part.kind !== 'call' && other !== undefined) {
    yield `members never have the \`author_association\` ${quoted(other)}; theirs is \`"MEMBER"\` or \`"OWNER"\``;
  }

  const hasEmpty = isWhole && type === 'text' && name !== 'body' && texts.includes('');
  if (hasEmpty && ![...allParts([part])].some(isDefault)) {
    const isAlone = texts.every(text => text === '');
    if (absence === undefined) yield `${shown}: \`${name}\` is never empty`;
    // `!= ""` is true if there is one, which may be meant.
    else if (part.kind !== 'comparison' || part.operator !== '!=') {
      const problem = isAlone ? `${shown} can never be true` : `${shown}: the text is never empty`;
      yield `${problem}: \`${name}\` is absent if ${absence}; write \`!known(${name})\``;
    }
  }

  const isGlob = isCallOf('glob');
  const unowned = texts.find(text => text !== '' && !text.includes('/') && !(isGlob && text.includes('**')));
  if (name === 'repository' && unowned !== undefined && (isGlob || (isWhole && !unowned.includes('*')))) {
    yield `${shown}: \`repository\` is \`owner/name\`, and ${quoted(unowned)} has no \`/\`; put the owner before it`;
  }

  const prefixed = find(/^refs\//);
  if (isBranch && prefixed !== undefined) {
    yield `${shown}: branches have no \`refs/heads/\` here; write ${quoted(prefixed.replace(/^refs\/heads\//, ''))}`;
  }

  const capital = texts.find(text => text !== text.toLowerCase());
  const isSearch = isWhole || isCallOf('contains', 'starts_with', 'ends_with');
  if (isSearch && part.parts.some(isLower) && capital !== undefined) {
    yield `${shown}: \`lower\` leaves no capital letters; write ${quoted(capital.toLowerCase())}`;
  }

  const pattern = find(/^\^|\$$|\\[.dswDSW]|^\/.*\/[gimsuy]*$|\(.*\|.*\)/);
  if (part.kind === 'call' && part.definition.signature.includes('"glob"') && pattern !== undefined) {
    yield `${shown}: ${quoted(pattern)} is a pattern for \`matches\`; a glob is written like \`"src/**"\``;
  }

  if (!isCallOf('matches')) return;
  const [, inner, flags] = texts.map(text => /^\/(.+)\/([gimsuy]*)$/.exec(text)).find(found => found !== null) ?? [];
  const folder = find(/\/\*$/);
  if (inner !== undefined && (flags !== '' || !(name === 'repository' || isBranch))) {
    const instead = `${flags?.includes('i') ? '(?i)' : ''}${inner}`;
    yield `${shown}: the slashes around a pattern are part of it here; write ${quoted(instead)}`;
  } else if (folder !== undefined) {
    yield `${shown}: in a pattern, \`/*\` is any number of slashes; write \`glob(${name}, ${JSON.stringify(folder)})\``;
  }
}

/** The texts that a part names, quoted, in a list or by a definition. */
function textsIn(part: TypedExpression): string[] {
  const named = part.parts.flatMap(constantOf);
  const others = part.kind === 'call' ? part.literals : part.kind === 'oneOf' ? part.options : [];
  return [...named, ...others].filter(text => typeof text === 'string');
}

function mistakeInComparison(part: TypedExpression, shown: string): string | undefined {
  if (part.kind !== 'comparison') return undefined;
  const [left, right] = part.parts;
  const isOf = (one: SourceName, other: SourceName) =>
    (isFact(left, one) && isFact(right, other)) || (isFact(left, other) && isFact(right, one));
  if (part.operator === '==' && isOf('author', 'reviewer')) {
    return `${shown} can never be true: authors do not review their own pull requests`;
  }
  const isOfTime = [...factsRead(part.parts)].some(
    name => name.endsWith('_at') && part.parts.some(side => isFact(side, name)),
  );
  // As seconds, it would be a time that `date` can't give.
  const milliseconds = part.parts.map(constantOf).find(value => typeof value === 'number' && value > maxUnixSeconds);
  if (isOfTime && typeof milliseconds === 'number') {
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
  yield* mistakesInTexts({ part, shown, name, texts, isWhole });
}
