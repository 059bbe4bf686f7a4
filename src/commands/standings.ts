import { Option } from 'commander';
import type { Executor } from '../database/client.ts';
import { parsePeriod } from '../reports/period.ts';
import {
  meanOf,
  type ReportOptions,
  readStandings,
  roundToHundredths,
  type StandingsDocument,
  type StandingsQuery,
} from '../reports/standings.ts';
import { counted, fixedPercent, formatInteger, twoDecimals } from '../text/number-formats.ts';
import { grid, plain, right } from '../text/terminal.ts';
import type { PullscoreCommand } from './command.ts';
import { type Context, checkUsage, UsageError } from './context.ts';
import { withProgress } from './progress.ts';
import { describeRescoring } from './rescore.ts';
import { loadRules } from './rules-file.ts';

interface StandingsOptions extends StandingsQuery {
  rules?: string;
  byRule?: boolean;
  csv?: boolean;
  json?: boolean;
}

function describePeriod({ by, since, until }: StandingsDocument): string {
  if (since === null && until === null) return by === 'merged' ? 'all merged pull requests' : 'all pull requests';
  if (since === until) return `pull requests ${by} on ${since} (UTC)`;
  const days = since === null ? `until ${until}` : until === null ? `since ${since}` : `from ${since} to ${until}`;
  return `pull requests ${by} ${days} (UTC)`;
}

/** A service leaves out the rules of the last rows if there are too many for one reply. */
function noteOfRules({ standings }: StandingsDocument): string | undefined {
  const without = standings.filter(({ rules }) => rules === undefined).length;
  const rows = without === 1 ? 'row are' : `${formatInteger(without)} rows are`;
  return without === 0 ? undefined : `The rules of the last ${rows} left out: there are too many for one reply.`;
}

/** A note that readers of the figures need; undefined if there is none. */
async function noteOfScores(
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
  // A service of an earlier release does not count them.
  const ofReviews = <Cell>(...cells: Cell[]): Cell[] => (document.reviews > 0 ? cells : []);
  const row = (place: string, name: string, login: string, each: typeof document | (typeof standings)[number]) => {
    const { pull_requests: count, score, reviews, review_score: reviewScore, total } = each;
    const own = [place, name, ...logins(login), formatInteger(count), formatInteger(score)];
    return [...own, twoDecimals(meanOf(score, count)), ...ofReviews(reviews, reviewScore, total).map(formatInteger)];
  };
  const rows = standings.flatMap(each => {
    const { rank: place, name, login = '', left, rules = [] } = each;
    const shares = rules.map(({ name, score, share }) => [
      ...['', `  ${name}`, ...logins('')],
      ...['', formatInteger(score), fixedPercent(share, 1), ...ofReviews('', '', '')],
    ]);
    const own = row(formatInteger(place), name || login, left ? `${login} (left)` : login, each);
    return byRule ? [own, ...shares] : [own];
  });
  const owner = { heading: of === 'members' ? 'MEMBER' : 'REPOSITORY', shrinks: true };
  const columns = [
    right('RANK'),
    owner,
    ...logins('LOGIN'),
    ...['PULL REQUESTS', ofReviews('SCORE')[0] ?? 'TOTAL', byRule ? 'MEAN OR SHARE' : 'MEAN'].map(right),
    ...ofReviews('REVIEWS', 'REVIEW SCORE', 'TOTAL').map(right),
  ];
  const lines =
    rows.length === 0
      ? [since === null && until === null ? 'No pull requests.' : 'No pull requests in this period.']
      : grid(columns, [...rows, row('', 'total', '', document)], { width });
  return [`${organisation}: ${describePeriod(document)}${scoredBy}`, '', ...lines].join('\n');
}

/**
 * Where a spreadsheet could take a text for a formula: at its beginning, and after a semicolon, which separates cells in
 * many countries, before quotes count. Some spreadsheets read full-width signs, too.
 */
const formula = /^(?=[\s=+\-@＝＋－＠])|;(?=[\s"]*[=+\-@＝＋－＠])/g;

const csvCell = (value: string | number | boolean | undefined): string =>
  typeof value === 'string' ? `"${plain(value).replace(formula, "$&'").replaceAll('"', '""')}"` : String(value);

/** With `byRule` a line for each rule of each member or repository, or one without a rule if none gave or took points. */
function standingsCsv({ of, standings }: StandingsDocument, { byRule = false }: StandingsOptions): string {
  const membership = of === 'members' ? (['login', 'left'] as const) : [];
  const columns = ['rank', 'id', 'name', ...membership, 'pull_requests', 'score', 'mean'] as const;
  // Later than the others: programs may know the others by their place.
  const laterColumns = ['reviews', 'review_score', 'total'] as const;
  const rows = standings.flatMap(({ rules = [], ...row }) => {
    const cells = columns.map(column => csvCell(row[column]));
    const laterCells = laterColumns.map(column => csvCell(row[column] ?? ''));
    const ofRule = ({ name, score, share }: (typeof rules)[number]) =>
      [name, score, roundToHundredths(share)].map(csvCell);
    const ofRules = rules.length === 0 ? [['', '', '']] : rules.map(ofRule);
    return (byRule ? ofRules : [[]]).map(cellsOfRule => [...cells, ...cellsOfRule, ...laterCells]);
  });
  const headings = [...columns, ...(byRule ? ['rule', 'rule_score', 'rule_share'] : []), ...laterColumns];
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
      new Option('--of <kind>', 'total by member or by repository')
        .choices(['members', 'repositories'])
        .default('members'),
    )
    .option('--rules <file>', 'score by this rules file instead; saves nothing; - for standard input')
    .option(
      '--by-rule',
      'also show the points of each rule, and its share of the net points of all rules, signs ignored',
    )
    .option('--csv', 'answer as comma-separated values')
    .addHelpText(
      'after',
      `
With --by merged only merged pull requests count. Those of repositories that have left the organisation, or are ignored,
do not count; those of members who have left do. If the rules give points for reviews, members are ranked by both kinds
together.`,
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
      checkUsage(() => parsePeriod(options));
      const rules = options.rules === undefined ? undefined : await loadRules(context, options.rules);
      const { since, until, by, of, byRule = false, json = false } = options;
      const withRules = byRule || json;
      const days = { ...(since && { since }), ...(until && { until }) };
      const query = new URLSearchParams({ by, of, ...days, by_rule: String(withRules) });
      return {
        read({ database }, { id }) {
          const read = (options?: ReportOptions) =>
            readStandings(database, id, { since, until, by, of }, { ...options, rules, withRules });
          return rules === undefined ? read() : withProgress(context, 'pull requests', read);
        },
        ask: async service => ({
          ...(await service.ask<StandingsDocument>({ method: 'GET', path: `standings?${query}` })),
          file: null,
        }),
        async show(document, executor) {
          const text = options.csv
            ? standingsCsv(document, options)
            : standingsText(document, options, context.columns);
          const notes = [await noteOfScores(document, context, executor), byRule ? noteOfRules(document) : undefined];
          return { text, note: notes.filter(note => note !== undefined).join('\n') || undefined };
        },
      };
    });
}
