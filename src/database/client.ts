import { setTimeout as delay } from 'node:timers/promises';
import { drizzle, type NodePgDatabase } from 'drizzle-orm/node-postgres';
import pg from 'pg';
import type { Logger } from 'pino';
import { isConnectionFailure, isRepeatable, isTimeout } from './failures.ts';

/** What query functions take first: the database, or a transaction in it. */
export type Executor = NodePgDatabase & { readonly $client: pg.Pool | pg.ClientBase };

/** A statement is prepared once a connection, by its name. */
export interface Statement {
  readonly name: string;
  readonly text: string;
}

/** Columns as PostgreSQL writes them in text, not parsed: most go into a reply as they are. */
export type TextRow = readonly (string | null)[];

export interface Database {
  readonly url: string;
  readonly executor: Executor;
  /**
   * One short read that serves a request. Reads share a pipelined connection: statements go out without waiting for
   * the replies before them, which serves half as many requests again as a pool does; a slow one would hold up the
   * rest.
   */
  read<Row extends TextRow>(statement: Statement, values: readonly unknown[]): Promise<Row[]>;
  /**
   * One statement that writes, durable when it resolves. It is run again as {@link Database.transaction} runs its work
   * again, and must have the same effect when it is repeated.
   */
  write<Row extends object>(statement: Statement, values: readonly unknown[]): Promise<Row[]>;
  /**
   * Runs `work` in a transaction. It is run again, in a new one, where PostgreSQL asks for that (serialisation failure,
   * deadlock, a row that appeared meanwhile) and where the connection was lost, even during the commit: `work` must
   * have the same effect when it is repeated.
   *
   * @param options.durable false: not awaited to be on the disk, so that a crash of the database may undo the last ones
   */
  transaction<Result>(
    work: (executor: Executor) => Promise<Result>,
    options?: { readonly durable?: boolean },
  ): Promise<Result>;
  close(): Promise<void>;
}

/** How often a transaction, or a statement that writes, is tried in all. */
const mostAttempts = 4;

/**
 * Milliseconds of silence after which a connection is probed: else it takes hours to find that one is dead of which
 * nothing is asked.
 */
export const keepAliveDelay = 10_000;

/** Milliseconds after which a hung server or a half-open connection is given up. */
const queryTimeout = 5_000;

export function connectDatabase(url: string, log: Logger): Database {
  const options = {
    connectionString: url,
    application_name: 'pullscore',
    connectionTimeoutMillis: 2_000,
    keepAlive: true,
    keepAliveInitialDelayMillis: keepAliveDelay,
    query_timeout: queryTimeout,
    statement_timeout: queryTimeout - 500,
    idle_in_transaction_session_timeout: 10_000,
  };
  const pool = new pg.Pool({ ...options, max: 10, idleTimeoutMillis: 60_000 });
  // Without a listener the loss of an idle connection would end the process.
  pool.on('error', error => log.warn({ err: error }, 'an idle database connection was lost'));
  // The same holds while a transaction has it, when the pool does not listen: the transaction's statement tells.
  pool.on('connect', client => client.on('error', () => undefined));
  const reader = createReader({ ...options, pipeline: true, options: '-c default_transaction_read_only=on' }, log);

  const attempt = async <Result>(begin: string, work: (executor: Executor) => Promise<Result>): Promise<Result> => {
    const client = await pool.connect();
    let broken = true;
    try {
      await client.query(begin);
      const result = await work(drizzle({ client }));
      await client.query('commit');
      broken = false;
      return result;
    } catch (error) {
      if (!isConnectionFailure(error)) {
        await client.query('rollback');
        broken = false;
      }
      throw error;
    } finally {
      client.release(broken);
    }
  };

  const repeatedly = async <Result>(work: () => Promise<Result>): Promise<Result> => {
    for (let tried = 1; ; tried += 1) {
      try {
        return await work();
      } catch (error) {
        const again = isRepeatable(error) || (isConnectionFailure(error) && !isTimeout(error));
        if (!again || tried === mostAttempts) throw error;
        log.debug({ err: error, tried }, 'a transaction is run again');
        await delay(tried * 20 + Math.random() * 20);
      }
    }
  };

  return {
    url,
    executor: drizzle({ client: pool }),
    read: reader.read,
    async write<Row extends object>(statement: Statement, values: readonly unknown[]): Promise<Row[]> {
      const { rows } = await repeatedly(() => pool.query<Row>({ ...statement, values: [...values] }));
      return rows;
    },
    transaction(work, { durable = true } = {}) {
      const begin = durable ? 'begin' : 'begin; set local synchronous_commit to off';
      return repeatedly(() => attempt(begin, work));
    },
    async close() {
      await Promise.all([reader.close(), pool.end()]);
    },
  };
}

const asText = { getTypeParser: () => (value: string) => value };

/** The rows as they come over the wire. */
export async function queryText<Row extends TextRow>(
  client: pg.Pool | pg.ClientBase,
  config: pg.QueryConfig,
): Promise<Row[]> {
  const result = await client.query({ ...config, rowMode: 'array', types: asText });
  const rows: unknown[] = result.rows;
  // The driver's results keep one another alive until the next full collection: with the rows in them, nearly all that
  // is read would be copied twice and outlive its use, which takes half as much time again as the reading.
  result.rows = [];
  return rows as Row[];
}

function createReader(options: pg.ClientConfig, log: Logger) {
  let connection: Promise<pg.Client> | undefined;

  const connect = (): Promise<pg.Client> => {
    const client = new pg.Client(options);
    const connecting = client.connect().then(() => client);
    const drop = () => {
      if (connection === connecting) connection = undefined;
    };
    client.on('error', error => {
      log.warn({ err: error }, 'the reading database connection was lost');
      drop();
    });
    client.on('end', drop);
    connecting.catch(drop);
    return connecting;
  };

  const query = async <Row extends TextRow>(statement: Statement, values: readonly unknown[]): Promise<Row[]> => {
    connection ??= connect();
    const client = await connection;
    return queryText<Row>(client, { ...statement, values: [...values] });
  };

  return {
    async read<Row extends TextRow>(statement: Statement, values: readonly unknown[]): Promise<Row[]> {
      try {
        return await query<Row>(statement, values);
      } catch (error) {
        // A read has no effect, so a connection lost on the way costs one more try.
        if (!isConnectionFailure(error) || isTimeout(error)) throw error;
        return await query<Row>(statement, values);
      }
    },
    async close() {
      const closing = connection;
      connection = undefined;
      await closing?.then(
        client => client.end(),
        () => undefined,
      );
    },
  };
}
