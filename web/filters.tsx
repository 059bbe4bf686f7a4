import { useCallback, useLayoutEffect } from 'preact/hooks';
import { Button } from './elements.tsx';
import { toDay } from './format.ts';
import { addressWith, type Query, route } from './route.ts';

/** For all fields of a view: one that has a name sets this parameter, as a step that "back" undoes. */
export function takeField({ target }: Event): void {
  const { name, value, validity } = target as HTMLInputElement;
  // A year that one types begins as 0002.
  if (name === '' || validity.rangeUnderflow) return;
  location.hash = addressWith({ [name]: value.trim(), ...queryOf({ ...presentPeriod(), [name]: value }) });
}

/** @param options texts by value: the first one is chosen unless the address says another */
export function chosenIn<Value extends string>(name: string, options: Record<Value, string>): Value {
  const values = Object.keys(options) as [Value];
  return values.find(value => value === route().query[name]) ?? values[0];
}

export const days = { created: 'by day of creation', merged: 'by day of merge' };

/** Fills a field only if the address changes, so what one types stays while other parts of the view load. */
export function useFill(value = '') {
  const fill = (field: HTMLInputElement | null) => {
    // Filled with nothing again, a day of which a part is missing would lose the others.
    if (field !== null && field.value !== value) field.value = value;
  };
  return useCallback(fill, [value]);
}

/** A select without a visible label, for a parameter of the address. */
export const Choice = ({ name, label, options }: { name: string; label: string; options: Record<string, string> }) => (
  <select name={name} aria-label={label} value={chosenIn(name, options)}>
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
  const month = now.getUTCMonth();
  const day = (month: number, day: number) => toDay(Date.UTC(now.getUTCFullYear(), month, day));
  const months = (first: number, count: number) => ({ since: day(first, 1), until: day(first + count, 0) });
  const lastSunday = now.getUTCDate() - (now.getUTCDay() || 7);
  return {
    'Last week': { since: day(month, lastSunday - 6), until: day(month, lastSunday) },
    'This month': months(month, 1),
    'Last month': months(month - 1, 1),
    'This quarter': months(month - (month % 3), 3),
    'Last 12 months': months(month - 11, 12),
    'All time': {},
  };
}

/** This month, unless the address has another period; `since=all` is all time. */
export function presentPeriod(): Period {
  const { since, until } = route().query;
  if (since === 'all') return {};
  return since || until ? { since, until } : { ...choices()['This month'] };
}

/** For addresses, which then go on meaning these days. */
export const queryOf = ({ since, until }: Query): Query => ({ since: since || (until ? undefined : 'all'), until });

export function PeriodPicker() {
  const present = presentPeriod();
  // A link must show the same next month. This is no step that "back" undoes.
  useLayoutEffect(() => history.replaceState(null, '', addressWith(queryOf(present))));
  return (
    <fieldset class="toolbar" aria-label="Period">
      {Object.entries(choices()).map(([text, of]) => {
        const isChosen = of.since === present.since && of.until === present.until;
        const choose = () => location.assign(addressWith(queryOf(of)));
        return <Button key={text} text={text} aria-pressed={isChosen} onClick={choose} />;
      })}
      <label>
        From <input type="date" name="since" min="1970-01-01" ref={useFill(present.since)} />
      </label>
      <label>
        to <input type="date" name="until" min="1970-01-01" ref={useFill(present.until)} />
      </label>
      <small>Days in UTC</small>
    </fieldset>
  );
}
