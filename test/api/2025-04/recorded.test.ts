import type { InjectOptions } from 'fastify';
import { expect, test } from 'vitest';
import type { App } from '../../../src/app.ts';
import { addUser } from '../../../src/database/users.ts';
import { entry, rule } from '../../scoring/support.ts';
import { createToken } from '../../support/tenants.ts';
import { startWorld } from '../../support/world.ts';

/*
 * Replies to every route, recorded before there was a second version. What differs from run to run is replaced: ids by
 * their kind and order, times of the database, ports. Cursors are shown as what they hold. The headers that helmet gives
 * every reply are one line.
 */

const world = await startWorld();
const { service, token } = world;
world.github.clock.set(1_790_000_000);
for (const [index, login] of ['ada', 'bert', 'ada'].entries()) {
  world.github.clock.advance(60);
  const body = 'A "quoted" line,\na second one: ü, 漢字, 🙂, \\ and </script>';
  world.web.addPullRequest({ author: world.acme.member(login), title: `Title ${index}`, body });
}
await world.applyRules([
  { ...rule('Any "size"', entry('size >= 0', '3')), description: 'Ä description' },
  { ...rule('Off'), is_enabled: false },
]);
await world.import();
for (const name of ['Zoë', 'Bea']) {
  const values = { name, email: `${name}@acme.example`, photoUrl: 'https://photos.example/user' };
  await addUser(service.database.executor, { organisationId: world.organisation.id, ...values });
}
const reader = await createToken(service, world.user, ['read']);
const other = await world.newTenant();

const helmet = [
  "content-security-policy: default-src 'none';frame-ancestors 'none'",
  'cross-origin-opener-policy: same-origin',
  'cross-origin-resource-policy: same-origin',
  'origin-agent-cluster: ?1',
  'referrer-policy: no-referrer',
  'strict-transport-security: max-age=31536000; includeSubDomains',
  'x-content-type-options: nosniff',
  'x-dns-prefetch-control: off',
  'x-download-options: noopen',
  'x-frame-options: SAMEORIGIN',
  'x-permitted-cross-domain-policies: none',
  'x-xss-protection: 0',
];

/** Writes what differs from run to run in the same way. */
function createNormaliser(port: string) {
  const names = new Map<string, string>();
  const plain = (text: string): string =>
    text
      .replace(/\b(pr|mem|usr|rul)_[0-9a-hjkmnp-tv-z]{26}\b/g, (id, kind) => {
        const name = names.get(id) ?? `${kind}_${1 + [...names.values()].filter(each => each.startsWith(kind)).length}`;
        names.set(id, name);
        return name;
      })
      .replace(/\b(eyJ[\w-]+|W3[\w-]+)/g, (_, cursor) => `{{${plain(Buffer.from(cursor, 'base64url').toString())}}}`)
      .replaceAll(port, 'PORT');
  return plain;
}

