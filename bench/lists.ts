import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import autocannon from 'autocannon';
import { pino } from 'pino';
import { connectDatabase } from '../src/database/client.ts';
import { applyRuleset } from '../src/database/rules.ts';
import { withClient } from './database.ts';
import { startReader } from './processes.ts';
import type { Row } from './report.ts';
import { joinStored } from './stored.ts';

const members = 50_000;
/** Of the list, at once. */
const readers = 4;
const seconds = 10;
/** Pages a second, meanwhile. */
const rate = 50;

/** 200 rules with 50 entries each, as large as they may be: `GET /rules` shows the whole condition of each entry. */
const maxSizeRules = Array.from({ length: 200 }, (_, rule) => ({
  name: `Rule ${rule}`,
  description: '',
  is_enabled: true,
  when: `title != "${'x'.repeat(1_900)}"`,
  logic: Array.from({ length: 50 }, (_, entry) => ({
    expression: `additions > ${entry}`,
    effect: { action: 'ADD' as const, value: '1' },
  })),
}));

/** What lists of 50,000 members and of the largest rules cost the other requests of a process, and its memory. */
export async function measureLists(): Promise<Row[]> {
  const server = await joinStored();
  const database = connectDatabase(server.url, pino({ level: 'silent' }));
  await database.transaction(executor =>
    applyRuleset(executor, server.organisationId, { definitions: [], reviews: [], rules: maxSizeRules, source: '' }),
  );
  await withClient(server.url, client =>
    client.query(
      `insert into members (organisation_id, id, github_id, login, name, photo_url)
        select $1, uuidv7(), n, 'member-' || n, 'Member ' || n, 'https://photos.example/' || n
        from generate_series(1, ${members}) n on conflict do nothing`,
      [server.organisationId],
    ),
  );
  const rows = async (path: string, what: string) => {
    const service = await startReader(server.url);
    const origin = `http://127.0.0.1:${service.port}/2025-04`;
    const headers = { authorization: `Bearer ${server.token}` };
    // Each address is new, so that no page comes from memory.
    const url = `${origin}/pull-requests?unseen=[<id>]`;
    const readPages = (duration: number) =>
      autocannon({ url, idReplacement: true, headers, connections: 4, overallRate: rate, duration });
    const megabytes = () =>
      Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${service.id}/status`, 'utf8'))?.[1]) / 1024;
    try {
      await readPages(3);
      const idle = megabytes();
      const stopping = new AbortController();
      let lists = 0;
      let peak = idle;
      const reading = Array.from({ length: readers }, async () => {
        while (!stopping.signal.aborted) {
          const reply = await fetch(`${origin}/${path}`, { headers });
          for await (const _ of reply.body ?? []) peak = Math.max(peak, megabytes());
          lists += 1;
        }
      });
      await delay(1_000);
      const { latency, non2xx, errors } = await readPages(seconds);
      stopping.abort();
      await Promise.all(reading);
      if (non2xx + errors > 0) throw new Error(`${non2xx + errors} pages failed`);
      const comparison = 'at most' as const;
      const detail = `${lists} lists in ${seconds} s`;
      return [
        {
          what: `p99 of pages beside ${what}, read by ${readers} at once`,
          against: '50 ms',
          ratio: latency.p99 / 50,
          target: 1,
          comparison,
          detail: `${latency.p99} ms; ${detail}`,
        },
        {
          what: `memory for ${what}, read by ${readers} at once`,
          against: '100 MB above idle',
          ratio: (peak - idle) / 100,
          target: 1,
          comparison,
          detail: `${Math.round(peak - idle)} MB above ${Math.round(idle)} MB`,
        },
      ];
    } finally {
      await service.stop();
    }
  };
  try {
    return [
      ...(await rows('members', `${members.toLocaleString('en')} members`)),
      ...(await rows('rules', 'rules of 20 MB')),
    ];
  } finally {
    // Other benchmarks use the same database.
    await database.transaction(executor =>
      applyRuleset(executor, server.organisationId, { definitions: [], reviews: [], rules: [], source: '' }),
    );
    await database.close();
    await withClient(server.url, client => client.query('delete from members where github_id > 500'));
    await server.leave();
  }
}
