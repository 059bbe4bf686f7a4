import { deepEqual, equal } from 'node:assert/strict';
import type { Facts } from '../src/scoring/facts.ts';
import { compileRuleset } from '../src/scoring/ruleset.ts';
import { rulesetOf } from '../test/scoring/support.ts';
import { type EvaluatorName, type Expression, evaluators, expressions } from './evaluators.ts';
import { atLeast, median, print } from './report.ts';
import { sampleFacts } from './sample-facts.ts';
import { handWrittenScore, twentyRules } from './twenty-rules.ts';

const { score, problems, facts: factsRead } = compileRuleset(rulesetOf(twentyRules));
/** The single expressions read no other facts. */
const rows = sampleFacts(1000, factsRead);
const rounds = 41;
/** Microseconds of processor time for each sample: long against the clock's grain, short against the machine's moods. */
const sampleTime = 15_000;

/** Microseconds of processor time, which other processes don't spend. */
function processorTime(work: () => unknown): number {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return Math.max(1, user + system);
}

/** Takes a sample. @returns nanoseconds for each row */
type Sampler = () => number;

/** Of equal texts V8 makes one function, which would see what all of them see. */
let samplers = 0;

/**
 * Each is run in a loop of its own making, so that none is called from a place that has seen others: V8 may then
 * inline it, as it would in a program that has one.
 */
function createSampler<Result>(evaluate: (facts: Facts) => Result, take: string): Sampler {
  const source = `/* ${samplers++} */ let total = 0;
    for (let time = 0; time < times; time++) {
      for (let index = 0; index < rows.length; index++) { const result = evaluate(rows[index]); total += ${take}; }
    }
    return total;`;
  const loop = new Function('evaluate', 'rows', 'times', source) as (
    evaluate: (facts: Facts) => Result,
    rows: readonly Facts[],
    times: number,
  ) => number;
  let times = 1;
  const measureTime = () => processorTime(() => loop(evaluate, rows, times));
  // Warm, and to the size of a sample.
  for (let warm = 0, spent = 0; warm < 20 || spent < 20 * sampleTime; warm++) {
    const time = measureTime();
    spent += time;
    times = Math.max(1, Math.min(100_000, Math.round((times * sampleTime) / time)));
    if (spent > 60 * sampleTime) break;
  }
  return () => (measureTime() * 1000) / (times * rows.length);
}

/** Nanoseconds for each row: the median over rounds in which all take turns, so that drift is everyone's. */
function timesOf<Name extends string>(samplers: Record<Name, Sampler>): Record<Name, number> {
  const names = Object.keys(samplers) as Name[];
  const samples = new Map(names.map(name => [name, [] as number[]]));
  for (let round = 0; round < rounds; round++) {
    // Each begins in turn: what comes after a collection of garbage is not always the same one.
    for (const offset of names.keys()) {
      const name = names[(offset + round) % names.length] as Name;
      samples.get(name)?.push(samplers[name]());
    }
  }
  return Object.fromEntries(names.map(name => [name, median(samples.get(name) ?? [])])) as Record<Name, number>;
}

const geometricMean = (values: readonly number[]) =>
  Math.exp(values.reduce((sum, value) => sum + Math.log(value), 0) / values.length);

const evaluatorNames = Object.keys(evaluators) as EvaluatorName[];

function measureExpression(expression: Expression): Record<EvaluatorName, number> {
  const native = evaluators.native(expression);
  const take = expression.type === 'boolean' ? '(result ? 1 : 0)' : 'result';
  const evaluates = evaluatorNames.map(name => [name, evaluators[name](expression)] as const);
  for (const facts of rows) {
    for (const [name, evaluate] of evaluates) equal(evaluate(facts), native(facts), `${name}: ${expression.source}`);
  }
  const samplers = evaluates.map(([name, evaluate]) => [name, createSampler(evaluate, take)]);
  return timesOf(Object.fromEntries(samplers) as Record<EvaluatorName, Sampler>);
}

/** Single expressions against hand-written JavaScript and others' evaluators, and a whole ruleset against one function. */
export async function measure(): Promise<void> {
  const measured = expressions.map(measureExpression);
  const ratios = (name: EvaluatorName) => measured.map(times => times.native / times[name]);
  const mean = (name: EvaluatorName) => geometricMean(ratios(name));
  print(`native to each, on Node ${process.version}:`);
  for (const name of evaluatorNames.filter(name => name !== 'native')) {
    const each = ratios(name).map(ratio => ratio.toFixed(2).padStart(6));
    print(`${each.join('')}  mean ${mean(name).toFixed(3)}  ${name}`);
  }
  const others = evaluatorNames.filter(name => name !== 'native' && name !== 'pullscore');
  const nanoseconds = (name: EvaluatorName) => measured.map(times => times[name].toFixed(1)).join(', ');
  atLeast(0.9, 'evaluating an expression, geometric mean of five', 'hand-written JavaScript', {
    ratio: mean('pullscore'),
    detail: `${nanoseconds('pullscore')} ns to ${nanoseconds('native')} ns`,
  });
  atLeast(1, 'the same', `the fastest of ${others.join(', ')}`, {
    ratio: mean('pullscore') / Math.max(...others.map(mean)),
    detail: others.map(name => `${name} ${mean(name).toFixed(3)}`).join(', '),
  });
  measureRuleset();
}

function measureRuleset(): void {
  if (problems.length > 0) throw new Error(problems[0]?.message);
  for (const facts of rows) deepEqual(score(facts), { ...handWrittenScore(facts), reviewScores: null });
  // Reading a character makes the text flat, as writing it into the database does.
  const take = '(result.score & 1) + result.breakdown.charCodeAt(1)';
  const times = timesOf({ own: createSampler(score, take), hand: createSampler(handWrittenScore, take) });
  atLeast(0.9, 'scoring a row with 20 rules, breakdown included', 'one hand-written function', {
    ratio: times.hand / times.own,
    detail: `${times.own.toFixed(0)} ns to ${times.hand.toFixed(0)} ns`,
  });
}
