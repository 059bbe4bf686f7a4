/** Checks the names and types of an expression, and turns its text into a typed tree. */

import {
  type FactType,
  factNames,
  factOf,
  factTable,
  isFactName,
  pullRequestFactNames,
  type SourceName,
} from '../facts.ts';
import { checkComparison, checkTexts, isComparison, textsOf } from './comparable.ts';
import { type FunctionDefinition, functions } from './functions.ts';
import { checkPathGlob } from './glob.ts';
import {
  hintOfAbsence,
  hintOfArray,
  hintOfClock,
  hintOfFact,
  hintOfItems,
  hintOfNumber,
  hintOfOtherFact,
  hintOfUnknownFunction,
  messageWithText,
  seeList,
  write,
} from './hints.ts';
import { suggestion } from './nearest-name.ts';
import { parseSyntax } from './parser.ts';
import { PatternError } from './pattern.ts';
import {
  type ArithmeticOperator,
  type ComparisonOperator,
  DefinitionError,
  ExpressionError,
  expressionLimits,
  type Span,
  type SyntaxNode,
  spanOf,
  tooDeep,
  tooLarge,
  tooLong,
  withoutBrackets,
} from './syntax.ts';
import { characterCount, excerpt } from './text-operations.ts';
import {
  type CheckedDefinitions,
  type CheckedExpression,
  noDefinitions,
  type TypedExpression,
  typeNames,
  typeOf,
} from './tree.ts';

const isArithmetic = (operator: string): operator is ArithmeticOperator => /^[-+*/%]$/.test(operator);

/** Functions also read what rules can't name. */
const sourceType = (name: SourceName): FactType => factOf(name)?.type ?? 'list';

type NodeOf<Type> = Extract<SyntaxNode, { type: Type }>;

class UnknownNameError extends ExpressionError {}

/**
 * Checks an expression that was parsed. For the limits, a definition counts as its name plus all that it stands for.
 *
 * @throws ExpressionError
 */
