import { useMemo, useState } from 'preact/hooks';
import { type ParametersOf, type Schemas, useData } from '../api.ts';
import { AuthorLink, Loaded, PullRequestLink } from '../elements.tsx';
import { Choice, changeQuery, chosenIn, presentPeriod } from '../filters.tsx';
import { formatTime } from '../format.ts';
import { route } from '../route.ts';
import { name, number, short, Table } from '../table.tsx';

const states = { '': 'in every state', open: 'open', draft: 'draft', merged: 'merged', closed: 'closed' };
const times = { created: 'by day of creation', merged: 'by day of merge', updated: 'by day of last update' };
const timeHeads = { created: 'Created', merged: 'Merged', updated: 'Updated' };

/** Those that the address asks for: of one member, or of all. */
export function PullRequestList({ member }: { member?: string }) {
  const { since, until } = presentPeriod();
  const sort = chosenIn('by', times);
  const { state, repository } = route().query;
  const query = {
    ...(member && { member }),
    ...(state && { state }),
    ...(repository && { repository }),
    ...(since && { [`${sort}_since`]: since }),
    ...(until && { [`${sort}_until`]: until }),
    sort,
    per_page: 100,
  };
  return (
    <section aria-label="Pull requests">
      {member && <h2>Pull requests</h2>}
      <div class="toolbar">
        <Choice name="state" label="State" options={states} />
        <Choice name="by" label="Which days count" options={times} />
        {useMemo(
          () => (
            <RepositoryField repository={repository} />
          ),
          [repository],
        )}
      </div>
      <Pages key={JSON.stringify(query)} query={query} />
    </section>
  );
}

/** Made anew only with another repository: what one types stays while other parts of the view are loaded. */
const RepositoryField = ({ repository = '' }: { repository?: string | undefined }) => (
  <label>
    Repository
    <input
      placeholder="owner/name"
      value={repository}
      maxLength={200}
      onChange={({ currentTarget }) => changeQuery({ repository: currentTarget.value.trim() })}
    />
  </label>
);

type Query = NonNullable<ParametersOf<'/2026-12/pull-requests'>['query']> & { sort: keyof typeof times };

/** The pull requests of a query, loaded page by page. */
function Pages({ query }: { query: Query }) {
  const [{ before, cursor }, setLoaded] = useState<{ before: Schemas['PullRequest'][]; cursor?: string }>({
    before: [],
  });
  const page = useData('/2026-12/pull-requests', { query: { ...query, ...(cursor && { cursor }) } });
  const present = page.isLoading ? undefined : page.data;
  const rows = [...before, ...(present?.data ?? [])];
  const next = present?.meta.next_cursor;
  return (
    <>
      {(present || rows.length > 0) && (
        <Table
          caption="Latest first"
          cells={row => ({
            'Pull request': name(<PullRequestLink of={row} />),
            ...(!query.member && { Author: short(<AuthorLink of={row} />) }),
            State: short(<State state={row.state} />),
            [timeHeads[query.sort]]: short(formatTime(row[`${query.sort}_at`])),
            Points: number(row.score),
          })}
          rows={rows}
          more={next ? () => setLoaded({ before: rows, cursor: next }) : undefined}
          empty="No pull request is in this list. Choose another period or other filters above."
        />
      )}
      <Loaded of={page}>{() => null}</Loaded>
    </>
  );
}

export const State = ({ state }: { state: string }) => <span class={state}>{state}</span>;
