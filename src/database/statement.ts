import { and, eq, type Placeholder, type SQL, type SQLWrapper, sql } from 'drizzle-orm';
import { type PgColumn, PgDialect, QueryBuilder } from 'drizzle-orm/pg-core';

/** Its text is built once, and each connection prepares it once, by its name. */
export interface Statement {
  readonly name: string;
  readonly text: string;
  /** The names of `$1`, `$2` and so on. */
  readonly parameters: readonly string[];
}

declare const utf8: unique symbol;

/**
 * A text with one character for each byte of its UTF-8. `JSON.stringify` keeps such characters, and JSON written as
 * Latin-1 is valid UTF-8 again. Decoding and encoding would take a fifth of a page's processor time. To the compiler it
 * is not a `string`: it finds a mix-up.
 */
export interface ByteString {
  readonly [utf8]: true;
}

/** A statement that gives a `Row` per row, in PostgreSQL's text format: most values go into a reply as they are. */
export interface Selection<Row> extends Statement {
  readonly columns: readonly (keyof Row & string)[];
  /** If it gives byte strings, its texts are not decoded: all others are ASCII, such as ids and numbers. */
  readonly givesByteStrings?: boolean;
}

export type RowOf<Selected> = Selected extends Selection<infer Row> ? Row : never;

type AsText<Row, Bytes> = {
  readonly [Name in keyof Row]: (Name extends Bytes ? ByteString : string) | (null extends Row[Name] ? null : never);
};

const dialect = new PgDialect();

export const query = new QueryBuilder();

/** A parameter; each call passes its value by this name. */
export const { placeholder } = sql;

/** Constants become part of the text. */
export function createStatement(name: string, source: SQLWrapper): Statement {
  const { sql: text, params } = dialect.sqlToQuery(source.getSQL().inlineParams());
  return { name, text, parameters: params.map(parameter => (parameter as Placeholder).name) };
}

/** @param byteStrings the columns whose texts are byte strings: all, or none, that can have more than ASCII */
export function createSelection<Row, Bytes extends keyof Row & string = never>(
  name: string,
  source: SQLWrapper & { readonly _: { readonly result: Row[]; readonly selectedFields: object } },
  byteStrings: readonly Bytes[] = [],
): Selection<AsText<Row, Bytes>> {
  const columns = Object.keys(source._.selectedFields) as (keyof Row & string)[];
  return { ...createStatement(name, source), columns, givesByteStrings: byteStrings.length > 0 };
}

/**
 * The limit is part of the text, not a parameter: only then does PostgreSQL see that an index scan is always cheap,
 * and plans the statement once per connection instead of once per request.
 */
export const limited = <Row>({ name, text, ...rest }: Selection<Row>, limit: number): Selection<Row> => ({
  name: `${name}_${limit}`,
  text: `${text} limit ${Math.trunc(limit)}`,
  ...rest,
});

/** In the order of the statement's parameters. */
export function valuesOf({ name, parameters }: Statement, values: Readonly<Record<string, unknown>>): unknown[] {
  return parameters.map(parameter => {
    if (!(parameter in values)) throw new Error(`the statement ${name} lacks a value for ${parameter}`);
    return values[parameter];
  });
}

export const secondsFromNow = (seconds: number): SQL => sql`now() + make_interval(secs => ${seconds}::float8)`;

/**
 * One array parameter: a statement takes at most 65,535 parameters, and an organisation may have more rows.
 *
 * PostgreSQL looks the values up in a hash table or an index. A join or a subquery in place of the array may compare
 * each row with each instead: until its statistics include an organisation, PostgreSQL expects one row of it.
 */
export const isOneOf = (column: PgColumn, values: readonly (number | string)[]) =>
  sql`${column} = any(${sql.param([...values])})`;

/** No row has one of these. */
export const beforeAllIds = '00000000-0000-0000-0000-000000000000';
export const afterAllIds = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

/**
 * Rows as a table of a statement, in one parameter.
 *
 * @param columns `name type, …`: the properties of the rows that become columns
 */
export const asTable = (rows: readonly object[], name: string, columns: string): SQL =>
  sql`json_to_recordset(${JSON.stringify(rows)}::json) as ${sql.raw(`${name} (${columns})`)}`;

/** The row of a statement that always gives one. */
export function oneRow<Row>([row]: readonly Row[]): Row {
  if (row === undefined) throw new Error('a statement that always gives a row gave none');
  return row;
}

export interface GithubColumns {
  organisationId: PgColumn;
  githubId: PgColumn;
}

/** Whether a row is the organisation's, and has one of these ids on GitHub. */
export const hasGithubId = (table: GithubColumns, organisationId: string, githubIds: readonly number[]) =>
  and(eq(table.organisationId, organisationId), isOneOf(table.githubId, githubIds));

/** Each once, in the order of their ids on GitHub: transactions that write rows in the same order do not deadlock. */
export const sortedForLocking = <Value extends { githubId: number }>(values: readonly Value[]): Value[] =>
  [...new Map(values.map(value => [value.githubId, value])).values()].sort((a, b) => a.githubId - b.githubId);
