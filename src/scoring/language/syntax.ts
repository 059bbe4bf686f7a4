/** The form of expressions before names and types are checked, their limits, and the error for invalid ones. */

/** A part of the source text, in UTF-16 units. */
export interface Span {
  start: number;
  end: number;
}

/** Why an expression is refused; the message quotes the part that is wrong. */
export class ExpressionError extends Error {
  override readonly name = 'ExpressionError';
}

/** An expression is refused because of a definition that it uses; the message names the definition. */
export class DefinitionError extends ExpressionError {}

export const expressionLimits = { characters: 2000, nodes: 200, depth: 32 } as const;

export const tooLong = `it is longer than ${expressionLimits.characters} characters; split it into several entries`;
export const tooLarge = `it has more than ${expressionLimits.nodes} parts; split it into several entries`;
export const tooDeep = `it is nested deeper than ${expressionLimits.depth} levels, counting each operator of a chain; split it into several entries`;

export type ArithmeticOperator = '+' | '-' | '*' | '/' | '%';
export type ComparisonOperator = '==' | '!=' | '<' | '<=' | '>' | '>=';
export type LogicalOperator = '&&' | '||';

type BinaryOperator = ArithmeticOperator | ComparisonOperator | LogicalOperator | 'in';

/** What binary operators connect. A group is an expression in round brackets. */
export type Operand =
  | { type: 'Identifier'; name: string }
  | { type: 'Literal'; value: number | string }
  | { type: 'UnaryExpression'; operator: '-' | '!'; argument: SyntaxNode }
  | { type: 'CallExpression'; callee: SyntaxNode & { type: 'Identifier' }; arguments: SyntaxNode[] }
  | { type: 'ArrayExpression'; elements: SyntaxNode[] }
  | { type: 'Group'; expression: SyntaxNode };

export type SyntaxNode =
  | (Operand & Span)
  | { type: 'BinaryExpression'; operator: BinaryOperator; left: SyntaxNode; right: SyntaxNode }
  | { type: 'ConditionalExpression'; test: SyntaxNode; consequent: SyntaxNode; alternate: SyntaxNode };

/** A node's place in the source; a group includes its brackets. */
export function spanOf(node: SyntaxNode): Span {
  if (node.type === 'BinaryExpression') return { start: spanOf(node.left).start, end: spanOf(node.right).end };
  if (node.type === 'ConditionalExpression') return { start: spanOf(node.test).start, end: spanOf(node.alternate).end };
  return node;
}

export function withoutBrackets(node: SyntaxNode): SyntaxNode {
  return node.type === 'Group' ? withoutBrackets(node.expression) : node;
}

/** The names in an expression, without those of functions. */
export function namesIn(node: SyntaxNode): string[] {
  if (node.type === 'Identifier') return [node.name];
  const parts: unknown[] = node.type === 'CallExpression' ? node.arguments : Object.values(node).flat();
  return parts.flatMap(part => (typeof part === 'object' && part !== null ? namesIn(part as SyntaxNode) : []));
}
