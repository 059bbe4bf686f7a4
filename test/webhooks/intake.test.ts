import { randomUUID } from 'node:crypto';
import { sql } from 'drizzle-orm';
import { describe, expect, onTestFinished, test } from 'vitest';
import { setWebhooksEnabled } from '../../src/database/organisations.ts';
import { startProxy } from '../support/proxy.ts';
import { closing, startReplica } from '../support/service.ts';
import { createTenant } from '../support/tenants.ts';
import { addTrigger } from '../support/trigger.ts';
import { lockWaits } from '../sync/support.ts';
import { countRows, post, startForAcme } from './support.ts';

const service = await startForAcme();
const closed = await createTenant(service, { login: 'closed', githubId: 2 });
await setWebhooksEnabled(service.database.executor, closed.organisation.id, false);

const execute = (statement: string) => service.database.executor.execute(sql.raw(statement));

const about = (pullRequest: number, organisation = { id: 1, login: 'acme' }) => ({
  event: 'pull_request',
  payload: {
    action: 'opened',
    pull_request: { id: pullRequest, node_id: `PR_${pullRequest}` },
    organization: organisation,
  },
});

/** Runs the PL/pgSQL `body` before each delivery is written, until the test ends. */
const beforeDelivery = (body: string) =>
  addTrigger(service.database.executor, 'before insert on webhook_deliveries for each row', body);

describe('deliveries that arrive together', () => {
  test('share transactions, and each gets its own answer', async () => {
    const again = randomUUID();
    await post(service, about(900), { guid: again });
    await execute(`update webhook_deliveries set state = 'applied'`);
    const twice = randomUUID();
    const replies = await Promise.all([
      ...Array.from({ length: 40 }, (_, index) => post(service, about(1 + (index % 10)))),
      post(service, about(50), { guid: twice }),
      post(service, about(50), { guid: twice }),
      post(service, about(900), { guid: again }),
      post(service, about(60, { id: 2, login: 'closed' })),
      post(service, about(70, { id: 99, login: 'acme' })),
    ]);
    expect(replies.map(({ status, message }) => `${status} ${message}`)).toEqual([
      ...Array.from({ length: 42 }, () => '202 Accepted.'),
      '200 Ignored: this delivery has already been applied.',
      '200 Ignored: webhooks are disabled for this organisation.',
      '200 Ignored: this organisation is not tracked here.',
    ]);
    expect(await countRows(service)).toMatchObject({ deliveries: 42, requests: 12 });
    const { rows } = await service.database.executor.execute<{ transactions: number; behind: number }>(sql`select
      count(distinct webhook_deliveries.xmin::text)::int as transactions,
      (count(*) filter (where sync_requests.ticket < webhook_deliveries.ticket))::int as behind
      from webhook_deliveries join sync_requests on github_id = pull_request_github_id where state = 'pending'`);
    expect(rows[0]?.transactions).toBeLessThan(20);
    expect(rows[0]?.behind).toBe(0);
  });

  test('do not wait for others that hang', async () => {
    await beforeDelivery(`if new.guid like 'slow%' then perform pg_advisory_xact_lock_shared(1); end if`);
    const slow: ReturnType<typeof post>[] = [];
    let answered = 0;
    await service.database.transaction(async executor => {
      await executor.execute(sql`select pg_advisory_xact_lock(1)`);
      for (const guid of ['slow-1', 'slow-2']) {
        slow.push(
          post(service, about(1), { guid }).finally(() => {
            answered += 1;
          }),
        );
        await expect.poll(() => lockWaits(service)).toBe(slow.length);
      }
      expect((await post(service, about(2))).status).toBe(202);
      expect(answered).toBe(0);
    });
    for (const { status } of await Promise.all(slow)) expect(status).toBe(202);
  });
});

describe('a delivery after a failure', () => {
  test.each(['40001', '40P01', '23505'])(
    'is taken once if PostgreSQL fails with %s and the transaction is retried',
    async code => {
      await execute('create sequence tries');
      await beforeDelivery(`if nextval('tries') < 3 then raise exception 'injected' using errcode = '${code}'; end if`);
      expect((await post(service, about(1))).status).toBe(202);
      const { rows } = await execute('select last_value::int as tries from tries');
      await execute('drop sequence tries');
      expect(rows).toEqual([{ tries: 3 }]);
      expect(await countRows(service)).toMatchObject({ deliveries: 1, requests: 1 });
    },
  );

  test('is taken once if the connection is lost before the commit is confirmed, or earlier', async () => {
    const proxy = closing(await startProxy(service.database.url));
    const replica = closing(await startReplica(proxy.through(service.database.url)));
    expect((await post(replica, about(1))).status).toBe(202);
    proxy.loseReplyTo('take_deliveries');
    expect((await post(replica, about(2))).status).toBe(202);
    proxy.cut();
    expect((await post(replica, about(3))).status).toBe(202);
    expect(await countRows(service)).toMatchObject({ deliveries: 3, requests: 3 });
  });

  test('is taken once if its server process is killed', async () => {
    await execute('create sequence kills');
    await beforeDelivery(`if nextval('kills') = 1 then perform pg_terminate_backend(pg_backend_pid()); end if`);
    expect((await post(service, about(1))).status).toBe(202);
    await execute('drop sequence kills');
    expect(await countRows(service)).toMatchObject({ deliveries: 1, requests: 1 });
  });
});

