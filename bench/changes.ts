import type pg from 'pg';
import { withClient } from './database.ts';
import { startProcess } from './processes.ts';
import { median, type Row } from './report.ts';
import { joinStored, pullRequests } from './stored.ts';

const rounds = 3;
const perPage = 100;

/** The feed of changes from its beginning, a page after the other, against the same rows by hand, as many at once. */
export async function measureChanges(): Promise<Row[]> {
  const server = await joinStored();
  const service = await startProcess(['dist/main.js', 'serve'], {
    DATABASE_URL: server.url,
    PORT: '0',
    RATE_LIMIT: '0',
    WORKER: 'false',
    LOG_LEVEL: 'error',
  });
  try {
    const seconds = async (read: () => Promise<number>) => {
      const begin = performance.now();
      const rows = await read();
      if (rows !== pullRequests) throw new Error(`read ${rows} pull requests, not ${pullRequests}`);
      return (performance.now() - begin) / 1000;
    };
    const own: number[] = [];
    const plain: number[] = [];
    for (let round = 1; round <= rounds; round += 1) {
      own.push(await seconds(() => readFeed(`http://127.0.0.1:${service.port}/2026-12/changes`, server.token)));
      plain.push(await withClient(server.url, client => seconds(() => readRows(client, server.organisationId))));
    }
    return [
      {
        what: `${pullRequests.toLocaleString('en')} pull requests from /changes, ${perPage} on a page`,
        against: 'select of the same rows by hand, without HTTP',
        ratio: median(plain) / median(own),
        target: 0.5,
        comparison: 'at least',
        detail: `${median(own).toFixed(1)} s to ${median(plain).toFixed(1)} s`,
      },
    ];
  } finally {
    await service.stop();
    await server.leave();
  }
}

async function readFeed(feed: string, token: string): Promise<number> {
  const headers = { authorization: `Bearer ${token}` };
  let rows = 0;
  for (let url = `${feed}?per_page=${perPage}`; ; ) {
    const reply = await fetch(url, { headers });
    const { data, links } = (await reply.json()) as { data: unknown[]; links: { next: string } };
    if (data.length === 0) return rows;
    rows += data.length;
    url = links.next;
  }
}

async function readRows(client: pg.ClientBase, organisationId: string): Promise<number> {
  let count = 0;
  for (let after = '00000000-0000-0000-0000-000000000000'; ; ) {
    const { rows } = await client.query<{ id: string }>({
      name: 'page',
      text: `select p.id, p.github_id, p.number, p.url, p.state, p.title, p.body, p.additions, p.deletions, p.commits,
          p.changed_files, p.score, p.score_breakdown, p.created_at, p.member_id, p.author, p.labels, p.base,
          p.source_updated_at, p.merged_at, p.closed_at, p.ruleset_version, r.name as repository
        from pull_requests p
        join repositories r on r.organisation_id = p.organisation_id and r.id = p.repository_id
        where p.organisation_id = $1 and p.id > $2 order by p.id limit ${perPage}`,
      values: [organisationId, after],
    });
    const last = rows.at(-1);
    if (last === undefined) return count;
    count += rows.length;
    after = last.id;
  }
}
