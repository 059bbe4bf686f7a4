import type { InjectOptions } from 'fastify';
import { beforeAll, expect, test } from 'vitest';
import { type ErrorCode, errorStatuses } from '../../../src/errors.ts';
import { formatId } from '../../../src/ids.ts';
import { syncMembers } from '../../../src/sync/sync-members.ts';
import { createSchemaCheck, type OpenApiDocument } from '../../support/openapi.ts';
import { waitUntilSettled } from '../../support/settled.ts';
import { createToken } from '../../support/tenants.ts';
import { startWorld } from '../../support/world.ts';

/*
 * The examples are what the service answers in one small organisation. Whatever differs from run to run is replaced, in the
 * same way everywhere: ids, times of the database, addresses, and what cursors hold.
 */

const world = await startWorld({ PUBLIC_URL: 'https://scores.example' });
const { service, web, acme, github } = world;
const document: OpenApiDocument = (await service.app.inject('/2026-12/openapi.json')).json();

const rulesFile = `define:
  reviewable: lines_except("**/*.lock")
rules:
  - name: Reviewed
    description: A point for every ten lines that somebody has approved, up to 20.
    logic:
      - expression: approvals > 0
        effect: { action: ADD, value: "min(20, per(reviewable, 10))" }
  - name: Merged
    when: merged
    logic:
      - expression: reviewable > 0
        effect: { action: ADD, value: "5" }
  - name: No description
    logic:
      - expression: body == ""
        effect: { action: SUBTRACT, value: "2" }
reviews:
  - name: Reviewed within a day
    description: A point for every 40 lines, up to 5.
    logic:
      - expression: hours_to_review <= 24
        effect: { action: ADD, value: "min(5, per(reviewable, 40))" }
`;
const plannedFile = rulesFile.replace('per(reviewable, 10)', 'per(reviewable, 8)');

/** When the service stored what it stored, as the examples show it. */
const storedAt = 1_790_000_600;

