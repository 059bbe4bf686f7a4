import { setTimeout as delay } from 'node:timers/promises';
import { pino } from 'pino';
import { connectDatabase, type Database } from '../src/database/client.ts';
import { applyRuleset } from '../src/database/rules.ts';
import { rescoreRanges } from '../src/database/schema.ts';
import type { RuleDefinition } from '../src/scoring/rule.ts';
import { memoryOf } from '../test/support/scorer.ts';
import { withClient } from './database.ts';
import { startProcess } from './processes.ts';
import { median, type Row } from './report.ts';
import { measureLatency } from './rescore-latency.ts';
import { joinStored, manyFilesEvery, pullRequests } from './stored.ts';

const rounds = 2;

const maxPeakMegabytes = 200;

/** What `worker` makes of new rules, against one UPDATE that computes and records the same. */
export async function measureRescoring(): Promise<Row[]> {
  const server = await joinStored();
  const database = connectDatabase(server.url, pino({ level: 'silent' }));
  const { organisationId } = server;
  try {
    const rows: Row[] = [];
    for (const { what, share, size = bySize.additions, target } of [
      { what: 'all changing', share: 'number > 0', target: 3 },
      { what: 'a fifth changing', share: 'number % 5 == 0', target: 2 },
      { what: 'by lines of files, all changing', share: 'number > 0', size: bySize.lines, target: 1 },
    ]) {
      const own: Measured[] = [];
      const plain: number[] = [];
      // What both begin with: the state that the other has left.
      await updateBySql(server.url, organisationId, share, 0, size);
      for (let round = 1; round <= rounds; round += 1) {
        await settle(server.url);
        own.push(await rescore(database, server.url, organisationId, worth(share, size, 2 * round)));
        await requireScores(server.url, organisationId, scoreBySql(share, 2 * round, size));
        await settle(server.url);
        plain.push(await updateBySql(server.url, organisationId, share, 2 * round + 1, size));
        const [ours, theirs] = [own.at(-1)?.seconds ?? 0, plain.at(-1) ?? 0];
        process.stdout.write(
          `  ${what}, round ${round} of ${rounds}: ${ours.toFixed(1)} s to ${theirs.toFixed(1)} s\n`,
        );
      }
      const seconds = median(own.map(one => one.seconds));
      const peak = Math.max(...own.map(one => one.peakMegabytes));
      rows.push({
        what: `re-scoring ${pullRequests.toLocaleString('en')} pull requests, ${what}`,
        against: `one UPDATE${share === 'number > 0' ? '' : ' of what is distinct'}, history included`,
        ratio: median(plain) / seconds,
        target,
        comparison: 'at least',
        detail: `${seconds.toFixed(1)} s to ${median(plain).toFixed(1)} s`,
      });
      rows.push({
        what: `memory of the worker and its processes meanwhile, ${what}`,
        against: `${maxPeakMegabytes} MB`,
        ratio: peak / maxPeakMegabytes,
        target: 1,
        comparison: 'at most',
        detail: `${peak} MB at most`,
      });
    }
    rows.push(await measureReviews(database, server));
    await settle(server.url);
    const begin = () =>
      database.transaction(executor =>
        applyRuleset(executor, organisationId, {
          definitions: [],
          reviews: [],
          rules: [rule('Meanwhile', 'true', '1')],
          source: '',
        }),
      );
    for (const line of await measureLatency(server, begin)) process.stdout.write(`  ${line}\n`);
    if (await isRescored(database)) process.stdout.write('  The re-scoring was over before the measurement was.\n');
    return rows;
  } finally {
    await database.close();
    await server.leave();
  }
}

const rule = (name: string, expression: string, value: string): RuleDefinition => ({
  name,
  description: '',
  is_enabled: true,
  logic: [{ expression, effect: { action: 'ADD', value } }],
});

/** A bonus that is new each time changes score and breakdown in the rows of the share. */
const worth = (share: string, { expression, value }: Pick<Size, 'expression' | 'value'>, bonus: number) => [
  rule('Size', expression, `per(${value}, 20)`),
  rule('Merged', 'merged', '10'),
  rule('Share', share, String(bonus)),
];

/** As many rules as of pull requests. */
const reviewRules = [
  rule('A review within a day', 'hours_to_review <= 24', 'min(5, per(additions, 40))'),
  rule('Approval', 'verdict == "approved" && reviewer_is_member', '2'),
  rule('Comments', 'review_comments > 0', 'min(3, review_comments)'),
];

