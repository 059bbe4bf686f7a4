/** What a database server must be able to do. */
import pg from 'pg';
import { databaseUnavailable } from '../errors.ts';
import { connectToServer } from './connection.ts';

export interface ServerFacts {
  /** PostgreSQL's `server_version_num`: 170002 is 17.2. */
  version: number;
  database: string;
  encoding: string;
  /** Whether names can be sorted as people sort them. */
  icu: boolean;
  /** The process that serves this session. */
  processId: number;
}

/** @throws ServiceError `database_unavailable` that says what the server lacks */
export async function requireUsable(client: pg.Client, url: string): Promise<ServerFacts> {
  const { rows } = await client.query<ServerFacts>(
    `select current_setting('server_version_num')::int as version, current_database() as database,
      current_setting('server_encoding') as encoding, pg_backend_pid() as "processId",
      exists (select 1 from pg_collation where collname = 'und-x-icu') as icu`,
  );
  const [facts] = rows;
  if (facts === undefined) throw new Error('the server did not describe itself');
  const { version, database, encoding, icu } = facts;
  if (version < 150_000) {
    throw databaseUnavailable(`PostgreSQL ${Math.floor(version / 10_000)} is too old.`, 'Use version 15 or newer.');
  }
  if (encoding !== 'UTF8') {
    throw databaseUnavailable(
      `The database ${database} has the encoding ${encoding}, and pullscore needs UTF8.`,
      `Create another one with "create database NAME encoding 'UTF8' locale 'C.UTF-8' template template0", and name it in DATABASE_URL.`,
    );
  }
  if (!icu) {
    throw databaseUnavailable(
      'This PostgreSQL is built without ICU, which sorts names.',
      'Use a PostgreSQL that is built with ICU.',
    );
  }
  await requireSession(client, url, facts.processId);
  return facts;
}

/**
 * Refuses a pooler that gives each transaction another session: locks and notifications would be lost. A pooler names
 * a process of its own, so a direct connection costs nothing here. Poolers give the session that was used last, so a
 * transaction of a second connection either gets that of the first one, or makes it move.
 */
async function requireSession(client: pg.Client, url: string, processId: number): Promise<void> {
  if ((client as unknown as { processID: number | null }).processID === processId) return;
  const second = await connectToServer(url, { application_name: 'pullscore pooler check' });
  const getProcess = async (session: pg.Client) => {
    const { rows } = await session.query<{ id: number }>('select pg_backend_pid() as id');
    return rows[0]?.id;
  };
  try {
    const isShared = await second.query('begin').then(
      async () => (await getProcess(second)) === processId || (await getProcess(client)) !== processId,
      error => {
        // A pooler of single statements refuses transactions.
        if (error instanceof pg.DatabaseError) return true;
        throw error;
      },
    );
    if (!isShared) return;
  } finally {
    await second.end();
  }
  throw databaseUnavailable(
    'DATABASE_URL points to a pooler of transactions, and pullscore needs sessions of its own.',
    'Let it pool sessions (for PgBouncer, pool_mode = session), or connect to PostgreSQL directly; see docs/scaling.md.',
  );
}
