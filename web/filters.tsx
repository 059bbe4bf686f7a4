import { useLayoutEffect } from 'preact/hooks';
import { Button } from './elements.tsx';
import { toDay } from './format.ts';
import { addressWith, type Query, route } from './route.ts';

/** Changes parameters of the present view, as a step that "back" undoes. */
export function changeQuery(changes: Query): void {
  location.hash = addressWith(changes);
}

/** Texts by value. The first one is chosen unless the address says another. */
type Options<Value extends string> = Record<Value, string>;

export function chosenIn<Value extends string>(name: string, options: Options<Value>): Value {
  const values = Object.keys(options) as [Value];
  return values.find(value => value === route().query[name]) ?? values[0];
}

/** A select without a visible label, for a parameter of the address. */
export const Choice = ({ name, label, options }: { name: string; label: string; options: Options<string> }) => (
  <select
    aria-label={label}
    value={chosenIn(name, options)}
    onChange={({ currentTarget }) => changeQuery({ [name]: currentTarget.value })}
  >
    {Object.entries(options).map(([value, text]) => (
      <option key={value} value={value}>
        {text}
      </option>
    ))}
  </select>
);

/** Days, UTC; both count. */
type Period = { since?: string; until?: string };

function choices(): Record<string, Period> {
  const now = new Date();
  const [year, month] = [now.getUTCFullYear(), now.getUTCMonth()];
  const lastSunday = now.getUTCDate() - (now.getUTCDay() || 7);
  const days = (sinceMonth: number, sinceDay: number, untilMonth: number, untilDay: number): Period => ({
    since: toDay(Date.UTC(year, sinceMonth, sinceDay)),
    until: toDay(Date.UTC(year, untilMonth, untilDay)),
  });
  const quarter = month - (month % 3);
  return {
    'Last week': days(month, lastSunday - 6, month, lastSunday),
    'This month': days(month, 1, month + 1, 0),
    'Last month': days(month - 1, 1, month, 0),
    'This quarter': days(quarter, 1, quarter + 3, 0),
    'Last 12 months': days(month - 11, 1, month + 1, 0),
    'All time': {},
  };
}

/** This month, unless the address has another period; `since=all` is all time. */
export function presentPeriod(): Period {
  const { since, until } = route().query;
  if (since === 'all') return {};
  return since || until ? { ...(since && { since }), ...(until && { until }) } : { ...choices()['This month'] };
}

/** For addresses, which then go on meaning these days. */
export const queryOf = ({ since, until }: Query): Query => ({ since: since || (until ? undefined : 'all'), until });

export function PeriodPicker() {
  const present = presentPeriod();
  // A link must show the same next month. This is no step that "back" undoes.
  useLayoutEffect(() => history.replaceState(null, '', addressWith(queryOf(present))));
  return (
    <fieldset class="toolbar">
      <legend class="hidden">Period</legend>
      {Object.entries(choices()).map(([text, of]) => {
        const isChosen = of.since === present.since && of.until === present.until;
        return <Button key={text} text={text} aria-pressed={isChosen} onClick={() => changeQuery(queryOf(of))} />;
      })}
      {(['since', 'until'] as const).map(name => (
        <label key={name}>
          {name === 'since' ? 'From' : 'to'}
          <input
            type="date"
            value={present[name] ?? ''}
            onChange={event => changeQuery(queryOf({ ...present, [name]: event.currentTarget.value }))}
          />
        </label>
      ))}
      <small>Days in UTC</small>
    </fieldset>
  );
}
