import type { Period } from '../database/standings.ts';
import { badRequest } from '../errors.ts';
import { startOfDay } from '../text/times.ts';

export interface PeriodQuery {
  by: Period['by'];
  /** Days, UTC, such as 2026-01-31; both count. */
  since?: string | undefined;
  until?: string | undefined;
}

/** The first second of the day, UTC, as a Unix time. @throws ServiceError `bad_request` if it is not a valid day */
export function parseDay(parameter: 'since' | 'until', text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const moment = startOfDay(text);
  if (moment === undefined) throw badRequest(`"${text}" is not a valid day.`, 'Write it as 2026-01-31.', { parameter });
  return moment;
}

export const messageOfWrongOrder = (since?: string, until?: string) =>
  `The period begins after it ends: since ${since} until ${until}.`;

/** @throws ServiceError `bad_request` if a day is not valid, or they are in the wrong order */
export function parsePeriod({ by, since, until }: PeriodQuery): Period {
  const [from, last] = [parseDay('since', since), parseDay('until', until)];
  if (from !== undefined && last !== undefined && from > last) {
    throw badRequest(messageOfWrongOrder(since, until), undefined, { parameter: 'since' });
  }
  return { by, from, until: last === undefined ? undefined : last + 86_400 };
}
