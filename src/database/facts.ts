/** Reads the facts of stored pull requests: only the columns that the given rules need. */
import { getTableColumns, type SQL, sql } from 'drizzle-orm';
import type { PgColumn } from 'drizzle-orm/pg-core';
import { type Facts, factsOf, type PullRequestRecord, type SourceName } from '../scoring/facts.ts';
import type { TextRow } from './client.ts';
import { isInRepository } from './pull-requests.ts';
import { pullRequests, repositories } from './schema.ts';
import { query } from './statement.ts';

type Column = keyof PullRequestRecord;

/** Columns from which a fact is calculated. Facts that are not here are one column of the same name. */
const sources: { readonly [Name in SourceName]?: readonly Column[] } = {
  size: ['additions', 'deletions'],
  updated_at: ['sourceUpdatedAt'],
  hours_to_first_review: ['createdAt', 'firstReviewAt'],
  hours_to_merge: ['createdAt', 'mergedAt'],
  hours_to_close: ['createdAt', 'closedAt'],
  merged: ['state'],
};

const stored: Readonly<Record<Column, PgColumn>> = { ...getTableColumns(pullRequests), repository: repositories.name };

/** By a column's type; times are `custom`. */
const emptyValues: Readonly<Record<string, unknown>> = { array: [], boolean: false, custom: 0, number: 0, string: '' };

/** Stands for the columns that are not read: an audit of rules changes their facts, too. */
const emptyRecord = Object.fromEntries(
  Object.entries(stored).map(([name, { dataType, notNull }]) => [name, notNull ? emptyValues[dataType] : null]),
);

/** They may have tens of kilobytes. */
const largeColumns: ReadonlySet<string> = new Set<Column>(['body', 'files', 'fileChanges']);

const isColumn = (name: string): name is Column => Object.hasOwn(stored, name);

function columnsOf(name: SourceName): readonly Column[] {
  const column = name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
  const columns = sources[name] ?? (isColumn(column) ? [column] : []);
  if (columns.length === 0) throw new Error(`no column holds the fact ${name}`);
  return columns;
}

/** The forms that are cheapest to produce and to parse: `extract` gives a slow numeric, and text[] is slow to parse. */
function expressionOf(column: PgColumn): PgColumn | SQL {
  if (column.dataType === 'custom') return sql`date_part('epoch', ${column})`;
  return column.dataType === 'array' ? sql`array_to_json(${column})` : column;
}

function readValue({ dataType }: PgColumn, text: string): unknown {
  if (dataType === 'string') return text;
  if (dataType === 'boolean') return text === 't';
  return dataType === 'array' || dataType === 'json' ? JSON.parse(text) : Number(text);
}

export interface FactsReader {
  /** Whether a row may have {@link largeColumns}. */
  readonly isLarge: boolean;
  /** Selects these columns, and then those of the facts, from all such pull requests, or from the first ones. */
  select(
    columns: readonly PgColumn[],
    condition: SQL | undefined,
    first?: { order: PgColumn; limit: number },
  ): { text: string; values: unknown[] };
  /**
   * @param row in PostgreSQL's text format
   * @param first index in the row of the first of the facts' columns
   * @returns only the wanted facts are meaningful
   */
  read(row: TextRow, first: number): Facts;
}

/** Reads only these facts. */
export function createFactsReader(names: Iterable<SourceName>): FactsReader {
  const columns = [...new Set([...names].flatMap(columnsOf))].sort();
  const record: Record<string, unknown> = { ...emptyRecord };
  const readers = columns.map((name, index) => ({ name, index, column: stored[name] }));
  return {
    isLarge: columns.some(column => largeColumns.has(column)),
    select(others, condition, first) {
      const selection = query
        .select(Object.fromEntries([...others, ...columns.map(name => expressionOf(stored[name]))].entries()))
        .from(pullRequests)
        .where(condition)
        .$dynamic();
      if (columns.includes('repository')) selection.innerJoin(repositories, isInRepository);
      if (first !== undefined) selection.orderBy(first.order).limit(first.limit);
      const { sql: text, params: values } = selection.toSQL();
      return { text, values };
    },
    read(row, first) {
      for (const { name, index, column } of readers) {
        const text = row[first + index];
        record[name] = text === null || text === undefined ? null : readValue(column, text);
      }
      return factsOf(record as unknown as PullRequestRecord);
    },
  };
}
