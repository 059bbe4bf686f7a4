/** The rule language's grammar and types: source text in, a tree of checked and typed parts out. */
import jsep from 'jsep';
import { type FactName, type FactType, factTypes } from './facts.ts';
import { type FunctionDefinition, functions } from './functions.ts';
import { suggestion } from './nearest-name.ts';
import { PatternError, patternLimits } from './pattern.ts';
import { ExpressionError, excerpt, expressionLimits, type Token, tokenize, tooDeep } from './tokens.ts';
import type { ArithmeticOperator, ComparisonOperator, Part, TypedExpression } from './tree.ts';

const typeNames = { number: 'a number', text: 'a text', boolean: 'true or false', list: 'a list' } as const;

// Own tables, so that no name reaches an object's prototype.
const factTypesByName: ReadonlyMap<string, FactType> = new Map(Object.entries(factTypes));
const isFactName = (name: string): name is FactName => factTypesByName.has(name);

const arithmeticOperators: ReadonlySet<string> = new Set<ArithmeticOperator>(['+', '-', '*', '/', '%']);
const isArithmetic = (operator: string): operator is ArithmeticOperator => arithmeticOperators.has(operator);
const comparisonOperators: ReadonlySet<string> = new Set<ComparisonOperator>(['==', '!=', '<', '<=', '>', '>=']);
const isComparison = (operator: string): operator is ComparisonOperator => comparisonOperators.has(operator);

// As in JavaScript, `in` binds like `<`.
jsep.addBinaryOp('in', 7);

/** A checked part and the tokens it spans, brackets around it included. */
interface Read {
  part: TypedExpression;
  first: number;
  last: number;
}

