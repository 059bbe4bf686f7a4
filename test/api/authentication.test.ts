import { createHash } from 'node:crypto';
import { sql } from 'drizzle-orm';
import { describe, expect, test, vi } from 'vitest';
import { generateAccessToken, isAccessToken } from '../../src/access-token.ts';
import { listAccessTokens, revokeAccessToken } from '../../src/database/access-tokens.ts';
import { addUser } from '../../src/database/users.ts';
import { formatId, newId } from '../../src/ids.ts';
import { closing, startReplica } from '../support/service.ts';
import { createToken, insertPullRequests } from '../support/tenants.ts';
import { addTrigger } from '../support/trigger.ts';
import { startWorld } from '../support/world.ts';

const world = await startWorld();
const { service, client, executor } = world;

const endpoints = (pullRequest: string, member: string) =>
  [
    ['GET', '/2025-04/account'],
    ['GET', '/2025-04/members'],
    ['GET', `/2025-04/members/${member}`],
    ['GET', `/2025-04/members/${member}/pull-requests`],
    ['GET', '/2025-04/pull-requests'],
    ['PUT', `/2025-04/pull-requests/${pullRequest}/sync`],
    ['DELETE', `/2025-04/pull-requests/${pullRequest}`],
    ['GET', '/2025-04/rules'],
    ['GET', '/2025-04/users'],
  ] as const;
const unknown = endpoints(formatId('pr', newId()), formatId('mem', newId()));
const unauthenticated = { message: 'Unauthenticated. Send a valid token in the header Authorization: Bearer TOKEN.' };
const forbidden = { message: 'This action is unauthorized.' };

describe('requests without a valid token', () => {
  test.each(
    [101, 1_000, 15_000]
      .flatMap(length => endpoints('x'.repeat(length), 'x'.repeat(length)))
      .filter(([, url]) => url.includes('xxx')),
  )('an id of any length gets 401 without a token, and 404 with one', async (method, url) => {
    expect((await client.send(method, url, undefined)).status).toBe(401);
    expect((await client.send(method, url, world.token)).status).toBe(404);
  });

  const credentials: [string, (token: string) => string][] = [
    ['nothing', () => ''],
    ['only the scheme', () => 'Bearer'],
    ['only the scheme and a space', () => 'Bearer '],
    ['another scheme', token => `Basic ${token}`],
    ['no scheme', token => token],
    ['a colon', token => `Bearer: ${token}`],
    ['a tab', token => `Bearer\t${token}`],
    ['two tokens', token => `Bearer ${token} ${token}`],
    ['two tokens with a comma', token => `Bearer ${token}, Bearer ${token}`],
    ['something behind', token => `Bearer ${token} x`],
    ['quotes', token => `Bearer "${token}"`],
    ['NUL', token => `Bearer ${token}\0`],
    ['one character missing', token => `Bearer ${token.slice(0, -1)}`],
    ['one extra character', token => `Bearer ${token}0`],
    ['other capitals', token => `Bearer ${token.toUpperCase()}`],
    ['10,000 characters', () => `Bearer ${'a'.repeat(10_000)}`],
    ['SQL', () => "Bearer ' or true --"],
    ['an unknown token', () => `Bearer ${generateAccessToken()}`],
  ];
  test.each(credentials)('an Authorization header with %s gets 401', async (_, header) => {
    const { status, body } = await client.get('/2025-04/account', undefined, {
      headers: { authorization: header(world.token) },
    });
    expect([status, body]).toEqual([401, unauthenticated]);
  });

  test('a token in the query or in a cookie is ignored', async () => {
    const url = `/2025-04/account?access_token=${world.token}&token=${world.token}`;
    const { status } = await client.get(url, undefined, { headers: { cookie: `token=${world.token}` } });
    expect(status).toBe(401);
  });

  test('unknown, expired and revoked tokens get the same answer', async () => {
    const expired = await createToken(service, world.user, ['read'], new Date(Date.now() - 1));
    const revoked = await createToken(service, world.user);
    await revokeAccessToken(executor, (await listAccessTokens(executor)).at(-1)?.id ?? '');
    const replies = [];
    for (const token of [generateAccessToken(), expired, revoked]) {
      const { status, body, headers } = await client.get('/2025-04/account', token);
      const { 'x-request-id': _, date: __, ...rest } = headers;
      replies.push({ status, body, rest });
    }
    expect(replies[1]).toEqual(replies[0]);
    expect(replies[2]).toEqual(replies[0]);
    expect(replies[0]).toMatchObject({ status: 401, body: unauthenticated });
  });
});

