import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import autocannon from 'autocannon';
import { pino } from 'pino';
import { connectDatabase } from '../src/database/client.ts';
import { createFactsReader } from '../src/database/facts.ts';
import { type RescoreRange, readRange } from '../src/database/rescore-ranges.ts';
import type { FactName } from '../src/scoring/facts.ts';
import { withClient } from './database.ts';
import { startReader } from './processes.ts';
import { median, type Row } from './report.ts';
import { joinStored, pullRequests } from './stored.ts';

const rounds = 3;

const variants: { what: string; facts: FactName[]; rules: string }[] = [
  {
    what: 'numbers and states',
    facts: ['additions', 'number', 'state'],
    rules: `rules:
  - name: Size
    logic: [{ expression: additions > 0, effect: { action: ADD, value: 'per(additions, 20)' } }]
  - name: Merged
    logic: [{ expression: state == "merged", effect: { action: ADD, value: 10 } }]
  - name: Share
    logic: [{ expression: number % 5 == 0, effect: { action: ADD, value: 5 } }]
`,
  },
  {
    what: 'bodies and files too',
    facts: ['additions', 'body', 'files'],
    rules: `rules:
  - name: Size
    logic: [{ expression: additions > 0, effect: { action: ADD, value: 'per(additions, 20)' } }]
  - name: Described
    logic: [{ expression: 'length(body) > 100 && contains(body, "tests")', effect: { action: ADD, value: 5 } }]
  - name: Sources
    logic: [{ expression: 'any_file("src/**")', effect: { action: ADD, value: 5 } }]
`,
  },
];

/** `rules plan` from the command line to its answer, against the mere reading that a re-scoring does for the same. */
export async function measurePlan(): Promise<Row[]> {
  const server = await joinStored();
  const database = connectDatabase(server.url, pino({ level: 'silent' }));
  const folder = await mkdtemp(join(tmpdir(), 'pullscore-bench-'));
  const file = join(folder, 'rules.yaml');
  const plan = () =>
    promisify(execFile)(process.execPath, ['dist/main.js', 'rules', 'plan', file, '--organisation', 'bench'], {
      env: { PATH: process.env.PATH, DATABASE_URL: server.url, LOG_LEVEL: 'warn' },
      maxBuffer: 16 * 1024 * 1024,
    });
  try {
    const rows: Row[] = [];
    const ranges = await cutRanges(server.url, server.organisationId);
    for (const { what, facts, rules } of variants) {
      await writeFile(file, rules);
      const own: number[] = [];
      const reading: number[] = [];
      for (let round = 1; round <= rounds; round += 1) {
        const reader = createFactsReader(facts);
        reading.push(
          await timed(async () => {
            for (const range of ranges) {
              for await (const step of readRange(database.executor, server.organisationId, range, reader)) {
                // They are made as they are gone through.
                for (const _ of step);
              }
            }
          }),
        );
        own.push(await timed(plan));
      }
      rows.push({
        what: `rules plan over ${pullRequests.toLocaleString('en')} pull requests, ${what}`,
        against: 'the reading of a re-scoring, in time',
        ratio: median(own) / median(reading),
        target: 1,
        comparison: 'at most',
        detail: `${median(own).toFixed(1)} s to ${median(reading).toFixed(1)} s`,
      });
    }
    return [...rows, await measurePagesBeside(server, variants.at(-1)?.rules ?? '')];
  } finally {
    await rm(folder, { recursive: true });
    await database.close();
    await server.leave();
  }
}

/** Of a page in milliseconds. */
const maxP99 = 50;

/** Pages at a steady rate while the same service makes plans over HTTP, one after another. */
async function measurePagesBeside({ url, token }: { url: string; token: string }, rules: string): Promise<Row> {
  const service = await startReader(url);
  const address = `http://127.0.0.1:${service.port}`;
  const headers = { authorization: `Bearer ${token}` };
  const pages = (seconds: number) =>
    autocannon({
      // Each address is new, so that no page comes from memory.
      url: `${address}/2025-04/pull-requests?unseen=[<id>]`,
      idReplacement: true,
      headers,
      connections: 4,
      overallRate: 50,
      duration: seconds,
    });
  try {
    await pages(2);
    const atRest = await pages(10);
    const ended = new AbortController();
    let plans = 0;
    const planning = (async () => {
      while (!ended.signal.aborted) {
        const reply = await fetch(`${address}/2026-12/rules/plan`, {
          method: 'POST',
          headers: { ...headers, 'content-type': 'application/yaml' },
          body: rules,
          signal: ended.signal,
        });
        if (!reply.ok) throw new Error(`a plan got ${reply.status}: ${await reply.text()}`);
        await reply.text();
        plans += 1;
      }
    })().catch((error: unknown) => {
      if (!ended.signal.aborted) throw error;
    });
    const meanwhile = await pages(20);
    ended.abort();
    await planning;
    const failed = meanwhile.non2xx + meanwhile.errors;
    if (failed > 0) throw new Error(`${failed} pages failed beside a plan`);
    return {
      what: `p99 of a page, not seen before, beside a plan of ${pullRequests.toLocaleString('en')} over HTTP`,
      against: `${maxP99} ms`,
      ratio: meanwhile.latency.p99 / maxP99,
      target: 1,
      comparison: 'at most',
      detail: `${meanwhile.latency.p99} ms, ${atRest.latency.p99} ms at rest; ${plans} plans ended meanwhile`,
    };
  } finally {
    await service.stop();
  }
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const begin = performance.now();
  await work();
  return (performance.now() - begin) / 1000;
}

/** The batches in which a re-scoring reads. */
async function cutRanges(url: string, organisationId: string): Promise<Pick<RescoreRange, 'fromId' | 'untilId'>[]> {
  const { rows } = await withClient(url, client =>
    client.query<{ id: string }>(
      `select id from (select id, row_number() over (order by id) as number from pull_requests
        where organisation_id = $1) as numbered where number % 1000 = 1 order by id`,
      [organisationId],
    ),
  );
  return rows.map(({ id }, index) => ({ fromId: id, untilId: rows[index + 1]?.id ?? null }));
}
