/** Reads the facts of stored pull requests: only the columns that the given rules need. */
import { getTableColumns, type SQL, sql } from 'drizzle-orm';
import type { PgColumn } from 'drizzle-orm/pg-core';
import type { PullRequestRecord } from '../pull-request.ts';
import { type Facts, type Field, factsOf, fieldsOf, type SourceName } from '../scoring/facts.ts';
import type { TextRow } from './client.ts';
import { isInRepository } from './pull-requests.ts';
import { pullRequests, repositories } from './schema.ts';
import { query } from './statement.ts';

const stored: Readonly<Record<Field, PgColumn>> = { ...getTableColumns(pullRequests), repository: repositories.name };

/**
 * Columns by the first `factsVersion` that has them. During an upgrade the release before saves rows with a lower one, and
 * leaves the column as it was, which is then the value of an older fetch: it counts as null.
 */
const newerColumns: { readonly [Name in Field]?: number } = {
  distinctReviewers: 2,
  reviewDecision: 2,
  readyAt: 2,
  repositoryIsArchived: 2,
  repositoryIsPrivate: 2,
  reviewers: 3,
};

/** What a row says of its pull request. */
export function recordOf(row: typeof pullRequests.$inferSelect, repository: string): PullRequestRecord {
  const unknown = Object.entries(newerColumns).filter(([, version]) => row.factsVersion < version);
  return { ...row, repository, ...Object.fromEntries(unknown.map(([field]) => [field, null])) };
}

/** They may have tens of kilobytes. */
const largeFields: ReadonlySet<Field> = new Set<Field>(['body', 'files', 'fileChanges', 'reviewers']);

/** The forms that are cheapest to produce and to parse: `extract` gives a slow numeric, and text[] is slow to parse. */
function expressionOf(field: Field): PgColumn | SQL {
  const column = stored[field];
  const version = newerColumns[field];
  const form = column.dataType === 'custom' ? sql`date_part('epoch', ${column})` : column;
  if (version !== undefined)
    return sql`case when ${pullRequests.factsVersion} >= ${sql.raw(String(version))} then ${form} end`;
  return column.dataType === 'array' ? sql`array_to_json(${column})` : form;
}

function readValue({ dataType }: PgColumn, text: string): unknown {
  if (dataType === 'string') return text;
  if (dataType === 'boolean') return text === 't';
  return dataType === 'array' || dataType === 'json' ? JSON.parse(text) : Number(text);
}

export type FactsReader = ReturnType<typeof createFactsReader>;

/** Reads only these facts. */
export function createFactsReader(wanted: Iterable<SourceName>) {
  const names = [...wanted];
  const fields = [...new Set(names.flatMap(fieldsOf))].sort();
  const record: Partial<Record<Field, unknown>> = {};
  return {
    /** Whether a row may have {@link largeFields}. */
    isLarge: fields.some(field => largeFields.has(field)),
    /** Selects these columns, and then those of the facts, from all such pull requests, or from the first ones. */
    select(
      columns: readonly (PgColumn | SQL)[],
      condition: SQL | undefined,
      first?: { order: PgColumn; limit: number },
    ) {
      const selection = query
        .select(Object.fromEntries([...columns, ...fields.map(expressionOf)].entries()))
        .from(pullRequests)
        .where(condition)
        .$dynamic();
      if (fields.includes('repository')) selection.innerJoin(repositories, isInRepository);
      if (first !== undefined) selection.orderBy(first.order).limit(first.limit);
      const { sql: text, params: values } = selection.toSQL();
      return { text, values };
    },
    /**
     * @param row in PostgreSQL's text format
     * @param first index in the row of the first of the facts' columns
     * @returns the wanted facts; the others are empty
     */
    read(row: TextRow, first: number): Facts {
      for (const [index, field] of fields.entries()) {
        const text = row[first + index];
        record[field] = text === null || text === undefined ? null : readValue(stored[field], text);
      }
      return factsOf(record as PullRequestRecord, names);
    },
  };
}