function createNormaliser() {
  const ids = new Map<string, string>();
  const idOf = (id: string, kind: 'mem') => {
    const last = String(ids.size + 1).padStart(12, '0');
    const known = ids.get(id) ?? formatId(kind, `01996b8e-3c00-7000-8000-${last}`);
    ids.set(id, known);
    return known;
  };
  const plain = (text: string): string =>
    text
      .replace(/\b(pr|mem|usr|rul|repo)_[0-9a-hjkmnp-tv-z]{26}\b/g, (id, kind) => idOf(id, kind))
      .replace(/\beyJ[\w-]+/g, cursor => cursorOf(JSON.parse(Buffer.from(cursor, 'base64url').toString())))
      .replaceAll(new URL(github.apiUrl).origin, 'https://github.com')
      .replace(/(?<=_at":)\d{10}\b/g, seconds => (/^1790000/.test(seconds) ? seconds : String(storedAt)))
      .replace(/(?<=_at":)\d{16}\b/g, `${storedAt}000000`);
  const cursorOf = (cursor: Record<string, unknown>) => {
    const digests = { list: 'uNf3Qx1mZk0A', database: '0'.repeat(32), transaction: '1000' };
    for (const [name, value] of Object.entries(digests)) if (name in cursor) cursor[name] = value;
    return Buffer.from(plain(JSON.stringify(cursor))).toString('base64url');
  };
  return plain;
}

const recorded: Record<string, unknown> = {};
beforeAll(async () => {
  github.clock.set(1_790_000_000);
  const [ada, grace] = [acme.member('ada', { name: 'Ada Lovelace' }), acme.member('grace', { name: 'Grace Hopper' })];
  const files = [{ path: 'src/scale.ts', additions: 90, deletions: 30 }];
  const mistake = web.addPullRequest({ author: grace, title: 'Opened by mistake', number: 40 });
  github.clock.advance(60);
  const title = 'Fix the scale';
  const merged = web.addPullRequest({ author: grace, title, body: 'It began at 1.', number: 41, files });
  merged.review(ada, 'APPROVED');
  github.clock.advance(60);
  merged.merge();
  const open = web.addPullRequest({ author: ada, title: 'Draw the axis', number: 42, files, labels: ['chart'] });

  const token = await createToken(service, world.user, ['read', 'sync', 'delete', 'rules:read', 'rules:write']);
  const plain = createNormaliser();
  async function record<Body>(operation: string, path: string, options: InjectOptions = {}) {
    const headers = { authorization: `Bearer ${token}`, ...options.headers };
    const { statusCode, body } = await service.app.inject({ ...options, url: `/2026-12/${path}`, headers });
    expect([operation, statusCode, body]).toEqual([operation, 200, body]);
    const isJson = body.startsWith('{');
    recorded[`v202612.${operation}`] = isJson ? JSON.parse(plain(body)) : body;
    return (isJson ? JSON.parse(body) : body) as Body;
  }
  const headers = { 'content-type': 'application/yaml', 'if-match': '*' };
  const send = (method: 'POST' | 'PUT', payload: string) => ({ method, payload, headers });

  await record('rules.file.apply', 'rules/file', send('PUT', rulesFile));
  // As the service does: reviewers are members that it knows.
  await syncMembers(service, world.organisation);
  await world.import();
  await waitUntilSettled(service.database);
  const { body: known } = await world.client.get<Changes>('/2026-12/changes', token);
  const idOf = ({ number }: { number: number }) =>
    known.data.find(change => change.pull_request.number === number)?.pull_request.id ?? '';
  github.clock.advance(60);
  open.edit({ body: 'With a label for every tick.' });
  open.review(grace, 'APPROVED');
  await record('pull-requests.sync', `pull-requests/${idOf(open)}/sync`, { method: 'PUT' });
  await record('pull-requests.destroy', `pull-requests/${idOf(mistake)}`, { method: 'DELETE' });
  await waitUntilSettled(service.database);
  await record('changes.index', `changes?cursor=${known.meta.next_cursor}`);

  await record('account.show', 'account');
  await record('users.index', 'users');
  const members = await record<{ data: { id: string }[] }>('members.index', 'members?login=grace');
  const member = members.data[0]?.id;
  await record('members.show', `members/${member}`);
  await record('members.weeks.index', `members/${member}/weeks`);
  await record('members.pull-requests.index', `members/${member}/pull-requests`);
  await record('pull-requests.index', 'pull-requests?per_page=1');
  await record('pull-requests.show', `pull-requests/${idOf(open)}`);
  await record('pull-requests.explanation.show', `pull-requests/${idOf(open)}/explanation`);
  await record('pull-requests.scores.index', `pull-requests/${idOf(open)}/scores`);
  await record('rules.index', 'rules');
  await record('rules.versions.index', 'rules/versions');
  await record('rules.file.show', 'rules/file');
  await record('health.show', 'health');
  await record('standings.show', 'standings?by_rule=true');
  await record('rules.plan', 'rules/plan', send('POST', plannedFile));
  await record('rules.audit', 'rules/audit', send('POST', plannedFile));
});

interface Changes {
  data: { pull_request: { id: string; number: number } }[];
  meta: { next_cursor: string };
}

test('the examples are what the service answers', async () => {
  await expect(`${JSON.stringify(recorded, null, 2)}\n`).toMatchFileSnapshot('../../../openapi/2026-12.examples.json');
});

/** Of each reply with a body. */
const examples = Object.entries(document.paths).flatMap(([path, operations]) =>
  Object.entries(operations).flatMap(([method, { responses }]) =>
    Object.entries(responses).flatMap(([status, { content = {} }]) =>
      Object.entries(content).map(([type, { example }]) => ({
        of: `${method} ${path} ${status}`,
        status,
        example,
        schema: ['paths', path, method, 'responses', status, 'content', type, 'schema'],
      })),
    ),
  ),
);

test('every reply in the document that has a body has an example that is valid', () => {
  expect(examples.length).toBeGreaterThan(140);
  const mistakesIn = createSchemaCheck(document);
  for (const { of, example, schema } of examples) {
    expect(example, of).toBeDefined();
    expect([of, mistakesIn(example, ...schema)]).toEqual([of, []]);
  }
});

test('every body of a request in the document has an example, which is a rules file that the service accepts', () => {
  const bodies = Object.values(document.paths).flatMap(path =>
    Object.values(path).flatMap(({ requestBody }) => Object.values(requestBody?.content ?? {})),
  );
  expect(bodies.map(({ example }) => example)).toEqual([rulesFile, rulesFile, rulesFile]);
});

test('the document names every reason for a status', () => {
  const { responses } = document.paths['/2026-12/pull-requests/{pullRequest}/explanation']?.get ?? {};
  expect(responses?.['503']?.description).toMatch(
    /^The rules in force are suspended.* Or: The database is unreachable/,
  );
});

test('the example of an error has a code of its status, and the example of another reply is of its operation', () => {
  for (const { of, status, example } of examples.filter(({ status }) => status !== '200')) {
    const { code } = example as { code: ErrorCode };
    expect([of, errorStatuses[code]]).toEqual([of, status === 'default' ? 413 : Number(status)]);
  }
  const operations = Object.values(document.paths).flatMap(path => Object.values(path).map(each => each.operationId));
  expect(Object.keys(recorded).toSorted()).toEqual(operations.toSorted());
});
