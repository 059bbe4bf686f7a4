import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type pg from 'pg';
import { beforeAll, expect, inject, test } from 'vitest';
import { migrateDatabase } from '../../src/database/migrations.ts';
import { type AddedDatabase, addDatabase } from '../support/database-server.ts';
import { createMigrationsFolder, migrationsFolder, readJournal } from '../support/migrations.ts';
import { createEmptyDatabase, openClient } from '../support/service.ts';

/*
 * During an upgrade, replicas of the release before still read and write: each migration leaves their rows and their
 * statements valid, and locks no table for long.
 */

const journal = await readJournal();

/** A table, as Drizzle describes it after a migration. */
interface Table {
  name: string;
  columns: Record<string, { name: string; type: string; notNull: boolean; default?: unknown }>;
  foreignKeys: Record<string, { tableTo: string }>;
  checkConstraints: Record<string, { value: string }>;
}

/** The tables after a migration, each after those that it refers to. */
function readTables(number: number): Table[] {
  const path = join(migrationsFolder, 'meta', `${String(number).padStart(4, '0')}_snapshot.json`);
  const tables = Object.values((JSON.parse(readFileSync(path, 'utf8')) as { tables: Record<string, Table> }).tables);
  const ordered: Table[] = [];
  const place = (table: Table) => {
    if (ordered.includes(table)) return;
    const targets = Object.values(table.foreignKeys).map(({ tableTo }) => tableTo);
    for (const target of tables) if (target !== table && targets.includes(target.name)) place(target);
    ordered.push(table);
  };
  for (const table of tables) place(table);
  return ordered;
}

/**
 * A row that refers to the rows of the same number in other tables.
 *
 * @param columns `all`, or only those that must have a value
 */
function makeRow(table: Table, number: number, columns: 'all' | 'required'): Record<string, unknown> {
  const valueFor = (column: string, type: string): unknown => {
    if (type === 'uuid') return `01900000-0000-7000-8000-${String(number).padStart(12, '0')}`;
    if (type.startsWith('timestamp')) return '2026-01-01T00:00:00Z';
    if (type === 'boolean') return true;
    if (type === 'text[]') return ['one', 'two'];
    if (type.startsWith('json')) return '[{"name":"Size"}]';
    if (type !== 'text') return number;
    const allowed = Object.values(table.checkConstraints).map(({ value }) =>
      new RegExp(`"${column}" in \\('(\\w+)'`).exec(value),
    );
    return allowed.find(found => found !== null)?.[1] ?? `${column} ${number}`;
  };
  const chosen = Object.values(table.columns).filter(
    column => columns === 'all' || (column.notNull && column.default === undefined && column.type !== 'bigserial'),
  );
  return Object.fromEntries(chosen.map(({ name, type }) => [name, valueFor(name, type)]));
}

async function insert(client: pg.Client, table: Table, row: Record<string, unknown>): Promise<void> {
  const names = Object.keys(row);
  await client.query(
    `insert into ${table.name} (${names.join(', ')}) values (${names.map((_, index) => `$${index + 1}`).join(', ')})`,
    Object.values(row),
  );
}

/** The rows of all tables, with the columns that are given. */
async function readRows(client: pg.Client, tables: readonly Table[]): Promise<string[]> {
  const rows: string[] = [];
  for (const { name, columns } of tables) {
    const found = await client.query(`select ${Object.keys(columns).join(', ')} from ${name}`);
    rows.push(...found.rows.map(row => `${name} ${JSON.stringify(row)}`));
  }
  return rows.toSorted();
}

/** Migrations after which the release before does not work, with the reason. */
const exceptions: Record<string, string> = {};

/** What a later release may do; until there is one, this stands for it. */
const later = [
  'alter table organisations add column motto text',
  "alter table members add column team text not null default 'none'",
  'create table teams (organisation_id uuid not null, name text not null, primary key (organisation_id, name))',
];

