import { Option } from 'commander';
import type { Executor } from '../../database/client.ts';
import { createFactsReader } from '../../database/facts.ts';
import { getOrganisation, type Organisation } from '../../database/organisations.ts';
import { countOutdated } from '../../database/rescoring.ts';
import { readFacts, readSnapshot } from '../../database/snapshot.ts';
import type { Deps } from '../../deps.ts';
import { formatId } from '../../ids.ts';
import { rank } from '../../rank.ts';
import type { RuleAction } from '../../scoring/rule.ts';
import { compileRuleset } from '../../scoring/ruleset.ts';
import { counted, formatInteger, percent, twoDecimals } from '../../text/numbers.ts';
import { grid, plain, right } from '../../text/terminal.ts';
import type { PullscoreCommand } from '../command.ts';
import { type Context, parseDay, UsageError } from '../context.ts';
import { addAll } from '../progress.ts';
import { describeRescoring } from '../rescore.ts';
import { loadRules } from '../rules-file.ts';
import { isCounted, listPointsByRule, listTotals, type Period } from './queries.ts';

interface StandingsOptions {
  since?: string;
  until?: string;
  by: Period['by'];
  of: 'members' | 'repositories';
  rules?: string;
  byRule?: boolean;
  csv?: boolean;
  json?: boolean;
}

type StandingsDocument = Awaited<ReturnType<typeof readStandings>>;

function parsePeriod({ by, since, until }: StandingsOptions): Period {
  const [from, last] = [parseDay(since), parseDay(until)];
  if (from !== undefined && last !== undefined && from > last) {
    throw new UsageError(`--since ${since} is after --until ${until}.`, 'Write the earlier day after --since.');
  }
  return { by, from, until: last === undefined ? undefined : last + 86_400 };
}

const sumOf = <Key extends string>(rows: readonly Record<Key, number>[], key: Key): number =>
  rows.reduce((sum, row) => sum + row[key], 0);

/** Rounded to hundredths. */
const meanOf = (score: number, count: number): number => Math.round((score / count) * 100) / 100;

/** Points of one member or repository, by the names of rules. */
type Points = Map<string, number>;

/** The rules that gave or took most come first. A share is of all points that rules gave and took. */
function sharesOf(points: Points) {
  const all = [...points.values()].reduce((sum, score) => sum + Math.abs(score), 0);
  return [...points]
    .map(([name, score]) => ({ name, score, share: all === 0 ? 0 : score / all }))
    .sort((one, two) => Math.abs(two.score) - Math.abs(one.score) || one.name.localeCompare(two.name, 'und'));
}

async function readStandings(
  { context, deps, organisation }: { context: Context; deps: Deps; organisation: Organisation },
  { by, of, since, until, byRule, json }: StandingsOptions,
  period: Period,
  rules: Awaited<ReturnType<typeof loadRules>> | undefined,
) {
  // All as of one moment. And a snapshot has time for a million pull requests.
  return readSnapshot(deps.database, async executor => {
    const { id: organisationId, login: name, rulesetVersion } = await getOrganisation(executor, organisation.id);
    const totals = await listTotals(executor, organisationId, of, period);
    const count = sumOf(totals, 'pullRequests');
    const points = new Map<string, Points>(totals.map(({ id }) => [id, new Map()]));
    const addPoints = (id: string, rule: string, score: number) => {
      const ofOwner = points.get(id);
      ofOwner?.set(rule, (ofOwner.get(rule) ?? 0) + score);
    };
    // Breakdowns of a million pull requests take some time.
    const showsRules = byRule || json;
    if (rules !== undefined) {
      const { facts: names, score } = compileRuleset(rules.ruleset);
      const batches = readFacts(executor, organisationId, createFactsReader(names), isCounted(organisationId, period));
      const sums = new Map<string, number>();
      await addAll(context, batches, count, ({ memberId, repositoryId, facts }) => {
        const id = of === 'members' ? memberId : repositoryId;
        const { score: sum, breakdown } = score(facts);
        sums.set(id, (sums.get(id) ?? 0) + sum);
        if (!showsRules) return;
        const entries: { name: string; action: RuleAction; effect: number }[] = JSON.parse(breakdown);
        for (const { name, action, effect } of entries) addPoints(id, name, action === 'ADD' ? effect : -effect);
      });
      for (const each of totals) each.score = sums.get(each.id) ?? 0;
    } else if (showsRules) {
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
      file: rules?.name ?? null,
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
        ...(showsRules && { rules: sharesOf(points.get(id) ?? new Map()) }),
      })),
    };
  });
}

function describePeriod({ by, since, until }: StandingsDocument): string {
  if (since === null && until === null) return by === 'merged' ? 'all merged pull requests' : 'all pull requests';
  if (since === until) return `pull requests ${by} on ${since} (UTC)`;
  const days = since === null ? `until ${until}` : until === null ? `since ${since}` : `from ${since} to ${until}`;
  return `pull requests ${by} ${days} (UTC)`;
}

/** A note that readers of the figures need; undefined if there is none. */
async function noteOf(
  { organisation, ruleset_version: version, outdated }: StandingsDocument,
  context: Context,
  executor: Executor | undefined,
): Promise<string | undefined> {
  if (version === 0) {
    return `No rules have been applied yet. Apply some: ${context.program} rules apply FILE --organisation ${organisation}`;
  }
  if (outdated === 0) return undefined;
  const scores = counted(outdated, `stored score of ${organisation} has`, `stored scores of ${organisation} have`);
  return `${scores} yet to be recalculated. ${await describeRescoring(context, executor, organisation)}`;
}

