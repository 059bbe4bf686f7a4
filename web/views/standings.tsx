import { type Schemas, useData } from '../api.ts';
import { Bars, type Series } from '../chart.tsx';
import { Loaded, Outdated } from '../elements.tsx';
import { Choice, chosenIn, presentPeriod, queryOf } from '../filters.tsx';
import { countsOf, formatDay, formatNumber, formatShare } from '../format.ts';
import { addressOf, type Query } from '../route.ts';
import { name, number, Table, text } from '../table.tsx';

type Standings = Schemas['Standings'];
type Row = Standings['standings'][number];

const maxBars = 20;
const maxSeries = 8;
const owners = { members: 'Members', repositories: 'Repositories' };
export const days = { created: 'by day of creation', merged: 'by day of merge' };

export function StandingsView() {
  const period = presentPeriod();
  const by = chosenIn('by', days);
  const query = { of: chosenIn('of', owners), by, ...period };
  // What each rule gave takes longer, if there are many pull requests: totals are shown first.
  const totals = useData('/2026-12/standings', { query });
  const byRule = useData('/2026-12/standings', { query: { ...query, by_rule: true } }, !totals.isLoading);
  const { waiting } = byRule;
  const shown = totals.isLoading
    ? { ...totals, data: byRule.data ?? totals.data }
    : byRule.isLoading
      ? { ...totals, isLoading: waiting !== undefined, waiting }
      : byRule;
  return (
    <>
      <div class="toolbar">
        <Choice name="of" label="Whose points" options={owners} />
        <Choice name="by" label="Which days count" options={days} />
      </div>
      <Loaded of={shown}>{({ data }) => <Totals data={data} linkQuery={{ ...queryOf(period), by }} />}</Loaded>
    </>
  );
}

function Totals({ data, linkQuery }: { data: Standings; linkQuery: Query }) {
  const { standings: rows, outdated, since, until } = data;
  const isMembers = data.of === 'members';
  const linkTo = ({ id, name }: Row) =>
    isMembers
      ? addressOf('members', id, linkQuery)
      : addressOf('pull-requests', undefined, { repository: name, ...linkQuery });
  const leaders = rows.slice(0, maxBars);
  return (
    <>
      <p>
        <strong>{formatNumber(data.total)}</strong> points for {countsOf(data)}.{' '}
        {since || until ? `${formatDay(since)} – ${formatDay(until)}, UTC` : 'All time'}.
      </p>
      <Outdated count={outdated} />
      <Table
        caption={`${isMembers ? 'Members' : 'Repositories'} by points`}
        rows={rows}
        empty="No pull request counts in this period. Choose another one, or import them: pullscore import."
        chart={
          <Bars
            label={`Points by rule of the first ${leaders.length} ${data.of}`}
            labels={leaders.map(({ name }) => name)}
            series={seriesOf(leaders, data.rules)}
            links={leaders.map(linkTo)}
          />
        }
        cells={row => ({
          Rank: number(row.rank),
          [isMembers ? 'Member' : 'Repository']: name(
            <>
              <a href={linkTo(row)}>{row.name || row.login}</a>
              {row.left && <small> has left</small>}
            </>,
          ),
          Points: number(row.total),
          ...(data.reviews > 0 && {
            'For pull requests': number(row.score),
            'For reviews': number(row.review_score),
          }),
          'Pull requests': number(row.pull_requests),
          Mean: number(row.mean),
          'Most points by': text(row.rules ? <TopRules rules={row.rules} /> : '…'),
        })}
      />
    </>
  );
}

const TopRules = ({ rules }: { rules: NonNullable<Row['rules']> }) => (
  <ul>
    {rules.slice(0, 3).map(({ name, score, share }) => (
      <li key={name}>
        <span>{name}</span> {formatNumber(score)} <small>{formatShare(share)}</small>
      </li>
    ))}
  </ul>
);

/** The rules that move most points, and the others together. */
function seriesOf(rows: Row[], rules: Standings['rules']): Series[] {
  if (rules === undefined) return [{ label: 'Points', data: rows.map(({ total }) => total) }];
  const names = rules.map(({ name }) => name);
  const others = names.splice(names.length > maxSeries ? maxSeries - 1 : maxSeries);
  const pointsOf = (row: Row, names: string[]) =>
    row.rules?.reduce((sum, { name, score }) => sum + (names.includes(name) ? score : 0), 0) ?? 0;
  const seriesOfRules = (label: string, names: string[]) => ({ label, data: rows.map(row => pointsOf(row, names)) });
  const series = names.map(name => seriesOfRules(name, [name]));
  return others.length === 0 ? series : [...series, seriesOfRules('Other rules', others)];
}
