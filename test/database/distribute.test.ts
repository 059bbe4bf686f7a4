import { readFileSync } from 'node:fs';
import { is } from 'drizzle-orm';
import { getTableConfig, PgTable } from 'drizzle-orm/pg-core';
import { expect, test } from 'vitest';
import * as schema from '../../src/database/schema.ts';
import { createMigratedDatabase, openClient } from '../support/service.ts';

const script = readFileSync('ops/distribute.sql', 'utf8');

/** What Citus would record, and the refusal of a foreign key that it would not allow at that moment. */
const standIn = `
  create table pg_dist_partition (logicalrelid regclass, column_name text, colocated_with text, emptied bool);
  create function create_reference_table(name regclass) returns void language sql as
    $$ insert into pg_dist_partition values (name) $$;
  create function create_distributed_table(name regclass, column_name text, colocate_with text) returns void
  language plpgsql as $$
    begin
      if exists (select 1 from pg_constraint where contype = 'f' and name in (conrelid, confrelid)) then
        raise exception '% has foreign keys', name;
      end if;
      insert into pg_dist_partition values (name, column_name, colocate_with);
    end $$;
  create function truncate_local_data_after_distributing_table(name regclass) returns void language sql as
    $$ update pg_dist_partition set emptied = true where logicalrelid = name $$`;

const foreignKeys = `select conrelid::regclass::text as of, conname, pg_get_constraintdef(oid) as definition, convalidated
  from pg_constraint where contype = 'f' order by 1, 2`;

const tables = Object.values(schema).flatMap(each => (is(each, PgTable) ? getTableConfig(each) : []));

test('ops/distribute.sql names every table once, by its organisation, and puts every foreign key back', async () => {
  const client = await openClient(await createMigratedDatabase());
  await client.query(standIn);
  const { rows: keys } = await client.query(foreignKeys);
  expect(keys.length).toBeGreaterThan(15);
  await client.query(script);
  expect((await client.query(foreignKeys)).rows).toEqual(keys);
  const { rows } = await client.query(
    'select logicalrelid::text as name, column_name, colocated_with, emptied from pg_dist_partition',
  );
  const expected = tables.map(({ name, columns }) => ({
    name,
    column_name: columns.some(column => column.name === 'organisation_id') ? 'organisation_id' : null,
  }));
  const byName = (a: { name: string }, b: { name: string }) => (a.name < b.name ? -1 : 1);
  const named = rows.map(({ name, column_name }) => ({ name, column_name }));
  expect(named.sort(byName)).toEqual(expected.sort(byName));
  expect(rows.every(({ emptied }) => emptied)).toBe(true);
  // Together: one group, which the first table opens.
  const [first, ...others] = rows.filter(row => row.column_name !== null);
  expect(first.colocated_with).toBe('none');
  expect(new Set(others.map(row => row.colocated_with))).toEqual(new Set([first.name]));
});

test('ops/distribute.sql refuses a database without Citus, or one that is distributed already', async () => {
  const client = await openClient(await createMigratedDatabase());
  await expect(client.query(script)).rejects.toThrow('run "create extension citus" on every node first');
  await client.query(`rollback; ${standIn}`);
  await client.query(script);
  await expect(client.query(script)).rejects.toThrow('This database is distributed already.');
  await client.query('rollback');
  expect((await client.query('select count(*)::int as tables from pg_dist_partition')).rows).toEqual([
    { tables: tables.length },
  ]);
});
