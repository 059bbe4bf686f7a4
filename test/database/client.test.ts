import { createServer, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { sql } from 'drizzle-orm';
import { pino } from 'pino';
import { afterAll, test as anyTest, beforeAll, describe, expect } from 'vitest';
import { connectDatabase, type Database, type Executor } from '../../src/database/client.ts';
import { CommitUnknown, isDatabaseUnavailable, TransactionOvertaken } from '../../src/database/driver-errors.ts';
import type { Selection } from '../../src/database/statement.ts';
import { query } from '../support/database-server.ts';
import { createLatch } from '../support/github/faults.ts';
import { startProxy, type TcpProxy } from '../support/proxy.ts';
import { listenOn } from '../support/raw-http.ts';
import { createDatabase } from '../support/service.ts';

const log = pino({ level: 'silent' });
let url: string;
let drop: () => Promise<void>;

beforeAll(async () => {
  ({ url, drop } = await createDatabase());
  await query(url, 'create table marks (name text primary key)');
});
afterAll(() => drop());

/** `database` is reached through `proxy`. */
const test = anyTest
  .extend('proxy', async ({ onTestFinished }) => {
    const proxy = await startProxy(url);
    onTestFinished(() => proxy.close());
    return proxy;
  })
  .extend('database', ({ proxy, onTestFinished }) => {
    const database = connectDatabase(proxy.through(url), log);
    onTestFinished(() => database.close());
    return database;
  });

let names = 0;
const newName = () => `mark ${++names}`;

async function count(database: Database, name: string): Promise<number> {
  const marks = selectionOf('marks', 'select count(*) from marks where name = $1', 'name');
  const rows = await database.read(marks, { name });
  return Number(rows[0]?.value);
}

const selectionOf = (name: string, text: string, ...parameters: string[]): Selection<{ value: string }> => ({
  name,
  text,
  parameters,
  columns: ['value'],
});

const now = selectionOf('now', 'select now()');

async function timed(promise: Promise<unknown>): Promise<{ error: unknown; milliseconds: number }> {
  const start = performance.now();
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  return { error, milliseconds: performance.now() - start };
}

const raise = (code: string) => sql.raw(`do $$ begin raise exception 'injected' using errcode = '${code}'; end $$`);

describe('a transaction', () => {
  test.for<[what: string, disturb: (executor: Executor, proxy: TcpProxy) => unknown]>([
    ['a serialisation failure', executor => executor.execute(raise('40001'))],
    ['a conflict with a row that appeared meanwhile', executor => executor.execute(raise('23505'))],
    ['another one has overtaken it', () => Promise.reject(new TransactionOvertaken())],
    [
      'its server process was terminated',
      executor => executor.execute(sql`select pg_terminate_backend(pg_backend_pid())`),
    ],
    [
      'its connection broke while it waited for an answer',
      (executor, proxy) => {
        proxy.loseReplyTo('pg_backend_pid');
        return executor.execute(sql`select pg_backend_pid()`);
      },
    ],
    [
      'its connection broke between two statements',
      async (executor, proxy) => {
        proxy.cut();
        await delay(50);
        await executor.execute(sql`select 1`);
      },
    ],
  ])('is repeated after this, with one effect: %s', async ([, disturb], { database, proxy }) => {
    const name = newName();
    let tried = 0;
    await database.transaction(async executor => {
      tried += 1;
      await executor.execute(sql`insert into marks values (${name})`);
      if (tried === 1) await disturb(executor, proxy);
    });
    expect(tried).toBe(2);
    expect(await count(database, name)).toBe(1);
  });

  test('is given up after four tries', async ({ database }) => {
    let tried = 0;
    const { error } = await timed(
      database.transaction(async executor => {
        tried += 1;
        await executor.execute(raise('40001'));
      }),
    );
    expect(isDatabaseUnavailable(error)).toBe(true);
    expect(tried).toBe(4);
  });

  test('is rolled back and not repeated after a defect, and keeps its connection', async ({ database, proxy }) => {
    const name = newName();
    let tried = 0;
    const failing = database.transaction(async executor => {
      tried += 1;
      await executor.execute(sql`insert into marks values (${name})`);
      throw new Error('a defect');
    });
    await expect(failing).rejects.toThrow('a defect');
    await database.transaction(executor => executor.execute(sql`select 1`));
    expect(tried).toBe(1);
    expect(proxy.connections).toBe(1);
    expect(await count(database, name)).toBe(0);
  });

  test.for<[what: string, disturb: (proxy: TcpProxy) => void, saved: number]>([
    ['the reply to it was lost', proxy => proxy.loseReplyTo('commit\0'), 1],
    ['it did not arrive', proxy => proxy.cut(), 0],
    ['it did not arrive, although the server still waits for it', proxy => proxy.abandon(), 0],
  ])(
    'is neither repeated nor called done if it is cut off at the commit: %s',
    async ([, disturb, saved], { database, proxy }) => {
      const name = newName();
      let tried = 0;
      const { error } = await timed(
        database.transaction(async executor => {
          tried += 1;
          await executor.execute(sql`insert into marks values (${name})`);
          disturb(proxy);
        }),
      );
      expect(error).toBeInstanceOf(CommitUnknown);
      expect([tried, isDatabaseUnavailable(error)]).toEqual([1, true]);
      expect(await count(database, name)).toBe(saved);
    },
  );
});

describe('a read', () => {
  test('is repeated if the connection breaks', async ({ database, proxy }) => {
    await database.read(now, {});
    proxy.loseReplyTo('pg_backend_pid');
    expect(await database.read(selectionOf('process', 'select pg_backend_pid()'), {})).toHaveLength(1);
    expect(proxy.connections).toBe(2);
  });

  test('shares one connection with all other reads', async ({ database, proxy }) => {
    const all = await Promise.all(Array.from({ length: 100 }, () => database.read(now, {})));
    expect(all.every(rows => rows.length === 1)).toBe(true);
    expect(proxy.connections).toBe(1);
  });

  test('does not disturb the reads around it if it fails', async ({ database, proxy }) => {
    const wrong = selectionOf('wrong', 'select 1 / ($1::int - 1)', 'value');
    const results = await Promise.allSettled(['0', '1', '2', '1', '3'].map(value => database.read(wrong, { value })));
    expect(results.map(({ status }) => status)).toEqual([
      'fulfilled',
      'rejected',
      'fulfilled',
      'rejected',
      'fulfilled',
    ]);
    expect(proxy.connections).toBe(1);
  });

  test('succeeds although the one that was to prepare its statement is cancelled', async ({ database }) => {
    await database.read(now, {});
    const unprepared = selectionOf('unprepared', 'select count(*) from marks');
    const results = await database.transaction(async executor => {
      await executor.execute(sql`lock table marks`);
      const reads = [1, 2, 3].map(() => database.read(unprepared, {}));
      const settled = Promise.allSettled(reads);
      await expect
        .poll(async () => {
          const { rows } = await executor.execute(
            sql`select pg_cancel_backend(pid) from pg_locks where not granted and relation = 'marks'::regclass
                and database = (select oid from pg_database where datname = current_database())`,
          );
          return rows.length;
        })
        .toBe(1);
      await Promise.allSettled(reads.slice(0, 1));
      return { settled };
    });
    expect((await results.settled).map(({ status }) => status)).toEqual(['rejected', 'fulfilled', 'fulfilled']);
    expect(await database.read(unprepared, {})).toHaveLength(1);
  });

  test("fails with the server's message as it is, also outside ASCII", async ({ database }) => {
    const reading = database.read(selectionOf('number', 'select $1::int', 'value'), { value: 'größer' });
    await expect(reading).rejects.toThrow('"größer"');
  });

  test('cannot write', async ({ database }) => {
    const writing = database.read(selectionOf('write', 'insert into marks values ($1)', 'name'), { name: newName() });
    await expect(writing).rejects.toMatchObject({ code: '25006' });
  });

  test('follows an index in its order, even over rows that PostgreSQL has not analysed', async ({ database }) => {
    await query(url, 'create table listed (list int, place int, entry text) with (autovacuum_enabled = false)');
    await query(url, 'create index on listed (list, place)');
    await query(url, 'insert into listed select 1, place, place from generate_series(1, 5000) as place');
    const page = 'select entry from listed where list = $1::int and place < 4000 order by place desc limit 15';
    const plan = await database.read(selectionOf('plan', `explain ${page}`, 'list'), { list: '1' });
    expect(plan.map(({ value }) => value.trim()).join(' ')).toMatch(
      /^Limit .* Index Scan Backward using listed_\S+ on/,
    );
    expect(plan).not.toContainEqual({ value: expect.stringContaining('Sort') });
  });

  test('waits for at most one step of all long lists', async ({ database }) => {
    const ended: string[] = [];
    const step = selectionOf('step', 'select pg_sleep(0.05)');
    const steps = Array.from({ length: 4 }, () => database.readStep(step, {}).then(() => ended.push('step')));
    await Promise.all([...steps, database.read(now, {}).then(() => ended.push('page'))]);
    expect(ended.indexOf('page')).toBeLessThanOrEqual(1);
    expect(ended).toHaveLength(5);
  });

  test('a step of a list waits for at most one step of another organisation', async ({ database }) => {
    const ended: string[] = [];
    const step = selectionOf('step', 'select pg_sleep(0.05)');
    const read = (organisationId: string) =>
      database.readStep(step, { organisationId }).then(() => ended.push(organisationId));
    await Promise.all([...Array.from({ length: 4 }, () => read('large')), read('small')]);
    expect(ended.indexOf('small')).toBeLessThanOrEqual(1);
  });

  test('a failed step of a list does not hold up another step', async ({ database }) => {
    const wrong = selectionOf('wrong', 'select 1 / 0');
    const results = await Promise.allSettled([wrong, now].map(selection => database.readStep(selection, {})));
    expect(results.map(({ status }) => status)).toEqual(['rejected', 'fulfilled']);
  });
});

describe.concurrent('time limits', () => {
  test('the server limits a statement to 4.5 seconds, and an idle transaction to ten', async ({ database }) => {
    const limits =
      "current_setting('statement_timeout') || ' ' || current_setting('idle_in_transaction_session_timeout')";
    const { rows } = await database.executor.execute(sql.raw(`select ${limits} as value`));
    const read = await database.read(selectionOf('limits', `select ${limits}`), {});
    for (const found of [rows, read]) expect(found).toEqual([{ value: '4500ms 10s' }]);
  });

  test('a statement fails within two seconds if the pool is exhausted', async ({ database }) => {
    const { release, released } = createLatch();
    const holding = Array.from({ length: 10 }, () => database.transaction(() => released));
    const { error, milliseconds } = await timed(database.executor.execute(sql`select 1`));
    release();
    await Promise.all(holding);
    expect(isDatabaseUnavailable(error)).toBe(true);
    expect(milliseconds).toBeGreaterThan(1_500);
    expect(milliseconds).toBeLessThan(4_500);
    expect(await timed(database.executor.execute(sql`select 1`))).toMatchObject({ error: undefined });
  });

  test('a half-open connection is replaced within five seconds', async ({ database, proxy }) => {
    await Promise.all([database.read(now, {}), database.executor.execute(sql`select 1`)]);
    proxy.stall();
    const results = await Promise.all([timed(database.read(now, {})), timed(database.executor.execute(sql`select 1`))]);
    for (const { error, milliseconds } of results) {
      // A read behind the one that timed out is repeated.
      if (error !== undefined) expect(isDatabaseUnavailable(error)).toBe(true);
      expect(milliseconds).toBeLessThan(9_000);
    }
    const after = await Promise.all([
      timed(database.read(now, {})),
      timed(database.transaction(executor => executor.execute(sql`select 1`))),
    ]);
    for (const { error } of after) expect(error).toBeUndefined();
  });

  test('a server that accepts a connection and says nothing is given up within two seconds', async () => {
    const sockets: Socket[] = [];
    const mute = createServer(socket => sockets.push(socket));
    const port = await listenOn(mute);
    const database = connectDatabase(`postgres://nobody:nothing@127.0.0.1:${port}/none`, log);
    const results = await Promise.all([
      timed(database.read(now, {})),
      timed(database.executor.execute(sql`select 1`)),
      timed(database.transaction(executor => executor.execute(sql`select 1`))),
    ]);
    for (const { error, milliseconds } of results) {
      expect(isDatabaseUnavailable(error)).toBe(true);
      expect(milliseconds).toBeLessThan(4_500);
    }
    await database.close();
    for (const socket of sockets) socket.destroy();
    await new Promise(resolve => mute.close(resolve));
  });

  test('the first call after the server is back succeeds', async ({ database, proxy }) => {
    await Promise.all([database.read(now, {}), database.executor.execute(sql`select 1`)]);
    proxy.refuse();
    proxy.cut();
    for (const failing of [
      database.read(now, {}),
      database.executor.execute(sql`select 1`),
      database.transaction(executor => executor.execute(sql`select 1`)),
    ]) {
      expect(isDatabaseUnavailable((await timed(failing)).error)).toBe(true);
    }
    proxy.accept();
    expect(await database.read(now, {})).toHaveLength(1);
    await database.transaction(executor => executor.execute(sql`select 1`));
  });
});

test('closing the database leaves no connection behind', async ({ database: other }) => {
  const database = connectDatabase(url, log);
  await Promise.all([
    database.read(now, {}),
    ...Array.from({ length: 5 }, () => database.executor.execute(sql`select pg_sleep(0.05)`)),
  ]);
  await database.close();
  const count = async () => {
    const { rows } = await other.executor.execute<{ count: number }>(
      sql`select count(*)::int as count from pg_stat_activity
          where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'`,
    );
    return rows[0]?.count;
  };
  // PostgreSQL ends its processes a moment after the connections.
  await expect.poll(count).toBe(0);
});

test('a transaction that need not be durable leaves the next ones durable', async ({ database }) => {
  const setting = async (options: { durable?: boolean } = {}) => {
    const show = (executor: Executor) =>
      executor.execute<{ setting: string; pid: number }>(
        sql`select current_setting('synchronous_commit') as setting, pg_backend_pid() as pid`,
      );
    return (await database.transaction(show, options)).rows[0];
  };
  const before = await setting({ durable: false });
  expect(before).toMatchObject({ setting: 'off' });
  expect(await setting()).toEqual({ setting: 'on', pid: before?.pid });
});
