/** The findings of `doctor`: how they are collected, made safe to print, and printed. */
import { setTimeout as delay } from 'node:timers/promises';
import { DrizzleQueryError } from 'drizzle-orm';
import { ConfigError } from '../../config.ts';
import { ServiceError } from '../../errors.ts';
import { CommandError } from '../context.ts';
import { counted } from '../numbers.ts';
import { brief, labelled } from '../terminal.ts';

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
  /** The check's name, for programs. */
  name: string;
  /** The login, if the check is about one organisation. */
  organisation?: string;
  /** A `problem` stops the service from working, a `warning` does not; `skipped` was not checked. */
  status: 'ok' | 'warning' | 'problem' | 'skipped';
  /** One line. */
  message: string;
  /** What to do, in one line; null if there is nothing to do. */
  action: string | null;
}

export type Verdict = Pick<Finding, 'status' | 'message' | 'action'>;
/** False is left out: the condition of that finding does not hold. */
export type Verdicts = Verdict | readonly (Verdict | false)[];

export const ok = (message: string): Verdict => ({ status: 'ok', message, action: null });
export const warning = (message: string, action: string): Verdict => ({ status: 'warning', message, action });
export const problem = (message: string, action: string): Verdict => ({ status: 'problem', message, action });
export const skipped = (message: string, action: string | null = null): Verdict => ({
  status: 'skipped',
  message,
  action,
});

/** The remedy is for errors while facts are gathered that don't say what to do. */
export type Check<Facts, Scope> = readonly [
  area: Area,
  name: string,
  find: (facts: Facts, scope: Scope) => Verdicts,
  remedy: string | ((scope: Scope) => string),
];

/** To gather the facts of one check: longer than the timeouts of GitHub and the database. */
const timeoutMs = 10_000;
/** Per message: error texts of others can have any length. */
const maxMessageWidth = 600;

export function createReport() {
  /** For each check, in the order in which the checks started. */
  const found: Finding[][] = [];
  return {
    get findings(): Finding[] {
      return found.flat();
    },

    skip(area: Area, name: string, why: string, organisation?: { login: string }): void {
      found.push(toFindings({ area, name, organisation }, skipped(why)));
    },

    /**
     * Runs one check. If its facts can't be gathered, that is the finding: the other checks still run.
     *
     * @returns the facts; undefined if they could not be gathered, or the check found a problem
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

/** Makes messages safe to print, in one line each: they contain names and texts of other people. */
const toFindings = ({ organisation, ...place }: Place, verdicts: Verdicts): Finding[] =>
  [verdicts].flat().flatMap(verdict => {
    if (verdict === false) return [];
    const { status, message, action } = verdict;
    const about = organisation === undefined ? place : { ...place, organisation: organisation.login };
    const safe = { message: brief(message, maxMessageWidth), action: action && brief(action, maxMessageWidth) };
    return [{ ...about, status, ...safe }];
  });

function problemsOf(error: unknown, remedy: string): Verdict[] {
  if (error instanceof ConfigError) return error.problems.map(text => problem(`${text}.`, remedy));
  if (error instanceof ServiceError) return [problem(error.message, error.action ?? remedy)];
  if (error instanceof CommandError) return [problem(error.message, remedy)];
  // The message of a failed query contains its parameters, which may be private.
  const text = error instanceof DrizzleQueryError ? (error.cause?.message ?? 'a query failed') : error;
  return [problem(`Unexpected error: ${text}`, remedy)];
}

export const hasProblem = (findings: readonly Finding[]): boolean =>
  findings.some(({ status }) => status === 'problem');

const listFormat = new Intl.ListFormat('en-GB');

/** `a, b and c` */
export const list = (words: readonly string[]): string => listFormat.format(words);

const marks = { ok: '✓', warning: '!', problem: '✗', skipped: '·' } as const;

/** @param width columns to fill */
export function showFindings(findings: readonly Finding[], width: number): string {
  const lines: string[] = [];
  for (const [area, title] of Object.entries(areas)) {
    const own = findings.filter(each => each.area === area);
    if (own.length > 0) lines.push(title);
    own.forEach(({ status, organisation, message, action }, index) => {
      lines.push(...labelled(`  ${marks[status]} `, organisation ? `${organisation}: ${message}` : message, width));
      // Findings with the same action show it once, after the last of them.
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
  return parts.length === 0 ? 'No problems found.' : `${list(parts)}.`;
}
