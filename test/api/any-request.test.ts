import fc from 'fast-check';
import { beforeAll, expect, test } from 'vitest';
import { generateAccessToken } from '../../src/access-token.ts';
import { anyCharacter } from '../support/any-character.ts';
import type { PageBody } from '../support/client.ts';
import { createToken, insertPullRequests } from '../support/tenants.ts';
import { startWorld } from '../support/world.ts';

// The page is not described by an OpenAPI document.
const world = await startWorld({ WEB: 'false' });
const { service, client } = world;
const tokens: (string | undefined)[] = [undefined, generateAccessToken(), 'nonsense'];
const ids: string[] = ['pr_01h455vb4pex5vsknk084sn02q', 'mem_01h455vb4pex5vsknk084sn02q', '%00', '%', 'x'.repeat(99)];
const cursors: string[] = ['', 'x'];
beforeAll(async () => {
  for (const tenant of [world, await world.newTenant()]) {
    tokens.push(tenant.token, await createToken(service, tenant.user, ['read']));
    tokens.push(await createToken(service, tenant.user, ['read', 'rules:read', 'rules:write']));
    await insertPullRequests(service, tenant, [1, 1, 2, 3]);
    const lists = ['changes?', 'members?', 'pull-requests?', 'pull-requests?sort=updated&state=open&'];
    for (const list of ['/2025-04/pull-requests?', ...lists.map(each => `/2026-12/${each}`)]) {
      const { body } = await client.get<PageBody<{ id?: string }>>(`${list}per_page=1`, tenant.token);
      ids.push(...body.data.flatMap(({ id = [] }) => id));
      cursors.push(body.meta.next_cursor ?? '');
    }
  }
});

const one = (choices: () => readonly string[]) => fc.nat().map(index => choices()[index % choices().length] ?? '');
const segment = fc.oneof(
  one(() => ids),
  fc.string({ unit: anyCharacter, maxLength: 30 }).map(text => encodeURIComponent(text)),
  fc.stringMatching(/^[\w%.~;:@!$&'()*+,=-]{0,40}$/),
);
const path = fc.oneof(
  {
    weight: 8,
    arbitrary: fc
      .tuple(
        fc.constantFrom('2025-04', '2026-12'),
        fc.oneof(
          fc.constantFrom('account', 'members', 'pull-requests', 'rules', 'users', 'changes', 'standings'),
          fc.constantFrom('rules/file', 'rules/plan', 'rules/audit'),
          fc.tuple(segment, fc.constantFrom('', '/pull-requests')).map(([id, below]) => `members/${id}${below}`),
          fc
            .tuple(segment, fc.constantFrom('', '/sync', '/explanation', '/scores'))
            .map(([id, below]) => `pull-requests/${id}${below}`),
        ),
      )
      .map(([version, below]) => `/${version}/${below}`),
  },
  { weight: 1, arbitrary: fc.array(segment, { maxLength: 4 }).map(parts => `/${parts.join('/')}`) },
);
const value = fc.oneof(
  fc.integer({ min: -2, max: 102 }).map(String),
  one(() => cursors),
  fc.constantFrom('open', 'open,merged', 'merged', 'acme/web', 'true', '', ',', '%00'),
  fc.constantFrom('2026-01-31', '2026-02-30', '1700000000'),
  segment,
);
const filters = ['state', 'repository', 'member', 'number', 'sort', 'login', 'since', 'until', 'by', 'of', 'by_rule'];
const ranges = ['created', 'updated', 'merged'].flatMap(time => [`${time}_since`, `${time}_until`]);
const name = fc.oneof(fc.constantFrom('cursor', 'per_page'), fc.constantFrom(...filters, ...ranges), segment);
const query = fc
  .array(fc.tuple(name, value), { maxLength: 3 })
  .map(pairs => (pairs.length === 0 ? '' : `?${pairs.map(pair => pair.join('=')).join('&')}`));
const odd = ['x-request-id', 'x-forwarded-host', 'x-http-method-override', 'accept-version'];
const anyHeaders = fc.dictionary(
  fc.constantFrom('accept', 'accept-encoding', 'content-type', 'if-none-match', 'range', 'origin', ...odd),
  fc.stringMatching(/^[\x20-\x7e]{0,30}$/),
  { maxKeys: 3 },
);

const rulesFile = fc.record({ value: fc.constantFrom('1', 'size', 'siez', '"'), comment: segment }).map(
  ({ value: points, comment }) => `# ${comment}
rules:
  - { name: Any, logic: [{ expression: 'true', effect: { action: ADD, value: '${points}' } }] }
`,
);
const headers = fc.oneof(
  { weight: 3, arbitrary: anyHeaders },
  {
    weight: 1,
    arbitrary: fc.record({
      'content-type': fc.constant('application/yaml'),
      'if-match': fc.constantFrom('*', '"0"', '"1"', '"01"', 'W/"1"', ''),
    }),
  },
);

test('no request of any kind gets a 500 or a reply that the OpenAPI document does not describe', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.record({
        method: fc.oneof(
          { weight: 6, arbitrary: fc.constant('GET' as const) },
          { weight: 3, arbitrary: fc.constantFrom('PUT', 'DELETE', 'HEAD', 'POST', 'PATCH', 'OPTIONS') },
        ),
        path,
        query,
        headers,
        token: one(() => tokens.map(token => token ?? '')),
        payload: fc.oneof(
          { weight: 5, arbitrary: fc.constant(undefined) },
          { weight: 1, arbitrary: fc.string() },
          { weight: 2, arbitrary: rulesFile },
        ),
      }),
      async ({ method, path: pathname, query: search, headers: given, token, payload }) => {
        const url = (pathname + search).replace(/^\/\/+/, '/');
        const { status } = await client.send(method as 'GET', url, token === '' ? undefined : token, {
          headers: given,
          ...(payload !== undefined && { payload }),
        });
        // Without GitHub credentials a sync gets 503.
        expect([200, 400, 401, 403, 404, 405, 410, 412, 413, 415, 428, 503]).toContain(status);
        if (status === 503) expect([method, /\/sync$/.test(pathname)]).toEqual(['PUT', true]);
      },
    ),
    { numRuns: 500 },
  );
});
