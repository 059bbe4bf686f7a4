import { useEffect } from 'preact/hooks';
import { toDay } from './format.ts';
import { addressOf, changeQuery, type Query, type Route } from './route.ts';

/** Days, UTC; both count. */
export interface Period {
  since?: string;
  until?: string;
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
  'All time': () => ({}),
};

/** This month, unless the address has another period; `since=all` is all time. */
export function periodOf(query: URLSearchParams): Period {
  const [since, until] = [query.get('since'), query.get('until')];
  if (since === 'all') return {};
  if (!since && !until) return months(0, 1);
  return { ...(since && { since }), ...(until && { until }) };
}

/** For addresses, which then go on meaning these days. */
export const queryOf = ({ since, until }: Period): Query => ({ since: since ?? (until ? undefined : 'all'), until });

const isSame = (one: Period, two: Period) => one.since === two.since && one.until === two.until;

export function PeriodPicker({ route }: { route: Route }) {
  const period = periodOf(route.query);
  const choose = (chosen: Period) => changeQuery(route, queryOf(chosen));
  const { view, id, query, fragment } = route;
  useEffect(() => {
    // A link must show the same next month. This is no step that "back" undoes.
    if (query.has('since') || query.has('until') || location.hash !== fragment) return;
    history.replaceState(null, '', addressOf(view, id, { ...Object.fromEntries(query), ...queryOf(period) }));
  });
  const day = (name: 'since' | 'until', label: string) => (
    <label>
      {label}
      <input
        type="date"
        value={period[name] ?? ''}
        onChange={({ currentTarget: { value } }) => {
          const { [name]: _, ...other } = period;
          choose(value ? { ...other, [name]: value } : other);
        }}
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
