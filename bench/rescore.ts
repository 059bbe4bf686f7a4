import autocannon from 'autocannon';
import type { Ruleset } from '../src/scoring/ruleset.ts';
import { entry, rule } from '../test/scoring/support.ts';
import { startGithub } from '../test/support/github/server.ts';
import { memoryOf } from '../test/support/scorer.ts';
import { applyRules } from '../test/support/tenants.ts';
import { makeDeliveries } from './ingest.ts';
import { steadily, unseenPages } from './load.ts';
import { secret, startService } from './processes.ts';
import { atLeast, atMost, print, speedAgainst, takeTurns, timeAgainst, timed, within } from './report.ts';
import { allPullRequests, joinStored, manyFilesEvery, type Stored } from './stored.ts';

const rounds = 2;

const maxPeakMegabytes = 200;

/** What a rule reads of a size, and the same in SQL. By path, it does not read the files: the best that a query could do. */
const bySize = {
  additions: { expression: 'additions > 0', value: 'additions', sql: 'additions' },
  lines: {
    expression: 'lines_except("**/*.lock", "dist/**") > 0',
    value: 'lines("src/**")',
    sql: `case when number % ${manyFilesEvery} = 0 then 1000 else additions + deletions end`,
  },
};

/** `share` is the condition of a bonus. */
const allChanging = { what: 'all changing', share: 'number > 0', size: bySize.additions, target: 3 };
type Variant = typeof allChanging;

const variants: Variant[] = [
  allChanging,
  { what: 'a fifth changing', share: 'number % 5 == 0', size: bySize.additions, target: 2 },
  { what: 'by lines of files, all changing', share: 'number > 0', size: bySize.lines, target: 1 },
];

/** What `worker` makes of new rules, against one UPDATE that computes and records the same. */
export async function measure(): Promise<void> {
  await using server = await joinStored();
  for (const variant of variants) await measureRules(server, variant);
  await measureReviews(server);
  await settle(server);
  await measureLatency(server);
}

async function measureRules(server: Stored, variant: Variant): Promise<void> {
  const { what, share, target } = variant;
  const peaks: number[] = [];
  // What both begin with: the state that the other has left.
  await server.query(updateBySql(server, variant, 0));
  const measures = {
    async own(round: number) {
      const { seconds, peakMegabytes } = await rescore(server, { rules: rulesOf(variant, 2 * round) });
      peaks.push(peakMegabytes);
      const otherwise = `pull_requests where organisation_id = $1 and score <> ${scoreBySql(variant, 2 * round)}`;
      const others = await server.count(otherwise, [server.organisationId]);
      if (others > 0) throw new Error(`${others} pull requests have another score than by SQL`);
      return seconds;
    },
    plain: (round: number) => timed(() => server.query(updateBySql(server, variant, 2 * round + 1))),
  };
  const measured = await takeTurns(rounds, measures, async (secondsOf, round) => {
    await settle(server);
    const seconds = await secondsOf(round);
    print(`${what}, round ${round} of ${rounds}, ${secondsOf.name}: ${seconds.toFixed(1)} s`);
    return seconds;
  });
  const against = `one UPDATE${share === allChanging.share ? '' : ' of what is distinct'}, history included`;
  atLeast(target, `re-scoring ${allPullRequests}, ${what}`, against, speedAgainst(measured.own, measured.plain));
  const peak = Math.max(...peaks);
  const memory = `memory of the worker and its processes meanwhile, ${what}`;
  within(maxPeakMegabytes, 'MB', memory, peak, `${peak} MB at most`);
}

/** A bonus that is new each time changes score and breakdown in the rows of the share. */
const rulesOf = ({ share, size }: Variant, bonus: number) => [
  rule('Size', entry(size.expression, `per(${size.value}, 20)`)),
  rule('Merged', entry('merged', '10')),
  rule('Share', entry(share, String(bonus))),
];

/** As many rules as of pull requests. */
const reviewRules = [
  rule('A review within a day', entry('hours_to_review <= 24', 'min(5, per(additions, 40))')),
  rule('Approval', entry('verdict == "approved" && reviewer_is_member', '2')),
  rule('Comments', entry('review_comments > 0', 'min(3, review_comments)')),
];

