import { usePullRequests } from '../api.tsx';
import { Choice, chosenIn, PeriodPicker, periodOf } from '../filters.tsx';
import { formatTime } from '../format.ts';
import { AuthorLink, PullRequestLink } from '../links.tsx';
import { Loaded, Title } from '../loaded.tsx';
import { changeQuery, type Route } from '../route.ts';
import { name, number, short, Table } from '../table.tsx';

/** Of all members. */
export const PullRequestsView = ({ route }: { route: Route }) => (
  <>
    <Title>Pull requests</Title>
    <PeriodPicker route={route} />
    <PullRequestList route={route} />
  </>
);

const states = { '': 'in every state', open: 'open', draft: 'draft', merged: 'merged', closed: 'closed' };
const times = { created: 'by day of creation', merged: 'by day of merge', updated: 'by day of last update' };

/**
 * Those that the address asks for.
 *
 * @param member the id of their member
 */
export function PullRequestList({ route, member }: { route: Route; member?: string }) {
  const { since, until } = periodOf(route);
  const by = chosenIn(route, 'by', times);
  const [state, repository] = [route.query.get('state'), route.query.get('repository')];
  const { key, rows, page, more } = usePullRequests({
    ...(member && { member }),
    ...(state && { state }),
    ...(repository && { repository }),
    sort: by,
    ...(since && { [`${by}_since`]: since }),
    ...(until && { [`${by}_until`]: until }),
    per_page: 100,
  });
  return (
    <section aria-label="Pull requests">
      {member && <h2>Pull requests</h2>}
      <div class="toolbar">
        <Choice route={route} name="state" label="State" options={states} />
        <Choice route={route} name="by" label="Which days count" options={times} />
        <label>
          Repository
          <input
            placeholder="owner/name"
            value={repository ?? ''}
            maxLength={200}
            onChange={({ currentTarget }) => changeQuery(route, { repository: currentTarget.value.trim() })}
          />
        </label>
      </div>
      {(rows.length > 0 || page.data !== undefined) && (
        <Table
          key={key}
          caption="Latest first"
          cells={row => ({
            'Pull request': name(<PullRequestLink of={row} />),
            ...(!member && { Author: short(<AuthorLink of={row} />) }),
            State: short(<State state={row.state} />),
            [{ created: 'Created', merged: 'Merged', updated: 'Updated' }[by]]: short(formatTime(row[`${by}_at`])),
            Points: number(row.score),
          })}
          rows={rows}
          more={more}
          empty={!page.isLoading && 'No pull request is in this list. Choose another period or other filters above.'}
        />
      )}
      <Loaded of={page}>{() => null}</Loaded>
    </section>
  );
}

export const State = ({ state }: { state: string }) => <span class={`state ${state}`}>{state}</span>;
