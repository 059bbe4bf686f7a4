import autocannon from 'autocannon';
import { formatId } from '../src/ids.ts';
import { withClient } from './database.ts';
import { type Running, startProcess, startReader } from './processes.ts';
import { median, type Row } from './report.ts';
import { joinStored, pullRequests } from './stored.ts';

const rounds = 5;
const seconds = 5;
const list = '/2025-04/pull-requests';

/** A page of pull requests over HTTP, against a hand-written route and one that answers from memory. */
export async function measureReads(): Promise<Row[]> {
  const server = await joinStored();
  const { organisationId, token } = server;
  const processes: Running[] = [];
  try {
    const portOf = async (starting: Promise<Running>) => {
      const running = await starting;
      processes.push(running);
      return running.port;
    };
    const startPeer = (name: string) =>
      portOf(startProcess(['--import', 'tsx', 'bench/servers.ts', name, server.url, organisationId]));
    const own = await portOf(startReader(server.url));
    const bare = await startPeer('bare');
    const fixed = await startPeer('static');
    const unmodified = await startPeer('304');
    const address = (port: string) => `http://127.0.0.1:${port}${list}`;
    const passed = Math.min(750_000, pullRequests - 100);
    const deep = `?cursor=${await cursorOf(server.url, organisationId, passed)}`;

    const [{ id }] = (
      await withClient(server.url, client =>
        client.query<{ id: string }>('select id from pull_requests where organisation_id = $1 limit 1', [
          organisationId,
        ]),
      )
    ).rows as [{ id: string }];
    const addressOfOne = (port: string, id: string) => `http://127.0.0.1:${port}/2026-12/pull-requests/${id}`;
    const authorization = { authorization: `Bearer ${token}` };
    const etag = (await fetch(address(own), { headers: authorization })).headers.get('etag') ?? '';
    const targets: Record<string, Partial<autocannon.Options> & { url: string }> = {
      own: { url: address(own), setupClient: neverTheSame(`${list}?`) },
      bare: { url: address(bare), setupClient: neverTheSame(`${list}?`) },
      fixed: { url: address(fixed) },
      deep: { url: address(own), setupClient: neverTheSame(`${list}${deep}&`) },
      repeated: { url: address(own) },
      unchanged: { url: address(own), headers: { ...authorization, 'if-none-match': etag } },
      unmodified: { url: address(unmodified), headers: { ...authorization, 'if-none-match': etag } },
      one: { url: addressOfOne(own, formatId('pr', id)) },
      bareOne: { url: addressOfOne(bare, id) },
    };
    const measured: Record<string, autocannon.Result[]> = {};
    for (const options of Object.values(targets)) await load({ headers: authorization, ...options }, 2);
    for (let round = 0; round < rounds; round += 1) {
      for (const [name, options] of Object.entries(targets)) {
        measured[name] ??= [];
        measured[name].push(await load({ headers: authorization, ...options }, seconds));
      }
    }
    const rate = (name: string) => median((measured[name] ?? []).map(result => result.requests.average));
    const p99 = (name: string) => median((measured[name] ?? []).map(result => result.latency.p99));
    const show = (name: string) => `${Math.round(rate(name))} requests/s, p99 ${p99(name)} ms`;
    const rows = `of ${pullRequests.toLocaleString('en')} pull requests, authenticated`;
    const page = `a page of 15 ${rows}, not seen before`;
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
        what: `the p99 of ${page}`,
        against: 'that of the same route',
        ratio: p99('own') / p99('bare'),
        target: 1,
        comparison: 'at most',
        detail: `${p99('own')} ms to ${p99('bare')} ms`,
      },
      {
        what: `a page of 15 ${rows}, again`,
        against: 'a bare Fastify route that sends the same bytes from memory after one query for the token',
        ratio: rate('repeated') / rate('fixed'),
        target: 1.5,
        comparison: 'at least',
        detail: `${show('repeated')} to ${show('fixed')}; not seen before ${(rate('own') / rate('fixed')).toFixed(2)}`,
      },
      {
        what: `304 for a page of 15 ${rows}`,
        against: 'a bare Fastify route that answers 304 after one query for the token',
        ratio: rate('unchanged') / rate('unmodified'),
        target: 1.5,
        comparison: 'at least',
        detail: `${show('unchanged')} to ${show('unmodified')}`,
      },
      {
        what: `one by its id ${rows}`,
        against: 'a bare Fastify route with a named statement, not authenticated',
        ratio: rate('one') / rate('bareOne'),
        target: 1.2,
        comparison: 'at least',
        detail: `${show('one')} to ${show('bareOne')}`,
      },
      {
        what: `the page after ${passed.toLocaleString('en')} pull requests`,
        against: 'page 1, in time',
        ratio: rate('own') / rate('deep'),
        target: 1.2,
        comparison: 'at most',
        detail: `${show('deep')} to ${show('own')}`,
      },
    ];
  } finally {
    for (const running of processes) await running.stop();
    await server.leave();
  }
}

let made = 0;

/** Gives every request an address of its own, made before the measurement: no page was seen before. */
function neverTheSame(path: string): NonNullable<autocannon.Options['setupClient']> {
  return client => {
    const requests = Array.from({ length: 200 * seconds }, (): autocannon.Request => {
      made += 1;
      return { method: 'GET', path: `${path}unseen=${made}` };
    });
    client.setRequests(requests);
  };
}

/** @throws Error if a request fails */
export async function load(
  options: autocannon.Options,
  duration: number,
  connections = 32,
): Promise<autocannon.Result> {
  const result = await autocannon({ ...options, duration, connections });
  const failed = result.non2xx - (result.statusCodeStats?.['304']?.count ?? 0) + result.errors;
  if (failed > 0) throw new Error(`${options.url} failed ${failed} times`);
  return result;
}

async function cursorOf(url: string, organisationId: string, offset: number): Promise<string> {
  const { rows } = await withClient(url, client =>
    client.query<{ id: string; created_at: number }>(
      `select id, extract(epoch from created_at)::int as created_at from pull_requests where organisation_id = $1
        order by created_at desc, id desc offset $2 limit 1`,
      [organisationId, offset],
    ),
  );
  const row = rows[0];
  return Buffer.from(
    JSON.stringify({ created_at: row?.created_at, id: formatId('pr', row?.id ?? ''), _pointsToNextItems: true }),
  ).toString('base64url');
}
