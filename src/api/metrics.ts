import { setTimeout as delay } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import { type Backlog, readBacklog } from '../database/backlog.ts';
import type { Deps } from '../deps.ts';
import { ServiceError } from '../errors.ts';
import type { GithubRequest, RateLimit } from '../github/transport.ts';
import { version } from '../package.ts';
import { fingerprintOf } from '../sync/share-github-points.ts';

/** How long a scrape waits for the database: by default, Prometheus gives up after ten seconds. */
const databaseTimeoutMs = 1_000;

/** GitHub counts points by the hour: older figures are about an hour that is over. */
const rateLimitMaxAgeMs = 3_600_000;

/**
 * Metrics of this process and of the database. None holds private data: no token, no id, no title.
 *
 * @param maxAgeMs for how long a rendering answers, because anybody may ask
 */
export function createMetrics({ config, counters, database, github, log }: Deps, maxAgeMs = 1_000) {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });
  const duration = new Histogram({
    name: 'http_request_duration_seconds',
    help: 'Time from the request to the end of its reply',
    labelNames: ['method', 'route', 'status'],
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10],
    registers,
  });
  const observeGithub = createGithubMetrics(registry, config.github.app !== undefined);
  const end = github.onRequest(observeGithub);
  const counted = (name: string, help: string, count: () => number) =>
    new Counter({
      name,
      help,
      registers,
      collect() {
        this.reset();
        this.inc(count());
      },
    });
  new Counter({
    name: 'pullscore_webhook_deliveries_total',
    help: 'Deliveries: taken, ignored, or refused, such as those without a valid signature',
    labelNames: ['outcome'],
    registers,
    collect() {
      this.reset();
      for (const [outcome, count] of Object.entries(counters.deliveries)) this.inc({ outcome }, count);
    },
  });
  new Gauge({
    name: 'pullscore_build_info',
    help: 'Always 1; the labels say which release runs, and on which Node',
    labelNames: ['version', 'node'],
    registers,
  }).set({ version, node: process.version }, 1);
  counted(
    'pullscore_pull_requests_gone_total',
    'Pull requests that a webhook announced and GitHub never showed',
    () => counters.gone,
  );
  counted(
    'pullscore_stale_answers_total',
    'Pull requests for which GitHub never showed a state as new as their webhook announced',
    () => counters.stale,
  );

  const up = new Gauge({
    name: 'pullscore_database_up',
    help: '1 if the database answered this scrape in time; if 0, its metrics are missing',
    registers,
  });
  const showBacklog = createBacklogMetrics(registry, config.comparisonInterval > 0);
  let reading: Promise<Backlog | undefined> | undefined;

  async function render(): Promise<Buffer> {
    // One read at a time: they must not pile up on a database that hangs.
    reading ??= readBacklog(database.executor, fingerprintOf(config))
      .catch((error: unknown) => void log.debug({ err: error }, 'no backlog for the metrics'))
      .finally(() => {
        reading = undefined;
      });
    const backlog = await Promise.race([reading, delay(databaseTimeoutMs, undefined, { ref: false })]);
    up.set(backlog === undefined ? 0 : 1);
    showBacklog(backlog);
    return Buffer.from(await registry.metrics());
  }

  let rendering: Promise<Buffer> | undefined;
  let staleAt = 0;

  return {
    contentType: registry.contentType,
    observeHttp: (labels: { method: string; route: string; status: number }, seconds: number) =>
      duration.observe(labels, seconds),
    /** In Prometheus' text format. If the database does not answer, its metrics are left out. */
    text(): Promise<Buffer> {
      if (rendering === undefined || performance.now() >= staleAt) {
        staleAt = Number.POSITIVE_INFINITY;
        rendering = render().finally(() => {
          staleAt = performance.now() + maxAgeMs;
        });
      }
      return rendering;
    },
    close(): void {
      end();
      registry.clear();
    },
  };
}

