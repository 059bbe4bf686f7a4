import { setTimeout as delay } from 'node:timers/promises';
import { drizzle, type NodePgDatabase } from 'drizzle-orm/node-postgres';
import pg from 'pg';
import { Parser } from 'pg-protocol/dist/parser.js';
import type { Logger } from 'pino';
import { applySettings, clientOptions, openSession } from './connection.ts';
import { CommitUnknown, isConnectionFailure, isRepeatable, isStatementUnprepared, isTimeout } from './driver-errors.ts';
import { type Selection, type Statement, valuesOf } from './statement.ts';

/** The first parameter of query functions: the database, or a transaction in it. */
export type Executor = NodePgDatabase & { readonly $client: pg.Pool | pg.ClientBase };

/** Columns in PostgreSQL's text format, not parsed. */
export type TextRow = readonly (string | null)[];

type Values = Readonly<Record<string, unknown>>;

export interface Database {
  readonly url: string;
  readonly executor: Executor;
  /**
   * One short read that serves a request. Reads share a pipelined connection: statements are sent without waiting for
   * earlier replies, which serves half again as many requests as a pool does. A slow read would hold up the others.
   */
  read<Row extends object>(selection: Selection<Row>, values: Values): Promise<Row[]>;
  /**
   * One step of a long list. It waits for the steps of the organisation's other lists, so that a read of another one
   * waits for one of them at most.
   */
  readStep<Row extends object>(selection: Selection<Row>, values: Values): Promise<Row[]>;
  /**
   * One statement that writes, durable when it resolves. After a failure or a lost reply it is repeated, and must then
   * have the same effect.
   */
  write<Row extends object>(statement: Statement, values: Values): Promise<Row[]>;
  /**
   * Runs `work` in a transaction. It is repeated, in a new one, after a serialisation failure, a deadlock, a conflict
   * with a new row, or a lost connection. If the connection breaks at the commit, nobody can say for certain whether it
   * happened: after a crash PostgreSQL gives lost transaction ids out again, so asking by the id is no proof.
   *
   * @param options.durable false: the commit does not wait for the disk, so a crash of the database may undo it
   * @throws CommitUnknown and does not repeat the work; loops find from what is stored what is left to do
   */
  transaction<Result>(
    work: (executor: Executor) => Promise<Result>,
    options?: { readonly durable?: boolean },
  ): Promise<Result>;
  close(): Promise<void>;
}

const maxAttempts = 4;

/** How long to wait for a hung server or a half-open connection. */
const queryTimeoutMs = 5_000;

const sessionSettings = {
  statement_timeout: queryTimeoutMs - 500,
  idle_in_transaction_session_timeout: 10_000,
};

/**
 * Each read follows an index in its order and stops early. Until newly added rows are analysed, PostgreSQL
 * assumes that an organisation has only a few, and would read and sort all of them for each page.
 */
const readerSettings = {
  ...sessionSettings,
  default_transaction_read_only: 'on',
  enable_bitmapscan: 'off',
  enable_seqscan: 'off',
  enable_sort: 'off',
};

/** @param maxConnections for statements and transactions; the reads of the API have one more */
export function connectDatabase(url: string, log: Logger, maxConnections = 10): Database {
  const options = clientOptions(url, { query_timeout: queryTimeoutMs });
  const onConnect = (client: pg.ClientBase) => applySettings(client, sessionSettings);
  const pool = new pg.Pool({ ...options, max: maxConnections, idleTimeoutMillis: 60_000, onConnect });
  // Without a listener, losing an idle connection would end the process.
  pool.on('error', error => log.warn({ err: error }, 'an idle database connection was lost'));
  // While a transaction uses a connection the pool does not listen: the transaction's own statement fails.
  pool.on('connect', client => client.on('error', () => undefined));
  const reader = createReader({ ...options, pipeline: true }, log);

  const attempt = async <Result>(begin: string, work: (executor: Executor) => Promise<Result>): Promise<Result> => {
    const client = await pool.connect();
    let isCommitting = false;
    let isBroken = true;
    try {
      await client.query(begin);
      const result = await work(drizzle({ client }));
      isCommitting = true;
      await client.query('commit');
      isBroken = false;
      return result;
    } catch (error) {
      if (isConnectionFailure(error)) throw isCommitting ? new CommitUnknown({ cause: error }) : error;
      await client.query('rollback');
      isBroken = false;
      throw error;
    } finally {
      client.release(isBroken);
    }
  };

  const withRetries = async <Result>(work: () => Promise<Result>): Promise<Result> => {
    for (let tried = 1; ; tried += 1) {
      try {
        return await work();
      } catch (error) {
        const canRepeat = isRepeatable(error) || (isConnectionFailure(error) && !isTimeout(error));
        if (!canRepeat || tried === maxAttempts) throw error;
        log.debug({ err: error, tried }, 'a transaction is run again');
        await delay(tried * 20 + Math.random() * 20);
      }
    }
  };

  return {
    url,
    executor: drizzle({ client: pool }),
    read: reader.read,
    readStep: reader.readStep,
    async write<Row extends object>(statement: Statement, given: Values): Promise<Row[]> {
      const { name, text } = statement;
      const values = valuesOf(statement, given);
      const { rows } = await withRetries(() => pool.query<Row>({ name, text, values }));
      return rows;
    },
    transaction<Result>(work: (executor: Executor) => Promise<Result>, { durable = true } = {}) {
      const begin = durable ? 'begin' : 'begin; set local synchronous_commit to off';
      return withRetries(() => attempt(begin, work));
    },
    async close() {
      await Promise.all([reader.close(), pool.end()]);
    },
  };
}

