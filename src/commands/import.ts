import { recordAuditEvent } from '../database/audit-log.ts';
import { noCredentials } from '../github/credentials.ts';
import { parseDay } from '../reports/period.ts';
import { type ImportProgress, type ImportResult, importPullRequests } from '../sync/import.ts';
import {
  type Effort,
  estimateImport,
  fullName,
  type ImportEstimate,
  isContinuable,
  totalOf,
  usablePoints,
} from '../sync/scope-import.ts';
import { counted, duration, formatInteger } from '../text/number-formats.ts';
import { grid, right } from '../text/terminal.ts';
import type { Answer, PullscoreCommand } from './command.ts';
import { CommandError, type Context, checkUsage, operator, showTime } from './context.ts';
import { withProgress } from './progress.ts';

/** How many repositories the table lists. The others share a line. */
const maxNamed = 40;

interface ImportOptions {
  repository?: string[];
  since?: string;
  restoreDeleted?: boolean;
  dryRun?: boolean;
}

export function importCommands(program: PullscoreCommand, context: Context): void {
  program
    .command('import')
    .description("import the organisation's pull requests from GitHub")
    .option(
      '--repository <owner/name>',
      'only this repository; can be repeated',
      (name: string, names: string[] = []) => [...names, name],
    )
    .option('--since <day>', 'only pull requests that changed on this day or later, such as 2026-01-31')
    .option('--restore-deleted', 'bring back pull requests that were deleted here; reads everything from the start')
    .option('--dry-run', 'only estimate requests, rate limit points and time')
    .addHelpText('after', '\nIf the import is interrupted, run the same command again: it continues where it stopped.')
    .examples('import --organisation acme --dry-run', 'import --organisation acme --repository acme/website')
    .answerFor<ImportOptions>(({ repository: repositories, since: day, restoreDeleted, dryRun }) => {
      const scope = { repositories, since: checkUsage(() => parseDay('since', day)), restoresDeleted: restoreDeleted };
      return async (deps, organisation) => {
        if (!deps.github.configured) throw noCredentials();
        // It just ends if it is interrupted.
        if (dryRun) return describeEstimate(await estimateImport(deps, organisation, scope), day);
        const names = repositories?.join(', ') ?? organisation.login;
        const subject = [names, day && `since ${day}`, restoreDeleted && 'with deleted ones'].filter(Boolean).join(' ');
        const next = isContinuable(scope) ? 'to continue' : 'to start from the beginning';
        const result = await withProgress(
          context,
          'pull requests',
          ({ signal, onProgress }) =>
            importPullRequests(deps, organisation, {
              ...scope,
              signal,
              record: executor => recordAuditEvent(executor, organisation.id, operator(), 'import', subject),
              onEstimate: estimate => context.stderr.write(`${summarise(estimate)}\n`),
              onProgress: at => onProgress(at.seen, at.total, describeStep(at), at.looked),
            }),
          new CommandError(`Interrupted. What was imported is kept; run the same command again ${next}.`),
        );
        return describeResult(result);
      };
    });
}

/** What the import reads now, or how long and why it waits. */
function describeStep({ repository, waitingSeconds, waitingReason }: ImportProgress): string {
  if (waitingSeconds === undefined) return repository;
  const until = showTime(new Date(Date.now() + waitingSeconds * 1000)).slice(-5);
  return `${repository === '' ? '' : `${repository}: `}waiting until ${until} UTC: ${waitingReason}`;
}

/** For JSON. */
const representIgnored = (ignored: ImportResult['ignored']) =>
  ignored.map(each => ({ repository: fullName(each), reason: each.ignoredBecause }));

/** A note that counts the repositories that are left out, by reason. */
function describeIgnored(ignored: ImportResult['ignored']): string[] {
  if (ignored.length === 0) return [];
  const reasons = new Map<string, number>();
  for (const { ignoredBecause } of ignored) reasons.set(ignoredBecause, (reasons.get(ignoredBecause) ?? 0) + 1);
  const counts = [...reasons].map(([reason, count]) => `${formatInteger(count)} because ${reason}`);
  return [`Left out ${counted(ignored.length, 'ignored repository', 'ignored repositories')}: ${counts.join(', ')}.`];
}