test('every reply of 2025-04 is the one that was recorded before there was a second version', async () => {
  const normalise = createNormaliser(new URL(world.github.apiUrl).port);
  const lines: string[] = [];
  const limited = await world.replica(undefined, { RATE_LIMIT: '1', CORS_ORIGINS: 'https://page.example' });
  const noGithub = await world.replica(undefined, { GITHUB_TOKEN: '' });

  async function record(
    method: NonNullable<InjectOptions['method']>,
    url: string,
    by: string | undefined = token,
    headers: Record<string, string> = {},
    app: App = service.app,
  ) {
    const reply = await app.inject({
      method,
      url,
      headers: { 'x-request-id': 'recorded', ...(by !== '' && { authorization: `Bearer ${by}` }), ...headers },
    });
    const all = Object.entries(reply.headers).map(([name, value]) =>
      ['etag', 'retry-after', 'x-ratelimit-reset'].includes(name) ? `${name}: PRESENT` : `${name}: ${value}`,
    );
    const isHelmet = helmet.every(header => all.includes(header));
    const shown = all
      .filter(header => !(isHelmet && helmet.includes(header)) && !/^(date|content-length|connection):/.test(header))
      .toSorted();
    if (isHelmet) shown.push("helmet's");
    // The times at which members, users and rules were stored.
    const body = reply.body.replace(/("created_at":)(?!1790000\d{3})\d+/g, '$1"TIME"');
    const sent = Object.entries(headers).map(
      ([name, value]) => `${name}: ${name === 'if-none-match' ? 'ITS TAG' : value}\n`,
    );
    lines.push(normalise(`${method} ${url}\n${sent.join('')}\n${reply.statusCode}\n${shown.join('\n')}\n\n${body}\n`));
    return reply;
  }

  const { data: members } = (await record('GET', '/2025-04/members')).json();
  const member = members.find(({ name }: { name: string }) => name === 'ada');
  const first = (await record('GET', '/2025-04/pull-requests?per_page=2')).json();
  await record('GET', '/2025-04/account');
  await record('GET', '/2025-04/account', reader);
  await record('GET', '/2025-04/users');
  const users = (await record('GET', '/2025-04/users?per_page=1')).json();
  await record('GET', new URL(users.links.next).pathname + new URL(users.links.next).search);
  await record('GET', '/2025-04/rules');
  await record('GET', `/2025-04/members/${member.id}`);
  await record('GET', '/2025-04/pull-requests');
  const second = (await record('GET', `/2025-04/pull-requests?per_page=2&cursor=${first.meta.next_cursor}`)).json();
  await record('GET', `/2025-04/pull-requests?per_page=2&cursor=${second.meta.prev_cursor}`);
  const ofMember = (await record('GET', `/2025-04/members/${member.id}/pull-requests?per_page=1`)).json();
  await record('GET', `/2025-04/members/${member.id}/pull-requests?per_page=1&cursor=${ofMember.meta.next_cursor}`);
  const page = await record('GET', '/2025-04/pull-requests?per_page=1');
  await record('GET', '/2025-04/pull-requests?per_page=1', token, { 'if-none-match': String(page.headers.etag) });
  await record('HEAD', '/2025-04/account');
  const id = first.data[0].id;
  await record('PUT', `/2025-04/pull-requests/${id}/sync`);
  await record('PUT', `/2025-04/pull-requests/${id}/sync`, token, {}, noGithub.app);

  // Parameters that it does not know are ignored; those that it knows are checked.
  await record('GET', '/2025-04/pull-requests?state=open&per_page=1&sort=updated&constructor=1');
  const sizes = ['0', '101', '', '1e1', '1&per_page=2'].map(size => `per_page=${size}`);
  for (const query of [...sizes, 'cursor=', 'cursor=x']) await record('GET', `/2025-04/pull-requests?${query}`);
  await record('GET', `/2025-04/users?cursor=${first.meta.next_cursor}`);
  await record('GET', `/2025-04/pull-requests?cursor=${ofMember.meta.next_cursor}`);
  await record('GET', '/2025-04/users?per_page=x&q=1');

  // Other tokens, ids and organisations.
  for (const path of ['account', 'members', `pull-requests/${id}/sync`]) await record('GET', `/2025-04/${path}`, '');
  await record('GET', '/2025-04/account', 'ps_nonsense');
  await record('PUT', `/2025-04/pull-requests/${id}/sync`, reader);
  await record('DELETE', `/2025-04/pull-requests/${id}`, reader);
  for (const wanted of ['x', id, '%00', 'pr_01h455vb4pex5vsknk084sn02q']) {
    await record('GET', `/2025-04/members/${wanted}`);
    await record('GET', `/2025-04/members/${wanted}/pull-requests`);
  }
  for (const wanted of ['x', member.id, 'pr_01h455vb4pex5vsknk084sn02q']) {
    await record('PUT', `/2025-04/pull-requests/${wanted}/sync`);
    await record('DELETE', `/2025-04/pull-requests/${wanted}`);
  }
  await record('GET', `/2025-04/members/${member.id}`, other.token);
  await record('GET', `/2025-04/members/${member.id}/pull-requests`, other.token);
  await record('PUT', `/2025-04/pull-requests/${id}/sync`, other.token);
  await record('DELETE', `/2025-04/pull-requests/${id}`, other.token);
  for (const list of ['members', 'pull-requests', 'rules']) await record('GET', `/2025-04/${list}`, other.token);

  // Paths and methods.
  for (const path of ['', '/', '/nothing', '/users/', '/members//pull-requests', '/%', '/%ff', '/Users']) {
    await record('GET', `/2025-04${path}`);
  }
  for (const [method, path] of [
    ['POST', 'users'],
    ['DELETE', 'members'],
    ['GET', `pull-requests/${id}`],
    ['PATCH', `pull-requests/${id}`],
    ['OPTIONS', 'account'],
  ] as const) {
    await record(method, `/2025-04/${path}`);
  }
  await record('PUT', '/2025-04/pull-requests/x/sync', token, { 'content-type': 'nonsense' });

  // Limits and browsers.
  const browser = { origin: 'https://page.example' };
  await record('GET', '/2025-04/account', token, browser, limited.app);
  await record('GET', '/2025-04/account', token, browser, limited.app);
  await record('OPTIONS', '/2025-04/account', '', { ...browser, 'access-control-request-method': 'PUT' }, limited.app);
  await record('GET', '/2025-04/members', token, { host: 'a b' });

  await record('DELETE', `/2025-04/pull-requests/${id}`);
  await record('DELETE', `/2025-04/pull-requests/${id}`);
  await record('PUT', `/2025-04/pull-requests/${id}/sync`);

  const recorded = lines.join(`\n${'-'.repeat(80)}\n\n`).replaceAll(other.organisation.login, 'FOREIGN');
  await expect(recorded).toMatchFileSnapshot('./recorded.txt');
});
