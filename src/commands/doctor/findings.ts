/** What doctor finds: collected, made safe to show, and shown. */
import { setTimeout as delay } from 'node:timers/promises';
import { DrizzleQueryError } from 'drizzle-orm';
import { ConfigError } from '../../config.ts';
import { ServiceError } from '../../errors.ts';
import { CommandError } from '../context.ts';
import { brief } from '../explanation-text.ts';
import { counted } from '../numbers.ts';
import { labelled } from '../terminal.ts';

export const areas = {
  configuration: 'Configuration',
  database: 'Database',
  organisations: 'Organisations',
  github: 'GitHub',
  webhooks: 'Webhooks',
  upkeep: 'Upkeep',
} as const;

type Area = keyof typeof areas;

export interface Finding {
  area: Area;
  /** Of the check, for programs. */
  name: string;
  /** The login, if it is about one. */
  organisation?: string;
  /** `skipped` says nothing about the thing; a `problem` stops the service from working, a `warning` does not. */
  status: 'ok' | 'warning' | 'problem' | 'skipped';
  /** One line. */
  message: string;
  /** What to do, in one line; null if there is nothing to do. */
  action: string | null;
}

export type Verdict = Pick<Finding, 'status' | 'message' | 'action'>;
/** False stands for what is not the case. */
export type Verdicts = Verdict | readonly (Verdict | false)[];

export const ok = (message: string): Verdict => ({ status: 'ok', message, action: null });
export const warning = (message: string, action: string): Verdict => ({ status: 'warning', message, action });
export const problem = (message: string, action: string): Verdict => ({ status: 'problem', message, action });
export const skipped = (message: string, action: string | null = null): Verdict => ({
  status: 'skipped',
  message,
  action,
});

/** `remedy` is what to do if the facts can't be gathered, and the error does not say. */
export type Check<Facts, Scope> = readonly [
  area: Area,
  name: string,
  find: (facts: Facts, scope: Scope) => Verdicts,
  remedy: string | ((scope: Scope) => string),
];

/** For the facts of one check: longer than GitHub and the database are each given. */
const timeoutMs = 10_000;
/** Of a line: error texts of others may have any length. */
const maxCharacters = 600;

export function createReport() {
  /** By check, in the order in which they began. */
  const found: Finding[][] = [];
  return {
    get findings(): Finding[] {
      return found.flat();
    },

    skip(area: Area, name: string, why: string, organisation?: { login: string }): void {
      found.push(toFindings({ area, name, organisation }, skipped(why)));
    },

    /**
     * Runs one check. A failure to gather its facts becomes a finding, so that no check hides the others.
     *
     * @returns the facts; undefined if they could not be gathered, or the check found a problem in them
     */
    async check<Facts, Scope extends { organisation?: { login: string } }>(
      [area, name, find, remedy]: Check<Facts, Scope>,
      scope: Scope,
      gather: () => Promise<Facts>,
    ): Promise<Facts | undefined> {
      const place = { area, name, organisation: scope.organisation };
      const own: Finding[] = [];
      found.push(own);
      const ended = new AbortController();
      const timeout = delay(timeoutMs, undefined, { signal: ended.signal }).then(() => {
        throw new CommandError(`There was no answer within ${timeoutMs / 1000} seconds.`);
      });
      try {
        const facts = await Promise.race([gather(), timeout]);
        own.push(...toFindings(place, find(facts, scope)));
        return hasProblem(own) ? undefined : facts;
      } catch (error) {
        own.push(...toFindings(place, problemsOf(error, typeof remedy === 'string' ? remedy : remedy(scope))));
        return undefined;
      } finally {
        ended.abort();
      }
    },
  };
}

export type Report = ReturnType<typeof createReport>;

interface Place {
  area: Area;
  name: string;
  organisation: { login: string } | undefined;
}

/** Names and texts of others must not steer the terminal, and stay in their line. */
const toFindings = ({ organisation, ...place }: Place, verdicts: Verdicts): Finding[] =>
  [verdicts].flat().flatMap(verdict => {
    if (verdict === false) return [];
    const { status, message, action } = verdict;
    const about = organisation === undefined ? place : { ...place, organisation: organisation.login };
    const safe = { message: brief(message, maxCharacters), action: action && brief(action, maxCharacters) };
    return [{ ...about, status, ...safe }];
  });

function problemsOf(error: unknown, remedy: string): Verdict[] {
  if (error instanceof ConfigError) return error.problems.map(text => problem(`${text}.`, remedy));
  if (error instanceof ServiceError) return [problem(error.message, error.action ?? remedy)];
  if (error instanceof CommandError) return [problem(error.message, remedy)];
  // A failed query's own message has its parameters, which are people's texts.
  const text = error instanceof DrizzleQueryError ? (error.cause?.message ?? 'a query failed') : error;
  return [problem(`An error of pullscore itself: ${text}`, remedy)];
}

export const hasProblem = (findings: readonly Finding[]): boolean =>
  findings.some(({ status }) => status === 'problem');

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

const listFormat = new Intl.ListFormat('en-GB');

/** `a, b and c` */
export const list = (words: readonly string[]): string => listFormat.format(words);

const marks = { ok: '✓', warning: '!', problem: '✗', skipped: '·' } as const;

/** If standard output is not a terminal. */
const usualColumns = 100;
/** Longer lines are hard to read. */
const maxColumns = 120;

/** @param columns the terminal's; undefined if there is none */
export function showFindings(findings: readonly Finding[], columns: number | undefined): string {
  const width = Math.min(columns || usualColumns, maxColumns);
  const lines: string[] = [];
  for (const [area, title] of Object.entries(areas)) {
    const own = findings.filter(each => each.area === area);
    if (own.length > 0) lines.push(title);
    own.forEach(({ status, organisation, message, action }, index) => {
      lines.push(...labelled(`  ${marks[status]} `, organisation ? `${organisation}: ${message}` : message, width));
      // An action that several share stands below the last of them.
      if (action !== null && action !== own[index + 1]?.action) lines.push(...labelled('    → ', action, width));
    });
    if (own.length > 0) lines.push('');
  }
  return [...lines, summary(findings)].join('\n');
}

function summary(findings: readonly Finding[]): string {
  const count = (wanted: Finding['status']) => findings.filter(({ status }) => status === wanted).length;
  const counts = { problem: count('problem'), warning: count('warning') };
  const parts = Object.entries(counts).flatMap(([name, number]) => (number > 0 ? [counted(number, name)] : []));
  return parts.length === 0 ? 'All is well.' : `${list(parts)}.`;
}
