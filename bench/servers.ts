/**
 * What the service is measured against, each in a process of its own: `bare` is what one would write by hand, Fastify
 * and a pool with a named statement, without authentication. After one query for the token, `static` sends the same bytes
 * from memory, and `304` says that they have not changed. Prints its port.
 */
import Fastify from 'fastify';
import pg from 'pg';
import { hashAccessToken } from '../src/access-token.ts';

const [kind, databaseUrl = '', organisationId = ''] = process.argv.slice(2);
const app = Fastify();

const statement = {
  name: 'page',
  text: `select id, github_id as external_id, number, url, state, title, body, additions, deletions, commits,
      changed_files, score, score_breakdown, extract(epoch from created_at)::int as created_at, member_id
    from pull_requests where organisation_id = $1 order by pull_requests.created_at desc, id desc limit 16`,
};
const pool = new pg.Pool({ connectionString: databaseUrl, max: 10 });

const integer = { type: 'integer' };
const text = { type: 'string' };
const schema = {
  response: {
    200: {
      type: 'object',
      properties: {
        data: {
          type: 'array',
          items: {
            type: 'object',
            properties: {
              id: text,
              external_id: text,
              number: integer,
              url: text,
              state: text,
              title: text,
              body: text,
              additions: integer,
              deletions: integer,
              commits: integer,
              changed_files: integer,
              score: integer,
              score_breakdown: {
                type: 'array',
                items: {
                  type: 'object',
                  properties: { name: text, action: text, effect: integer, expression: text },
                },
              },
              created_at: integer,
              links: { type: 'object', properties: { member: text } },
            },
          },
        },
        meta: {
          type: 'object',
          properties: {
            path: text,
            per_page: integer,
            next_cursor: { ...text, nullable: true },
            prev_cursor: { ...text, nullable: true },
          },
        },
        links: {
          type: 'object',
          properties: {
            first: { ...text, nullable: true },
            last: { ...text, nullable: true },
            prev: { ...text, nullable: true },
            next: { ...text, nullable: true },
          },
        },
      },
    },
  },
};

/** One pull request, as 2026-12 shows it. */
const oneStatement = {
  name: 'one',
  text: `select pull_requests.id, pull_requests.github_id as external_id, number, url, state, title, body, additions, deletions,
      commits, changed_files, score, score_breakdown, extract(epoch from pull_requests.created_at)::int as created_at,
      repositories.name as repository, author, labels, base, extract(epoch from source_updated_at)::int as updated_at,
      extract(epoch from merged_at)::int as merged_at, extract(epoch from closed_at)::int as closed_at, ruleset_version,
      member_id
    from pull_requests join repositories
      on repositories.organisation_id = pull_requests.organisation_id and repositories.id = repository_id
    where pull_requests.organisation_id = $1 and pull_requests.id = $2`,
};

const optionalInteger = { type: 'integer', nullable: true };
const oneSchema = {
  response: {
    200: {
      type: 'object',
      properties: {
        data: {
          type: 'object',
          properties: {
            ...schema.response[200].properties.data.items.properties,
            repository: text,
            author: text,
            labels: { type: 'array', items: text },
            base: text,
            updated_at: integer,
            merged_at: optionalInteger,
            closed_at: optionalInteger,
            ruleset_version: integer,
            links: { type: 'object', properties: { self: text, member: text, explanation: text, scores: text } },
          },
        },
      },
    },
  },
};

async function one(id: string) {
  const { rows } = await pool.query({ ...oneStatement, values: [organisationId, id] });
  const { member_id: member, ...row } = rows[0];
  const self = `http://localhost/2026-12/pull-requests/${row.id}`;
  const links = { self, member, explanation: `${self}/explanation`, scores: `${self}/scores` };
  return { data: { ...row, links } };
}

async function page() {
  const { rows } = await pool.query({ ...statement, values: [organisationId] });
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

/** What the cheapest authentication takes. */
async function requireToken(authorization = ''): Promise<void> {
  const values = [hashAccessToken(authorization.slice('Bearer '.length))];
  const text = 'select organisation_id from access_tokens where token_hash = $1';
  const { rows } = await pool.query({ name: 'token', text, values });
  if (rows.length === 0) throw new Error('not a valid token');
}

if (kind === 'static') {
  const fixed = Buffer.from(JSON.stringify(await page()));
  app.get('/2025-04/pull-requests', async ({ headers }, reply) => {
    await requireToken(headers.authorization);
    reply.type('application/json; charset=utf-8');
    return fixed;
  });
} else if (kind === '304') {
  app.get('/2025-04/pull-requests', async ({ headers }, reply) => {
    await requireToken(headers.authorization);
    return reply.code(304).send();
  });
} else {
  app.get('/2025-04/pull-requests', { schema }, page);
  app.get<{ Params: { id: string } }>('/2026-12/pull-requests/:id', { schema: oneSchema }, ({ params }) =>
    one(params.id),
  );
}
await app.listen({ port: 0, host: '127.0.0.1' });
const address = app.server.address();
process.stdout.write(`${typeof address === 'object' ? address?.port : ''}\n`);
