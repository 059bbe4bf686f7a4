import type pg from 'pg';
import { databaseUnavailable } from '../errors.ts';
import { connectToServer } from './connection.ts';

/** Rows in a statement, of which each may have a megabyte. */
const batchSize = 50;

/** Tables and sequences of ours, and which other tables have the rows that theirs refer to. */
const findTables = `select relname as name, relkind = 'S' as "isSequence", array(
    select confrelid::regclass::text from pg_constraint where conrelid = pg_class.oid and contype = 'f'
      and confrelid <> conrelid
  ) as needs
  from pg_class where relkind in ('r', 'S') and relnamespace = 'public'::regnamespace order by relname`;

interface Table {
  name: string;
  isSequence: boolean;
  needs: string[];
}

/**
 * Copies all rows from one database to another one, which has none. Both have the schema of this release. It takes
 * everything or nothing.
 *
 * @returns how many rows were copied
 * @throws ServiceError `database_unavailable` if others use the first one, or the second one has organisations
 */
export async function copyDatabase(fromUrl: string, toUrl: string): Promise<number> {
  const options = { application_name: 'pullscore copy' };
  const from = await connectToServer(fromUrl, options);
  try {
    const to = await connectToServer(toUrl, options);
    try {
      await requireUnused(from, to);
      await from.query('begin isolation level repeatable read, read only');
      await to.query('begin');
      const copied = await copyAll(from, to);
      await to.query('commit');
      return copied;
    } finally {
      await to.end();
    }
  } finally {
    await from.end();
  }
}

async function requireUnused(from: pg.Client, to: pg.Client): Promise<void> {
  const users = `select count(*)::int as count from pg_stat_activity where application_name = 'pullscore embedded'`;
  if (((await from.query<{ count: number }>(users)).rows[0]?.count ?? 0) > 1) {
    throw databaseUnavailable('Another process uses the embedded database.', 'Stop the service, and run this again.');
  }
  if ((await to.query('select from organisations limit 1')).rowCount !== 0) {
    throw databaseUnavailable(
      `The database ${to.database} has organisations already, so nothing was copied.`,
      'Create an empty one, and name it in DATABASE_URL.',
    );
  }
}

async function copyAll(from: pg.Client, to: pg.Client): Promise<number> {
  const { rows: tables } = await from.query<Table>(findTables);
  const waiting = new Map(tables.map(table => [table.name, table]));
  let copied = 0;
  while (waiting.size > 0) {
    const next = [...waiting.values()].find(({ needs }) => !needs.some(each => waiting.has(each)));
    if (next === undefined) throw new Error(`tables refer to each other in a circle: ${[...waiting.keys()]}`);
    waiting.delete(next.name);
    if (next.isSequence) await copySequence(from, to, next.name);
    else copied += await copyTable(from, to, next.name);
  }
  return copied;
}

async function copySequence(from: pg.Client, to: pg.Client, name: string): Promise<void> {
  const { rows } = await from.query<{ last: string; called: boolean }>(
    `select last_value as last, is_called as called from "${name}"`,
  );
  await to.query('select setval($1::regclass, $2, $3)', [`"${name}"`, rows[0]?.last, rows[0]?.called]);
}

/** Rows are JSON on the way, which holds every value of ours exactly, and which PostgreSQL writes and reads itself. */
async function copyTable(from: pg.Client, to: pg.Client, name: string): Promise<number> {
  await from.query(`declare source no scroll cursor for select row_to_json(each)::text as row from "${name}" as each`);
  let copied = 0;
  for (;;) {
    const { rows } = await from.query<{ row: string }>(`fetch ${batchSize} from source`);
    if (rows.length === 0) break;
    await to.query(`insert into "${name}" select * from json_populate_recordset(null::"${name}", $1::json)`, [
      `[${rows.map(({ row }) => row).join()}]`,
    ]);
    copied += rows.length;
  }
  await from.query('close source');
  return copied;
}
