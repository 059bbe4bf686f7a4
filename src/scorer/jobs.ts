/**
 * What a scorer does: functions of plain data, which come and go between processes as JSON. Whatever a user wrote as a
 * rule is parsed, checked, compiled and evaluated here and nowhere else in a service.
 */
import { createExplainer, type Explanation, type WaitingEntry } from '../scoring/explain/explain.ts';
import type { Facts } from '../scoring/facts.ts';
import { checkInSteps } from '../scoring/file/check-rules-file.ts';
import type { Score } from '../scoring/language/compile.ts';
import type { Steps } from '../scoring/steps.ts';
import { audit, plan } from './plan.ts';
import { rescore } from './rescore.ts';
import { loadRuleset, readRuleset } from './rulesets.ts';
import type { Work } from './work.ts';

/** Pull requests, and the version of the rules for them. */
export interface VersionedFacts {
  organisationId: string;
  version: number;
  facts: readonly Facts[];
}

/** Lets other jobs go first between two steps. */
async function takingTurns<Result>(work: Work, steps: Steps<Result>): Promise<Result> {
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
    await work.turn();
  }
}

/** Scores pull requests. @returns in their order */
async function score(work: Work, { organisationId, version, facts }: VersionedFacts): Promise<Score[]> {
  const ruleset = await loadRuleset(work, organisationId, version);
  const scores: Score[] = [];
  for (const each of facts) {
    await work.turn();
    scores.push(ruleset.score(each));
  }
  return scores;
}

/** A pull request, and the version of the rules to explain. */
interface Explained {
  organisationId: string;
  version: number;
  facts: Facts;
}

/** Explains one score: with a thousand entries, an explanation has twenty megabytes. */
async function explain(work: Work, { organisationId, version, facts }: Explained): Promise<Explanation> {
  const ruleset = await readRuleset(work, organisationId, version);
  const explainPullRequest = createExplainer(ruleset, next => work.alive(next && { version, ...next }));
  return takingTurns(work, explainPullRequest(facts));
}

/**
 * Finds what would still change scores.
 *
 * @param input.limit of entries for each
 * @returns in their order; `count` includes entries past the limit
 */
async function findWaiting(
  work: Work,
  { organisationId, version, facts, limit }: VersionedFacts & { limit: number },
): Promise<{ entries: WaitingEntry[]; count: number }[]> {
  const ruleset = await readRuleset(work, organisationId, version);
  const onlyRules = { ...ruleset, reviews: [] };
  const explainPullRequest = createExplainer(onlyRules, next => work.alive(next && { version, ...next }));
  const found: { entries: WaitingEntry[]; count: number }[] = [];
  for (const each of facts) {
    const { waiting } = await takingTurns(work, explainPullRequest(each));
    found.push({ entries: waiting.slice(0, limit), count: waiting.length });
  }
  return found;
}

/**
 * Checks a rules file and runs its tests.
 *
 * @param input.file its bytes, each as a character
 * @returns its rules, and what is wrong with it: its tests and their explanations may have tens of megabytes
 */
async function check(work: Work, { file }: { organisationId: string; file: string }) {
  const checked = await takingTurns(work, checkInSteps(Buffer.from(file, 'latin1'), { onStep: () => work.alive() }));
  const { definitions, rules, reviews, source, problems } = checked;
  return { definitions, rules, reviews, source, problems: problems.map(({ line, message }) => ({ line, message })) };
}

const table = { score, explain, findWaiting, rescore, check, plan, audit };

export type JobKind = keyof typeof table;
export type InputOf<Kind extends JobKind> = Parameters<(typeof table)[Kind]>[1];
export type ResultOf<Kind extends JobKind> = Awaited<ReturnType<(typeof table)[Kind]>>;

export type Jobs = { [Kind in JobKind]: (work: Work, input: InputOf<Kind>) => Promise<ResultOf<Kind>> };
export const jobs: Jobs = table;

/** A pull request that GitHub has just sent goes before re-scoring, and re-scoring before plans. */
export const priorities: Readonly<Record<JobKind, number>> = {
  score: 0,
  explain: 1,
  findWaiting: 1,
  rescore: 2,
  check: 3,
  plan: 4,
  audit: 4,
};

export interface JobOptions {
  /** Ends the job. */
  signal?: AbortSignal | undefined;
  onProgress?: ((done: number) => void) | undefined;
}

/** Runs jobs, in other processes or in this one. */
export interface Scorer {
  run<Kind extends JobKind>(kind: Kind, input: InputOf<Kind>, options?: JobOptions): Promise<ResultOf<Kind>>;
  /** Ends the jobs that are left, whatever they do. */
  close(): Promise<void>;
}
