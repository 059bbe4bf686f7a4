import { setTimeout as delay } from 'node:timers/promises';
import type pg from 'pg';
import { connect, createMirror, follow } from '../demo/client.ts';
import { startGithub } from '../test/support/github/server.ts';
import { joinEmptied, withClient } from './database.ts';
import { environmentOf, secret, startProcess, startReader } from './processes.ts';
import { median, type Row } from './report.ts';
import { joinStored, pullRequests } from './stored.ts';

const rounds = 3;
const perPage = 100;

const webhooks = 750;
const webhooksPerSecond = 25;
const pauseMs = 100;
const maxMs = 1_000;

export const measureChanges = async (): Promise<Row[]> => [await measureFollowing(), await measureReading()];

/** How long after each webhook was accepted its pull request is in a copy that a client keeps by the feed. */
async function measureFollowing(): Promise<Row> {
  const github = await startGithub();
  const organisation = github.organisation('bench');
  const author = organisation.member('ada');
  const server = await joinEmptied('changes', organisation);
  const service = await startProcess(['dist/main.js', 'serve'], environmentOf(server.url, github));
  const address = `http://127.0.0.1:${service.port}`;
  try {
    const client = connect(address, server.token);
    const mirror = createMirror();
    const acceptedAt = new Map<string, number>();
    const arrivedAt = new Map<string, number>();
    const following = async (count: number) => {
      for (; arrivedAt.size < count; await delay(pauseMs)) {
        await follow(client, mirror);
        const now = performance.now();
        for (const { external_id: id } of mirror.pullRequests.values()) if (!arrivedAt.has(id)) arrivedAt.set(id, now);
      }
    };
    const delivering = async (count: number) => {
      const begin = performance.now();
      const deliveries: Promise<unknown>[] = [];
      for (let index = 0; index < count; index += 1) {
        await delay(Math.max(0, begin + (index * 1_000) / webhooksPerSecond - performance.now()));
        const pullRequest = organisation.repository('web').addPullRequest({ author });
        const accepted = github.deliver(`${address}/webhooks/github`, secret, pullRequest.open());
        deliveries.push(accepted.then(() => acceptedAt.set(String(pullRequest.id), performance.now())));
      }
      await Promise.all(deliveries);
    };
    // The first one starts the scorer.
    await Promise.all([following(1), delivering(1)]);
    acceptedAt.clear();
    await Promise.all([following(1 + webhooks), delivering(webhooks)]);
    const waits = [...acceptedAt].map(([id, at]) => (arrivedAt.get(id) ?? Number.NaN) - at).sort((a, b) => a - b);
    const share = (part: number) => Math.round(waits[Math.ceil(waits.length * part) - 1] ?? Number.NaN);
    return {
      what: `max until a client that asks /changes every ${pauseMs} ms has what a webhook brought, ${webhooksPerSecond} webhooks a second`,
      against: 'a second',
      ratio: share(1) / maxMs,
      target: 1,
      comparison: 'at most',
      detail: `p50 ${share(0.5)} ms, p99 ${share(0.99)} ms, max ${share(1)} ms`,
    };
  } finally {
    await service.stop();
    await server.leave();
    await github.close();
  }
}

/** The feed of changes from its beginning, a page after the other, against the same rows by hand, as many at once. */
async function measureReading(): Promise<Row> {
  const server = await joinStored();
  const service = await startReader(server.url);
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
    return {
      what: `${pullRequests.toLocaleString('en')} pull requests from /changes, ${perPage} on a page`,
      against: 'select of the same rows by hand, without HTTP',
      ratio: median(plain) / median(own),
      target: 0.5,
      comparison: 'at least',
      detail: `${median(own).toFixed(1)} s to ${median(plain).toFixed(1)} s`,
    };
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
