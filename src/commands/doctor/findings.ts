/** What a look at one thing finds, and how it is made safe to show. */
import { setTimeout as delay } from 'node:timers/promises';
import { DrizzleQueryError } from 'drizzle-orm';
import { ServiceError } from '../../errors.ts';
import { brief } from '../explanation-text.ts';
import { counted } from '../numbers.ts';

export const areas = {
  configuration: 'Configuration',
  database: 'Database',
  organisations: 'Organisations',
  github: 'GitHub',
  webhooks: 'Webhooks',
  upkeep: 'Upkeep',
} as const;

export interface Place {
  area: keyof typeof areas;
  /** Of the check, for programs. */
  name: string;
  /** The login, where it is about one. */
  organisation?: string;
}

export interface Verdict {
  /** `skipped` says nothing about the thing; a `problem` keeps the service from its work, a `warning` does not. */
  status: 'ok' | 'warning' | 'problem' | 'skipped';
  /** What was found, in one line. */
  message: string;
  /** What to do, in one line; null where there is nothing. */
  action: string | null;
}

export type Finding = Place & Verdict;

export const ok = (message: string): Verdict => ({ status: 'ok', message, action: null });
export const skipped = (message: string, action: string | null = null): Verdict => ({
  status: 'skipped',
  message,
  action,
});
export const warning = (message: string, action: string): Verdict => ({ status: 'warning', message, action });
export const problem = (message: string, action: string): Verdict => ({ status: 'problem', message, action });

/** Longer than GitHub and the database are each given. */
const patience = 10_000;

/** Characters of a line; error texts of others may be of any length. */
const longest = 600;

/** Names and texts of others must not steer the terminal, and stay in their line. */
export const finding = (place: Place, { status, message, action }: Verdict): Finding => ({
  ...place,
  status,
  message: brief(message, longest),
  action: action === null ? null : brief(action, longest),
});

/**
 * Looks at one thing. Whatever goes wrong becomes a finding, so that no check hides the others; it takes no longer than
 * ten seconds.
 *
 * @param remedy what to do where the check fails and the error does not say it
 */
export async function check(
  place: Place,
  look: () => Promise<Verdict | readonly Verdict[]>,
  remedy: string,
): Promise<Finding[]> {
  const ended = new AbortController();
  const tooLate = delay(patience, undefined, { signal: ended.signal }).then(
    () => problem(`There was no answer within ${patience / 1000} seconds.`, remedy),
    () => [],
  );
  try {
    const verdicts = await Promise.race([look(), tooLate]);
    return [verdicts].flat().map(verdict => finding(place, verdict));
  } catch (error) {
    return [finding(place, verdictOf(error, remedy))];
  } finally {
    ended.abort();
  }
}

export const isFailed = (findings: readonly Finding[]): boolean => findings.some(({ status }) => status === 'problem');

function verdictOf(error: unknown, remedy: string): Verdict {
  if (!(error instanceof ServiceError)) return problem(`An error of pullscore itself: ${textOf(error)}`, remedy);
  return problem(error.message, error.action ?? remedy);
}

/** A failed query's own message has its parameters, which are people's texts. */
const textOf = (error: unknown): string =>
  String(error instanceof DrizzleQueryError ? (error.cause?.message ?? 'a query failed') : error);

/** `12 seconds`, `3 hours`: in the largest unit of which there are two. */
export function duration(seconds: number): string {
  const units: [string, number][] = [
    ['day', 86_400],
    ['hour', 3_600],
    ['minute', 60],
  ];
  const [unit, length] = units.find(([, size]) => seconds >= 2 * size) ?? ['second', 1];
  return counted(Math.round(seconds / length), unit);
}

export const list = (words: readonly string[]): string =>
  words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} and ${words.at(-1)}`;
