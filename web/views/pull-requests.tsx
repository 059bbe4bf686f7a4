import { Failure, Loaded, type Schemas, usePages } from '../api.tsx';
import { Choice } from '../choice.tsx';
import { formatNumber, formatTime, webAddress } from '../format.ts';
import { PeriodPicker, periodOf } from '../period.tsx';
import { addressOf, changeQuery, type Route } from '../route.ts';
import { type Column, Table } from '../table.tsx';

type PullRequest = Schemas['PullRequest'];

/** Of all members. */
export function PullRequestsView({ route }: { route: Route }) {
  return (
    <>
      <h1>Pull requests</h1>
      <PeriodPicker route={route} />
      <PullRequestList route={route} />
    </>
  );
}

const states = { '': 'in every state', open: 'open', draft: 'draft', merged: 'merged', closed: 'closed' };
const times = { created: 'by day of creation', merged: 'by day of merge', updated: 'by day of last update' };

/**
 * Those that the address asks for.
 *
 * @param member the id of their member
 */
export function PullRequestList({ route, member }: { route: Route; member?: string }) {
  const { query } = route;
  const { since, until } = periodOf(query);
  const given = query.get('by');
  const by: 'created' | 'merged' | 'updated' = given === 'merged' || given === 'updated' ? given : 'created';
  const asked = {
    ...(member && { member }),
    ...(query.get('state') && { state: query.get('state') as string }),
    ...(query.get('repository') && { repository: query.get('repository') as string }),
    sort: by,
    ...(since && { [`${by}_since`]: since }),
    ...(until && { [`${by}_until`]: until }),
    per_page: 100,
  };
  const key = JSON.stringify(asked);
  const { rows, page, more } = usePages<PullRequest>(key, (api, signal, cursor) =>
    api.GET('/2026-12/pull-requests', { params: { query: { ...asked, ...(cursor && { cursor }) } }, signal }),
  );
  return (
    <section aria-labelledby="list">
      <h2 id="list">Pull requests</h2>
      <div class="toolbar">
        <Choice
          label="State"
          options={states}
          chosen={query.get('state') ?? ''}
          choose={state => changeQuery(route, { state })}
        />
        <Choice label="Which days count" options={times} chosen={by} choose={by => changeQuery(route, { by })} />
        <label>
          Repository
          <input
            placeholder="owner/name"
            value={query.get('repository') ?? ''}
            maxLength={200}
            onChange={({ currentTarget }) => changeQuery(route, { repository: currentTarget.value.trim() })}
          />
        </label>
      </div>
      {(rows.length > 0 || page.data !== undefined) && (
        <Table
          key={key}
          caption="Latest first"
          columns={member ? columns.filter(({ head }) => head !== 'Author') : columns}
          rows={rows}
          keyOf={({ id }) => id}
          more={more}
          empty={!page.isLoading && 'No pull request is in this list. Choose another period or other filters above.'}
        />
      )}
      {page.failure ? <Failure error={page.failure} retry={page.reload} /> : <Loaded of={page}>{() => null}</Loaded>}
    </section>
  );
}

const columns: Column<PullRequest>[] = [
  {
    head: 'Pull request',
    width: 'wide',
    isHead: true,
    cell: ({ id, title, repository, number }) => (
      <>
        <a href={addressOf('pull-request', id)} dir="auto">
          {title || 'Without a title'}
        </a>{' '}
        <small>
          {repository} #{number}
        </small>
      </>
    ),
  },
  {
    head: 'Author',
    cell: ({ author, links }) => (
      <a href={addressOf('members', links.member.split('/').pop())}>{author || 'unknown'}</a>
    ),
  },
  { head: 'State', width: 'narrow', cell: ({ state }) => <State state={state} /> },
  { head: 'Created', cell: ({ created_at }) => formatTime(created_at) },
  { head: 'Points', width: 'narrow', isNumber: true, cell: ({ score }) => formatNumber(score) },
];

export const State = ({ state }: { state: string }) => <span class={`state ${state}`}>{state}</span>;

export function GitHubLink({ address }: { address: string }) {
  const href = webAddress(address);
  return href === undefined ? null : (
    <a href={href} rel="noreferrer">
      Open on GitHub
    </a>
  );
}