/** @param perOrganisation whether each organisation has its own points, as with an App; with a token, all share them */
function createGithubMetrics(registry: Registry, perOrganisation: boolean): (request: GithubRequest) => void {
  const registers = [registry];
  const requests = new Counter({
    name: 'pullscore_github_requests_total',
    help: 'GraphQL requests to GitHub, by operation and outcome: ok, or why it failed',
    labelNames: ['operation', 'outcome'],
    registers,
  });
  const duration = new Histogram({
    name: 'pullscore_github_request_duration_seconds',
    help: 'Time of a GraphQL request to GitHub, failed ones too',
    labelNames: ['operation'],
    buckets: [0.1, 0.25, 0.5, 1, 2, 3, 5, 8],
    registers,
  });
  const points = new Counter({
    name: 'pullscore_github_points_total',
    help: "Points of GitHub's hourly rate limit that this process has spent",
    labelNames: ['operation'],
    registers,
  });

  const lastLimits = new LRUCache<string, RateLimit>({ max: 10_000, ttl: rateLimitMaxAgeMs });
  const limitGauge = (name: string, help: string, property: 'limit' | 'remaining' | 'resetAt') =>
    new Gauge({
      name: `pullscore_github_rate_limit_${name}`,
      help: `${help}; labelled by organisation for an App; the label is empty for a token`,
      labelNames: ['organisation'],
      registers,
      collect() {
        this.reset();
        for (const [organisation, limit] of lastLimits.entries()) this.set({ organisation }, limit[property]);
      },
    });
  limitGauge('points', 'Points per hour', 'limit');
  limitGauge('remaining_points', 'Points left in this hour, as GitHub last reported', 'remaining');
  limitGauge('reset_timestamp_seconds', 'When the next hour begins', 'resetAt');

  return ({ organisation, operation, milliseconds, rateLimit, error }) => {
    const outcome = error === undefined ? 'ok' : error instanceof ServiceError ? error.code : 'internal';
    requests.inc({ operation, outcome });
    duration.observe({ operation }, milliseconds / 1000);
    if (rateLimit === undefined) return;
    points.inc({ operation }, rateLimit.cost);
    lastLimits.set(perOrganisation ? organisation : '', rateLimit);
  };
}

/** @param isPeriodic whether organisations are compared with GitHub regularly */
function createBacklogMetrics(registry: Registry, isPeriodic: boolean): (backlog: Backlog | undefined) => void {
  const gauge = (name: string, help: string, ...labelNames: string[]) =>
    new Gauge({ name, help, labelNames, registers: [registry] });
  const syncRequests = gauge(
    'pullscore_sync_requests',
    'Pull requests to fetch: waiting, behind (until GitHub catches up with a webhook), failing (tried again) or parked (until their next change or a retry)',
    'state',
  );
  const overdue = gauge(
    'pullscore_sync_requests_overdue_seconds',
    'How long the oldest due pull request has waited to be fetched',
  );
  const unapplied = gauge(
    'pullscore_webhook_delivery_unapplied_seconds',
    'Age of the oldest delivery that is not applied yet; 0 if there is none',
  );
  const checkRuns = gauge(
    'pullscore_check_runs',
    'Scores to show on GitHub: waiting, failing (tried again) or parked (until the pull request changes, or a retry)',
    'state',
  );
  const comparisonAge = gauge(
    'pullscore_comparison_age_seconds',
    'Since the last comparison with GitHub that reached its end, of the organisation for which it is longest ago; absent while RECONCILE_INTERVAL is 0',
  );
  const failingComparisons = gauge(
    'pullscore_failing_comparisons',
    'Organisations whose last comparison with GitHub failed, in whole or in part',
  );
  const ranges = gauge(
    'pullscore_rescore_ranges',
    'Ranges of pull requests whose scores may be older than the rules in force',
  );
  const suspended = gauge(
    'pullscore_suspended_rules',
    'Organisations whose rules in force break a bound: their scores stay as they are until others are applied',
  );
  const blockedUntil = gauge(
    'pullscore_github_blocked_until_timestamp_seconds',
    'Time until which GitHub must not be called; absent if it may be called',
    'organisation',
  );

  return backlog => {
    // A gauge without labels is 0 after a reset: only removing it makes it absent.
    for (const gauge of [overdue, unapplied, comparisonAge, failingComparisons, ranges, suspended]) gauge.remove();
    for (const gauge of [syncRequests, checkRuns, blockedUntil]) gauge.reset();
    if (backlog === undefined) return;
    for (const state of ['waiting', 'behind', 'failing', 'parked'] as const)
      syncRequests.set({ state }, backlog[state]);
    for (const [state, count] of Object.entries(backlog.checkRuns)) checkRuns.set({ state }, count);
    overdue.set(backlog.overdueSeconds);
    unapplied.set(backlog.unappliedSeconds);
    const { maxSeconds, failing } = backlog.comparisons;
    if (isPeriodic && maxSeconds !== null) comparisonAge.set(maxSeconds);
    failingComparisons.set(failing);
    ranges.set(backlog.rescoreRanges);
    suspended.set(backlog.suspended);
    for (const [organisation, until] of backlog.blockedUntil) blockedUntil.set({ organisation }, until);
  };
}