describe('requests with a valid token', () => {
  test.each(['bearer', 'BEARER', 'bEaReR'])(
    'the scheme in the Authorization header may be written %s',
    async scheme => {
      const headers = { authorization: `${scheme}  ${world.token}` };
      expect((await client.get('/2025-04/account', undefined, { headers })).status).toBe(200);
    },
  );

  test('a token is valid until it expires', async () => {
    const token = await createToken(service, world.user, ['read'], new Date(Date.now() + 60_000));
    expect((await client.get('/2025-04/account', token)).status).toBe(200);
    await executor.execute(sql`update access_tokens set expires_at = now() where expires_at > now()`);
    expect((await client.get('/2025-04/account', token)).status).toBe(401);
  });

  test('a token is refused on every replica from the next request after it is revoked', async () => {
    const { client: other } = closing(await startReplica(service.database.url));
    const token = await createToken(service, world.user);
    for (const each of [client, other]) expect((await each.get('/2025-04/account', token)).status).toBe(200);
    const id = (await listAccessTokens(executor)).at(-1)?.id ?? '';
    expect(await revokeAccessToken(executor, id)).toMatchObject({ token: { id }, changed: true });
    for (const each of [other, client]) expect((await each.get('/2025-04/account', token)).status).toBe(401);
  });

  test('a hundred requests at once, good and bad, each get their own answer', async () => {
    const other = await world.newTenant();
    const tokens = [world.token, generateAccessToken(), other.token, `${world.token.slice(0, -1)}~`];
    const replies = await Promise.all(
      Array.from({ length: 100 }, async (_, index) => {
        const { status, body } = await client.get<{ data: { id: string } }>('/2025-04/account', tokens[index % 4]);
        return status === 200 ? body.data.id : status;
      }),
    );
    const expected = [formatId('usr', world.user.id), 401, formatId('usr', other.user.id), 401];
    expect(replies).toEqual(replies.map((_, index) => expected[index % 4]));
  });

  test('the last use of a token is written at most every ten minutes', async () => {
    const token = await createToken(service, world.user);
    const own = sql`token_hash = ${createHash('sha256').update(token).digest('hex')}`;
    const lastUse = async () => {
      const { rows } = await executor.execute<{ seconds: number | null }>(
        sql`select extract(epoch from now() - last_used_at)::float8 as seconds from access_tokens where ${own}`,
      );
      return rows[0]?.seconds;
    };
    const usedBefore = (minutes: number) =>
      executor.execute(
        sql`update access_tokens set last_used_at = now() - make_interval(mins => ${minutes}) where ${own}`,
      );
    expect(await lastUse()).toBeNull();
    await client.get('/2025-04/account', token);
    await expect.poll(lastUse).toBeLessThan(5);

    await usedBefore(11);
    await client.get('/2025-04/account', token);
    await expect.poll(lastUse).toBeLessThan(5);

    await usedBefore(9);
    const writes = vi.spyOn(executor, 'update');
    await client.get('/2025-04/account', token);
    expect(writes).not.toHaveBeenCalled();
    writes.mockRestore();
    expect(await lastUse()).toBeGreaterThan(500);
  });

  test('the last use of a token waits for no lock, and so takes no connections from others', async () => {
    const [locked, other] = [await world.newTenant(), await world.newTenant()];
    await service.database.transaction(async holder => {
      await holder.execute(sql`select from access_tokens where organisation_id = ${locked.organisation.id} for update`);
      const replies = await Promise.all(Array.from({ length: 20 }, () => client.get('/2025-04/account', locked.token)));
      expect(replies.every(({ status }) => status === 200)).toBe(true);
      expect((await client.get('/2026-12/account', other.token)).status).toBe(200);
    });
  });

  test('if the last use of a token cannot be written, that is logged and the request is answered', async () => {
    await addTrigger(executor, 'before update on access_tokens', "raise 'full'");
    const token = await createToken(service, world.user);
    expect((await client.get('/2025-04/account', token)).status).toBe(200);
    const complaint = expect.objectContaining({ level: 40, msg: 'the last use of a token was not written' });
    await expect.poll(() => service.complaints).toContainEqual(complaint);
  });
});

