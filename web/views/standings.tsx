import { useRef } from 'preact/hooks';
import { type Schemas, useData } from '../api.ts';
import { maxSeries, type Series } from '../chart.tsx';
import { Loaded, Outdated } from '../elements.tsx';
import { Choice, chosenIn, presentPeriod, queryOf } from '../filters.tsx';
import { countsOf, formatDay, formatNumber, formatShare } from '../format.ts';
import { addressOf, type Query } from '../route.ts';
import { name, number, Table, text } from '../table.tsx';

type Standings = Schemas['Standings'];
type Row = Standings['standings'][number];

const maxBars = 20;
const owners = { members: 'Members', repositories: 'Repositories' };
export const days = { created: 'by day of creation', merged: 'by day of merge' };

export function StandingsView() {
  const period = presentPeriod();
  const by = chosenIn('by', days);
  const query = { of: chosenIn('of', owners), by, ...period };
  // What each rule gave takes longer, if there are many pull requests: totals are shown first.
  const totals = useData('/2026-12/standings', { query });
  const isFound = !totals.isLoading && totals.data !== undefined;
  const byRule = useData('/2026-12/standings', { query: { ...query, by_rule: true } }, isFound);
  // What was shown last stays while other totals are on their way.
  const shown = useRef(totals.data);
  if (!totals.isLoading) shown.current = (byRule.isLoading ? undefined : byRule.data) ?? totals.data;
  return (
    <>
      <div class="toolbar">
        <Choice name="of" label="Whose points" options={owners} />
        <Choice name="by" label="Which days count" options={days} />
      </div>
      <Loaded of={{ ...totals, data: shown.current }}>
        {({ data }) => <Totals data={data} linkQuery={{ ...queryOf(period), by }} />}
      </Loaded>
      {isFound && <Loaded of={byRule}>{() => null}</Loaded>}
    </>
  );
}

function Totals({ data, linkQuery }: { data: Standings; linkQuery: Query }) {
  const { standings: rows, outdated, since, until, rules } = data;
  const isMembers = data.of === 'members';
  const linkTo = ({ id, name }: Row) =>
    isMembers
      ? addressOf('members', id, linkQuery)
      : addressOf('pull-requests', undefined, { repository: name, ...linkQuery });
  const leaders = rows.slice(0, maxBars);
  return (
    <>
      <p>
        <strong>{formatNumber(data.total)}</strong> {data.total === 1 ? 'point' : 'points'} for {countsOf(data)}.{' '}
        {since || until ? `${formatDay(since)} – ${formatDay(until)}, UTC` : 'All time'}.
      </p>
      <Outdated count={outdated} />
      <Table
        caption={`${isMembers ? 'Members' : 'Repositories'} by points`}
        rows={rows}
        empty="No pull request counts in this period. Choose another one, or import them: pullscore import."
        chart={{
          label: `Points by rule of the first ${leaders.length} ${data.of}`,
          labels: leaders.map(({ name }) => name),
          series: seriesOf(leaders, rules?.map(({ name }) => name) ?? []),
        }}
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
function seriesOf(rows: Row[], rules: string[]): Series[] {
  const series = (label: string, isMeant: (rule: string) => boolean): Series => ({
    label,
    data: rows.map(
      row => row.rules?.reduce((sum, { name, score }) => sum + (isMeant(name) ? score : 0), 0) ?? row.total,
    ),
  });
  if (rules.length === 0) return [series('Points', () => true)];
  const named = rules.slice(0, rules.length > maxSeries ? maxSeries - 1 : maxSeries);
  const others = series('Other rules', rule => !named.includes(rule));
  return [...named.map(name => series(name, rule => rule === name)), ...(rules.length > maxSeries ? [others] : [])];
}
