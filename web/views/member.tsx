import { Loaded, type Schemas, useData } from '../api.tsx';
import { Bars } from '../chart.tsx';
import { formatDay, formatNumber, formatShare, formatTime, toDay } from '../format.ts';
import { PeriodPicker, periodOf } from '../period.tsx';
import { Photo } from '../photo.tsx';
import type { Route } from '../route.ts';
import { Table } from '../table.tsx';
import { PullRequestList } from './pull-requests.tsx';

type Row = Schemas['Standings']['standings'][number];

export function MemberView({ route }: { route: Route }) {
  const { id = '', query } = route;
  const by = query.get('by') === 'merged' ? 'merged' : 'created';
  const period = { by, ...periodOf(query) } as const;
  const key = JSON.stringify([id, period]);
  const member = useData(`member ${id}`, (api, signal) =>
    api.GET('/2026-12/members/{member}', { params: { path: { member: id } }, signal }),
  );
  const standings = useData(`rank ${key}`, (api, signal) =>
    api.GET('/2026-12/standings', { params: { query: { ...period, by_rule: true } }, signal }),
  );
  const weeks = useData(`weeks ${key}`, (api, signal) =>
    api.GET('/2026-12/members/{member}/weeks', { params: { path: { member: id }, query: period }, signal }),
  );
  return (
    <Loaded of={member} title="Member">
      {({ data: { name, login, left_at, profile_photo_url } }) => (
        <>
          <h1 dir="auto">
            <Photo address={profile_photo_url} size={40} /> {name || login}
          </h1>
          <p>
            <span dir="auto">{login}</span>
            {left_at !== null && `, left on ${formatTime(left_at)}`}
          </p>
          <PeriodPicker route={route} />
          <div class="beside">
            <section aria-labelledby="period">
              <h2 id="period">In this period</h2>
              <Loaded of={standings}>
                {({ data }) => <Place row={data.standings.find(row => row.id === id)} of={data.standings.length} />}
              </Loaded>
            </section>
            <section aria-labelledby="weeks">
              <h2 id="weeks">Points by week</h2>
              <Loaded of={weeks}>{({ data }) => <Weeks weeks={data} />}</Loaded>
            </section>
          </div>
          <PullRequestList route={route} member={id} />
        </>
      )}
    </Loaded>
  );
}

function Place({ row, of }: { row: Row | undefined; of: number }) {
  if (row === undefined) return <p>No pull request of this member counts in this period.</p>;
  return (
    <>
      <p>
        <strong class="score">{formatNumber(row.score)}</strong> points for {formatNumber(row.pull_requests)} pull
        requests: rank {formatNumber(row.rank)} of {formatNumber(of)}.
      </p>
      <Table
        caption="Points by rule"
        rows={row.rules ?? []}
        keyOf={({ name }) => name}
        columns={[
          { head: 'Rule', width: 'wide', isHead: true, cell: ({ name }) => <span dir="auto">{name}</span> },
          { head: 'Points', width: 'narrow', isNumber: true, cell: ({ score }) => formatNumber(score) },
          { head: 'Share', width: 'narrow', isNumber: true, cell: ({ share }) => formatShare(share) },
        ]}
      />
    </>
  );
}

const weekMs = 7 * 86_400_000;

/** With the weeks between them in which nothing counts, so that the plot's axis is time. */
function withGaps(weeks: Schemas['Week'][]): Schemas['Week'][] {
  const known = new Map(weeks.map(week => [week.week, week]));
  const [first, last] = [weeks[0], weeks.at(-1)].map(week => Date.parse(week?.week ?? ''));
  if (weeks.length === 0 || first === undefined || last === undefined) return weeks;
  const count = Math.round((last - first) / weekMs) + 1;
  if (count > maxWeeks) return weeks;
  return Array.from({ length: count }, (_, index) => {
    const week = toDay(first + index * weekMs);
    return known.get(week) ?? { week, pull_requests: 0, score: 0 };
  });
}

/** More are no longer bars that one can see. */
const maxWeeks = 1_000;

function Weeks({ weeks: counted }: { weeks: Schemas['Week'][] }) {
  const weeks = withGaps(counted);
  if (counted.length === 0) return <p>There is no week with a pull request that counts.</p>;
  const labels = weeks.map(({ week }) => formatDay(week));
  return (
    <>
      <Bars
        label="Points by week"
        labels={labels}
        series={[{ name: 'Points', values: weeks.map(({ score }) => score) }]}
        vertical
      />
      <Table
        caption="Points by week, from Monday, UTC"
        rows={counted}
        keyOf={({ week }) => week}
        columns={[
          { head: 'Week of', isHead: true, cell: ({ week }) => formatDay(week) },
          { head: 'Pull requests', isNumber: true, cell: ({ pull_requests }) => formatNumber(pull_requests) },
          { head: 'Points', isNumber: true, cell: ({ score }) => formatNumber(score) },
        ]}
      />
    </>
  );
}
