/** A long look at the database as it was at one moment, on a connection of its own, without writing or locking. */
import { drizzle } from 'drizzle-orm/node-postgres';
import pg from 'pg';
import type { Facts } from '../scoring/facts.ts';
import { type Database, type Executor, queryText, type TextRow } from './client.ts';
import type { FactsReader } from './facts.ts';

/** A pull request as a batch has it. */
export interface ScoredFacts {
  id: string;
  memberId: string;
  facts: Facts;
}

export interface Snapshot {
  readonly executor: Executor;
  /**
   * Every pull request of the organisation, in no order: as the table has them they are read fastest. While a batch is
   * worked on, the database prepares the next ones. One reading at a time.
   */
  readFacts(organisationId: string, reader: FactsReader): AsyncGenerator<Iterable<ScoredFacts>>;
}

/** Milliseconds; each statement reads little, but perhaps from a cold disk. */
const queryTimeout = 30_000;

async function* readFacts(
  client: pg.Client,
  organisationId: string,
  reader: FactsReader,
): AsyncGenerator<Iterable<ScoredFacts>> {
  // Three batches are in memory at a time, and a pull request's text has up to 64 KiB.
  const limit = reader.isLarge ? 200 : 1_000;
  await client.query(
    `declare facts no scroll cursor for
      select ${['pull_requests.id', 'pull_requests.member_id', ...reader.columns].join(', ')}
      from pull_requests ${reader.join} where pull_requests.organisation_id = $1`,
    [organisationId],
  );
  const fetch = (): Promise<TextRow[]> => queryText(client, { text: `fetch ${limit} from facts` });
  function* factsOf(rows: readonly TextRow[]): Generator<ScoredFacts> {
    for (const row of rows) yield { id: row[0] ?? '', memberId: row[1] ?? '', facts: reader.read(row, 2) };
  }

  const ahead = [fetch(), fetch()];
  // Each is awaited in its turn; where one fails, nobody asks for the next any more.
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

/** Runs `work` on the database as it is now: what changes meanwhile is not seen. */
export async function readSnapshot<Result>(
  { url }: Pick<Database, 'url'>,
  work: (snapshot: Snapshot) => Promise<Result>,
): Promise<Result> {
  const client = new pg.Client({
    connectionString: url,
    application_name: 'pullscore',
    pipeline: true,
    connectionTimeoutMillis: 2_000,
    query_timeout: queryTimeout,
    statement_timeout: queryTimeout,
    idle_in_transaction_session_timeout: 60_000,
  });
  // The statement under way tells of a lost connection; without a listener it would end the process.
  client.on('error', () => undefined);
  await client.connect();
  try {
    // A cursor is planned for its first rows unless told that all will be read.
    await client.query('begin isolation level repeatable read, read only; set local cursor_tuple_fraction = 1');
    return await work({
      executor: drizzle({ client }),
      readFacts: (organisationId, reader) => readFacts(client, organisationId, reader),
    });
  } finally {
    // There is nothing to commit: the transaction ends with the connection.
    await client.end().catch(() => undefined);
  }
}
