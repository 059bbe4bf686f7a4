import { type Schemas, useData } from '../api.ts';
import { maxSeries, type Series } from '../chart.tsx';
import { Loaded, Outdated } from '../elements.tsx';
import { Choice, chosenIn, days, presentPeriod, queryOf } from '../filters.tsx';
import { countsOf, formatDay, formatNumber } from '../format.ts';
import { addressOf, type Query } from '../route.ts';
import { Table, wide } from '../table.tsx';

type Standings = Schemas['Standings'];
type Row = Standings['standings'][number];

const maxBars = 20;
const owners = { members: 'Members', repositories: 'Repositories' };

export function StandingsView() {
  const period = presentPeriod();
  const by = chosenIn('by', days);
  const query = { of: chosenIn('of', owners), by, ...period };
  const totals = useData('/2026-12/standings', { query });
  const byRule = useData('/2026-12/standings', { query: { ...query, by_rule: true } }, !totals.isLoading);
  // What each rule gave takes longer if there are many pull requests. Side by side, both would take longer.
  const standings = totals.isLoading ? totals : { ...byRule, data: byRule.isLoading ? totals.data : byRule.data };
  return (
    <>
      <div class="toolbar">
        <Choice name="of" label="Whose points" options={owners} />
        <Choice name="by" label="Which days count" options={days} />
      </div>
      <Loaded of={standings}>{({ data }) => <Totals of={data} query={{ ...queryOf(period), by }} />}</Loaded>
    </>
  );
}

/** @param query of the links */
function Totals({ of: data, query }: { of: Standings; query: Query }) {
  const { standings: rows, outdated, since, until, rules } = data;
  const isMembers = data.of === 'members';
  const linkTo = ({ id, name: repository }: Row) =>
    isMembers ? addressOf('members', id, query) : addressOf('pull-requests', undefined, { repository, ...query });
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
          labels: leaders.map(({ name }) => name),
          series: seriesOf(leaders, rules?.map(({ name }) => name) ?? []),
        }}
      >
        {row => ({
          Rank: row.rank,
          [isMembers ? 'Member' : 'Repository']: (
            <>
              <a href={linkTo(row)}>{row.name || row.login}</a> {row.left && <small>has left</small>}
            </>
          ),
          Points: row.total,
          ...(data.reviews > 0 && { 'For pull requests': row.score, 'For reviews': row.review_score }),
          'Pull requests': row.pull_requests,
          Mean: row.mean,
          'By rule': wide(<small>{row.rules?.map(partOf).join(', ') ?? '…'}</small>),
        })}
      </Table>
    </>
  );
}

const partOf = ({ name, score }: NonNullable<Row['rules']>[number]) => `${name}: ${formatNumber(score)}`;

/** The rules that move most points, and the others together. */
function seriesOf(rows: Row[], rules: string[]): Series[] {
  if (rules.length === 0) return [{ label: 'Points', data: rows.map(({ total }) => total) }];
  const series = (label: string, isMeant: (rule: string) => boolean): Series => ({
    label,
    data: rows.map(({ rules = [] }) => rules.reduce((sum, { name, score }) => sum + (isMeant(name) ? score : 0), 0)),
  });
  const named = rules.slice(0, rules.length > maxSeries ? maxSeries - 1 : maxSeries);
  const others = series('Other rules', rule => !named.includes(rule));
  return [...named.map(name => series(name, rule => rule === name)), ...(rules.length > maxSeries ? [others] : [])];
}