describe('a missing scope', () => {
  const needed = { GET: 'read', PUT: 'sync', DELETE: 'delete' } as const;
  const scopes = ['read', 'sync', 'delete'] as const;

  test.each(scopes)(
    'with only the scope %s, whatever needs another gets 403 before the object is looked up',
    async scope => {
      const token = await createToken(service, world.user, [scope]);
      const hostile = endpoints('nonsense', '%00');
      for (const [method, url] of [...unknown, ...hostile]) {
        const { status, body } = await client.send(method, url, token);
        if (needed[method] === scope) expect([200, 404], `${method} ${url}`).toContain(status);
        else {
          const message = `${forbidden.message} Use a token with the scope ${needed[method]}.`;
          expect([method, url, status, body]).toEqual([method, url, 403, { message }]);
        }
      }
    },
  );

  test('the scope is checked before the parameters and the size of the body', async () => {
    const token = await createToken(service, world.user, ['sync']);
    expect((await client.get('/2025-04/pull-requests?per_page=0', token)).status).toBe(403);
    const payload = 'a'.repeat(17 * 1024);
    expect((await client.delete('/2025-04/pull-requests/pr_1', token, { payload })).status).toBe(403);
  });
});

test('access depends on the organisation, not on the user: colleagues share everything', async () => {
  const { organisation } = world;
  const values = { organisationId: organisation.id, name: 'Bob', email: 'bob@acme.example', photoUrl: '' };
  const bob = await addUser(executor, values);
  const [uuid = ''] = await insertPullRequests(service, world, [1_700_000_000]);
  if (bob === undefined) throw new Error('Bob already exists');
  const token = await createToken(service, bob);
  expect((await client.delete(`/2025-04/pull-requests/${formatId('pr', uuid)}`, token)).status).toBe(200);
});

test('without a database, a well-formed token gets 503 with Retry-After, and a mistyped one 401', async () => {
  const replica = closing(await startReplica('postgres://nobody@127.0.0.1:1/none'));
  const orphan = replica.client;
  for (const [method, url] of unknown) {
    const { status, body, headers } = await orphan.send(method, url, world.token);
    expect([status, headers['retry-after']]).toEqual([503, '1']);
    expect(body.message).toBe('The database is not available. Try again shortly.');
    const last = world.token.at(-1) === '0' ? '1' : '0';
    const mistyped = await orphan.send(method, url, world.token.slice(0, -1) + last);
    expect([mistyped.status, mistyped.body]).toEqual([401, unauthenticated]);
  }
  expect(replica.complaints.length).toBeGreaterThan(0);
  expect(JSON.stringify(replica.complaints)).not.toContain(world.token);
});

test('access tokens are ps_, 32 base62 characters and a checksum that catches any changed character', () => {
  for (let index = 0; index < 100; index += 1) {
    const token = generateAccessToken();
    expect(token).toMatch(/^ps_[0-9A-Za-z]{38}$/);
    expect(isAccessToken(token)).toBe(true);
    const at = 3 + (index % 38);
    const changed = token.slice(0, at) + (token[at] === 'x' ? 'y' : 'x') + token.slice(at + 1);
    expect(isAccessToken(changed)).toBe(false);
  }
});

test('the database does not store the access tokens themselves', async () => {
  const { rows } = await executor.execute<{ text: string }>(sql`select access_tokens::text as text from access_tokens`);
  expect(rows.length).toBeGreaterThan(0);
  expect(rows.some(({ text }) => text.includes('ps_') || text.includes(world.token.slice(3, 35)))).toBe(false);
});
