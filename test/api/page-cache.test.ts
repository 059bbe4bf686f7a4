import { eq, type SQL, sql } from 'drizzle-orm';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import { createPageCache, type SendPage } from '../../src/api/page-cache.ts';
import { renewContentVersion } from '../../src/database/content-versions.ts';
import { eraseMember } from '../../src/database/erasure.ts';
import { findMembersByLogin } from '../../src/database/members.ts';
import { pullRequests } from '../../src/database/schema.ts';
import { oneRow } from '../../src/database/statement.ts';
import type { PullRequest } from '../support/github/pull-request.ts';
import { rescoreAll } from '../support/rescore.ts';
import { startReplica } from '../support/service.ts';
import { createTenant } from '../support/tenants.ts';
import { addTrigger } from '../support/trigger.ts';
import { startWorld } from '../support/world.ts';
import { lockWaits, rule, waitUntil } from '../sync/support.ts';

const world = await startWorld();
const { executor } = world;
const replica = await startReplica(world.service.database.url);
afterAll(() => replica.close());
/** The author of `source`. */
let author: string;
let source: PullRequest;
world.github.clock.set(1_790_000_000);

let authors = 0;
beforeEach(async () => {
  world.github.clock.advance(60);
  authors += 1;
  author = `author-${authors}`;
  source = world.web.addPullRequest({ author: world.acme.member(author), title: 'Before' });
  await world.import();
});

const all = '/2025-04/pull-requests?per_page=100';

async function read(url = all, tag?: string, token = world.token) {
  const headers = { authorization: `Bearer ${token}`, ...(tag !== undefined && { 'if-none-match': tag }) };
  const { statusCode, headers: given, body } = await world.service.app.inject({ url, headers });
  return { status: statusCode, tag: String(given.etag), cacheControl: given['cache-control'], body };
}

const listOf = async () => `${new URL((await world.find(source)).links.member).pathname}/pull-requests`;

const setTitle = (title: string) =>
  executor.update(pullRequests).set({ title }).where(eq(pullRequests.githubId, source.id));

/** Asks a page cache for a page that would be built like this. */
function askOf(send: SendPage) {
  const server = { deps: { config: { publicUrl: 'https://scores.example' } } };
  return async (built: Buffer, sent = '', url = '/') => {
    let [status, tag] = [200, ''];
    const reply = {
      type() {},
      headers: ({ etag }: { etag: string }) => {
        tag = etag;
      },
      code: (code: number) => {
        status = code;
      },
    } as unknown as FastifyReply;
    const headers = { 'if-none-match': sent };
    const request = { server, url, headers, caller: { contentVersion: '1' } } as unknown as FastifyRequest;
    const page = await send(request, reply, async () => built);
    return { status, tag, page };
  };
}

