/** What Citus refuses, as far as our statements come near it. */

import { type SQL, sql } from 'drizzle-orm';

/** Its result changes within a transaction, or depends on the session's settings. */
const unstable = /\b(?:now|clock_timestamp|random|nextval|pg_notify)\(|::text\b|\bextract\(epoch/;
const volatile = /\b(?:clock_timestamp|gen_random_uuid|random|nextval|pg_notify)\(/;

/** A time with a time zone and an interval: the result depends on the session's time zone. */
const columnAndInterval = "(?<!'utc'|\\)) [+-] (?:make_)?interval\\b";

interface Refusal {
  /** The clause starts after this, and ends with the brackets around it or before `end`. */
  start: RegExp;
  end?: RegExp;
  refused: RegExp;
  reason: string;
}

const refusals: readonly Refusal[] = [
  { start: /\(select(?= from\b)/g, refused: /^/, reason: 'an empty select list' },
  {
    start: /\(select\b/g,
    // Unless it reads that table itself.
    refused: /^(?!.*\b(?:from|join) organisations\b).*\borganisation_id = organisations\.id\b/,
    reason: 'a subquery that refers to a reference table outside',
  },
  { start: /\breturning\b/g, refused: unstable, reason: 'RETURNING with a function that is not immutable' },
  {
    start: /\bdo update set\b/g,
    end: /\breturning\b/,
    refused: new RegExp(`\\b(?:now|clock_timestamp|random|nextval)\\(|${columnAndInterval}`),
    reason: 'ON CONFLICT with a function that is not immutable',
  },
  {
    start: /\bupdate \w+ set\b/g,
    end: /\b(?:where|returning)\b/,
    refused: new RegExp(
      `${volatile.source}|\\bcase\\b(?:(?!\\bend\\b).)*\\bnow\\(|\\bcoalesce\\((?:[^()]|\\([^()]*\\))*\\bnow\\(|secs => \\w+\\.|${columnAndInterval}`,
    ),
    reason: 'SET with a volatile function, or a stable one of a column or in CASE or COALESCE',
  },
  { start: /\bvalues \(/g, end: /\bon conflict\b/, refused: /\(select\b/, reason: 'a subquery within VALUES' },
  {
    start: /\bselect\b/g,
    refused: /^(?! from\b|.*\b(?:organisation_id = |from organisations\b)).* for (?:no key )?update\b/,
    reason: 'a lock on rows without the organisation',
  },
  {
    start: /\bpg_(?:cancel|terminate)_backend\(/g,
    refused: /^\$\d+$/,
    reason: 'a parameter whose type fits two functions',
  },
  {
    start: /;/g,
    refused: /^\s*(?:alter table|create (?:unique )?index)\b/,
    reason: 'a change of a table in one message with others',
  },
  {
    // The union of src/database/check-runs.ts.
    start: /\b(?:left join \w+ on|from \w+ as \w+ where) /g,
    refused: /^\w+\.organisation_id = candidates\.organisation_id\b/,
    reason: 'an outer join, or a subquery, by the organisation of a union',
  },
  { start: /\bselect\b/g, refused: /^[^(]*pg_notify\([^)]*\)[^(]* from\b/, reason: 'a notification from any node' },
];

/** A time that was earlier than the one in a column, as SQL that Citus accepts: it does not depend on the time zone. */
export const earlier = (column: string, interval: SQL) =>
  sql`(${sql.raw(column)} at time zone 'utc' - ${interval}) at time zone 'utc'`;

/** @returns why Citus refuses the statement; undefined if no reason is known */
export function refusalOf(statement: string): string | undefined {
  const text = statement.replace(/--.*/g, '').replace(/"/g, '').replace(/\s+/g, ' ').replace(/\( /g, '(').toLowerCase();
  for (const { start, end, refused, reason } of refusals) {
    for (const { 0: opening, index } of text.matchAll(start)) {
      const clause = clauseOf(text.slice(index + opening.length));
      if (refused.test(end === undefined ? clause : (clause.split(end)[0] ?? ''))) return reason;
    }
  }
  return undefined;
}

/** Up to the closing bracket that was not opened in the text. */
function clauseOf(text: string): string {
  let depth = 0;
  for (let index = 0; index < text.length; index += 1) {
    if (text[index] === '(') depth += 1;
    if (text[index] === ')') depth -= 1;
    if (depth < 0) return text.slice(0, index);
  }
  return text;
}
