/** What a valid rules file probably does not mean. */

import { type CheckedEntry, treesOf } from '../language/compile.ts';
import { roundHalfAway, scoreLimits } from '../language/rounding.ts';
import { DefinitionError } from '../language/syntax.ts';
import { excerpt } from '../language/text-operations.ts';
import { type CheckedDefinitions, definitionsUsed, type TypedExpression } from '../language/tree.ts';
import type { RuleDefinition } from '../rule.ts';
import { describeProblem, type RuleProblem } from '../ruleset.ts';
import { type Constancy, constantParts, rangeOf } from './constancy.ts';
import { likelyMistakesIn } from './likely-mistakes.ts';

/** A rule without problems, and all of its entries. */
export interface ValidRule {
  rule: RuleDefinition;
  entries: readonly CheckedEntry[];
}

/** About a rule, or about the definition that it names. */
type Warning = RuleProblem | { definition: string; message: string };

/**
 * Reads an expression, without the definitions that it uses: these are read by themselves.
 *
 * @param source the text that it was parsed from
 * @param constant its parts that are always or never true
 * @returns messages, without a place
 */
function* lintExpression(
  tree: TypedExpression,
  source: string,
  constant: ReadonlyMap<TypedExpression, Constancy>,
): Generator<string> {
  const shown = excerpt(source, tree.start, tree.end);
  const found = constant.get(tree);
  // `true` and `false` stand there on purpose, and so does the name of a definition.
  const isWritten = tree.kind === 'constant' || tree.kind === 'defined';
  if (found !== undefined && !isWritten) yield describeConstancy(shown, found);
  yield* likelyMistakesIn(tree, shown);
  if (tree.kind === 'defined') return;
  // What makes the whole always or never true needs no warning of its own.
  const inner = found === undefined ? constant : new Map();
  for (const part of tree.parts) yield* lintExpression(part, source, inner);
}

function describeConstancy(shown: string, { isTrue, because }: Constancy): string {
  const whatever = because === undefined ? '' : `, whatever \`${because}\` is`;
  return isTrue ? `${shown} is always true${whatever}` : `${shown} can never be true${whatever}`;
}

function* lintRule({ rule, entries }: ValidRule, onStep: (() => void) | undefined): Generator<RuleProblem> {
  let isDead = true;
  for (const { entry, logic, condition, value } of entries) {
    onStep?.();
    const about = (part: 'expression' | 'value', reason: string) => describeProblem(rule.name, entry, part, reason);
    const { expression: source, effect } = logic;
    const constant = constantParts(condition);
    const [when, own = condition] = rule.when === undefined ? [] : condition.parts;
    if (when !== undefined && entry === 1) {
      for (const reason of lintExpression(when, source, constant))
        yield describeProblem(rule.name, null, 'when', reason);
    }
    for (const reason of lintExpression(own, source, constant)) yield about('expression', reason);
    const isNever = constant.get(condition)?.isTrue === false;
    if (isNever && ![when, own].some(part => part !== undefined && constant.get(part)?.isTrue === false)) {
      yield about(
        'expression',
        `${excerpt(source, own.start, own.end)} can never be true together with the rule's \`when\``,
      );
    }
    for (const reason of lintExpression(value, effect.value, constantParts(value))) yield about('value', reason);
    const [min = 0, max = 0] = rangeOf(value).map(roundHalfAway);
    const shown = excerpt(effect.value);
    const isOutside = min > scoreLimits.maximum || max < scoreLimits.minimum;
    if (isOutside) yield about('value', `${shown} is always outside 32 bits, so it adds nothing`);
    else if (min === 0 && max === 0) yield about('value', `${shown} always rounds to 0, so it adds nothing`);
    else if (effect.action === 'SUBTRACT' && max <= 0) {
      yield about('value', `${shown} is never above 0, so SUBTRACT adds to the score; write ADD, or change its sign`);
    }
    isDead &&= isNever || isOutside || (min === 0 && max === 0);
  }
  if (isDead)
    yield describeProblem(rule.name, null, 'logic', 'none of its entries can ever count; correct or remove the rule');
}

/**
 * Call it for rules and definitions without problems. A disabled rule is read like any other.
 *
 * @param onStep called before each definition and each entry
 */
export function* lintRules(
  definitions: CheckedDefinitions,
  rules: readonly ValidRule[],
  onStep?: () => void,
): Generator<Warning> {
  const used = definitionsUsed(rules.flatMap(({ entries }) => treesOf(entries)));
  for (const [name, definition] of definitions) {
    onStep?.();
    const about = (reason: string) => ({ definition: name, message: `Definition ${JSON.stringify(name)}: ${reason}` });
    if (!used.has(name)) yield about('no rule uses it; remove it');
    if (definition === undefined || definition instanceof DefinitionError) continue;
    const { tree, expression } = definition;
    for (const reason of lintExpression(tree, expression, constantParts(tree))) yield about(reason);
  }
  for (const rule of rules) yield* lintRule(rule, onStep);
}