test('an error has no ETag and may not be kept, even if it comes after the page had one', async () => {
  await setTitle('Not in the cache');
  await renewContentVersion(executor, world.organisation.id);
  // Its tag is known then, and it is built again.
  expect((await read()).status).toBe(200);
  const rename = (from: string, to: string) =>
    executor.execute(sql`alter table ${sql.identifier(from)} rename to ${sql.identifier(to)}`);
  await rename('pull_requests', 'moved');
  const failed = await read().finally(() => rename('moved', 'pull_requests'));
  expect(failed).toMatchObject({ status: 500, tag: 'undefined', cacheControl: 'no-store' });
  expect((await read()).tag).toMatch(/^"/);
});

describe('a page of pull requests', () => {
  test('has a tag, and a client that sends it gets 304 without a body', async () => {
    const first = await read();
    expect([first.status, first.cacheControl]).toEqual([200, 'private, no-cache']);
    const compressed = ['-gzip', '--gzip', '-br', '-zstd'].map(mark => first.tag.replace(/"$/, `${mark}"`));
    for (const given of [first.tag, `W/${first.tag}`, `"other", ${first.tag}`, '*', ...compressed]) {
      expect(await read(all, given)).toEqual({ ...first, status: 304, body: '' });
    }
    for (const given of ['"other"', first.tag.replaceAll('"', ''), first.tag.replace(/"$/, '-other"'), '"*"']) {
      expect(await read(all, given)).toEqual(first);
    }
  });

  test('is built for the first two requests, and again after a change', async () => {
    await read();
    await setTitle('Seen by the second request');
    const before = await read();
    expect(before.body).toContain('Seen by the second request');
    await setTitle('Nobody said so');
    expect(await read()).toEqual(before);
    await renewContentVersion(executor, world.organisation.id);
    const after = await read(all, before.tag);
    expect(after.status).toBe(200);
    expect(after.body).toContain('Nobody said so');
  });

  test('is built again after a while even without a known change, with another tag if it differs', async () => {
    const ask = askOf(createPageCache({ maxAgeMs: 20 }));
    const [before, after] = [Buffer.from('before'), Buffer.from('after')];
    await ask(before);
    const { tag } = await ask(before);
    expect(await ask(before, tag)).toEqual({ status: 304, tag, page: undefined });
    await expect.poll(async () => (await ask(after, tag)).page).toBe(after);
    await expect.poll(async () => (await ask(before, tag)).status).toBe(304);
  });

  test('has a tag of its own for each address and host', async () => {
    const { app } = world.service;
    const headers = { authorization: `Bearer ${world.token}` };
    const tags = await Promise.all(
      [
        { url: all, headers },
        { url: `${all}&cursor=`, headers },
        { url: '/2025-04/pull-requests?per_page=99', headers },
        { url: await listOf(), headers },
        { url: all, headers: { ...headers, host: 'scores.example' } },
      ].map(async request => (await app.inject(request)).headers.etag),
    );
    // A cursor that is not valid is an error, and has none.
    expect(tags[1]).toBeUndefined();
    expect(new Set(tags).size).toBe(5);
  });

  test('has the links of the address that is asked, from memory, too', async () => {
    const { app } = world.service;
    const ask = async (host: string, url = all) => {
      const { body } = await app.inject({ url, headers: { authorization: `Bearer ${world.token}`, host } });
      return JSON.parse(body).meta;
    };
    for (let turn = 0; turn < 3; turn += 1) await ask('one.example');
    expect(await ask('two.example')).toMatchObject({ path: 'http://two.example/2025-04/pull-requests' });
    expect(await ask('one.example', '/2025-04/pull-requests?per_page=98')).toMatchObject({ per_page: 98 });
    const path = 'http://one.example/2025-04/pull-requests';
    expect(await ask('one.example')).toMatchObject({ path, per_page: 100 });
  });

  test('has another tag in another release', async () => {
    const tagOf = async (release: string) => (await askOf(createPageCache({ release }))(Buffer.from('page'))).tag;
    expect(await tagOf('1.0.0')).toBe(await tagOf('1.0.0'));
    expect(await tagOf('1.1.0')).not.toBe(await tagOf('1.0.0'));
  });

  test('is kept up to 1 MiB, and all together up to 64 MiB', async () => {
    const ask = askOf(createPageCache());
    const maxBytes = 1024 * 1024;
    // Its address counts, too.
    const isKept = async (url: string, bytes = maxBytes - 700) => {
      const built = Buffer.alloc(bytes);
      return (await ask(built, '', url)).page !== built;
    };
    const thrice = async (url: string, bytes?: number) => {
      for (let turn = 0; turn < 2; turn += 1) expect(await isKept(url, bytes)).toBe(false);
      return isKept(url, bytes);
    };
    expect(await thrice('/over', maxBytes)).toBe(false);
    for (let index = 0; index < 65; index += 1) expect(await thrice(`/${index}`)).toBe(true);
    expect([await isKept('/1'), await isKept('/0')]).toEqual([true, false]);
  });

  test("an organisation does not get another organisation's page, not even with its tag", async () => {
    const other = await createTenant(world.service, { login: `other-${authors}` });
    await renewContentVersion(executor, other.organisation.id);
    const own = await read();
    const theirs = await read(all, own.tag, other.token);
    expect([theirs.status, JSON.parse(theirs.body).data]).toEqual([200, []]);
    expect(theirs.tag).not.toBe(own.tag);
  });

  test('the page of an organisation without pull requests has no tag', async () => {
    const empty = await createTenant(world.service, { login: `empty-${authors}` });
    expect(await read(all, undefined, empty.token)).toMatchObject({ tag: 'undefined', cacheControl: 'no-store' });
  });

  const changes: Record<string, () => Promise<unknown>> = {
    'a sync': async () => {
      source.edit({ title: 'After' });
      const { id } = await world.find(source);
      expect((await world.client.put(`/2025-04/pull-requests/${id}/sync`, world.token)).status).toBe(200);
    },
    'a deletion': async () =>
      world.client.delete(`/2025-04/pull-requests/${(await world.find(source)).id}`, world.token),
    'an import': async () => {
      world.web.addPullRequest({ author: source.author });
      await world.import();
    },
    'new rules': async () => {
      await world.applyRules([rule(`${authors}`)]);
      await rescoreAll(world.service);
    },
    'a renamed repository': async () => {
      world.web.rename(`web-${authors}`);
      await world.import();
      await rescoreAll(world.service);
    },
    'an erased member': async () => {
      const { database } = world.service;
      const people = await findMembersByLogin(database.executor, world.organisation.id, author);
      await eraseMember(database, world.organisation.id, oneRow(people), async () => undefined);
    },
  };
  /** Looks at what is shown while the change waits for a lock. */
  async function during(change: () => Promise<unknown>, lock: SQL, look: () => Promise<unknown>) {
    const { database } = world.service;
    let changing: Promise<unknown> | undefined;
    await database.transaction(async executor => {
      await executor.execute(lock);
      changing = change();
      await waitUntil(async () => (await lockWaits(world.service)) === 1);
      await look();
    });
    await changing;
  }

  test.each(Object.entries(changes))(
    'stays as it is until %s commits, and is built again on every replica then',
    async (_name, change) => {
      const url = await listOf();
      const headers = { authorization: `Bearer ${world.token}` };
      const onReplica = async () => (await replica.app.inject({ url, headers })).body;
      await Promise.all([read(url), onReplica()]);
      const before = await read(url);
      expect(await onReplica()).toBe(before.body);
      const versions = sql`select from content_versions where organisation_id = ${world.organisation.id} for update`;
      await during(change, versions, async () => {
        expect((await read(url)).body).toBe(before.body);
        const notKept = await read(`${url}?per_page=99`);
        expect(JSON.parse(notKept.body).data).toEqual(JSON.parse(before.body).data);
      });
      const after = await read(url, before.tag);
      expect(after.body).not.toBe(before.body);
      expect(after.body).not.toBe('');
      expect(await onReplica()).toBe(after.body);
    },
  );

  test.each(Object.entries(changes))(
    'that was kept before the commit of %s is not shown after it',
    async (_name, change) => {
      const atCommit = 'after insert or update or delete on pull_requests deferrable initially deferred for each row';
      await addTrigger(executor, atCommit, 'perform pg_advisory_xact_lock_shared(1)');
      await during(change, sql`select pg_advisory_xact_lock(1)`, async () => {
        await read();
        await read();
      });
      const after = await read();
      await renewContentVersion(executor, world.organisation.id);
      expect(after.body).toBe((await read()).body);
    },
  );

  test('the page of an erased member is empty before the member is gone, and not found afterwards', async () => {
    const { database } = world.service;
    const url = await listOf();
    const people = await findMembersByLogin(database.executor, world.organisation.id, author);
    await read(url);
    await read(url);
    const before: number[] = [];
    const looking: typeof database = {
      ...database,
      async transaction(work, options) {
        const result = await database.transaction(work, options);
        const { status, body } = await read(url);
        if (status === 200) before.push(JSON.parse(body).data.length);
        return result;
      },
    };
    await eraseMember(looking, world.organisation.id, oneRow(people));
    expect(before.slice(1).every(length => length === 0)).toBe(true);
    expect((await read(url)).status).toBe(404);
  });
});
