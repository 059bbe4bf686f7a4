import { expect, test } from 'vitest';
import { entry, rule } from '../scoring/support.ts';
import type { ErrorReply, MemberBody } from '../support/client.ts';
import { startWorld } from '../support/world.ts';

const world = await startWorld();

/** A pull request that was added on GitHub, as it is listed once it is imported. */
const imported = async (...added: Parameters<typeof world.web.addPullRequest>) => {
  const source = world.web.addPullRequest(...added);
  await world.import();
  return { source, ...(await world.find(source)) };
};

test('a pull request has every field of the specification, with the values from GitHub', async () => {
  const { github, acme, client, token } = world;
  await world.applyRules([
    rule('Size', entry('additions > 0', 'per(additions, 10)'), entry('deletions > 0', '2.5', 'SUBTRACT')),
    rule('Titled "<Ω>"', entry('contains(title, "\\"")', '7')),
    { ...rule('Off', entry('true', '1000')), is_enabled: false },
  ]);
  github.clock.set(1_790_000_000);
  const ada = acme.member('ada', { name: 'Ada Lovelace' });
  const { source, ...stored } = await imported({
    id: 2 ** 45 + 1,
    author: ada,
    title: 'Every "field"',
    body: 'One\r\ntwo\t\u{1F600}',
    additions: 123,
    deletions: 4,
    changedFiles: 5,
    commits: 6,
    createdAt: 1_700_000_000,
  });
  const members = await client.get<{ data: MemberBody[] }>('/2025-04/members', token);
  expect(stored).toEqual({
    id: /^pr_[0-7][0-9a-z]{25}$/,
    external_id: '35184372088833',
    number: source.number,
    url: `https://github.com/acme/web/pull/${source.number}`,
    state: 'open',
    title: 'Every "field"',
    body: 'One\r\ntwo\t\u{1F600}',
    additions: 123,
    deletions: 4,
    commits: 6,
    changed_files: 5,
    score: 12 - 3 + 7,
    score_breakdown: [
      { name: 'Size', action: 'ADD', effect: 12, expression: 'additions > 0' },
      { name: 'Size', action: 'SUBTRACT', effect: 3, expression: 'deletions > 0' },
      { name: 'Titled "<Ω>"', action: 'ADD', effect: 7, expression: 'contains(title, "\\"")' },
    ],
    created_at: 1_700_000_000,
    links: { member: `http://localhost:80/2025-04/members/${members.body.data[0]?.id}` },
  });
  const member = await client.get<{ data: MemberBody }>(new URL(stored.links.member).pathname, token);
  expect(member.body.data.name).toBe('Ada Lovelace');
});

test('a pull request has an empty body if GitHub has none, and a score of 0 without entries', async () => {
  expect(await imported({ body: '' })).toMatchObject({ body: '', score: 0, score_breakdown: [] });
});

test('a pull request keeps hostile text: JSON, HTML and SQL, bidirectional and 4-byte characters', async () => {
  const title = `'; drop table x; -- </script>"\\ \u202eevil\u2066 \u{10FFFF}\u2028 %00 \${x} {{y}}`;
  const body = `\u0001\u001f\u007f\ufeff${title}`;
  expect(await imported({ title, body })).toMatchObject({ title, body });
});

test('a pull request has U+FFFD for NUL and lone surrogates, which PostgreSQL cannot hold', async () => {
  const stored = await imported({ title: 'a\u0000b\ud800c\udc00d\u{1F600}', body: '\udfff\u0000' });
  expect(stored).toMatchObject({ title: 'a\ufffdb\ufffdc\ufffdd\u{1F600}', body: '\ufffd\ufffd' });
});

const remove = (id: string) => world.client.delete(`/2025-04/pull-requests/${id}`, world.token);

test('DELETE called ten times at once deletes once', async () => {
  const { id } = await imported();
  const replies = await Promise.all(Array.from({ length: 10 }, () => remove(id)));
  expect(replies.map(({ status }) => status).toSorted()).toEqual([200, ...Array(9).fill(404)]);
});

test('a pull request that is deleted during a sync stays deleted, and that sync gets 404', async () => {
  const { source, id } = await imported({ title: 'Deleted during a sync' });
  world.github.clock.advance(1);
  source.edit({ body: 'Newer' });
  const reply = world.github.hold('hold');
  const syncing = world.client.put<ErrorReply>(`/2025-04/pull-requests/${id}/sync`, world.token);
  await reply.begun;
  expect((await remove(id)).status).toBe(200);
  reply.release();
  const { status, body } = await syncing;
  expect([status, body.message]).toEqual([404, 'The pull request was deleted during the sync.']);
  expect((await world.listed()).map(({ title }) => title)).not.toContain(source.title);
});
