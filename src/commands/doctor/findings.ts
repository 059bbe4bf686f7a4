/** The findings of `doctor`: how they are collected, made safe to print, and printed. */
import { DrizzleQueryError } from 'drizzle-orm';
import { ConfigError } from '../../config.ts';
import { driverError, isDatabaseUnavailable } from '../../database/driver-errors.ts';
import { ServiceError } from '../../errors.ts';
import { counted } from '../../text/number-formats.ts';
import { brief, labelled, maxProseWidth } from '../../text/terminal.ts';

export const areas = {
  configuration: 'Configuration',
  database: 'Database',
  organisations: 'Organisations',
  github: 'GitHub',
  webhooks: 'Webhooks',
  background: 'Background work',
} as const;

type Area = keyof typeof areas;

export interface Finding {
  area: Area;
  /** The check's name, for programs. */
  name: string;
  /** The login, if the check is about one organisation. */
  organisation: string | undefined;
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

/** What to do if asking fails and the error suggests nothing. */
type Remedy<Scope> = string | ((scope: Scope) => string);

/** A check of one subject: it asks, judges, and says what to do. */
interface Check<Scope, Facts> {
  /** Whatever asks GitHub or the database has a time limit of its own. */
  ask(scope: Scope): Promise<Facts>;
  judge(facts: Facts, scope: Scope): Verdicts;
}

export const defineCheck = <Scope, Facts>(
  area: Area,
  name: string,
  remedy: Remedy<Scope>,
  check: Check<Scope, Facts>,
) => ({ area, name, remedy, ...check });

type DefinedCheck<Scope, Facts> = ReturnType<typeof defineCheck<Scope, Facts>>;

/** Of a message: error texts of other programs can have any length. */
const maxMessageWidth = 600;

export function createReport() {
  /** For each check, in the order in which the checks started. */
  const found: Finding[][] = [];
  return {
    get findings(): Finding[] {
      return found.flat();
    },

    skip(area: Area, name: string, why: string, organisation?: { login: string }): void {
      found.push(toFindings({ area, name, organisation: organisation?.login }, skipped(why)));
    },

    /**
     * Runs one check. If asking fails, that is the finding: the other checks still run.
     *
     * @returns the facts; undefined if asking failed, or the check found a problem
     */
    async check<Facts, Scope extends { organisation?: { login: string } }>(
      { area, name, remedy, ask, judge }: DefinedCheck<Scope, Facts>,
      scope: Scope,
    ): Promise<Facts | undefined> {
      const place = { area, name, organisation: scope.organisation?.login };
      const own: Finding[] = [];
      found.push(own);
      try {
        const facts = await ask(scope);
        own.push(...toFindings(place, judge(facts, scope)));
        return hasProblem(own) ? undefined : facts;
      } catch (error) {
        own.push(...toFindings(place, problemsOf(error, typeof remedy === 'string' ? remedy : remedy(scope))));
        return undefined;
      }
    },
  };
}

export type Report = ReturnType<typeof createReport>;

/** Makes messages safe to print, in one line each: they contain names and texts of other people. */
const toFindings = (place: Pick<Finding, 'area' | 'name' | 'organisation'>, verdicts: Verdicts): Finding[] =>
  [verdicts].flat().flatMap(verdict => {
    if (verdict === false) return [];
    const { status, message, action } = verdict;
    const safe = { message: brief(message, maxMessageWidth), action: action && brief(action, maxMessageWidth) };
    return [{ ...place, status, ...safe }];
  });

function problemsOf(error: unknown, remedy: string): Verdict[] {
  if (error instanceof ConfigError) return error.problems.map(text => problem(`${text}.`, remedy));
  if (error instanceof ServiceError) return [problem(error.message, error.action ?? remedy)];
  if (isDatabaseUnavailable(error)) {
    return [
      problem(`The database failed: ${driverError(error)?.message}.`, 'Check the database, then run this again.'),
    ];
  }
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

/** @param columns of the terminal; wider ones are not filled */
export function showFindings(findings: readonly Finding[], columns: number): string {
  const width = Math.min(columns, maxProseWidth);
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
