import { recordAuditEvent } from '../database/audit-log.ts';
import { noCredentials } from '../github/credentials.ts';
import { parseDay } from '../reports/period.ts';
import { type ImportProgress, type ImportResult, importPullRequests } from '../sync/import.ts';
import { estimateEffort, type ImportPreview, isContinuable, previewImport } from '../sync/scope-import.ts';
import { counted, duration, formatInteger } from '../text/number-formats.ts';
import { grid, plain, right } from '../text/terminal.ts';
import type { Answer, PullscoreCommand } from './command.ts';
import { CommandError, type Context, checkUsage, operator, showTime } from './context.ts';
import { representIgnoredRepositories } from './organisation-settings.ts';
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
    .option('--dry-run', 'only count pull requests, and estimate requests, rate limit points and time')
    .addHelpText('after', '\nIf the import is interrupted, run the same command again: it continues where it stopped.')
    .examples('import --organisation acme --dry-run', 'import --organisation acme --repository acme/website')
    .answerFor<ImportOptions>(({ repository: repositories, since: day, restoreDeleted, dryRun }) => {
      const scope = { repositories, since: checkUsage(() => parseDay('since', day)), restoresDeleted: restoreDeleted };
      return async (deps, organisation) => {
        if (!deps.github.configured) throw noCredentials();
        // It just ends if it is interrupted.
        if (dryRun) return describePreview(await previewImport(deps, organisation, scope), day);
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
  const failures = failedRepositories.map(({ repository, reason }) => plain(`${repository}: ${reason}`));
  return {
    json: {
      ...result,
      failed_repositories: failedRepositories,
      ignored_repositories: representIgnoredRepositories(ignored),
    },
    text: [text, ...describeIgnored(ignored), ...failures].join('\n'),
    failure:
      failures.length === 0 ? undefined : `${counted(failures.length, 'repository', 'repositories')} failed. ${next}`,
  };
}

/** @param day the value of `--since` */
function describePreview({ finished, ...preview }: ImportPreview, day: string | undefined): Answer {
  const { failedRepositories, ignored } = preview;
  const efforts = preview.repositories.map(each => ({
    repository: each.name,
    pull_requests: each.pullRequests,
    ...estimateEffort(each.pullRequests),
  }));
  const sum = (key: 'pull_requests' | 'requests' | 'points' | 'seconds', some = efforts) =>
    some.reduce((total, effort) => total + effort[key], 0);
  const pullRequests = sum('pull_requests');
  const [requests, points, seconds] = [sum('requests'), sum('points'), sum('seconds')];
  const inMinutes = (time: number) => Math.ceil(time / 6) / 10;
  const json = {
    repositories: efforts.map(({ seconds: time, ...effort }) => ({ ...effort, minutes: inMinutes(time) })),
    total: { pull_requests: pullRequests, requests, points, minutes: inMinutes(seconds) },
    finished_repositories: finished,
    failed_repositories: failedRepositories,
    ignored_repositories: representIgnoredRepositories(ignored),
  };
  const notes = [
    ...describeIgnored(ignored),
    ...failedRepositories.map(({ repository, reason }) => plain(`Not counted: ${repository}. ${reason}`)),
    finished > 0 &&
      `This continues an interrupted import, which has finished ${counted(finished, 'repository', 'repositories')}.`,
    day !== undefined && `GitHub does not say how many of them changed since ${day}; only those are imported.`,
    `Nothing was imported. An import of all takes about ${counted(requests, 'request')}, ${counted(points, 'point')} of GitHub's hourly limit and ${duration(seconds)}; if the points run out, it waits for the next hour's.`,
  ].filter(note => note !== false);
  if (efforts.length === 0) return { json, text: ['There is nothing to import.', ...notes.slice(0, -1)].join('\n') };
  const bySize = efforts.toSorted((a, b) => b.pull_requests - a.pull_requests);
  const rest = bySize.slice(maxNamed);
  const rows = bySize.slice(0, maxNamed).map(each => [each.repository, formatInteger(each.pull_requests)]);
  if (rest.length > 0) rows.push([`… and ${counted(rest.length, 'other')}`, formatInteger(sum('pull_requests', rest))]);
  rows.push(['total', formatInteger(pullRequests)]);
  return { json, text: [...grid(['REPOSITORY', right('PULL REQUESTS')], rows), '', ...notes].join('\n') };
}
