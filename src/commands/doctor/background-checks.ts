/** Checks of the work that the service does in the background. */

import { countSyncRequests, listFailingRequests } from '../../database/backlog.ts';
import { countCheckRuns, listFailingCheckRuns } from '../../database/check-runs.ts';
import type { Executor } from '../../database/client.ts';
import type { Organisation } from '../../database/organisations.ts';
import { countOrganisationsOnCredential } from '../../sync/share-github-points.ts';
import { maxRefetchesPerHour } from '../../sync/sweep.ts';
import { counted, duration } from '../../text/number-formats.ts';
import { showTime } from '../context.ts';
import { defineCheck, ok, problem, skipped, type Verdict, warning } from './findings.ts';
import { countWorkers } from './inspection.ts';
import { command, logs, type OrganisationScope, type Scope, type StoredScope, startWork } from './scope.ts';

export const workers = defineCheck('background', 'workers', logs, {
  ask: ({ executor }: Scope & { executor: Executor }) => countWorkers(executor),
  judge: (workers, { program }) =>
    workers > 0
      ? ok(`Background work is done by ${counted(workers, 'process', 'processes')} on this database.`)
      : warning('No process keeps pull requests and scores up to date.', startWork(program)),
});

/** Due work that has not started after this is late. */
const lateSeconds = 120;

export const requests = defineCheck('background', 'requests', logs, {
  ask: async ({ database, organisation }: StoredScope) => {
    // A parked one if there is one.
    const [example] = await listFailingRequests(database.executor, organisation.id, 1);
    return { example, ...(await countSyncRequests(database.executor, organisation.id)) };
  },
  judge(facts, scope) {
    const { total, behind, failed, parked, example } = facts;
    const wait = `${counted(total, 'pull request waits', 'pull requests wait')} to be synced`;
    const isLate = facts.overdueSeconds > lateSeconds;
    if (failed === 0 && !isLate) {
      if (total === 0) return ok('No pull request waits to be synced.');
      return ok(behind === 0 ? `${wait}.` : `${wait}, ${behind} of them until GitHub shows what a webhook announced.`);
    }
    const late = `${wait}, the first for ${duration(facts.overdueSeconds)}.`;
    return [
      ...checkFailing('pull request', { failing: failed - parked, parked, example }, scope),
      isLate &&
        (scope.workers > 0
          ? warning(late, "See the log of the service. If it can't keep up, start more processes.")
          : problem(late, `Nothing is syncing. ${startWork(scope.program)}`)),
    ];
  },
});

interface Failing {
  failing: number;
  parked: number;
  example: { name: string | null; nodeId?: string; reason: string } | undefined;
}

/** @param what one of them */
function checkFailing(what: string, { failing, parked, example }: Failing, scope: OrganisationScope) {
  const reason = example === undefined ? '.' : `, such as ${example.name ?? example.nodeId}: ${example.reason}`;
  const retry = `After fixing the cause: ${command(scope, 'webhooks retry')}`;
  const are = (count: number) => counted(count, `${what} is`, `${what}s are`);
  return [
    parked > 0 && problem(`${are(parked)} parked after failures${reason}`, retry),
    failing > 0 && warning(`${are(failing)} tried again after a failure${parked > 0 ? '.' : reason}`, retry),
  ];
}

export const checkRuns = defineCheck('background', 'checks', logs, {
  ask: async ({ database, organisation }: StoredScope) => {
    // A parked one if there is one.
    const [example] = await listFailingCheckRuns(database.executor, organisation.id, 1);
    return { example, ...(await countCheckRuns(database.executor, organisation.id)) };
  },
  judge(facts, scope) {
    const { waiting, failing, parked } = facts;
    if (scope.config.github.app === undefined) {
      return warning(
        'Scores are to be shown on GitHub. Only a GitHub App can do that, and this shell has none.',
        `Set up an App: ${command(scope, 'github connect')}. Or turn it off: ${command(scope, 'checks disable')}`,
      );
    }
    if (failing + parked === 0) {
      return ok(
        `Scores are shown on GitHub; ${counted(waiting, 'check run waits', 'check runs wait')} to be published.`,
      );
    }
    return checkFailing('check run', facts, scope);
  },
});

/** How comparisons with GitHub went. */
export const describeComparison = ({ comparedAt }: Organisation): string =>
  comparedAt === null ? 'Not compared with GitHub yet.' : `Last compared with GitHub: ${showTime(comparedAt)} UTC.`;

/** The last failure, of all or part of a comparison; `isOver`: a later comparison had none. */
export function lastFailure({ comparedAt, comparisonFailedAt, comparisonFailure }: Organisation) {
  if (comparisonFailedAt === null) return undefined;
  return {
    isOver: comparedAt !== null && comparisonFailedAt < comparedAt,
    text: `The comparison with GitHub failed, ${showTime(comparisonFailedAt)} UTC: ${comparisonFailure}`,
  };
}

function checkFailure({ config, organisation }: OrganisationScope): Verdict | false {
  const failure = lastFailure(organisation);
  if (failure === undefined || failure.isOver) return false;
  const age = (Date.now() - (organisation.comparedAt?.getTime() ?? 0)) / 1000;
  // If no comparison succeeds for an hour, or for two intervals, GitHub has more than a short failure.
  const verdict = age > Math.max(3_600, 2 * config.comparisonInterval) ? problem : warning;
  return verdict(failure.text, 'The service tries again by itself. Fix the cause in its environment.');
}

export const comparison = defineCheck('background', 'comparison', logs, {
  ask: async (scope: StoredScope) => ({
    ...(await scope.inspecting),
    // Organisations that use the same points.
    sharers: await countOrganisationsOnCredential(scope),
  }),
  judge({ untilComparison, pullRequests, sinceOldestFetch, sharers }, scope) {
    const { config, organisation, program, workers } = scope;
    if (!organisation.webhooksEnabled) return skipped('Repositories are not compared: webhooks are disabled.');
    const failed = checkFailure(scope);
    if (config.comparisonInterval === 0) {
      return [skipped('Repositories are compared only if a webhook asks for it: RECONCILE_INTERVAL is 0.'), failed];
    }
    // The time in which the sweep has fetched all of them again: docs/rules.md promises it.
    const promisedSeconds = Math.max(86_400, (pullRequests * sharers * 3_600) / maxRefetchesPerHour);
    const next =
      untilComparison > 0 ? `next compared with GitHub in ${duration(untilComparison)}` : 'about to be compared';
    return [
      untilComparison > -lateSeconds
        ? ok(`Repositories are ${next}. ${describeComparison(organisation)}`)
        : warning(
            `The comparison with GitHub has been overdue for ${duration(-untilComparison)}.`,
            workers > 0
              ? 'See the log of the service for the reason.'
              : `No process is comparing. ${startWork(program)}`,
          ),
      failed,
      (sinceOldestFetch ?? 0) >= 2 * promisedSeconds &&
        warning(
          `Some pull requests were last fetched ${duration(sinceOldestFetch ?? 0)} ago: changes without a webhook are not known yet.`,
          'Comparisons catch up while they run and GitHub has points left. See the log of the service.',
        ),
    ];
  },
});