const asText = { getTypeParser: () => (value: string) => value };

export async function queryText<Row extends TextRow>(
  client: pg.Pool | pg.ClientBase,
  config: pg.QueryConfig,
): Promise<Row[]> {
  const result = await client.query({ ...config, rowMode: 'array', types: asText });
  const rows: unknown[] = result.rows;
  // The driver's results keep one another alive until the next full garbage collection. With the rows in them, nearly
  // all rows would be copied twice and outlive their use, which makes reading take half as long again.
  result.rows = [];
  return rows as Row[];
}

/** The driver can only decode UTF-8. Its own settings are private: tests with texts outside ASCII guard this. */
function readByteStrings(client: pg.Client): void {
  const { connection } = client as unknown as {
    connection: pg.Connection & { attachListeners(stream: NodeJS.ReadableStream): void };
  };
  connection.attachListeners = stream => {
    const parser = new Parser();
    (parser as unknown as { reader: { encoding: BufferEncoding } }).reader.encoding = 'latin1';
    stream.on('data', (chunk: Buffer) =>
      parser.parse(chunk, message => {
        // The server's own texts are shown and logged.
        if (message.name === 'error') {
          const error = message as pg.DatabaseError;
          for (const key of ['message', 'detail', 'hint'] as const) error[key] &&= decode(error[key]);
        }
        connection.emit(message.name === 'error' ? 'errorMessage' : message.name, message);
      }),
    );
  };
}

const decode = (byteString: string) =>
  /[\u0080-\u00ff]/.test(byteString) ? Buffer.from(byteString, 'latin1').toString() : byteString;

/** Sends all queries of this turn of the event loop at once: a system call for each would cost as much as the query. */
function sendTogether(client: pg.Client): void {
  const { stream } = (client as unknown as { connection: pg.Connection }).connection;
  if (stream.writableCorked > 0) return;
  stream.cork();
  process.nextTick(() => stream.uncork());
}

function createReader(options: pg.ClientConfig, log: Logger) {
  let connection: Promise<pg.Client> | undefined;

  const connect = (): Promise<pg.Client> => {
    const client = new pg.Client(options);
    readByteStrings(client);
    const connecting = openSession(client, readerSettings);
    const drop = () => {
      if (connection === connecting) connection = undefined;
    };
    client.on('error', error => {
      log.warn({ err: error }, 'the database connection for reads was lost');
      drop();
    });
    client.on('end', drop);
    connecting.catch(drop);
    return connecting;
  };

  const query = async <Row extends object>(selection: Selection<Row>, given: Values): Promise<Row[]> => {
    const { name, text, columns, givesByteStrings } = selection;
    const values = valuesOf(selection, given);
    connection ??= connect();
    const client = await connection;
    sendTogether(client);
    const rows = await queryText(client, { name, text, values });
    return rows.map(row => {
      const named: Record<string, string | null | undefined> = {};
      columns.forEach((column, index) => {
        const value = row[index];
        named[column] = givesByteStrings || value == null ? value : decode(value);
      });
      return named as Row;
    });
  };

  const read = async <Row extends object>(selection: Selection<Row>, values: Values): Promise<Row[]> => {
    try {
      return await query(selection, values);
    } catch (error) {
      const isConnectionLost = isConnectionFailure(error) && !isTimeout(error);
      if (!isConnectionLost && !isStatementUnprepared(error)) throw error;
      // A read has no effect: it is tried once more, without a name, so that no other read's failure matters.
      return await query({ ...selection, name: '' }, values);
    }
  };

  /** The last step of each organisation that reads a list. */
  const lastSteps = new Map<unknown, Promise<void>>();
  return {
    read,
    readStep<Row extends object>(selection: Selection<Row>, values: Values): Promise<Row[]> {
      const { organisationId } = values;
      const step = (lastSteps.get(organisationId) ?? Promise.resolve()).then(() => read(selection, values));
      const end = () => {
        if (lastSteps.get(organisationId) === ended) lastSteps.delete(organisationId);
      };
      const ended: Promise<void> = step.then(end, end);
      lastSteps.set(organisationId, ended);
      return step;
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