/** All change, with and without points for reviews. */
async function measureReviews(
  database: Database,
  { url, organisationId }: { url: string; organisationId: string },
): Promise<Row> {
  const measured = { plain: [] as number[], reviewed: [] as number[] };
  for (let round = 1; round <= rounds; round += 1) {
    for (const [kind, reviews] of [
      ['plain', []],
      ['reviewed', reviewRules],
    ] as const) {
      await settle(url);
      const rules = worth('number > 0', bySize.additions, 100 + 2 * round + reviews.length);
      measured[kind].push((await rescore(database, url, organisationId, rules, [...reviews])).seconds);
    }
    process.stdout.write(
      `  with reviews, round ${round} of ${rounds}: ${measured.reviewed.at(-1)?.toFixed(1)} s to ${measured.plain.at(-1)?.toFixed(1)} s\n`,
    );
  }
  const { rows } = await withClient(url, client =>
    client.query<{ count: number }>(
      `select count(*)::int from pull_requests
        where organisation_id = $1 and json_array_length(reviewers) <> coalesce(json_array_length(review_scores), 0)`,
      [organisationId],
    ),
  );
  if (rows[0]?.count !== 0) throw new Error(`${rows[0]?.count} pull requests lack points for reviews`);
  const [plain, reviewed] = [median(measured.plain), median(measured.reviewed)];
  return {
    what: `re-scoring ${pullRequests.toLocaleString('en')} pull requests, all changing, with \`reviews:\` in force`,
    against: 'without it',
    ratio: reviewed / plain,
    target: 1.5,
    comparison: 'at most',
    detail: `${reviewed.toFixed(1)} s to ${plain.toFixed(1)} s`,
  };
}

const isRescored = async (database: Database) => (await database.executor.$count(rescoreRanges)) === 0;

interface Measured {
  seconds: number;
  peakMegabytes: number;
}

/** From the moment that the rules are applied to the last score, by a worker that has started before. */
async function rescore(
  database: Database,
  url: string,
  organisationId: string,
  rules: RuleDefinition[],
  reviews: RuleDefinition[] = [],
): Promise<Measured> {
  const worker = await startProcess(['dist/main.js', 'worker'], { DATABASE_URL: url, LOG_LEVEL: 'warn' });
  try {
    const begin = performance.now();
    await database.transaction(executor =>
      applyRuleset(executor, organisationId, { definitions: [], reviews, rules, source: '' }),
    );
    while (!(await isRescored(database))) await delay(20);
    const seconds = (performance.now() - begin) / 1000;
    return { seconds, peakMegabytes: Math.round(memoryOf(worker.id ?? 0, 'VmHWM')) };
  } finally {
    await worker.stop();
  }
}

/** What a rule reads of a size, and the same in SQL. By path, it does not read the files: the best that a query could do. */
const bySize = {
  additions: { expression: 'additions > 0', value: 'additions', sql: 'additions' },
  lines: {
    expression: 'lines_except("**/*.lock", "dist/**") > 0',
    value: 'lines("src/**")',
    sql: `case when number % ${manyFilesEvery} = 0 then 1000 else additions + deletions end`,
  },
};
type Size = (typeof bySize)['lines'];

/** What the three rules come to. */
const scoreBySql = (share: string, bonus: number, { sql }: Size) =>
  `(${sql}) / 20 + case when state = 'merged' then 10 else 0 end
    + case when ${share.replace('==', '=')} then ${bonus} else 0 end`;

async function requireScores(url: string, organisationId: string, score: string): Promise<void> {
  const { rows } = await withClient(url, client =>
    client.query<{ count: number }>(
      `select count(*)::int from pull_requests where organisation_id = $1 and score <> ${score}`,
      [organisationId],
    ),
  );
  if (rows[0]?.count !== 0) throw new Error(`${rows[0]?.count} pull requests have another score than by SQL`);
}

async function updateBySql(
  url: string,
  organisationId: string,
  share: string,
  bonus: number,
  size: Size,
): Promise<number> {
  const condition = share.replace('==', '=');
  const entry = (name: string, effect: string, expression: string) =>
    `'{"name":"${name}","action":"ADD","effect":' || ${effect} || ',"expression":${JSON.stringify(expression)}}'`;
  const statement = `with scores as materialized (
        select id, score as before, ${scoreBySql(share, bonus, size)} as score,
          '[' || concat_ws(',',
            case when (${size.sql}) >= 20 then ${entry('Size', `((${size.sql}) / 20)`, size.expression)} end,
            case when state = 'merged' then ${entry('Merged', '10', 'merged')} end,
            case when ${condition} then ${entry('Share', String(bonus), share)} end) || ']' as breakdown
        from pull_requests where organisation_id = $1
      ), saved as (
        update pull_requests set score = scores.score, score_breakdown = scores.breakdown::json, ruleset_version = 0
        from scores where organisation_id = $1 and pull_requests.id = scores.id
          and (pull_requests.score, pull_requests.score_breakdown::text)
            is distinct from (scores.score, scores.breakdown)
        returning pull_requests.id, scores.before, scores.score
      )
      insert into score_changes (organisation_id, pull_request_id, from_score, to_score, cause, ruleset_version)
      select $1, id, before, score, 'ruleset', 0 from saved where before <> score`.replace(
    /\$1/g,
    `'${organisationId}'`,
  );
  return withClient(url, async client => {
    const begin = performance.now();
    await client.query(statement);
    return (performance.now() - begin) / 1000;
  });
}

/** Each measurement begins on a table of the same state. */
async function settle(url: string): Promise<void> {
  await withClient(url, async client => {
    await client.query('truncate score_changes, sync_requests, webhook_deliveries');
    // No vacuum: a table that is in use has dead rows, too.
    await client.query('analyze pull_requests');
    await client.query('checkpoint');
  });
}
