import { useState } from 'preact/hooks';
import { type ParametersOf, type Schemas, useData } from '../api.ts';
import { AuthorLink, Loaded, PullRequestLink } from '../elements.tsx';
import { Choice, chosenIn, days, presentPeriod, useFill } from '../filters.tsx';
import { formatTime } from '../format.ts';
import { route } from '../route.ts';
import { Table } from '../table.tsx';

const states = { '': 'in every state', open: 'open', draft: 'draft', merged: 'merged', closed: 'closed' };
const times = { ...days, updated: 'by day of last update' };
const timeHeads = { created: 'Created', merged: 'Merged', updated: 'Updated' };

/** Those that the address asks for: of one member, or of all. */
export function PullRequestList({ member }: { member?: string }) {
  const { since, until } = presentPeriod();
  const sort = chosenIn('by', times);
  const { state, repository } = route().query;
  const period = { [`${sort}_since`]: since, [`${sort}_until`]: until };
  const query = { member, state, repository, ...period, sort, per_page: 100 };
  return (
    <section aria-label="Pull requests">
      {member && <h2>Pull requests</h2>}
      <div class="toolbar">
        <Choice name="state" label="State" options={states} />
        <Choice name="by" label="Which days count" options={times} />
        <label>
          Repository
          <input name="repository" placeholder="owner/name" maxLength={200} ref={useFill(repository)} />
        </label>
      </div>
      <Pages key={JSON.stringify(query)} query={query as Query} />
    </section>
  );
}

type Query = NonNullable<ParametersOf<'/2026-12/pull-requests'>['query']> & { sort: keyof typeof times };

/** The pull requests of a query, loaded page by page. */
function Pages({ query }: { query: Query }) {
  const [before, setBefore] = useState<{ rows: Schemas['PullRequest'][]; cursor?: string }>({ rows: [] });
  const page = useData('/2026-12/pull-requests', { query: { ...query, cursor: before.cursor } });
  const present = page.isLoading ? undefined : page.data;
  const rows = [...before.rows, ...(present?.data ?? [])];
  const cursor = present?.meta.next_cursor;
  return (
    <>
      {(present || rows.length > 0) && (
        <Table
          caption="Latest first"
          rows={rows}
          more={cursor ? () => setBefore({ rows, cursor }) : undefined}
          empty="No pull request is in this list. Choose another period or other filters above."
        >
          {row => ({
            'Pull request': <PullRequestLink of={row} />,
            ...(!query.member && { Author: <AuthorLink of={row} /> }),
            State: <span class={row.state}>{row.state}</span>,
            [timeHeads[query.sort]]: formatTime(row[`${query.sort}_at`]),
            Points: row.score,
          })}
        </Table>
      )}
      <Loaded of={page}>{() => null}</Loaded>
    </>
  );
}