describe('a delivery without a working database', () => {
  const unavailable = {
    status: 503,
    message: 'The database is not available. Try again shortly.',
    headers: expect.objectContaining({ 'retry-after': '1' }),
  };
  const events = [
    about(1),
    {
      event: 'organization',
      payload: {
        action: 'member_added',
        organization: { id: 1, login: 'acme' },
        membership: { user: { id: 5, login: 'ada', avatar_url: 'https://a.example/' } },
      },
    },
  ];

  test.each([
    ['the disk is full', '53100'],
    ['the server is out of memory', '53200'],
    ['the disk fails', '58030'],
  ])('gets 503 while %s, and is taken when it is sent again', async (_, code) => {
    const repair = await beforeDelivery(`raise exception 'injected' using errcode = '${code}'`);
    for (const event of events) expect(await post(service, event, { guid: 'a' })).toMatchObject(unavailable);
    expect(await countRows(service)).toMatchObject({ deliveries: 0, requests: 0, members: 0 });
    await repair();
    expect((await post(service, events[0] ?? about(1), { guid: 'a' })).status).toBe(202);
  });

  test('gets 503 while commits fail, does nothing, and is taken when it is sent again', async () => {
    const repair = await addTrigger(
      service.database.executor,
      'after insert on webhook_deliveries deferrable initially deferred for each row',
      "raise exception 'injected' using errcode = '53100'",
    );
    const organisation = async () => (await execute('select * from organisations where github_id = 1')).rows;
    const before = await organisation();
    for (const event of events) expect(await post(service, event, { guid: 'd' })).toMatchObject(unavailable);
    expect(await countRows(service)).toMatchObject({ deliveries: 0, requests: 0 });
    expect(await organisation()).toEqual(before);
    await repair();
    expect((await post(service, events[1] ?? about(1), { guid: 'd' })).status).toBe(202);
    expect(await organisation()).not.toEqual(before);
  });

  test('gets 503 while the database is read-only, and is taken when it is sent again', async () => {
    const { pathname } = new URL(service.database.url);
    const set = (value: string) =>
      execute(`alter database ${pathname.slice(1)} set default_transaction_read_only = ${value}`);
    await set('on');
    onTestFinished(async () => void (await set('off')));
    // The setting applies to new connections.
    const replica = closing(await startReplica(service.database.url));
    for (const event of events) expect(await post(replica, event, { guid: 'b' })).toMatchObject(unavailable);
    expect((await replica.app.inject('/healthz')).statusCode).toBe(200);
    expect(await countRows(service)).toMatchObject({ deliveries: 0, requests: 0 });
    await set('off');
    const after = closing(await startReplica(service.database.url));
    expect((await post(after, about(1), { guid: 'b' })).status).toBe(202);
  });

  test('gets 503 while PostgreSQL refuses connections, and is accepted when sent again', async () => {
    const role = `limited_${randomUUID().slice(0, 8)}`;
    await execute(`create role ${role} login password 'of the tests' connection limit 0`);
    await execute(`grant all on all tables in schema public to ${role}`);
    await execute(`grant all on all sequences in schema public to ${role}`);
    onTestFinished(async () => {
      await execute(`drop owned by ${role}`);
      await execute(`drop role ${role}`);
    });
    const url = new URL(service.database.url);
    url.username = role;
    url.password = 'of the tests';
    const replica = closing(await startReplica(url.href));
    for (const event of events) expect(await post(replica, event, { guid: 'c' })).toMatchObject(unavailable);
    const err = expect.objectContaining({ code: '53300' });
    expect(replica.complaints).toContainEqual(expect.objectContaining({ err }));
    expect(await countRows(service)).toMatchObject({ deliveries: 0, requests: 0 });
    await execute(`alter role ${role} connection limit 2`);
    expect((await post(replica, about(1), { guid: 'c' })).status).toBe(202);
  });
});
