import { type Schemas, useData } from '../api.tsx';
import { Bars } from '../chart.tsx';
import { chosenIn, PeriodPicker, periodOf } from '../filters.tsx';
import { countsOf, formatDay, formatNumber, formatShare, formatTime, toDay } from '../format.ts';
import { Photo } from '../links.tsx';
import { Loaded, Title } from '../loaded.tsx';
import type { Route } from '../route.ts';
import { name, number, Table } from '../table.tsx';
import { PullRequestList } from './pull-requests.tsx';
import { days } from './standings.tsx';

type Row = Schemas['Standings']['standings'][number];
type Week = Schemas['Week'];

export function MemberView({ route }: { route: Route }) {
  const { id: member = '' } = route;
  const period = { by: chosenIn(route, 'by', days), ...periodOf(route) };
  const path = { member };
  const found = useData('/2026-12/members/{member}', { path });
  const standings = useData('/2026-12/standings', { query: { ...period, by_rule: true, member } });
  const weeks = useData('/2026-12/members/{member}/weeks', { path, query: period });
  return (
    <Loaded of={found} title="Member">
      {({ data: { name, login, left_at, profile_photo_url } }) => (
        <>
          <Title photo={<Photo address={profile_photo_url} size={40} />}>{name || login}</Title>
          <p>
            {login} on GitHub{left_at !== null && `, left on ${formatTime(left_at)}`}
          </p>
          <PeriodPicker route={route} />
          <div class="beside">
            <Loaded of={standings} section="In this period">
              {({ data }) => <Place row={data.standings[0]} of={data.ranked} />}
            </Loaded>
            <Loaded of={weeks}>{({ data }) => <Weeks weeks={data} />}</Loaded>
          </div>
          <PullRequestList route={route} member={member} />
        </>
      )}
    </Loaded>
  );
}

function Place({ row, of }: { row: Row | undefined; of: number }) {
  if (row === undefined) return <p>No pull request or review of this member counts in this period.</p>;
  return (
    <>
      <p>
        <strong class="score">{formatNumber(row.total)}</strong> points for {countsOf(row)}: rank{' '}
        {formatNumber(row.rank)} of {formatNumber(of)}.
      </p>
      <Table
        caption="Points by rule"
        rows={row.rules ?? []}
        empty="No rule gave or took points."
        cells={({ name: rule, score, share }) => ({
          Rule: name(rule),
          Points: number(score),
          Share: number(formatShare(share)),
        })}
      />
    </>
  );
}

const weekMs = 7 * 86_400_000;
/** More are no longer bars that one can see. */
const maxWeeks = 1_000;

/** With the weeks between them in which nothing counts, so that the plot's axis is time. */
function withGaps(weeks: Week[]): Pick<Week, 'week' | 'total'>[] {
  const known = new Map(weeks.map(week => [week.week, week]));
  const [first = 0, last = 0] = [weeks[0], weeks.at(-1)].map(week => Date.parse(week?.week ?? ''));
  const length = Math.round((last - first) / weekMs) + 1;
  if (length > maxWeeks) return weeks;
  return Array.from({ length }, (_, index) => {
    const week = toDay(first + index * weekMs);
    return known.get(week) ?? { week, total: 0 };
  });
}

function Weeks({ weeks }: { weeks: Week[] }) {
  const all = withGaps(weeks);
  return (
    <Table
      caption="Points by week, from Monday, UTC"
      rows={weeks}
      chart={
        <Bars
          label="Points by week"
          labels={all.map(({ week }) => formatDay(week))}
          series={[{ name: 'Points', values: all.map(({ total }) => total) }]}
          vertical
        />
      }
      empty="Nothing counts in this period."
      cells={({ week, pull_requests, reviews, total }) => ({
        'Week of': name(formatDay(week)),
        'Pull requests': number(pull_requests),
        Reviews: number(reviews),
        Points: number(total),
      })}
    />
  );
}
