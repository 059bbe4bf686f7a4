import { Loaded, type Schemas, useData } from '../api.tsx';
import { Bars, type Series } from '../chart.tsx';
import { Choice } from '../choice.tsx';
import { formatDay, formatNumber, formatShare } from '../format.ts';
import { PeriodPicker, periodOf, queryOf } from '../period.tsx';
import { addressOf, changeQuery, type Query, type Route } from '../route.ts';
import { type Column, Table } from '../table.tsx';

type Standings = Schemas['Standings'];
type Row = Standings['standings'][number];

const maxBars = 20;
const maxSeries = 7;

export function StandingsView({ route }: { route: Route }) {
  const { query } = route;
  const period = periodOf(query);
  const of = query.get('of') === 'repositories' ? 'repositories' : 'members';
  const by = query.get('by') === 'merged' ? 'merged' : 'created';
  const asked = { of, by, by_rule: true, ...period } as const;
  const standings = useData(`standings ${JSON.stringify(asked)}`, (api, signal) =>
    api.GET('/2026-12/standings', { params: { query: asked }, signal }),
  );
  const change = (changes: Query) => changeQuery(route, { ...queryOf(period), ...changes });
  return (
    <>
      <h1>Standings</h1>
      <div class="toolbar">
        <PeriodPicker route={route} />
        <Choice
          label="Whose points"
          options={{ members: 'Members', repositories: 'Repositories' }}
          chosen={of}
          choose={of => change({ of })}
        />
        <Choice
          label="Which days count"
          options={{ created: 'by day of creation', merged: 'by day of merge' }}
          chosen={by}
          choose={by => change({ by })}
        />
      </div>
      <Loaded of={standings}>{({ data }) => <Totals data={data} linkQuery={{ ...queryOf(period), by }} />}</Loaded>
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
  const columns: Column<Row>[] = [
    { head: 'Rank', width: 'narrow', isNumber: true, cell: ({ rank }) => formatNumber(rank) },
    {
      head: isMembers ? 'Member' : 'Repository',
      width: 'wide',
      isHead: true,
      cell: row => (
        <>
          <a href={linkTo(row)} dir="auto">
            {row.name}
          </a>
          {row.left && <small> has left</small>}
        </>
      ),
    },
    { head: 'Points', width: 'narrow', isNumber: true, cell: ({ score }) => formatNumber(score) },
    { head: 'Pull requests', width: 'narrow', isNumber: true, cell: row => formatNumber(row.pull_requests) },
    { head: 'Mean', width: 'narrow', isNumber: true, cell: ({ mean }) => formatNumber(mean) },
    { head: 'Most points by', width: 'wide', cell: ({ rules }) => <TopRules rules={rules ?? []} /> },
  ];
  const period =
    since || until ? `${since ? formatDay(since) : '…'} – ${until ? formatDay(until) : '…'}, UTC` : 'All time';
  return (
    <>
      <p>
        <strong>{formatNumber(data.score)}</strong> points for <strong>{formatNumber(data.pull_requests)}</strong> pull
        requests. {period}.
      </p>
      {outdated > 0 && (
        <p class="notice" role="status">
          {formatNumber(outdated)} scores have yet to be recalculated: the totals will change.
        </p>
      )}
      {rows.length === 0 ? (
        <div class="empty">
          <p>No pull request counts in this period.</p>
          <p>Choose another one above. If there is none at all, an operator can import them: pullscore import.</p>
        </div>
      ) : (
        <div class="beside">
          <section aria-label="Chart">
            <Bars
              label={`Points by rule of the first ${leaders.length} ${data.of}`}
              labels={leaders.map(({ name }) => name)}
              series={seriesOf(leaders)}
              onChoose={index => {
                const row = leaders[index];
                if (row !== undefined) location.hash = linkTo(row);
              }}
            />
          </section>
          <section aria-label="Table">
            <Table
              caption={`${isMembers ? 'Members' : 'Repositories'} by points`}
              columns={columns}
              rows={rows}
              keyOf={({ id }) => id}
            />
          </section>
        </div>
      )}
    </>
  );
}

function TopRules({ rules }: { rules: NonNullable<Row['rules']> }) {
  return (
    <ul class="plain">
      {rules.slice(0, 3).map(({ name, score, share }) => (
        <li key={name}>
          <span dir="auto">{name}</span> {formatNumber(score)} <small>{formatShare(share)}</small>
        </li>
      ))}
    </ul>
  );
}

/** The rules that move most points, and the others together. */
function seriesOf(rows: Row[]): Series[] {
  const sizes = new Map<string, number>();
  for (const { rules = [] } of rows) {
    for (const { name, score } of rules) sizes.set(name, (sizes.get(name) ?? 0) + Math.abs(score));
  }
  const names = [...sizes].sort((one, two) => two[1] - one[1]).map(([name]) => name);
  const top = names.slice(0, names.length > maxSeries + 1 ? maxSeries : names.length);
  const pointsOf = ({ rules = [] }: Row, isWanted: (name: string) => boolean) =>
    rules.reduce((sum, { name, score }) => (isWanted(name) ? sum + score : sum), 0);
  const series = top.map(rule => ({ name: rule, values: rows.map(row => pointsOf(row, name => name === rule)) }));
  if (top.length === names.length) return series;
  return [...series, { name: 'Other rules', values: rows.map(row => pointsOf(row, name => !top.includes(name))) }];
}
