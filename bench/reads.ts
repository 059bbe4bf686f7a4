import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import autocannon from 'autocannon';
import pg from 'pg';
import { generateAccessToken, hashAccessToken } from '../src/access-token.ts';
import { joinEmbeddedDatabase } from '../src/database/embedded.ts';
import { migrateDatabase } from '../src/database/migrate.ts';
import { newId } from '../src/ids.ts';
import { median, type Row } from './report.ts';

const pullRequests = Number(process.env.ROWS ?? 1_000_000);
const rounds = 5;
const seconds = 5;

/** A page of pull requests over HTTP, against a hand-written route and one that answers from memory. */
export async function measureReads(): Promise<Row[]> {
  // Kept for the next run: filling it takes longer than measuring.
  const server = await joinEmbeddedDatabase({ home: `bench/.data/${pullRequests}` });
  const processes: ChildProcess[] = [];
  try {
    await migrateDatabase(server.url);
    const { organisationId, token } = await fill(server.url);
    const start = async (command: string[], env: Record<string, string> = {}) => {
      const child = spawn(process.execPath, command, {
        env: { ...process.env, ...env },
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      processes.push(child);
      const [line] = (await once(createInterface(child.stdout), 'line')) as [string];
      return /(\d+)(?=\D*$)/.exec(line.split(' (')[0] ?? '')?.[0] ?? '';
    };
    const own = await start(['dist/main.js', 'serve'], {
      DATABASE_URL: server.url,
      PORT: '0',
      WORKER: 'false',
      RATE_LIMIT: '0',
      LOG_LEVEL: 'warn',
    });
    const bare = await start(['--import', 'tsx', 'bench/servers.ts', 'bare', server.url, organisationId]);
    const fixed = await start(['--import', 'tsx', 'bench/servers.ts', 'static', server.url, organisationId]);
    const address = (port: string, query = '') => `http://127.0.0.1:${port}/2025-04/pull-requests${query}`;
    const deep = `?cursor=${await cursorOf(server.url, organisationId, Math.min(750_000, pullRequests - 100))}`;

    const measured = { own: [], bare: [], fixed: [], deep: [] } as Record<string, autocannon.Result[]>;
    const targets: [string, string][] = [
      ['own', address(own)],
      ['bare', address(bare)],
      ['fixed', address(fixed)],
      ['deep', address(own, deep)],
    ];
    for (const [, url] of targets) await load(url, token, 2);
    for (let round = 0; round < rounds; round += 1) {
      for (const [name, url] of targets) measured[name]?.push(await load(url, token, seconds));
    }
    const rate = (name: string) => median((measured[name] ?? []).map(result => result.requests.average));
    const p99 = (name: string) => median((measured[name] ?? []).map(result => result.latency.p99));
    const show = (name: string) => `${Math.round(rate(name))} requests/s, p99 ${p99(name)} ms`;
    const page = `a page of 15 of ${pullRequests.toLocaleString('en')} pull requests, authenticated`;
    return [
      {
        what: page,
        against: 'a bare Fastify route with a named statement, not authenticated',
        ratio: rate('own') / rate('bare'),
        target: 1.4,
        comparison: 'at least',
        detail: `${show('own')} to ${show('bare')}`,
      },
      {
        what: page,
        against: 'the same route answering from memory',
        ratio: rate('own') / rate('fixed'),
        target: 0.6,
        comparison: 'at least',
        detail: `${show('own')} to ${show('fixed')}`,
      },
      {
        what: 'page 50,000',
        against: 'page 1, in time',
        ratio: rate('own') / rate('deep'),
        target: 1.2,
        comparison: 'at most',
        detail: `${show('deep')} to ${show('own')}`,
      },
    ];
  } finally {
    for (const child of processes) {
      child.kill();
      if (child.exitCode === null) await once(child, 'exit');
    }
    await server.leave();
  }
}

async function load(url: string, token: string, duration: number): Promise<autocannon.Result> {
  const result = await autocannon({ url, duration, connections: 32, headers: { authorization: `Bearer ${token}` } });
  if (result.non2xx + result.errors > 0) throw new Error(`${url} failed ${result.non2xx + result.errors} times`);
  return result;
}

/** Rows of about 1,300 bytes; a token is made anew for each run. */
async function fill(url: string): Promise<{ organisationId: string; token: string }> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    const known = await client.query<{ id: string }>(`select id from organisations where login = 'bench'`);
    const organisationId = known.rows[0]?.id ?? newId();
    const token = generateAccessToken();
    if (known.rows.length === 0) {
      process.stdout.write(`  filling a database with ${pullRequests} pull requests…\n`);
      await client.query('begin');
      await client.query(`insert into organisations (id, login, name, photo_url) values ($1, 'bench', 'Bench', '')`, [
        organisationId,
      ]);
      await client.query(
        `insert into users (organisation_id, id, name, email, photo_url) values ($1, $2, 'Bench', 'bench@bench.example', '')`,
        [organisationId, newId()],
      );
      await client.query(
        `insert into members (organisation_id, id, github_id, login, name, photo_url)
          select $1, gen_random_uuid(), n, 'member-' || n, 'Member ' || n, '' from generate_series(1, 500) n`,
        [organisationId],
      );
      await client.query(
        `insert into repositories (organisation_id, id, github_id, node_id, name)
          select $1, gen_random_uuid(), n, 'R_' || n, 'bench/repository-' || n from generate_series(1, 50) n`,
        [organisationId],
      );
      await client.query(
        `insert into pull_requests (organisation_id, id, repository_id, member_id, github_id, node_id, url, number,
            title, body, state, draft, author, author_association, author_is_bot, base, head, from_fork, additions,
            deletions, changed_files, commits, comments, reviews, approvals, changes_requested, linked_issues,
            created_at, source_updated_at, labels, assignees, files, score, score_breakdown, ruleset_version,
            fetch_ticket)
          select $1, gen_random_uuid(), repositories[1 + n % 50], members[1 + n % 500], n, 'PR_' || n,
            'https://github.com/bench/repository/pull/' || n, n, 'Change number ' || n,
            repeat('## Why' || E'\n\n' || 'The "' || md5(n::text) || '" case fails when **count** is 0 — see the log.' || E'\n- [x] tests\n', 9), (array['open', 'merged', 'closed', 'draft'])[1 + n % 4], false,
            'member-' || n % 500, 'MEMBER', false, 'main', 'topic', false, n % 500, n % 300, n % 20, n % 7, n % 9,
            n % 4, n % 3, 0, n % 2, to_timestamp(1500000000 + n / 3), to_timestamp(1500000000 + n / 3), '{bug}', '{}',
            '{src/main.ts}', 15,
            '[{"name":"Small","action":"ADD","effect":10,"expression":"size <= 200"},{"name":"Merged","action":"ADD","effect":5,"expression":"merged"}]',
            0, 0
          from generate_series(1, $2::int) n,
            (select array_agg(id) as members from members) m, (select array_agg(id) as repositories from repositories) r`,
        [organisationId, pullRequests],
      );
      await client.query('commit');
      await client.query('vacuum analyze');
    }
    await client.query(
      `insert into access_tokens (organisation_id, id, user_id, name, token_hash, scopes)
        select organisation_id, $2, id, 'bench', $3, '{read}' from users where organisation_id = $1`,
      [organisationId, newId(), hashAccessToken(token)],
    );
    return { organisationId, token };
  } finally {
    await client.end();
  }
}

async function cursorOf(url: string, organisationId: string, offset: number): Promise<string> {
  const { formatId } = await import('../src/ids.ts');
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const { rows } = await client.query<{ id: string; created_at: number }>(
    `select id, extract(epoch from created_at)::int as created_at from pull_requests where organisation_id = $1
      order by created_at desc, id desc offset $2 limit 1`,
    [organisationId, offset],
  );
  await client.end();
  const row = rows[0];
  return Buffer.from(
    JSON.stringify({ created_at: row?.created_at, id: formatId('pr', row?.id ?? ''), _pointsToNextItems: true }),
  ).toString('base64url');
}
