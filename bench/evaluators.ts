/** The five expressions of the comparison, as each evaluator writes them, ready to be called with a row of facts. */
import { Environment } from '@marcbachmann/cel-js';
import { Parser } from 'expr-eval';
import { compileExpression as compileFiltrex } from 'filtrex';
import jexl from 'jexl';
import { LogicEngine } from 'json-logic-engine';
import type { Facts } from '../src/scoring/facts.ts';
import { compileExpression } from '../src/scoring/language/compile.ts';
import { parseExpression } from '../src/scoring/language/expression.ts';

export type Evaluate = (facts: Facts) => unknown;

export interface Expression {
  /** In our language. */
  source: string;
  type: 'boolean' | 'number';
  javascript: string;
  jsonLogic: object;
  /** If it is not our text {@link inWords}. */
  filtrex?: string;
  cel: string;
}

const fact = (name: string) => ({ var: name });

export const expressions: readonly Expression[] = [
  {
    source: 'additions + deletions > 500',
    type: 'boolean',
    javascript: 'facts.additions + facts.deletions > 500',
    jsonLogic: { '>': [{ '+': [fact('additions'), fact('deletions')] }, 500] },
    cel: 'additions + deletions > 500.0',
  },
  {
    source: 'state == "merged" && changed_files <= 10',
    type: 'boolean',
    javascript: 'facts.state === "merged" && facts.changed_files <= 10',
    jsonLogic: { and: [{ '===': [fact('state'), 'merged'] }, { '<=': [fact('changed_files'), 10] }] },
    cel: 'state == "merged" && changed_files <= 10.0',
  },
  {
    source: 'contains(title, "fix") || starts_with(title, "feat")',
    type: 'boolean',
    javascript: 'facts.title.includes("fix") || facts.title.startsWith("feat")',
    jsonLogic: { or: [{ contains: [fact('title'), 'fix'] }, { starts_with: [fact('title'), 'feat'] }] },
    cel: 'title.contains("fix") || title.startsWith("feat")',
  },
  {
    source: 'min(50, floor((additions + deletions) / 20))',
    type: 'number',
    javascript: 'Math.min(50, Math.floor((facts.additions + facts.deletions) / 20))',
    jsonLogic: { min: [50, { floor: [{ '/': [{ '+': [fact('additions'), fact('deletions')] }, 20] }] }] },
    cel: 'min(50.0, floor((additions + deletions) / 20.0))',
  },
  {
    source: 'state == "merged" ? commits * 2 : 0',
    type: 'number',
    javascript: 'facts.state === "merged" ? facts.commits * 2 : 0',
    jsonLogic: { if: [{ '===': [fact('state'), 'merged'] }, { '*': [fact('commits'), 2] }, 0] },
    filtrex: 'if state == "merged" then commits * 2 else 0',
    cel: 'state == "merged" ? commits * 2.0 : 0.0',
  },
];

/** Two evaluators differ from ours in their words for `&&` and `||`. */
const inWords = (source: string) => source.replace('&&', 'and').replace('||', 'or');

const contains = (text: string, part: string) => text.includes(part);
const startsWith = (text: string, beginning: string) => text.startsWith(beginning);
const textFunctions = { contains, starts_with: startsWith };

function jsonLogicEngine(): LogicEngine {
  const engine = new LogicEngine();
  type BuildState = { compile(parts: TemplateStringsArray, ...values: unknown[]): unknown };
  const add = <Values extends unknown[]>(
    name: string,
    method: (...values: Values) => unknown,
    compile: (values: unknown[], state: BuildState) => unknown,
  ) => {
    // With code of its own it is built in, as the engine's own methods are.
    const definition = { method: (values: Values) => method(...values), compile, deterministic: true };
    engine.addMethod(name, definition);
  };
  add('contains', contains, ([text, part], state) => state.compile`(${text}).includes(${part})`);
  add('starts_with', startsWith, ([text, part], state) => state.compile`(${text}).startsWith(${part})`);
  add('floor', Math.floor, ([x], state) => state.compile`Math.floor(${x})`);
  return engine;
}

function celEnvironment(): Environment {
  const environment = new Environment()
    .registerFunction('min(double, double): double', Math.min)
    .registerFunction('floor(double): double', Math.floor);
  for (const name of ['additions', 'deletions', 'changed_files', 'commits']) {
    environment.registerVariable(name, 'double');
  }
  return environment.registerVariable('state', 'string').registerVariable('title', 'string');
}

/** Each evaluator's way to prepare an expression once; ours first, then what all are held against. */
export const evaluators = {
  pullscore: ({ source, type }) => compileExpression(parseExpression(source, type)),
  native: ({ javascript }) => new Function('facts', `return ${javascript};`) as Evaluate,
  'json-logic-engine, built': ({ jsonLogic }) => jsonLogicEngine().build(jsonLogic) as Evaluate,
  filtrex: ({ source, filtrex = inWords(source) }) => compileFiltrex(filtrex, { extraFunctions: textFunctions }),
  '@marcbachmann/cel-js': ({ cel }) => {
    const run = celEnvironment().parse(cel);
    return facts => run(facts);
  },
  'expr-eval': ({ source }) => {
    const parser = new Parser();
    Object.assign(parser.functions, textFunctions);
    const expression = parser.parse(inWords(source));
    return facts => expression.evaluate(facts as never);
  },
  jexl: ({ source }) => {
    const instance = new jexl.Jexl();
    instance.addFunctions({ ...textFunctions, min: Math.min, floor: Math.floor });
    const expression = instance.compile(source);
    return facts => expression.evalSync(facts as never);
  },
} satisfies Record<string, (expression: Expression) => Evaluate>;

export type EvaluatorName = keyof typeof evaluators;