export function checkExpression(
  source: string,
  syntax: SyntaxNode,
  definitions: CheckedDefinitions,
): CheckedExpression {
  let characters = characterCount(source);
  let nodes = 0;
  let maxDepth = 0;

  const show = ({ start, end }: Span) => excerpt(source, start, end);
  const isA = (part: TypedExpression) => typeOf(part, source);

  /** @param hint what to write instead, if that is known */
  function expectType(part: TypedExpression, type: FactType, role: string, hint = ''): TypedExpression {
    if (part.type === type) return part;
    const usual = type === 'number' ? hintOfNumber(part) : type === 'text' ? hintOfFact(part, source) : '';
    throw new ExpressionError(`${isA(part)}, but ${role} ${typeNames[type]}${hint || usual}`);
  }

  /** Before facts: a stored definition keeps its meaning if a later release has a fact of the same name. */
  function readName({ name, start, end }: NodeOf<'Identifier'>, depth: number): TypedExpression {
    const span = { start, end };
    const definition = definitions.get(name);
    if (definition instanceof DefinitionError) throw definition;
    if (definition !== undefined) {
      characters += definition.characters;
      nodes += definition.nodes;
      maxDepth = Math.max(maxDepth, depth + definition.depth);
      return { kind: 'defined', type: definition.tree.type, definition, parts: [definition.tree], ...span };
    }
    if (name === 'true' || name === 'false') {
      return { kind: 'constant', type: 'boolean', value: name === 'true', parts: [], ...span };
    }
    if (isFactName(name)) return { kind: 'fact', type: factTable[name].type, name, parts: [], ...span };
    const [named] = functions.get(name) ?? [];
    if (named !== undefined)
      throw new ExpressionError(`\`${name}\` is a function; call it, as in \`${named.signature}\``);
    if (name === 'null' || name === 'undefined') {
      throw new ExpressionError(`\`${name}\` is not a value of the rule language; an absent value compares false`);
    }
    const known = definitions.size === 0 ? 'fact' : 'fact or definition';
    const hint =
      hintOfOtherFact(name) ||
      suggestion(name, [...definitions.keys(), ...factNames]) ||
      suggestion(name, pullRequestFactNames) ||
      hintOfClock(name) ||
      seeList('fact');
    throw new UnknownNameError(`${show(span)} is not a known ${known}${hint}`);
  }

  /** Reads what should perhaps be a text: an unknown name may then be one that lacks its quotes. */
  function readAs(node: SyntaxNode, depth: number, isText: boolean): TypedExpression {
    try {
      return read(node, depth);
    } catch (error) {
      if (!isText || !(error instanceof UnknownNameError)) throw error;
      const { start, end } = spanOf(node);
      throw new ExpressionError(messageWithText(error.message, source.slice(start, end)));
    }
  }

  function readComparison(
    node: NodeOf<'BinaryExpression'>,
    operator: ComparisonOperator,
    depth: number,
  ): TypedExpression {
    const span = spanOf(node);
    const sides = [node.left, node.right].map(withoutBrackets);
    const list = sides.find(side => side.type === 'ArrayExpression');
    const other = sides.find(side => side !== list);
    if (list !== undefined && other !== undefined) {
      throw new ExpressionError(onlyAfterIn + hintOfArray(operator, list, read(other, depth), source));
    }
    const nothing = sides.find(side => side.type === 'Identifier' && /^(null|undefined|none|nil)$/i.test(side.name));
    const something = sides.find(side => side !== nothing);
    if (nothing?.type === 'Identifier' && something !== undefined && !definitions.has(nothing.name)) {
      const { type } = read(something, depth);
      const hint = /[!=]=/.test(operator)
        ? hintOfAbsence(show(spanOf(something)).slice(1, -1), operator === '==', type)
        : '';
      throw new ExpressionError(
        `${show(nothing)} is not a value of the rule language${hint || '; an absent value compares false'}`,
      );
    }
    const left = read(node.left, depth);
    const parts = [left, readAs(node.right, depth, left.type === 'text')] as const;
    checkComparison(operator, parts, source);
    return { kind: 'comparison', type: 'boolean', operator, parts, ...span };
  }

  function readUnary({ operator, argument, start, end }: NodeOf<'UnaryExpression'>, depth: number): TypedExpression {
    const operand = read(argument, depth);
    const kind = operator === '-' ? 'negation' : 'not';
    const type = operator === '-' ? 'number' : 'boolean';
    expectType(operand, type, `\`${operator}\` needs`);
    return { kind, type, parts: [operand], start, end };
  }

  function readBinary(node: NodeOf<'BinaryExpression'>, depth: number): TypedExpression {
    const { operator } = node;
    if (isComparison(operator)) return readComparison(node, operator, depth);
    const span = spanOf(node);
    const left = read(node.left, depth);
    if (operator === 'in') return readIn(left, node.right, span, depth);
    const parts = [left, read(node.right, depth)] as const;
    const type = isArithmetic(operator) ? 'number' : 'boolean';
    for (const part of parts) expectType(part, type, `both sides of \`${operator}\` must be`);
    return isArithmetic(operator)
      ? { kind: 'arithmetic', type: 'number', operator, parts, ...span }
      : { kind: 'logical', type: 'boolean', operator, parts, ...span };
  }

  function readIn(left: TypedExpression, right: SyntaxNode, span: Span, depth: number): TypedExpression {
    const choices = withoutBrackets(right);
    if (choices.type !== 'ArrayExpression') {
      const list = read(right, depth);
      expectType(left, 'text', 'the left side of `in` must be');
      expectType(list, 'list', 'the right side of `in` must be');
      checkTexts(left, textsOf(list));
      return { kind: 'itemOf', type: 'boolean', parts: [left, list], ...span };
    }
    if (left.type !== 'number' && left.type !== 'text') {
      throw new ExpressionError(`${isA(left)}, but \`in\` looks for a number or a text`);
    }
    const options: (number | string)[] = [];
    if (choices.elements.length === 0) throw new ExpressionError('a value is missing between `[` and `]`');
    for (const element of choices.elements) {
      const part = readAs(element, depth + 1, left.type === 'text');
      if (part.type !== left.type) {
        const hint = left.type === 'text' ? hintOfFact(part, source) : '';
        throw new ExpressionError(`${isA(part)}, but ${show(left)} can only equal ${typeNames[left.type]}${hint}`);
      }
      const negated = part.kind === 'negation' ? part.parts[0] : part;
      if (negated.kind !== 'constant' || typeof negated.value === 'boolean' || typeof negated.value === 'object') {
        throw new ExpressionError(`${show(part)} is computed, but the list after \`in\` can only hold plain values`);
      }
      options.push(part.kind === 'negation' ? -negated.value : negated.value);
    }
    checkTexts(left, options);
    return { kind: 'oneOf', type: 'boolean', parts: [left], options, ...span };
  }

  function readChoice(node: NodeOf<'ConditionalExpression'>, depth: number): TypedExpression {
    const span = spanOf(node);
    const condition = expectType(read(node.test, depth), 'boolean', 'the condition before `?` must be');
    const consequent = read(node.consequent, depth);
    const alternate = read(node.alternate, depth);
    if (consequent.type !== alternate.type) {
      throw new ExpressionError(
        `${isA(consequent)} and ${isA(alternate)}, but both sides of \`:\` must have the same type`,
      );
    }
    return { kind: 'choice', type: consequent.type, parts: [condition, consequent, alternate], ...span };
  }

  function readCall(node: NodeOf<'CallExpression'>, depth: number): TypedExpression {
    const { callee, start, end } = node;
    const { name } = callee;
    const span = { start, end };
    const overloads = functions.get(name);
    const given = node.arguments.map(argument => {
      const { start, end } = spanOf(argument);
      return source.slice(start, end);
    });
    if (overloads === undefined) {
      const kind = definitions.has(name) ? 'definition' : isFactName(name) ? 'fact' : undefined;
      const other = kind && `; it is a ${kind}, written without parentheses`;
      const hint = other ?? hintOfUnknownFunction(name, given);
      throw new ExpressionError(`${show(callee)} is not a known function${hint}`);
    }
    const typeAt = ({ parameters }: FunctionDefinition, position: number) =>
      parameters[Math.min(position, parameters.length - 1)] ?? 'number';
    const mayBeText = (position: number) =>
      overloads.some(overload => ['text', 'literal'].includes(typeAt(overload, position)));
    const values = node.arguments.map((argument, position) => readAs(argument, depth, mayBeText(position)));
    const ofType = overloads.filter(({ parameters: [type] }) => type === values[0]?.type);
    const matching = ofType.find(({ parameters }) => parameters.length === values.length) ?? ofType[0];
    const kinds = [...new Set(overloads.map(overload => typeAt(overload, 0)))].filter(kind => kind !== 'literal');
    const definition = matching ?? (overloads[0] as FunctionDefinition);
    const { parameters, repeats, signature } = definition;
    if (values.length < parameters.length || (!repeats && values.length > parameters.length)) {
      const count = `${values.length} ${values.length === 1 ? 'value' : 'values'}`;
      const needed = `${parameters.length}${repeats ? ' or more' : ''}`;
      const [fixed, others] = [given.slice(0, parameters.length - 1), given.slice(parameters.length - 1)];
      const isAny = definition.result === 'boolean' && others.length > 1;
      const hint = isAny ? write(others.map(other => `${name}(${[...fixed, other].join(', ')})`).join(' || ')) : '';
      throw new ExpressionError(`${show(span)} has ${count}, but \`${signature}\` takes ${needed}${hint}`);
    }
    const parts = (definition.facts ?? []).map((name): TypedExpression => {
      return { kind: 'fact', type: sourceType(name), name, parts: [], start: callee.start, end: callee.end };
    });
    const literals: string[] = [];
    for (const [position, part] of values.entries()) {
      const type = typeAt(definition, position);
      if (type !== 'literal') {
        if (position === 0 && kinds.length > 1 && matching === undefined) {
          const names = kinds
            .map(kind => typeNames[kind])
            .join(', ')
            .replace(/, ([^,]*)$/, ' or $1');
          throw new ExpressionError(`${isA(part)}, but \`${name}\` takes ${names}`);
        }
        const hint = type === 'text' ? hintOfItems(name, part, given.slice(1)) : '';
        parts.push(expectType(part, type, `here \`${signature}\` takes`, hint));
      } else if (part.kind === 'constant' && typeof part.value === 'string') literals.push(part.value);
      else throw new ExpressionError(`${show(part)} is not a quoted text, which \`${signature}\` needs here`);
    }
    const prepared = prepare(definition, literals, span);
    return { kind: 'call', type: definition.result, definition, parts, literals, prepared, ...span };
  }

  function prepare(definition: FunctionDefinition, literals: string[], span: Span): unknown {
    try {
      if (definition.facts?.includes('files')) literals.forEach(checkPathGlob);
      return definition.prepare?.(literals, definitions.patterns);
    } catch (error) {
      if (!(error instanceof PatternError)) throw error;
      throw new ExpressionError(`${show(span)} ${error.message}`);
    }
  }

  function read(node: SyntaxNode, above: number): TypedExpression {
    if (node.type === 'Group') return read(node.expression, above);
    const depth = above + 1;
    maxDepth = Math.max(maxDepth, depth);
    nodes += 1;
    if (depth > expressionLimits.depth) throw new ExpressionError(tooDeep);
    switch (node.type) {
      case 'Identifier':
        return readName(node, depth);
      case 'Literal': {
        const { value, start, end } = node;
        return { kind: 'constant', type: typeof value === 'number' ? 'number' : 'text', value, parts: [], start, end };
      }
      case 'UnaryExpression':
        return readUnary(node, depth);
      case 'BinaryExpression':
        return readBinary(node, depth);
      case 'ConditionalExpression':
        return readChoice(node, depth);
      case 'CallExpression':
        return readCall(node, depth);
      case 'ArrayExpression':
        throw new ExpressionError(onlyAfterIn);
    }
  }

  const tree = read(syntax, 0);
  let problem: string | undefined;
  if (characters > expressionLimits.characters) problem = tooLong;
  else if (nodes > expressionLimits.nodes) problem = tooLarge;
  else if (maxDepth > expressionLimits.depth) problem = tooDeep;
  if (problem !== undefined) throw new ExpressionError(`with its definitions written out, ${problem}`);
  return { tree, characters, nodes, depth: maxDepth };
}

const onlyAfterIn = 'a list in square brackets is only allowed after `in`';

/**
 * Parses and checks an expression.
 * @param expected a condition is boolean, a value is a number
 * @param definitions what it can use besides facts
 * @throws ExpressionError whose message names the offending part
 */
export function parseExpression(
  source: string,
  expected: 'boolean' | 'number',
  definitions: CheckedDefinitions = noDefinitions(),
): TypedExpression {
  const { tree: checked } = checkExpression(source, parseSyntax(source), definitions);
  if (checked.type === expected) return checked;
  const need =
    expected === 'boolean'
      ? `a condition must be true or false; compare it, as in \`size > 0\``
      : `a value must be a number; choose one, as in \`merged ? 10 : 0\``;
  throw new ExpressionError(`${typeOf(checked, source)}, but ${need}`);
}
