import { type Schemas, useData } from '../api.ts';
import { Loaded, Outdated, Title } from '../elements.tsx';
import { chosenIn, days, PeriodPicker, presentPeriod } from '../filters.tsx';
import { countsOf, formatDay, formatNumber, formatShare, formatTime, toDay } from '../format.ts';
import { number, Table } from '../table.tsx';
import { PullRequestList } from './pull-requests.tsx';

export function MemberView({ id: member }: { id: string }) {
  const period = { by: chosenIn('by', days), ...presentPeriod() };
  const path = { member };
  const found = useData('/2026-12/members/{member}', { path });
  const standings = useData('/2026-12/standings', { query: { ...period, by_rule: true, member } });
  const weeks = useData('/2026-12/members/{member}/weeks', { path, query: period });
  // All would say the same of a period that is not valid.
  const isPeriodValid = standings.isLoading || standings.problem?.status !== 400;
  return (
    <Loaded of={found} title="Member">
      {({ data: { name, login, left_at, profile_photo_url } }) => (
        <>
          <Title photo={profile_photo_url}>{name || login}</Title>
          <p>
            {login} on GitHub{left_at !== null && `, left on ${formatTime(left_at)}`}
          </p>
          <PeriodPicker />
          <div class="beside">
            <Loaded of={standings} section="In this period">
              {({ data }) => <Place of={data} />}
            </Loaded>
            {isPeriodValid && <Loaded of={weeks}>{({ data }) => <Weeks weeks={data} />}</Loaded>}
          </div>
          {isPeriodValid && <PullRequestList member={member} />}
        </>
      )}
    </Loaded>
  );
}

function Place({ of: { standings, ranked, outdated } }: { of: Schemas['Standings'] }) {
  const [row] = standings;
  if (row === undefined) return <p>No pull request or review of this member counts in this period.</p>;
  return (
    <>
      <Outdated count={outdated} />
      <p>
        <strong class="score">{formatNumber(row.total)}</strong> {row.total === 1 ? 'point' : 'points'} for{' '}
        {countsOf(row)}: rank {formatNumber(row.rank)} of {formatNumber(ranked)}.
      </p>
      <Table caption="Points by rule" rows={row.rules ?? []} empty="No rule gave or took points.">
        {({ name, score, share }) => ({ Rule: name, Points: score, Share: number(formatShare(share)) })}
      </Table>
    </>
  );
}

const weekMs = 7 * 86_400_000;

function Weeks({ weeks }: { weeks: Schemas['Week'][] }) {
  // With the weeks between them in which nothing counts, so that the plot's axis is time.
  const points = new Map<string, number>();
  const last = Date.parse(weeks.at(-1)?.week ?? '');
  for (let week = Date.parse(weeks[0]?.week ?? ''); week <= last; week += weekMs) points.set(toDay(week), 0);
  for (const { week, total } of weeks) points.set(week, total);
  return (
    <Table
      caption="Points by week, from Monday, UTC"
      rows={weeks}
      chart={{
        labels: [...points.keys()].map(formatDay),
        series: [{ label: 'Points', data: [...points.values()] }],
        vertical: true,
      }}
      empty="Nothing counts in this period."
    >
      {({ week, pull_requests, reviews, total }) => ({
        'Week of': formatDay(week),
        'Pull requests': pull_requests,
        Reviews: reviews,
        Points: total,
      })}
    </Table>
  );
}
