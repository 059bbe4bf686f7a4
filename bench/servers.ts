/**
 * What the service is measured against, each in a process of its own: `bare` is what one would write by hand, Fastify
 * and a pool with a named statement, without authentication. After one query for the token, `static` sends the same bytes
 * from memory, and `304` says that they have not changed. Prints its address.
 */
import Fastify from 'fastify';
import pg from 'pg';
import { hashAccessToken } from '../src/access-token.ts';

const [kind, databaseUrl = '', organisationId = ''] = process.argv.slice(2);
const app = Fastify();
const pool = new pg.Pool({ connectionString: databaseUrl, max: 10 });

const integer = { type: 'integer' };
const text = { type: 'string' };
const object = (properties: object) => ({ type: 'object', properties });
const array = (items: object) => ({ type: 'array', items });
const nullable = (type: object) => ({ ...type, nullable: true });

const all = (type: object, names: string) => Object.fromEntries(names.split(' ').map(name => [name, type]));

const columns = `pull_requests.id, pull_requests.github_id as external_id, number, url, state, title, body, additions,
  deletions, commits, changed_files, score, score_breakdown, extract(epoch from pull_requests.created_at)::int as created_at,
  member_id`;
const properties = {
  ...all(text, 'id external_id url state title body'),
  ...all(integer, 'number additions deletions commits changed_files score created_at'),
  score_breakdown: array(object({ ...all(text, 'name action expression'), effect: integer })),
};

async function page() {
  const { rows } = await pool.query({
    name: 'page',
    text: `select ${columns} from pull_requests where organisation_id = $1
      order by pull_requests.created_at desc, id desc limit 16`,
    values: [organisationId],
  });
  const data = rows.slice(0, 15).map(({ member_id: member, ...row }) => ({
    ...row,
    links: { member: `http://localhost/2025-04/members/${member}` },
  }));
  const last = data.at(-1);
  const cursor = Buffer.from(
    JSON.stringify({ created_at: last?.created_at, id: last?.id, _pointsToNextItems: true }),
  ).toString('base64url');
  const path = 'http://localhost/2025-04/pull-requests';
  return {
    data,
    meta: { path, per_page: 15, next_cursor: cursor, prev_cursor: null },
    links: { first: null, last: null, prev: null, next: `${path}?cursor=${cursor}` },
  };
}

const pageSchema = object({
  data: array(object({ ...properties, links: object({ member: text }) })),
  meta: object({ path: text, per_page: integer, ...all(nullable(text), 'next_cursor prev_cursor') }),
  links: object(all(nullable(text), 'first last prev next')),
});

/** One pull request, as 2026-12 shows it. */
async function one(id: string) {
  const { rows } = await pool.query({
    name: 'one',
    text: `select ${columns}, repositories.name as repository, author, labels, base,
        extract(epoch from source_updated_at)::int as updated_at, extract(epoch from merged_at)::int as merged_at,
        extract(epoch from closed_at)::int as closed_at, ruleset_version
      from pull_requests join repositories
        on repositories.organisation_id = pull_requests.organisation_id and repositories.id = repository_id
      where pull_requests.organisation_id = $1 and pull_requests.id = $2`,
    values: [organisationId, id],
  });
  const { member_id: member, ...row } = rows[0];
  const self = `http://localhost/2026-12/pull-requests/${row.id}`;
  const links = { self, member, explanation: `${self}/explanation`, scores: `${self}/scores` };
  return { data: { ...row, links } };
}

const oneSchema = object({
  data: object({
    ...properties,
    ...all(text, 'repository author base'),
    labels: array(text),
    ...all(integer, 'updated_at ruleset_version'),
    ...all(nullable(integer), 'merged_at closed_at'),
    links: object(all(text, 'self member explanation scores')),
  }),
});

/** What the cheapest authentication takes. */
async function requireToken(authorization = ''): Promise<void> {
  const values = [hashAccessToken(authorization.slice('Bearer '.length))];
  const text = 'select organisation_id from access_tokens where token_hash = $1';
  const { rows } = await pool.query({ name: 'token', text, values });
  if (rows.length === 0) throw new Error('not a valid token');
}

const list = '/2025-04/pull-requests';
if (kind === 'static' || kind === '304') {
  const fixed = Buffer.from(JSON.stringify(await page()));
  app.get(list, async ({ headers }, reply) => {
    await requireToken(headers.authorization);
    if (kind === '304') return reply.code(304).send();
    reply.type('application/json; charset=utf-8');
    return fixed;
  });
} else {
  app.get(list, { schema: { response: { 200: pageSchema } } }, page);
  const schema = { response: { 200: oneSchema } };
  app.get<{ Params: { id: string } }>('/2026-12/pull-requests/:id', { schema }, ({ params }) => one(params.id));
}
process.stdout.write(`${await app.listen({ port: 0, host: '127.0.0.1' })}\n`);
