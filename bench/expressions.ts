import type { Facts } from '../src/scoring/facts.ts';
import { compileRuleset } from '../src/scoring/ruleset.ts';
import { type Evaluate, type EvaluatorName, type Expression, evaluators, expressions } from './evaluators.ts';
import { median, type Row } from './report.ts';
import { sampleFacts } from './sample-facts.ts';
import { handWrittenScore, twentyRules } from './twenty-rules.ts';

const rows = sampleFacts(1000);
const rounds = 41;
/** Microseconds of processor time for each sample: long against the clock's grain, short against the machine's moods. */
const sampleTime = 15_000;

interface Runner {
  /** Goes over the rows so many times. */
  run(times: number): unknown;
  times: number;
}

/** Microseconds of processor time, which other processes don't spend. */
function processorTime(work: () => unknown): number {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return user + system;
}

/** Of equal texts V8 makes one function, which would see what all of them see. */
let runners = 0;

/**
 * Each is run in a loop of its own making, so that none is called from a place that has seen others: V8 may then
 * inline it, as it would in a program that has one.
 */
function createRunner<Result>(evaluate: (facts: Facts) => Result, take: string): Runner {
  const source = `/* ${runners++} */ let total = 0;
    for (let time = 0; time < times; time++) {
      for (let index = 0; index < rows.length; index++) { const result = evaluate(rows[index]); total += ${take}; }
    }
    return total;`;
  const loop = new Function('evaluate', 'rows', 'times', source) as (
    evaluate: (facts: Facts) => Result,
    rows: readonly Facts[],
    times: number,
  ) => number;
  const runner = { run: (times: number) => loop(evaluate, rows, times), times: 1 };
  // Warm, and to the size of a sample.
  for (let warm = 0, spent = 0; warm < 20 || spent < 20 * sampleTime; warm++) {
    const time = Math.max(
      1,
      processorTime(() => runner.run(runner.times)),
    );
    spent += time;
    runner.times = Math.max(1, Math.min(100_000, Math.round((runner.times * sampleTime) / time)));
    if (spent > 60 * sampleTime) break;
  }
  return runner;
}

/** Nanoseconds for each row: the median over rounds in which all take turns, so that drift is everyone's. */
function measure<Name extends string>(runners: Record<Name, Runner>): Record<Name, number> {
  const names = Object.keys(runners) as Name[];
  const samples = new Map(names.map(name => [name, [] as number[]]));
  for (let round = 0; round < rounds; round++) {
    // Each begins in turn: what comes after a collection of garbage is not always the same one.
    for (const offset of names.keys()) {
      const name = names[(offset + round) % names.length] as Name;
      const { run, times } = runners[name];
      samples.get(name)?.push((processorTime(() => run(times)) * 1000) / (times * rows.length));
    }
  }
  return Object.fromEntries(names.map(name => [name, median(samples.get(name) ?? [])])) as Record<Name, number>;
}

const geometricMean = (values: readonly number[]) =>
  Math.exp(values.reduce((sum, value) => sum + Math.log(value), 0) / values.length);

function requireSame(what: string, expected: unknown, actual: unknown): void {
  if (actual !== expected) throw new Error(`${what} gives ${String(actual)}, but native ${String(expected)}`);
}

function measureExpression(expression: Expression): Record<EvaluatorName, number> {
  const names = Object.keys(evaluators) as EvaluatorName[];
  const prepared = names.map(name => [name, evaluators[name](expression)] as [EvaluatorName, Evaluate]);
  const native = evaluators.native(expression);
  for (const facts of rows) {
    for (const [name, evaluate] of prepared)
      requireSame(`${name}: ${expression.source}`, native(facts), evaluate(facts));
  }
  const take = expression.type === 'boolean' ? '(result ? 1 : 0)' : 'result';
  return measure(
    Object.fromEntries(prepared.map(([name, evaluate]) => [name, createRunner(evaluate, take)])) as Record<
      EvaluatorName,
      Runner
    >,
  );
}

/** Single expressions against hand-written JavaScript and others' evaluators, and a whole ruleset against one function. */
export async function measureExpressions(): Promise<Row[]> {
  const measured = expressions.map(measureExpression);
  const ratios = (name: EvaluatorName) => measured.map(times => times.native / times[name]);
  const names = Object.keys(evaluators) as EvaluatorName[];
  process.stdout.write(`  native to each, on Node ${process.version}:\n`);
  for (const name of names.filter(name => name !== 'native')) {
    const each = ratios(name)
      .map(ratio => ratio.toFixed(2).padStart(6))
      .join('');
    process.stdout.write(`  ${each}  mean ${geometricMean(ratios(name)).toFixed(3)}  ${name}\n`);
  }
  const others = names.filter(name => name !== 'native' && name !== 'pullscore');
  const best = Math.max(...others.map(name => geometricMean(ratios(name))));
  const own = geometricMean(ratios('pullscore'));
  const nanoseconds = (name: EvaluatorName) => measured.map(times => times[name].toFixed(1)).join(', ');
  return [
    {
      what: 'evaluating an expression, geometric mean of five',
      against: 'hand-written JavaScript',
      ratio: own,
      target: 0.9,
      comparison: 'at least',
      detail: `${nanoseconds('pullscore')} ns to ${nanoseconds('native')} ns`,
    },
    {
      what: 'the same',
      against: `the fastest of ${others.join(', ')}`,
      ratio: own / best,
      target: 1,
      comparison: 'at least',
      detail: others.map(name => `${name} ${geometricMean(ratios(name)).toFixed(3)}`).join(', '),
    },
    measureRuleset(),
  ];
}

function measureRuleset(): Row {
  const { score, problems } = compileRuleset({ definitions: [], reviews: [], rules: [...twentyRules] });
  if (problems.length > 0) throw new Error(problems[0]?.message);
  for (const facts of rows) {
    const [own, hand] = [score(facts), handWrittenScore(facts)];
    requireSame('the ruleset', hand.score, own.score);
    requireSame('the ruleset', hand.breakdown, own.breakdown);
  }
  // Reading a character makes the text flat, as writing it into the database does.
  const take = '(result.score & 1) + result.breakdown.charCodeAt(1)';
  const times = measure({ own: createRunner(score, take), hand: createRunner(handWrittenScore, take) });
  return {
    what: 'scoring a row with 20 rules, breakdown included',
    against: 'one hand-written function',
    ratio: times.hand / times.own,
    target: 0.9,
    comparison: 'at least',
    detail: `${times.own.toFixed(0)} ns to ${times.hand.toFixed(0)} ns`,
  };
}