function describeResult({ failedRepositories, ignored, ...result }: ImportResult): Answer {
  const { repositories: read, seen, saved, untracked, deleted, failed, requests } = result;
  const next = 'Run the same command again for each, with --repository OWNER/NAME.';
  const text =
    `Checked ${counted(seen, 'pull request')} in ${counted(read, 'repository', 'repositories')} ` +
    `with ${counted(requests, 'request')}: ` +
    `${formatInteger(saved)} saved, ${formatInteger(untracked)} skipped because the author is not a member` +
    `${deleted === 0 ? '' : `, ${formatInteger(deleted)} ${deleted === 1 ? 'stays' : 'stay'} deleted (--restore-deleted brings them back)`}` +
    `${failed === 0 ? '' : `, ${formatInteger(failed)} that GitHub did not return in full; the service retries those that GitHub named (see the log)`}.`;
  const failures = failedRepositories.map(({ repository, reason }) => `${repository}: ${reason}`);
  return {
    json: { ...result, failed_repositories: failedRepositories, ignored_repositories: representIgnored(ignored) },
    text: [text, ...describeIgnored(ignored), ...failures].join('\n'),
    failure:
      failures.length === 0 ? undefined : `${counted(failures.length, 'repository', 'repositories')} failed. ${next}`,
  };
}

const sign = ({ atMost }: { atMost: boolean }) => (atMost ? '≤ ' : '');

/** The line that is shown when an import starts. */
function summarise({ total, budget }: ImportEstimate): string {
  if (total.requests === 0) return 'There is nothing to import.';
  const amount = `${counted(total.pullRequests, 'pull request')} in ${counted(total.requests, 'request')}`;
  const points =
    budget && `; ${formatInteger(total.points)} of the ${formatInteger(budget.remaining)} points that GitHub has left`;
  return `${total.atMost ? 'At most' : 'About'} ${amount}, ${duration(total.seconds)}${points ?? ''}.`;
}

/** @param day the value of `--since` */
function describeEstimate(estimate: ImportEstimate, day: string | undefined): Answer {
  const { repositories, failedRepositories, ignored, total, finished, asked, budget } = estimate;
  const effort = ({ pullRequests, requests, points, seconds, atMost }: Effort) => ({
    pull_requests: pullRequests,
    requests,
    points,
    minutes: Math.ceil(seconds / 6) / 10,
    at_most: atMost,
  });
  const json = {
    repositories: repositories.map(each => ({ repository: each.repository, ...effort(each) })),
    total: effort(total),
    finished_repositories: finished,
    ignored_repositories: representIgnored(ignored),
    requests_for_this_estimate: asked,
    rate_limit:
      budget === undefined ? null : { limit: budget.limit, remaining: budget.remaining, reset_at: budget.resetAt },
  };

  const notes = [
    ...describeIgnored(ignored),
    ...failedRepositories.map(({ repository, reason }) => `Not in this estimate: ${repository}. ${reason}`),
    finished > 0 &&
      `This continues an interrupted import, which has finished ${counted(finished, 'repository', 'repositories')}.`,
    total.atMost &&
      (day === undefined
        ? '≤ is an upper bound: the interrupted import has already imported some of these.'
        : `≤ is an upper bound: GitHub does not say how many of them changed since ${day}.`),
  ].filter(note => note !== false);
  if (repositories.length === 0) return { json, text: ['There is nothing to import.', ...notes].join('\n') };
  notes.push(
    describeBudget(estimate),
    `The time assumes 3 seconds to fetch fifty, and 1 to list a hundred. Nothing was imported; the estimate took ${counted(asked, 'request')}.`,
  );
  const bySize = repositories.toSorted((a, b) => b.pullRequests - a.pullRequests);
  const row = (name: string, part: Effort) => [
    name,
    sign(part) + formatInteger(part.pullRequests),
    sign(part) + formatInteger(part.requests),
    formatInteger(part.points),
    duration(part.seconds),
  ];
  const rest = bySize.slice(maxNamed);
  const rows = [
    ...bySize.slice(0, maxNamed).map(each => row(each.repository, each)),
    ...(rest.length === 0 ? [] : [row(`… and ${counted(rest.length, 'other')}`, totalOf(rest))]),
    row('total', total),
  ];
  const columns = ['REPOSITORY', ...['PULL REQUESTS', 'REQUESTS', 'POINTS', 'TIME'].map(right)];
  return { json, text: [...grid(columns, rows), '', ...notes].join('\n') };
}

function describeBudget({ total, budget }: ImportEstimate): string {
  if (budget === undefined) return 'This GitHub has no rate limit.';
  const { limit, remaining, resetAt } = budget;
  const reset = showTime(new Date(resetAt * 1000)).slice(-5);
  const left = `GitHub has ${formatInteger(remaining)} of the hour's ${formatInteger(limit)} points left, until ${reset} UTC`;
  if (total.points <= usablePoints(budget)) return `${left}: enough.`;
  return `${left}, and a tenth of the hour's points is reserved for webhooks and PUT syncs. That is not enough, so the import will wait for the next hour; the total time includes such waits.`;
}