function check(source: string, tokens: readonly Token[], tree: jsep.Expression): TypedExpression {
  // jsep tells no positions. Its leaves come in the order of the source, so they are taken from the tokens.
  const leaves: number[] = [];
  for (const [index, token] of tokens.entries()) {
    if (token.kind !== 'symbol' && token.text !== 'in') leaves.push(index);
  }
  let nextLeaf = 0;
  let patternCost = 0;

  const startOf = (index: number) => tokens[index]?.start ?? 0;
  const endOf = (index: number) => tokens[index]?.end ?? source.length;
  const show = ({ start, end }: Part) => excerpt(source, start, end);
  const isA = (part: Part) => `${show(part)} is ${typeNames[part.type]}`;
  const fail = (message: string, { start, end }: { start: number; end: number }) =>
    new ExpressionError(message, start, end);

  function takeLeaf(text: string | undefined): { token: Token; index: number } {
    const index = leaves[nextLeaf++] ?? -1;
    const token = tokens[index];
    if (token === undefined || token.text !== text) {
      throw new ExpressionError(
        `${excerpt(source, 0, source.length)} can't be read; write it more simply`,
        0,
        source.length,
      );
    }
    return { token, index };
  }

  /** Takes in the brackets that stand right around a part. */
  function enclose(part: TypedExpression, first: number, last: number): Read {
    let [outerFirst, outerLast] = [first, last];
    for (;;) {
      const before = tokens[outerFirst - 1];
      if (before?.text !== '(' || before.opensCall || before.partner !== outerLast + 1) break;
      outerFirst--;
      outerLast++;
    }
    return { part, first: outerFirst, last: outerLast };
  }

  function expectType(part: TypedExpression, type: FactType, role: string): TypedExpression {
    if (part.type !== type) throw fail(`${isA(part)}, but ${role} ${typeNames[type]}`, part);
    return part;
  }

  function readName(name: string): Read {
    const { token, index } = takeLeaf(name);
    const { start, end } = token;
    if (name === 'true' || name === 'false') {
      return enclose({ kind: 'constant', type: 'boolean', value: name === 'true', start, end }, index, index);
    }
    if (isFactName(name)) return enclose({ kind: 'fact', type: factTypes[name], name, start, end }, index, index);
    if (functions.has(name)) throw fail(`\`${name}\` is a function; call it, as in \`${exampleCall(name)}\``, token);
    if (name === 'null' || name === 'undefined') {
      throw fail(`\`${name}\` is no value of the rule language; what is absent compares false`, token);
    }
    throw fail(
      `${show({ ...token, type: 'text' })} is not a known fact${suggestion(name, factTypesByName.keys())}`,
      token,
    );
  }

  function readLiteral(raw: string): Read {
    const { token, index } = takeLeaf(raw);
    const { value = '', start, end } = token;
    const type = typeof value === 'number' ? 'number' : 'text';
    return enclose({ kind: 'constant', type, value, start, end }, index, index);
  }

  function readUnary({ operator, argument }: jsep.UnaryExpression, depth: number): Read {
    const { part: operand, first, last } = read(argument, depth);
    const kind = operator === '-' ? 'negation' : 'not';
    const type = operator === '-' ? 'number' : 'boolean';
    expectType(operand, type, `\`${operator}\` needs`);
    return enclose({ kind, type, operand, start: startOf(first - 1), end: endOf(last) }, first - 1, last);
  }

  function readBinary({ operator, left: leftTree, right: rightTree }: jsep.BinaryExpression, depth: number): Read {
    const { part: left, first, last: leftLast } = read(leftTree, depth);
    if (operator === 'in') return readIn(left, first, rightTree, depth);
    const { part: right, last } = read(rightTree, depth);
    const span = { start: startOf(first), end: endOf(last) };
    const role = `\`${operator}\` needs on both sides`;
    if (isArithmetic(operator)) {
      expectType(left, 'number', role);
      expectType(right, 'number', role);
      return enclose({ kind: 'arithmetic', type: 'number', operator, left, right, ...span }, first, last);
    }
    if (operator === '&&' || operator === '||') {
      expectType(left, 'boolean', role);
      expectType(right, 'boolean', role);
      return enclose({ kind: 'logical', type: 'boolean', operator, left, right, ...span }, first, last);
    }
    if (!isComparison(operator)) {
      throw fail(`\`${operator}\` is not part of the rule language`, { start: endOf(leftLast), end: span.end });
    }
    if (left.type !== right.type) {
      throw fail(`${isA(left)} and ${isA(right)}, but \`${operator}\` compares two of one type`, span);
    }
    if (left.type === 'list') {
      throw fail(`${isA(left)}, which \`${operator}\` can't compare; use \`in\` or \`contains\``, left);
    }
    if (left.type === 'boolean' && operator !== '==' && operator !== '!=') {
      throw fail(`${isA(left)}, which \`${operator}\` can't compare; it needs numbers or texts`, left);
    }
    return enclose({ kind: 'comparison', type: 'boolean', operator, left, right, ...span }, first, last);
  }

  function readIn(left: TypedExpression, first: number, rightTree: jsep.Expression, depth: number): Read {
    if (rightTree.type !== 'ArrayExpression') {
      const { part: list, last } = read(rightTree, depth);
      expectType(left, 'text', 'what `in` looks for in a list must be');
      expectType(list, 'list', '`in` needs on its right side');
      const span = { start: startOf(first), end: endOf(last) };
      return enclose({ kind: 'itemOf', type: 'boolean', left, list, ...span }, first, last);
    }
    if (left.type !== 'number' && left.type !== 'text') {
      throw fail(`${isA(left)}, but \`in\` looks for a number or a text`, left);
    }
    const options: (number | string)[] = [];
    let last = first;
    const { elements } = rightTree as jsep.ArrayExpression;
    if (depth + 1 > expressionLimits.depth) throw new ExpressionError(tooDeep, 0, source.length);
    for (const element of elements) {
      if (element === null) throw new ExpressionError('a list has an empty place', 0, source.length);
      const { part, last: elementLast } = read(element, depth + 1);
      expectType(part, left.type, `the list must hold, like ${show(left)},`);
      const negated = part.kind === 'negation' ? part.operand : part;
      if (negated.kind !== 'constant' || typeof negated.value === 'boolean') {
        throw fail(`${show(part)} is computed, but the list after \`in\` holds plain values`, part);
      }
      options.push(part.kind === 'negation' ? -negated.value : negated.value);
      last = elementLast + 1;
    }
    const span = { start: startOf(first), end: endOf(last) };
    return enclose({ kind: 'oneOf', type: 'boolean', left, options, ...span }, first, last);
  }

  function readChoice({ test, consequent, alternate }: jsep.ConditionalExpression, depth: number): Read {
    const { part: condition, first } = read(test, depth);
    expectType(condition, 'boolean', 'what stands before `?` must be');
    const { part: chosen } = read(consequent, depth);
    const { part: otherwise, last } = read(alternate, depth);
    const span = { start: startOf(first), end: endOf(last) };
    if (chosen.type !== otherwise.type) {
      throw fail(`${isA(chosen)} and ${isA(otherwise)}, but both sides of \`:\` must have one type`, span);
    }
    return enclose(
      { kind: 'choice', type: chosen.type, condition, consequent: chosen, alternate: otherwise, ...span },
      first,
      last,
    );
  }

  function readCall({ callee, arguments: trees }: jsep.CallExpression, depth: number): Read {
    const { token, index } = takeLeaf((callee as jsep.Identifier).name);
    const name = token.text;
    const overloads = functions.get(name);
    if (overloads === undefined) {
      const hint = isFactName(name) ? '; it is a fact, written without brackets' : suggestion(name, functions.keys());
      throw fail(`${excerpt(source, token.start, token.end)} is not a known function${hint}`, token);
    }
    const given = trees.map(tree => read(tree, depth).part);
    const last = tokens[index + 1]?.partner ?? index;
    const span = { start: token.start, end: endOf(last) };
    const definition =
      overloads.find(({ parameters: [type] }) => type === given[0]?.type) ?? (overloads[0] as FunctionDefinition);
    const { parameters, repeats = false, signature } = definition;
    if (given.length < parameters.length || (!repeats && given.length > parameters.length)) {
      const count = `${parameters.length}${repeats ? ' values or more' : parameters.length === 1 ? ' value' : ' values'}`;
      throw fail(
        `${excerpt(source, span.start, span.end)} is given ${given.length}, but \`${signature}\` takes ${count}`,
        span,
      );
    }
    const accepted = overloads.map(({ parameters: [type] }) => type);
    const values: TypedExpression[] = [];
    const literals: string[] = [];
    for (const [position, part] of given.entries()) {
      const type = parameters[Math.min(position, parameters.length - 1)] ?? 'number';
      if (type !== 'literal') {
        if (position === 0 && overloads.length > 1 && !accepted.includes(part.type)) {
          throw fail(`${isA(part)}, but \`${name}\` takes a text or a list`, part);
        }
        values.push(expectType(part, type, `\`${signature}\` takes here`));
      } else if (part.kind === 'constant' && typeof part.value === 'string') literals.push(part.value);
      else throw fail(`${show(part)} is not a quoted text, as \`${signature}\` takes here`, part);
    }
    if (definition.fact !== undefined) {
      const { start, end } = token;
      values.unshift({ kind: 'fact', type: factTypes[definition.fact], name: definition.fact, start, end });
    }
    const prepared = prepare(definition, literals, span);
    return enclose({ kind: 'call', type: definition.result, definition, values, prepared, ...span }, index, last);
  }

  function prepare(definition: FunctionDefinition, literals: string[], span: { start: number; end: number }): unknown {
    if (definition.prepare === undefined) return undefined;
    try {
      const { value, cost } = definition.prepare(literals);
      patternCost += cost;
      if (patternCost > patternLimits.cost)
        throw new PatternError('makes the patterns too large together; split them over several entries');
      return value;
    } catch (error) {
      if (!(error instanceof PatternError)) throw error;
      throw fail(`${excerpt(source, span.start, span.end)} ${error.message}`, span);
    }
  }

  function read(tree: jsep.Expression, above: number): Read {
    const depth = above + 1;
    if (depth > expressionLimits.depth) throw new ExpressionError(tooDeep, 0, source.length);
    const node = tree as jsep.CoreExpression;
    switch (node.type) {
      case 'Literal':
        return typeof node.value === 'boolean' || node.value === null ? readName(node.raw) : readLiteral(node.raw);
      case 'Identifier':
        return readName(node.name);
      case 'ThisExpression':
        return readName('this');
      case 'UnaryExpression':
        return readUnary(node, depth);
      case 'BinaryExpression':
        return readBinary(node, depth);
      case 'ConditionalExpression':
        return readChoice(node, depth);
      case 'CallExpression':
        return readCall(node, depth);
      case 'ArrayExpression':
        throw new ExpressionError('a list in square brackets can only stand after `in`', 0, source.length);
      default:
        throw new ExpressionError(`${node.type} is not part of the rule language`, 0, source.length);
    }
  }

  return read(tree, 0).part;
}

const exampleCall = (name: string) => functions.get(name)?.[0]?.signature ?? name;

/**
 * Parses and checks an expression.
 * @param expected a condition is boolean, a value is a number
 * @throws ExpressionError whose message names the offending part
 */
export function parseExpression(source: string, expected: 'boolean' | 'number'): TypedExpression {
  const tokens = tokenize(source);
  let tree: jsep.Expression;
  try {
    tree = jsep(source);
  } catch (error) {
    throw new ExpressionError(`it can't be read: ${(error as Error).message}`, 0, source.length);
  }
  const checked = check(source, tokens, tree);
  if (checked.type === expected) return checked;
  const { start, end } = checked;
  const shown = excerpt(source, start, end);
  const need =
    expected === 'boolean'
      ? `a condition must be true or false; compare it, as in \`size > 0\``
      : `a value must be a number; choose one, as in \`merged ? 10 : 0\``;
  throw new ExpressionError(`${shown} is ${typeNames[checked.type]}, but ${need}`, start, end);
}
