import { countOutdated } from '../database/backlog.ts';
import type { Database, Executor } from '../database/client.ts';
import { createFactsReader } from '../database/facts.ts';
import { getOrganisation, type Organisation } from '../database/organisations.ts';
import { findApplication } from '../database/rules.ts';
import { readFacts, readSnapshot } from '../database/snapshot.ts';
import {
  isCounted,
  listPointsByRule,
  listReviewPoints,
  listTotals,
  listWeeks,
  type Period,
  type Total,
} from '../database/standings.ts';
import { formatId, parseId } from '../ids.ts';
import { rank } from '../rank.ts';
import type { RuleAction } from '../scoring/rule.ts';
import { compileRuleset, type Ruleset } from '../scoring/ruleset.ts';
import { type PeriodQuery, parsePeriod } from './period.ts';

export interface StandingsQuery extends PeriodQuery {
  of: 'members' | 'repositories';
}

export interface ReportOptions {
  signal?: AbortSignal | undefined;
  /** @param total how many pull requests there are, or about that */
  onProgress?: ((done: number, total: number) => void) | undefined;
}

export type StandingsDocument = Awaited<ReturnType<typeof readStandings>>;

const sumOf = <Key extends string>(rows: readonly Record<Key, number>[], key: Key): number =>
  rows.reduce((sum, row) => sum + row[key], 0);

export const roundToHundredths = (value: number): number => Math.round(value * 100) / 100;

/** 0 of nothing. */
export const meanOf = (score: number, count: number): number => roundToHundredths(score / (count || 1));

type BreakdownEntry = { name: string; action: RuleAction; effect: number };
type ReviewScore = { member: string | null; score: number; breakdown: BreakdownEntry[] };

/** What a member or repository has; `points` by the names of rules. */
type Row = Total & { reviews: number; reviewScore: number; points: Map<string, number> };

interface Scope {
  executor: Executor;
  organisationId: string;
  of: StandingsQuery['of'];
  period: Period;
  /** By id. */
  rows: ReadonlyMap<string, Row>;
  /** Whether to find what each rule gave and took. */
  withRules: boolean;
  /** What it gave and took in all. */
  points: Map<string, number>;
}

function addPoints({ rows, points: all }: Scope, id: string, breakdown: readonly BreakdownEntry[]): void {
  for (const { name, action, effect } of breakdown) {
    for (const points of [rows.get(id)?.points, all]) {
      points?.set(name, (points.get(name) ?? 0) + (action === 'ADD' ? effect : -effect));
    }
  }
}

function addReviews({ rows }: Scope, id: string, reviews: number, score: number): void {
  const row = rows.get(id);
  if (row === undefined) return;
  row.reviews += reviews;
  row.reviewScore += score;
}

/** Scores the stored pull requests in this process, instead. @param onBatch gets how many are done */
async function addScoredBy(
  ruleset: Ruleset,
  scope: Scope,
  signal: AbortSignal | undefined,
  onBatch: (done: number) => void,
): Promise<void> {
  const { executor, organisationId, of, period, rows, withRules } = scope;
  for (const row of rows.values()) row.score = 0;
  const { facts: names, score } = compileRuleset(ruleset);
  const reader = createFactsReader(names);
  let done = 0;
  for await (const batch of readFacts(executor, organisationId, reader, isCounted(organisationId, period))) {
    signal?.throwIfAborted();
    for (const { memberId, repositoryId, facts } of batch) {
      done += 1;
      const id = of === 'members' ? memberId : repositoryId;
      const row = rows.get(id);
      const { score: sum, breakdown, reviewScores } = score(facts);
      if (row !== undefined) row.score += sum;
      if (withRules) addPoints(scope, id, JSON.parse(breakdown));
      const reviews: ReviewScore[] = reviewScores === null ? [] : JSON.parse(reviewScores);
      for (const { member, score, breakdown } of reviews) {
        if (member === null) continue;
        const reviewed = of === 'members' ? (parseId('mem', member) ?? '') : id;
        addReviews(scope, reviewed, 1, score);
        if (withRules) addPoints(scope, reviewed, breakdown);
      }
    }
    onBatch(done);
  }
}

/** Those with a pull request or a review that counts, highest total first. */
function rankRows(rows: Iterable<Row>) {
  // Stable: equal totals stay in the order of names.
  const ranked = [...rows]
    .filter(({ pullRequests, reviews }) => pullRequests + reviews > 0)
    .map(row => ({ ...row, total: row.score + row.reviewScore }))
    .sort((one, two) => two.total - one.total);
  const ranks = rank(ranked.map(({ total }) => total));
  return ranked.map((row, index) => ({ ...row, rank: ranks[index] ?? 0 }));
}

