/** Long reads of the database as it was at one moment, on their own connection and without locks. */
import { and, eq, type SQL, sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/node-postgres';
import pg from 'pg';
import type { Facts } from '../scoring/facts.ts';
import { type Database, type Executor, queryText, type TextRow } from './client.ts';
import { clientOptions, openSession } from './connection.ts';
import type { FactsReader } from './facts.ts';
import { pullRequests } from './schema.ts';

/** @param share how many pull requests, from 0 to 1, chosen by their ids: the same ones each time */
export const isSampled = (share: number): SQL | undefined =>
  // An id ends with random digits.
  share < 1
    ? sql`('x' || right(${pullRequests.id}::text, 7))::bit(28)::int < ${Math.round(share * 2 ** 28)}`
    : undefined;

/** Each statement reads little, but perhaps from a cold disk. */
const queryTimeoutMs = 30_000;

export interface StoredFacts {
  id: string;
  memberId: string;
  repositoryId: string;
  facts: Facts;
}

/**
 * Reads the organisation's pull requests, in the table's order, which is the fastest. While a batch is processed, the
 * database prepares the next ones. One call at a time.
 *
 * @param executor the one that {@link readSnapshot} gives: the cursor needs its transaction
 * @param condition which of them; undefined for all
 */
export async function* readFacts(
  { $client: client }: Executor,
  organisationId: string,
  reader: FactsReader,
  condition?: SQL,
) {
  // Three batches are in memory at a time, and large facts have up to 700 KB.
  const limit = reader.isLarge ? 50 : 1_000;
  const { id, memberId, repositoryId } = pullRequests;
  const { text, values } = reader.select(
    [id, memberId, repositoryId],
    and(eq(pullRequests.organisationId, organisationId), condition),
  );
  await client.query(`declare facts no scroll cursor for ${text}`, values);
  type Row = readonly [id: string, memberId: string, repositoryId: string, ...TextRow];
  const fetch = () => queryText<Row>(client, { text: `fetch ${limit} from facts` });
  function* factsOf(rows: readonly Row[]): Generator<StoredFacts> {
    for (const row of rows) {
      const [id, memberId, repositoryId] = row;
      yield { id, memberId, repositoryId, facts: reader.read(row, 3) };
    }
  }

  const ahead = [fetch(), fetch()];
  // Each is awaited in its turn. After a failure nobody awaits the next ones, which fail, too.
  for (const batch of ahead) batch.catch(() => undefined);
  for (;;) {
    const rows = (await ahead.shift()) ?? [];
    if (rows.length === 0) break;
    const next = fetch();
    next.catch(() => undefined);
    ahead.push(next);
    yield factsOf(rows);
  }
  await client.query('close facts');
}

/**
 * Runs `work` on the database as it is now: later changes are not visible.
 *
 * @param signal ends the statement under way, and the connection
 */
export async function readSnapshot<Result>(
  { url }: Pick<Database, 'url'>,
  work: (executor: Executor) => Promise<Result>,
  signal?: AbortSignal,
): Promise<Result> {
  const client = new pg.Client(clientOptions(url, { pipeline: true, query_timeout: queryTimeoutMs }));
  // Without a listener, a lost connection would end the process. The statement under way fails by itself.
  client.on('error', () => undefined);
  await openSession(client, { statement_timeout: queryTimeoutMs, idle_in_transaction_session_timeout: 60_000 });
  let backendId: number | undefined;
  // PostgreSQL would go on with a statement whose client has gone.
  const stop = () =>
    void cancelStatement(url, backendId)
      .finally(() => client.end())
      .catch(() => undefined);
  signal?.addEventListener('abort', stop);
  try {
    signal?.throwIfAborted();
    const { rows } = await client.query<{ id: number }>('select pg_backend_pid() as id');
    backendId = rows[0]?.id;
    // By default a cursor is planned for its first rows; this one is read to the end.
    await client.query('begin isolation level repeatable read, read only; set local cursor_tuple_fraction = 1');
    return await work(drizzle({ client }));
  } catch (error) {
    signal?.throwIfAborted();
    throw error;
  } finally {
    signal?.removeEventListener('abort', stop);
    // There is nothing to commit: the transaction ends with the connection. If that has gone silent, its end takes minutes.
    client.end().catch(() => undefined);
  }
}

async function cancelStatement(url: string, backendId: number | undefined): Promise<void> {
  const client = await openSession(new pg.Client(clientOptions(url)));
  try {
    await client.query('select pg_cancel_backend($1::int)', [backendId]);
  } finally {
    await client.end();
  }
}
