import { toDay } from './format.ts';
import { changeQuery, type Query, type Route } from './route.ts';

/** Days, UTC; both count. */
export interface Period {
  since: string | undefined;
  until: string | undefined;
}

const months = (from: number, count: number): Period => {
  const now = new Date();
  const at = (month: number, day: number) => toDay(Date.UTC(now.getUTCFullYear(), month, day));
  const first = now.getUTCMonth() + from;
  return { since: at(first, 1), until: at(first + count, 0) };
};

const choices: Record<string, () => Period> = {
  'This month': () => months(0, 1),
  'Last month': () => months(-1, 1),
  'This quarter': () => months(-(new Date().getUTCMonth() % 3), 3),
  'Last 12 months': () => months(-11, 12),
  'All time': () => ({ since: undefined, until: undefined }),
};

/** This month, unless the address has another period; `since=all` is all time. */
export function periodOf(query: URLSearchParams): Period {
  if (query.get('since') === 'all') return { since: undefined, until: undefined };
  if (!query.has('since') && !query.has('until')) return months(0, 1);
  return { since: query.get('since') ?? undefined, until: query.get('until') ?? undefined };
}

/** For addresses, which then go on meaning these days. */
export const queryOf = ({ since, until }: Period): Query => ({ since: since ?? (until ? undefined : 'all'), until });

const isSame = (one: Period, two: Period) => one.since === two.since && one.until === two.until;

export function PeriodPicker({ route }: { route: Route }) {
  const period = periodOf(route.query);
  const choose = (chosen: Period) => changeQuery(route, { since: undefined, ...queryOf(chosen) });
  const day = (name: 'since' | 'until', label: string) => (
    <label>
      {label}
      <input
        type="date"
        value={period[name] ?? ''}
        onChange={({ currentTarget: { value } }) => choose({ ...period, [name]: value || undefined })}
      />
    </label>
  );
  return (
    <fieldset class="toolbar">
      <legend class="hidden">Period</legend>
      {Object.entries(choices).map(([label, of]) => (
        <button key={label} type="button" aria-pressed={isSame(of(), period)} onClick={() => choose(of())}>
          {label}
        </button>
      ))}
      {day('since', 'From')}
      {day('until', 'to')}
      <small>Days in UTC</small>
    </fieldset>
  );
}