/** The rules that gave or took most come first. A share is of the net points of all rules, signs ignored. */
function sharesOf(points: Row['points']) {
  const all = [...points.values()].reduce((sum, score) => sum + Math.abs(score), 0);
  return [...points]
    .map(([name, score]) => ({ name, score, share: all === 0 ? 0 : score / all }))
    .sort((one, two) => Math.abs(two.score) - Math.abs(one.score) || one.name.localeCompare(two.name, 'und'));
}

const representRow = (row: ReturnType<typeof rankRows>[number], of: Scope['of'], withRules: boolean) => ({
  rank: row.rank,
  id: formatId(of === 'members' ? 'mem' : 'repo', row.id),
  name: row.name,
  ...(row.login !== undefined && { login: row.login, left: row.leftAt !== null }),
  pull_requests: row.pullRequests,
  score: row.score,
  mean: meanOf(row.score, row.pullRequests),
  reviews: row.reviews,
  review_score: row.reviewScore,
  total: row.total,
  ...(withRules && { rules: sharesOf(row.points) }),
});

/** While rules are suspended, stored points stay, whatever gave them. */
const countsReviews = async (executor: Executor, { id, rulesetVersion, suspendedVersion }: Organisation) =>
  rulesetVersion === suspendedVersion ||
  ((await findApplication(executor, id, rulesetVersion))?.reviews.length ?? 0) > 0;

interface StandingsOptions extends ReportOptions {
  /** A file to score by, instead of the stored scores, in this process. */
  rules?: { name: string; ruleset: Ruleset } | undefined;
  /** Also what each rule gave and took, which takes some time for the breakdowns of a million pull requests. */
  withRules: boolean;
  /** What the names of rules in all rows may take. The last rows are without rules if there are more. */
  maxRuleBytes?: number | undefined;
  /** The id of the only member whose row is wanted. */
  only?: string | undefined;
}

/** Totals of members or repositories, highest first. */
export async function readStandings(
  database: Database,
  organisationId: string,
  query: StandingsQuery,
  { rules, withRules, maxRuleBytes: maxBytes = Number.MAX_SAFE_INTEGER, only, signal, onProgress }: StandingsOptions,
) {
  const { by, of, since, until } = query;
  const period = parsePeriod(query);
  // All as of one moment. And a snapshot has time for a million pull requests.
  return readSnapshot(
    database,
    async executor => {
      const organisation = await getOrganisation(executor, organisationId);
      const { login, rulesetVersion } = organisation;
      const hasReviews = rules ? rules.ruleset.reviews.length > 0 : await countsReviews(executor, organisation);
      const totals = await listTotals(executor, organisationId, of, period, { withIdle: hasReviews });
      const count = sumOf(totals, 'pullRequests');
      const rows = new Map(
        totals.map(total => [total.id, { ...total, reviews: 0, reviewScore: 0, points: new Map<string, number>() }]),
      );
      const points = new Map<string, number>();
      const scope = { executor, organisationId, of, period, rows, withRules, points };
      if (rules) await addScoredBy(rules.ruleset, scope, signal, done => onProgress?.(done, count));
      else if (hasReviews) {
        const reviewed = await listReviewPoints(executor, organisationId, of, period);
        for (const { id, reviews, score } of reviewed) addReviews(scope, id, reviews, score);
      }
      const ranked = rankRows(rows.values());
      const shown = ranked.filter(({ id }) => only === undefined || id === only);
      // How many of the first rows have their rules.
      let fitting = shown.length;
      if (withRules && !rules) {
        const ids = shown.map(({ id }) => id);
        const options = { withReviews: hasReviews, maxBytes };
        const byRule = await listPointsByRule(executor, organisationId, of, period, ids, options);
        for (const { id, name, score } of byRule.points)
          (id === null ? points : rows.get(id)?.points)?.set(name, score);
        fitting = byRule.fitting;
      }
      return {
        organisation: login,
        of,
        by,
        since: since ?? null,
        until: until ?? null,
        ruleset_version: rules ? null : rulesetVersion,
        // How many of all stored scores, whatever the period.
        outdated: rules ? 0 : await countOutdated(executor, organisationId),
        pull_requests: count,
        score: sumOf(ranked, 'score'),
        reviews: sumOf(ranked, 'reviews'),
        review_score: sumOf(ranked, 'reviewScore'),
        total: sumOf(ranked, 'total'),
        ranked: ranked.length,
        ...(withRules && only === undefined && { rules: sharesOf(points) }),
        standings: shown.map((row, index) => representRow(row, of, withRules && index < fitting)),
        // The name of the rules file by which they are scored.
        file: rules?.name ?? null,
      };
    },
    signal,
  );
}

/** A member's totals by week, the first week first; those without a pull request or review that counts are left out. */
export const readWeeks = (
  database: Database,
  organisationId: string,
  memberId: string,
  period: Period,
  signal: AbortSignal,
) =>
  readSnapshot(
    database,
    async executor => {
      const withReviews = await countsReviews(executor, await getOrganisation(executor, organisationId));
      return listWeeks(executor, organisationId, memberId, period, { withReviews });
    },
    signal,
  );