interface Step {
  name: string;
  /** The number of the migration before. */
  before: number;
  folder: () => Promise<string>;
}
const steps: Step[] = [
  ...journal
    .slice(1)
    .filter(({ tag }) => !(tag in exceptions))
    .map(({ idx, tag }) => ({ name: tag, before: idx - 1, folder: () => createMigrationsFolder({ last: idx }) })),
  {
    name: 'a later migration',
    before: journal.length - 1,
    folder: () => createMigrationsFolder({ added: later }),
  },
];

/** Brought forward from step to step, so that each migration runs once; a step works in a copy. */
let earlier: AddedDatabase;
beforeAll(async () => {
  earlier = await addDatabase(inject('serverUrl'));
  return earlier.drop;
});

test.each(steps)(
  '$name keeps the rows of the release before, and the statements of its code still work',
  async ({ before: last, folder }) => {
    await migrateDatabase(earlier.url, { folder: await createMigrationsFolder({ last }) });
    const url = await createEmptyDatabase(`template ${earlier.name}`);
    const client = await openClient(url);
    const tables = readTables(last);
    const addRows = async (first: number) => {
      for (const table of tables) {
        await insert(client, table, makeRow(table, first, 'all'));
        await insert(client, table, makeRow(table, first + 1, 'required'));
      }
    };
    await addRows(1);
    const before = await readRows(client, tables);

    expect(await migrateDatabase(url, { folder: await folder() })).toBe(1);

    expect(await readRows(client, tables)).toEqual(before);
    await addRows(3);
    for (const { name, columns } of tables) {
      const assignments = Object.keys(columns).map(column => `${column} = ${column}`);
      expect((await client.query(`update ${name} set ${assignments.join(', ')}`)).rowCount).toBe(4);
    }
    for (const { name } of tables.toReversed()) {
      expect((await client.query(`delete from ${name}`)).rowCount).toBe(4);
    }
  },
);

/** What is wrong with how a migration builds indexes: writers of a table wait while one is built not concurrently. */
function findBlockingIndexes(sql: string): string[] {
  const statements = sql.split('--> statement-breakpoint').map(statement => statement.trim());
  const created = new Set(statements.map(statement => /^create table "(\w+)"/i.exec(statement)?.[1]));
  const isConcurrent = (statement: string) => /^create (unique )?index concurrently/i.test(statement);
  const tableOf = (statement: string) =>
    /^create (?:unique )?index (?!concurrently).* on "(\w+)"/i.exec(statement)?.[1] ??
    /^alter table "(\w+)" add (?:constraint "\w+" )?(?:unique|primary key)/i.exec(statement)?.[1];
  return statements.filter(statement => {
    if (isConcurrent(statement)) return !statements.every(isConcurrent);
    const table = tableOf(statement);
    return table !== undefined && !created.has(table);
  });
}

test('migrations build indexes of tables that exist concurrently, each in a migration of its own', () => {
  const blocking = journal
    .map(({ tag }) => ({ tag, found: findBlockingIndexes(readFileSync(join(migrationsFolder, `${tag}.sql`), 'utf8')) }))
    .filter(({ found }) => found.length > 0);
  expect(blocking).toEqual([]);
});

test.each([
  ['CREATE INDEX "a" ON "members" USING btree ("id");', 1],
  ['CREATE UNIQUE INDEX "a" ON "members" USING btree ("id");', 1],
  ['ALTER TABLE "members" ADD CONSTRAINT "a" UNIQUE("id");', 1],
  ['CREATE INDEX CONCURRENTLY "a" ON "members" USING btree ("id");', 0],
  ['CREATE TABLE "members" ("id" int);--> statement-breakpoint\nCREATE INDEX "a" ON "members" ("id");', 0],
  ['CREATE INDEX CONCURRENTLY "a" ON "b" ("c");--> statement-breakpoint\nALTER TABLE "b" ADD COLUMN "d" int;', 1],
  ['ALTER TABLE "members" ADD CONSTRAINT "a" FOREIGN KEY ("id") REFERENCES "b"("id");', 0],
])('the check of indexes finds in %s this many faults: %i', (sql, count) => {
  expect(findBlockingIndexes(sql)).toHaveLength(count);
});
