import type autocannon from 'autocannon';
import { formatId } from '../src/ids.ts';
import { load, neverTheSame, rateAgainst, summarise, unseenPages } from './load.ts';
import { bearer, startProcess, startReader } from './processes.ts';
import { atLeast, atMost, compared, print, takeTurns } from './report.ts';
import { allPullRequests, joinStored, pullRequests, type Stored } from './stored.ts';

const rounds = 5;
const seconds = 5;
const connections = 32;
const list = '/2025-04/pull-requests';

/** A page of pull requests over HTTP, against a hand-written route and one that answers from memory. */
export async function measure(): Promise<void> {
  await using server = await joinStored();
  const startPeer = (name: string) =>
    startProcess(['--import', 'tsx', 'bench/servers.ts', name, server.url, server.organisationId]);
  await using own = await startReader(server.url);
  await using bare = await startPeer('bare');
  await using fixed = await startPeer('static');
  await using unmodified = await startPeer('304');
  const passed = Math.min(750_000, pullRequests - 100);
  const deep = `${list}?cursor=${await cursorOf(server, passed)}`;
  const id = await server.value<string>('(select id from pull_requests limit 1)');
  const headers = bearer(server.token);
  const etag = (await fetch(own.origin + list, { headers })).headers.get('etag') ?? '';
  const asked = { ...headers, 'if-none-match': etag };
  const targets = {
    own: unseenPages(own, server.token),
    bare: unseenPages(bare, server.token),
    fixed: { url: fixed.origin + list, headers },
    deep: { url: own.origin, headers, ...neverTheSame(deep) },
    repeated: { url: own.origin + list, headers },
    unchanged: { url: own.origin + list, headers: asked },
    unmodified: { url: unmodified.origin + list, headers: asked },
    one: { url: `${own.origin}/2026-12/pull-requests/${formatId('pr', id)}`, headers },
    bareOne: { url: `${bare.origin}/2026-12/pull-requests/${id}`, headers },
  };
  for (const options of Object.values(targets)) await load({ ...options, connections, duration: 2 });
  const measured = await takeTurns(rounds, targets, (options: autocannon.Options) =>
    load({ ...options, connections, duration: seconds }),
  );
  if (measured.unchanged.some(result => result['2xx'] > 0)) throw new Error('an unchanged page was sent again');

  const against = (name: keyof typeof targets, peer: keyof typeof targets) =>
    rateAgainst(summarise(measured[name]), summarise(measured[peer]));
  const rows = `of ${allPullRequests}, authenticated`;
  const page = `a page of 15 ${rows}, not seen before`;
  const byHand = 'a bare Fastify route with a named statement, not authenticated';
  atLeast(1.4, page, byHand, against('own', 'bare'));
  const p99s = compared(summarise(measured.own).p99, summarise(measured.bare).p99, 'ms');
  atMost(1, `the p99 of ${page}`, 'that of the same route', p99s);
  const fromMemory = 'a bare Fastify route that sends the same bytes from memory after one query for the token';
  atLeast(1.5, `a page of 15 ${rows}, again`, fromMemory, against('repeated', 'fixed'));
  print(`not seen before, against the same: ${against('own', 'fixed').ratio.toFixed(2)}`);
  const notModified = 'a bare Fastify route that answers 304 after one query for the token';
  atLeast(1.5, `304 for a page of 15 ${rows}`, notModified, against('unchanged', 'unmodified'));
  atLeast(1.2, `one by its id ${rows}`, byHand, against('one', 'bareOne'));
  const deepPage = `the page after ${passed.toLocaleString('en')} pull requests`;
  atMost(1.2, deepPage, 'page 1, in time', against('own', 'deep'));
}

async function cursorOf({ query, organisationId }: Stored, offset: number): Promise<string> {
  const [row] = await query<{ id: string; created_at: number }>(
    `select id, extract(epoch from created_at)::int as created_at from pull_requests where organisation_id = $1
      order by created_at desc, id desc offset $2 limit 1`,
    [organisationId, offset],
  );
  const place = { created_at: row?.created_at, id: formatId('pr', row?.id ?? ''), _pointsToNextItems: true };
  return Buffer.from(JSON.stringify(place)).toString('base64url');
}