/** All change, with and without points for reviews. */
async function measureReviews(server: Stored): Promise<void> {
  const measured = await takeTurns(rounds, { plain: [], reviewed: reviewRules }, async (reviews, round) => {
    await settle(server);
    const rules = rulesOf(allChanging, 100 + 2 * round + reviews.length);
    const { seconds } = await rescore(server, { rules, reviews });
    print(`round ${round} of ${rounds} with ${reviews.length} rules of reviews: ${seconds.toFixed(1)} s`);
    return seconds;
  });
  const lacking = await server.count(
    `pull_requests where organisation_id = $1
      and json_array_length(reviewers) <> coalesce(json_array_length(review_scores), 0)`,
    [server.organisationId],
  );
  if (lacking > 0) throw new Error(`${lacking} pull requests lack points for reviews`);
  const what = `re-scoring ${allPullRequests}, all changing, with \`reviews:\` in force`;
  atMost(1.5, what, 'without it', timeAgainst(measured.reviewed, measured.plain));
}

/** From the moment that the rules are applied to the last score, by a worker that has started before. */
async function rescore(server: Stored, ruleset: Partial<Ruleset>) {
  await using worker = await startService('worker', { DATABASE_URL: server.url });
  const seconds = await timed(async () => {
    await applyRules(server, server.organisationId, ruleset);
    await server.until('not exists (select from rescore_ranges)');
  });
  return { seconds, peakMegabytes: Math.round(memoryOf(worker.id, 'VmHWM')) };
}

const inSql = (condition: string) => condition.replace('==', '=');

/** What the three rules come to. */
const scoreBySql = ({ share, size }: Variant, bonus: number) =>
  `(${size.sql}) / 20 + case when state = 'merged' then 10 else 0 end
    + case when ${inSql(share)} then ${bonus} else 0 end`;

function updateBySql({ organisationId }: Stored, variant: Variant, bonus: number): string {
  const { share, size } = variant;
  const entry = (name: string, effect: string, expression: string) =>
    `'{"name":"${name}","action":"ADD","effect":' || ${effect} || ',"expression":${JSON.stringify(expression)}}'`;
  return `with scores as materialized (
      select id, score as before, ${scoreBySql(variant, bonus)} as score,
        '[' || concat_ws(',',
          case when (${size.sql}) >= 20 then ${entry('Size', `((${size.sql}) / 20)`, size.expression)} end,
          case when state = 'merged' then ${entry('Merged', '10', 'merged')} end,
          case when ${inSql(share)} then ${entry('Share', String(bonus), share)} end) || ']' as breakdown
      from pull_requests where organisation_id = '${organisationId}'
    ), saved as (
      update pull_requests set score = scores.score, score_breakdown = scores.breakdown::json, ruleset_version = 0
      from scores where organisation_id = '${organisationId}' and pull_requests.id = scores.id
        and (pull_requests.score, pull_requests.score_breakdown::text)
          is distinct from (scores.score, scores.breakdown)
      returning pull_requests.id, scores.before, scores.score
    )
    insert into score_changes (organisation_id, pull_request_id, from_score, to_score, cause, ruleset_version)
    select '${organisationId}', id, before, score, 'ruleset', 0 from saved where before <> score`;
}

/** Each measurement begins on a table of the same state. */
async function settle({ query }: Stored): Promise<void> {
  await query('truncate score_changes, sync_requests, webhook_deliveries');
  // No vacuum: a table that is in use has dead rows, too.
  await query('analyze pull_requests');
  await query('checkpoint');
}

/** What callers notice of a re-scoring by the very process that answers them: pages and webhooks at a steady rate. */
async function measureLatency(server: Stored): Promise<void> {
  const github = await startGithub();
  const request = makeDeliveries(github.organisation('bench'), 500);
  await github.close();
  const environment = { DATABASE_URL: server.url, GITHUB_WEBHOOK_SECRET: secret, RATE_LIMIT: '0', LOG_LEVEL: 'error' };
  await using service = await startService('serve', environment);
  const loadBoth = async (duration: number) => {
    const [pages, webhooks] = await Promise.all([
      autocannon({ ...unseenPages(service, server.token), ...steadily, duration }),
      autocannon({ url: `${service.origin}/webhooks/github`, requests: [request()], ...steadily, duration }),
    ]);
    return { pages, webhooks };
  };
  await loadBoth(2);
  const atRest = await loadBoth(10);
  await applyRules(server, server.organisationId, { rules: [rule('Meanwhile', entry('true', '1'))] });
  const meanwhile = await loadBoth(10);
  const show = ({ latency, non2xx, errors }: autocannon.Result) =>
    `p50 ${latency.p50} ms, p99 ${latency.p99} ms, ${non2xx + errors} failed`;
  for (const what of ['pages', 'webhooks'] as const) {
    const shown = `${show(atRest[what])} at rest; ${show(meanwhile[what])} while the same process re-scores`;
    print(`${what} at ${steadily.overallRate}/s: ${shown}`);
  }
  if ((await server.count('rescore_ranges')) === 0) print('The re-scoring was over before the measurement was.');
}
