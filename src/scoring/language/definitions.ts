/** Definitions: names for expressions, which rules and other definitions use like facts. */

import { isFactName } from '../facts.ts';
import { checkExpression } from './expression.ts';
import { functions } from './functions.ts';
import { write } from './hints.ts';
import { parseSyntax } from './parser.ts';
import { createPatterns } from './pattern.ts';
import { DefinitionError, ExpressionError, namesIn, type SyntaxNode, spanOf, withoutBrackets } from './syntax.ts';
import { excerpt } from './text-operations.ts';
import type { CheckedDefinition, CheckedDefinitions, CheckedExpression } from './tree.ts';

export interface Definition {
  name: string;
  /** Of any type; also a list of quoted texts in square brackets. */
  expression: string;
}

export const definitionLimits = { definitions: 200, nameCharacters: 60 } as const;

/** Words that mean something else in an expression, or that people take for operators. */
const reservedWords: ReadonlySet<string> = new Set(['true', 'false', 'null', 'undefined', 'in', 'and', 'or', 'not']);

/** Why a definition in a new file can't have this name; undefined if it can. */
export function problemOfName(name: string): string | undefined {
  const { nameCharacters } = definitionLimits;
  if (!/^[a-z]\w*$/i.test(name) || name.length > nameCharacters) {
    return `its name must begin with a letter and consist of at most ${nameCharacters} letters, digits and \`_\``;
  }
  if (isFactName(name)) return 'its name is that of a fact; choose another one';
  if (functions.has(name)) return 'its name is that of a function; choose another one';
  return reservedWords.has(name) ? 'its name is a word of the rule language; choose another one' : undefined;
}

/**
 * Checks a list in square brackets that is a definition of its own. However often it is used, it is not written out: for
 * the limits it counts as a name.
 *
 * @throws ExpressionError
 */
function checkList(
  source: string,
  { elements, start, end }: Extract<SyntaxNode, { type: 'ArrayExpression' }>,
): CheckedExpression {
  const value = elements.map(element => {
    const item = withoutBrackets(element);
    if (item.type === 'Literal' && typeof item.value === 'string') return item.value;
    const { start, end } = spanOf(element);
    const shown = source.slice(start, end);
    const hint = /^[\w/-]{1,60}$/.test(shown) ? write(`"${shown}"`) : '';
    throw new ExpressionError(
      `${excerpt(shown)} is not a quoted text, and a list in \`define\` has nothing else${hint}`,
    );
  });
  return { tree: { kind: 'constant', type: 'list', value, parts: [], start, end }, characters: 0, nodes: 0, depth: 0 };
}

/** How many names of a cycle are shown. */
const shownNames = 5;

function describeCycle(names: readonly string[]): string {
  const shown = names.length > shownNames + 1 ? [...names.slice(0, shownNames - 1), '…', ...names.slice(-1)] : names;
  return `it refers to itself: ${shown.join(' → ')}`;
}

/**
 * Checks definitions, in whatever order they use each other. Each is checked once, however often it is used.
 *
 * @param onStep called before each
 * @returns the definitions, and the problems by name; a definition that only uses a faulty one has none
 */
export function checkDefinitions(
  definitions: readonly Definition[],
  onStep?: () => void,
): {
  checked: CheckedDefinitions;
  problems: Map<string, string>;
} {
  const expressions = new Map(definitions.map(({ name, expression }) => [name, expression]));
  // All names from the start, for suggestions.
  const checked = Object.assign(new Map<string, CheckedDefinition | DefinitionError | undefined>(), {
    patterns: createPatterns(),
  });
  for (const { name } of definitions) checked.set(name, undefined);
  const problems = new Map<string, string>();

  /** @param users the definitions that lead to this one, ending with itself */
  function check(name: string, expression: string, users: readonly string[]): CheckedDefinition {
    const syntax = parseSyntax(expression);
    for (const used of namesIn(syntax)) {
      const start = users.indexOf(used);
      if (start !== -1) throw new ExpressionError(describeCycle([name, ...users.slice(start)]));
      visit(used, users);
    }
    const list = withoutBrackets(syntax);
    const isList = list.type === 'ArrayExpression';
    return {
      name,
      expression,
      ...(isList ? checkList(expression, list) : checkExpression(expression, syntax, checked)),
    };
  }

  function visit(name: string, users: readonly string[]): void {
    const expression = expressions.get(name);
    if (expression === undefined || checked.get(name) !== undefined) return;
    try {
      checked.set(name, check(name, expression, [...users, name]));
    } catch (error) {
      if (!(error instanceof ExpressionError)) throw error;
      if (error instanceof DefinitionError) checked.set(name, error);
      else {
        problems.set(name, error.message);
        checked.set(name, new DefinitionError(`definition \`${name}\`: ${error.message}`));
      }
    }
  }

  for (const { name } of definitions) {
    onStep?.();
    visit(name, []);
  }
  return { checked, problems };
}