function standingsText(document: StandingsDocument, { byRule = false }: StandingsOptions, width: number): string {
  const { organisation, of, since, until, file, ruleset_version: version, standings } = document;
  const scoredBy =
    version === 0 ? '' : `, scored by ${file === null ? `version ${version} of the rules` : plain(file)}`;
  const logins = <Cell>(cell: Cell): Cell[] => (of === 'members' ? [cell] : []);
  const row = (
    place: string,
    name: string,
    login: string,
    { pull_requests: count, score }: typeof document | (typeof standings)[number],
  ) => [place, name, ...logins(login), formatInteger(count), formatInteger(score), twoDecimals(meanOf(score, count))];
  const rows = standings.flatMap(each => {
    const { rank: place, name, login = '', left, rules = [] } = each;
    const shares = rules.map(({ name, score, share }) => [
      ...['', `  ${name}`, ...logins('')],
      ...['', formatInteger(score), percent(share, 1)],
    ]);
    const own = row(formatInteger(place), name || login, left ? `${login} (left)` : login, each);
    return byRule ? [own, ...shares] : [own];
  });
  const owner = { heading: of === 'members' ? 'MEMBER' : 'REPOSITORY', shrinks: true };
  const columns = [
    right('RANK'),
    owner,
    ...logins('LOGIN'),
    ...['PULL REQUESTS', 'TOTAL', byRule ? 'MEAN OR SHARE' : 'MEAN'].map(right),
  ];
  const lines =
    rows.length === 0
      ? [since === null && until === null ? 'No pull requests.' : 'No pull requests in this period.']
      : grid(columns, [...rows, row('', 'total', '', document)], { width });
  return [`${organisation}: ${describePeriod(document)}${scoredBy}`, '', ...lines].join('\n');
}

/** A spreadsheet could take such a text for a formula. Some understand full-width signs, too. */
const formula = /^[\s=+\-@＝＋－＠]/;

function csvCell(value: string | number | boolean | undefined): string {
  if (typeof value !== 'string') return String(value);
  const text = plain(value).replace(formula, "'$&");
  return /[",]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** With `byRule` a line for each rule of each member or repository. */
function standingsCsv({ of, standings }: StandingsDocument, { byRule = false }: StandingsOptions): string {
  const membership = of === 'members' ? (['login', 'left'] as const) : [];
  const columns = ['rank', 'id', 'name', ...membership, 'pull_requests', 'score', 'mean'] as const;
  const rows = standings.flatMap(({ rules = [], ...row }) => {
    const cells = columns.map(column => csvCell(row[column]));
    return byRule ? rules.map(rule => [...cells, ...[rule.name, rule.score, rule.share].map(csvCell)]) : [cells];
  });
  const headings = byRule ? [...columns, 'rule', 'rule_score', 'rule_share'] : columns;
  return [headings, ...rows].map(cells => cells.join(',')).join('\n');
}

export function standingsCommand(program: PullscoreCommand, context: Context): void {
  program
    .command('standings')
    .description('total the scores of members or repositories, highest first')
    .option('--since <day>', 'only pull requests of this day (UTC) or later, such as 2026-01-01')
    .option('--until <day>', 'only pull requests of this day (UTC) or earlier, such as 2026-01-31')
    .addOption(
      new Option('--by <event>', 'which date decides whether a pull request counts')
        .choices(['created', 'merged'])
        .default('created'),
    )
    .addOption(
      new Option('--of <whom>', 'total by member or by repository')
        .choices(['members', 'repositories'])
        .default('members'),
    )
    .option('--rules <file>', 'score by this rules file instead; saves nothing; - for standard input')
    .option('--by-rule', 'also show the points of each rule, and its share of all points given and taken')
    .option('--csv', 'answer as comma-separated values')
    .addHelpText(
      'after',
      `
With --by merged only merged pull requests count. Those of repositories that have left the organisation do not count;
those of members who have left do.`,
    )
    .examples(
      'standings --organisation acme --since 2026-01-01 --until 2026-01-31 --by merged',
      'standings --organisation acme --of repositories --rules rules.example.yaml --csv',
    )
    .answerFrom<StandingsOptions, StandingsDocument>(async options => {
      if (options.csv && options.json) throw new UsageError('Give either --csv or --json.');
      if (options.rules !== undefined && options.server !== undefined) {
        throw new UsageError('--rules needs the database.', 'To try a file with a service: rules plan.');
      }
      const period = parsePeriod(options);
      const rules = options.rules === undefined ? undefined : await loadRules(context, options.rules);
      const { since, until, by, of } = options;
      const query = new URLSearchParams({ by, of, ...(since && { since }), ...(until && { until }) });
      return {
        read: (deps, organisation) => readStandings({ context, deps, organisation }, options, period, rules),
        request: { method: 'GET', path: `standings?${query}` },
        async show(document, executor) {
          const text = options.csv
            ? standingsCsv(document, options)
            : standingsText(document, options, context.columns);
          return { text, note: await noteOf(document, context, executor) };
        },
      };
    });
}
