/** Reads the facts of stored pull requests: only the columns that the given rules need. */
import { type SQL, sql } from 'drizzle-orm';
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

/** Values of the columns that are not read. */
const emptyRecord: PullRequestRecord = {
  repository: '',
  number: 0,
  title: '',
  body: '',
  state: 'open',
  draft: false,
  author: '',
  authorAssociation: '',
  authorIsBot: false,
  base: '',
  head: '',
  fromFork: false,
  milestone: null,
  additions: 0,
  deletions: 0,
  changedFiles: 0,
  commits: 0,
  comments: 0,
  reviews: 0,
  approvals: 0,
  changesRequested: 0,
  writerApprovals: 0,
  timesChangesRequested: 0,
  botReviews: 0,
  linkedIssues: 0,
  createdAt: 0,
  sourceUpdatedAt: 0,
  mergedAt: null,
  closedAt: null,
  mergedBy: null,
  selfMerged: false,
  firstReviewAt: null,
  labels: [],
  assignees: [],
  files: [],
  fileChanges: [],
};

/** They may have tens of kilobytes. */
const largeColumns: ReadonlySet<string> = new Set<Column>(['body', 'files', 'fileChanges']);

type Kind = 'boolean' | 'list' | 'number' | 'text' | 'time';

const isColumn = (name: string): name is Column => Object.hasOwn(emptyRecord, name);

function kindOf(column: Column): Kind {
  if (column.endsWith('At')) return 'time';
  const empty = emptyRecord[column];
  if (Array.isArray(empty)) return 'list';
  if (typeof empty === 'number') return 'number';
  return typeof empty === 'boolean' ? 'boolean' : 'text';
}

function columnsOf(name: SourceName): readonly Column[] {
  const column = name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
  const columns = sources[name] ?? (isColumn(column) ? [column] : []);
  if (columns.length === 0) throw new Error(`no column holds the fact ${name}`);
  return columns;
}

function expressionOf(column: Column): PgColumn | SQL {
  if (column === 'repository') return repositories.name;
  const stored = pullRequests[column];
  // The cheapest ways to write and to read: `extract` gives a slow numeric, and a text[] is slow to parse.
  if (kindOf(column) === 'time') return sql`date_part('epoch', ${stored})`;
  return kindOf(column) === 'list' && column !== 'fileChanges' ? sql`array_to_json(${stored})` : stored;
}

function readValue(kind: Kind, text: string): unknown {
  if (kind === 'text') return text;
  if (kind === 'boolean') return text === 't';
  return kind === 'list' ? JSON.parse(text) : Number(text);
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
  const record: Record<Column, unknown> = { ...emptyRecord };
  const readers = columns.map((column, index) => ({ column, index, kind: kindOf(column) }));
  return {
    isLarge: columns.some(column => largeColumns.has(column)),
    select(others, condition, first) {
      const selection = query
        .select(Object.fromEntries([...others, ...columns.map(expressionOf)].entries()))
        .from(pullRequests)
        .where(condition)
        .$dynamic();
      if (columns.includes('repository')) selection.innerJoin(repositories, isInRepository);
      if (first !== undefined) selection.orderBy(first.order).limit(first.limit);
      const { sql: text, params: values } = selection.toSQL();
      return { text, values };
    },
    read(row, first) {
      for (const { column, index, kind } of readers) {
        const text = row[first + index];
        record[column] = text === null || text === undefined ? null : readValue(kind, text);
      }
      return factsOf(record as PullRequestRecord);
    },
  };
}
