import type { Database } from '../database/client.ts';
import { createFactsReader } from '../database/facts.ts';
import { getOrganisation } from '../database/organisations.ts';
import { countOutdated } from '../database/rescore-ranges.ts';
import { readFacts, readSnapshot } from '../database/snapshot.ts';
import { isCounted, listPointsByRule, listTotals, type Period } from '../database/standings.ts';
import { badRequest } from '../errors.ts';
import { formatId } from '../ids.ts';
import { rank } from '../rank.ts';
import type { RuleAction } from '../scoring/rule.ts';
import { compileRuleset, type Ruleset } from '../scoring/ruleset.ts';
import { startOfDay } from '../text/times.ts';

export interface StandingsQuery {
  by: Period['by'];
  of: 'members' | 'repositories';
  /** Days, UTC, such as 2026-01-31; both count. */
  since?: string | undefined;
  until?: string | undefined;
}

export interface ReportOptions {
  /** Ends the work. */
  signal?: AbortSignal | undefined;
  /** @param total how many pull requests there are, or about that */
  onProgress?: ((done: number, total: number) => void) | undefined;
}

export type StandingsDocument = Awaited<ReturnType<typeof readStandings>>;

function parseDay(parameter: 'since' | 'until', text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const moment = startOfDay(text);
  if (moment === undefined) throw badRequest(`"${text}" is not a valid day.`, 'Write it as 2026-01-31.', { parameter });
  return moment;
}

/** @throws ServiceError `bad_request` if a day is not valid, or they are in the wrong order */
export function parsePeriod({ by, since, until }: Omit<StandingsQuery, 'of'>): Period {
  const [from, last] = [parseDay('since', since), parseDay('until', until)];
  if (from !== undefined && last !== undefined && from > last) {
    throw badRequest(`The period begins after it ends: since ${since} until ${until}.`, undefined, {
      parameter: 'since',
    });
  }
  return { by, from, until: last === undefined ? undefined : last + 86_400 };
}

const sumOf = <Key extends string>(rows: readonly Record<Key, number>[], key: Key): number =>
  rows.reduce((sum, row) => sum + row[key], 0);

export const roundToHundredths = (value: number): number => Math.round(value * 100) / 100;

export const meanOf = (score: number, count: number): number => roundToHundredths(score / count);

/** Points of one member or repository, by the names of rules. */
type Points = Map<string, number>;

/** The rules that gave or took most come first. A share is of all points that rules gave and took. */
function sharesOf(points: Points) {
  const all = [...points.values()].reduce((sum, score) => sum + Math.abs(score), 0);
  return [...points]
    .map(([name, score]) => ({ name, score, share: all === 0 ? 0 : score / all }))
    .sort((one, two) => Math.abs(two.score) - Math.abs(one.score) || one.name.localeCompare(two.name, 'und'));
}

/**
 * Totals of members or repositories, highest first.
 *
 * @param options `rules`: a file to score by, instead of the stored scores, in this process; `withRules`: also what each
 * rule gave and took, which takes some time for the breakdowns of a million pull requests
 */
export async function readStandings(
  database: Database,
  organisationId: string,
  query: StandingsQuery,
  {
    rules,
    withRules,
    signal,
    onProgress,
  }: ReportOptions & { rules?: { name: string; ruleset: Ruleset } | undefined; withRules: boolean },
) {
  const { by, of, since, until } = query;
  const period = parsePeriod(query);
  // All as of one moment. And a snapshot has time for a million pull requests.
  return readSnapshot(database, async executor => {
    const { login: name, rulesetVersion } = await getOrganisation(executor, organisationId);
    const totals = await listTotals(executor, organisationId, of, period);
    const count = sumOf(totals, 'pullRequests');
    const points = new Map<string, Points>(totals.map(({ id }) => [id, new Map()]));
    const addPoints = (id: string, rule: string, score: number) => {
      const ofOwner = points.get(id);
      ofOwner?.set(rule, (ofOwner.get(rule) ?? 0) + score);
    };
    if (rules !== undefined) {
      const { facts: names, score } = compileRuleset(rules.ruleset);
      const sums = new Map<string, number>();
      let done = 0;
      for await (const batch of readFacts(
        executor,
        organisationId,
        createFactsReader(names),
        isCounted(organisationId, period),
      )) {
        signal?.throwIfAborted();
        for (const { memberId, repositoryId, facts } of batch) {
          done += 1;
          const id = of === 'members' ? memberId : repositoryId;
          const { score: sum, breakdown } = score(facts);
          sums.set(id, (sums.get(id) ?? 0) + sum);
          if (!withRules) continue;
          const entries: { name: string; action: RuleAction; effect: number }[] = JSON.parse(breakdown);
          for (const { name, action, effect } of entries) addPoints(id, name, action === 'ADD' ? effect : -effect);
        }
        onProgress?.(done, count);
      }
      for (const each of totals) each.score = sums.get(each.id) ?? 0;
    } else if (withRules) {
      for (const { id, name, score } of await listPointsByRule(executor, organisationId, of, period)) {
        addPoints(id, name, score);
      }
    }
    // Stable: equal totals stay in the order of names.
    totals.sort((one, two) => two.score - one.score);
    const ranks = rank(totals.map(({ score }) => score));
    // How many of all stored scores, whatever the period.
    const outdated = rules === undefined ? (await countOutdated(executor, organisationId)).outdated : 0;
    return {
      organisation: name,
      of,
      by,
      since: since ?? null,
      until: until ?? null,
      ruleset_version: rules === undefined ? rulesetVersion : null,
      outdated,
      pull_requests: count,
      score: sumOf(totals, 'score'),
      standings: totals.map(({ id, name, login, leftAt, pullRequests, score }, index) => ({
        rank: ranks[index] ?? 0,
        id: formatId(of === 'members' ? 'mem' : 'repo', id),
        name,
        ...(login !== undefined && { login, left: leftAt !== null }),
        pull_requests: pullRequests,
        score,
        mean: meanOf(score, pullRequests),
        ...(withRules && { rules: sharesOf(points.get(id) ?? new Map()) }),
      })),
      // The name of the rules file by which they are scored.
      file: rules?.name ?? null,
    };
  });
}
