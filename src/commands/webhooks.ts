import { webhookUrl } from '../config.ts';
import { recordAuditEvent } from '../database/audit-log.ts';
import { maxRequestedAtOnce } from '../database/background-requests.ts';
import {
  countSyncRequests,
  listFailingRequests,
  retrySyncRequests,
  type SyncRequestCounts,
} from '../database/backlog.ts';
import {
  areChecksEnabled,
  type CheckRunCounts,
  countCheckRuns,
  listFailingCheckRuns,
  retryCheckRuns,
} from '../database/check-runs.ts';
import { type Organisation, setWebhooksEnabled } from '../database/organisations.ts';
import { getRuleset } from '../database/rules.ts';
import { listServiceReports, setsVariable } from '../database/service-reports.ts';
import { countGoneDeliveries, listDeliveries } from '../database/webhook-deliveries.ts';
import { describeSuspension } from '../errors.ts';
import { type Failure, representFailure, representHealth } from '../reports/health.ts';
import { counted } from '../text/number-formats.ts';
import { brief, table } from '../text/terminal.ts';
import { unixSeconds } from '../text/times.ts';
import type { PullscoreCommand } from './command.ts';
import { type Context, operator, parseLimit, showTime } from './context.ts';
import { describeComparison, lastFailure } from './doctor/background-checks.ts';
import { goneDays } from './doctor/webhook-checks.ts';
import { goneSeconds } from './report-process.ts';

const maxFailing = { text: 20, json: 100 };

/** Columns for why something failed. */
const maxFailureWidth = 600;

export function webhookCommands(program: PullscoreCommand, context: Context): void {
  const group = program.command('webhooks').description('deliveries from GitHub: accept, ignore, inspect and retry');

  const setting = (name: 'enable' | 'disable', description: string, enabled: boolean) =>
    group
      .command(name)
      .description(description)
      .examples(`webhooks ${name} --organisation acme`)
      .answerFor(() => async ({ database }, { id, login }) => {
        await database.transaction(async executor => {
          await setWebhooksEnabled(executor, id, enabled);
          await recordAuditEvent(executor, id, operator(), `webhooks.${name}`, login);
        });
        return {
          json: { organisation: login, webhooks_enabled: enabled },
          text: enabled
            ? `Webhooks are enabled for ${login}. What changed while they were disabled is fetched now.`
            : `Webhooks are disabled for ${login}. Deliveries are answered, but ignored.`,
        };
      });
  setting('enable', 'accept deliveries and compare with GitHub (the default)', true);
  setting('disable', 'stop automatic updates: ignore deliveries, and compare nothing with GitHub', false);

  group
    .command('status')
    .description('show the setting, the last deliveries, and the pull requests that wait or fail')
    .option('--limit <number>', 'how many of the last deliveries', parseLimit, 20)
    .examples('webhooks status --organisation acme')
    .answerFor<{ limit: number }>(({ limit }) => async ({ config, database }, organisation) => {
      const { id, login, webhooksEnabled } = organisation;
      const { executor } = database;
      const [{ suspension }, deliveries, gone, requests, failing, checkRuns, failingChecks] = await Promise.all([
        getRuleset(executor, id, organisation.rulesetVersion),
        listDeliveries(executor, id, limit),
        countGoneDeliveries(executor, id, goneDays),
        countSyncRequests(executor, id),
        listFailingRequests(executor, id, maxFailing.json),
        countCheckRuns(executor, id),
        listFailingCheckRuns(executor, id, maxFailing.json),
      ]);
      const failure = lastFailure(organisation);
      const services = (await listServiceReports(executor, goneSeconds)).filter(({ command }) => command === 'serve');
      // Without a service this shell's variables are taken for its own, as doctor does.
      const isSecretSet = (services.length > 0 ? services : [config]).every(({ variables }) =>
        setsVariable(variables, 'GITHUB_WEBHOOK_SECRET'),
      );
      return {
        json: {
          ...representHealth(organisation, suspension, requests),
          secret_configured: isSecretSet,
          gone,
          failures: failing.map(request => ({
            ...representFailure(request),
            external_id: String(request.githubId),
            requested_at: unixSeconds(request.requestedAt),
          })),
          checks: {
            enabled: areChecksEnabled(organisation),
            ...checkRuns,
            failures: failingChecks.map(representFailure),
          },
          deliveries: deliveries.map(delivery => ({
            guid: delivery.guid,
            event: delivery.event,
            action: delivery.action,
            state: delivery.state,
            received_at: unixSeconds(delivery.receivedAt),
            applied_at: unixSeconds(delivery.appliedAt),
          })),
        },
        text: [
          `Webhooks are ${webhooksEnabled ? 'enabled' : 'disabled'} for ${login}.`,
          !isSecretSet &&
            `GITHUB_WEBHOOK_SECRET is not set ${services.length > 0 ? 'for the service: it' : 'in this shell: a service without it'} refuses deliveries.`,
          suspension !== null && describeSuspension(suspension),
          describeComparison(organisation),
          failure !== undefined &&
            brief(failure.isOver ? `Before that: ${failure.text}` : failure.text, maxFailureWidth),
          ...describeWaiting(requests),
          gone > 0 &&
            `${counted(gone, 'delivery', 'deliveries')} in the last ${goneDays} days named a pull request that GitHub never showed. What to do: ${context.program} doctor --organisation ${login}`,
          ...describeFailing(context, login, requests.failed, failing),
          ...describeChecks(context, organisation, checkRuns, failingChecks),
          '',
          table(
            ['RECEIVED (UTC)', 'EVENT', 'ACTION', 'STATE', 'DELIVERY'],
            deliveries
              .toReversed()
              .map(each => [showTime(each.receivedAt), each.event, each.action, each.state, each.guid]),
            `No delivery has arrived yet, except perhaps a ping. GitHub's webhook must go to ${webhookUrl(context.config, login)}, with content type application/json.`,
          ),
          deliveries.some(({ state }) => state === 'gone') &&
            'gone: GitHub did not show the pull request for 13 minutes.',
        ]
          .filter(line => line !== false)
          .join('\n'),
      };
    });

  group
    .command('retry')
    .description('retry all pull requests whose sync or check run failed, including parked ones')
    .addHelpText(
      'after',
      '\nA pull request that keeps failing is parked. The service retries it within a minute of its next change; this command retries it now.',
    )
    .examples('webhooks retry --organisation acme')
    .answerFor(() => async ({ database }, { id, login }) => {
      let [retried, parked] = [0, 0];
      let step: { retried: number; parked: number };
      // In steps: all at once would hold up webhooks.
      do {
        step = await database.transaction(async executor => {
          const syncs = await retrySyncRequests(executor, id);
          const checks = await retryCheckRuns(executor, id);
          if (retried === 0 && syncs.retried + checks.retried > 0) {
            await recordAuditEvent(executor, id, operator(), 'webhooks.retry', login);
          }
          return { retried: syncs.retried + checks.retried, parked: syncs.parked + checks.parked };
        });
        retried += step.retried;
        parked += step.parked;
      } while (step.retried >= maxRequestedAtOnce);
      return {
        json: { organisation: login, retried, parked },
        text:
          retried === 0
            ? `No pull request of ${login} has failed.`
            : `Retrying ${counted(retried, 'pull request')}, ${parked} of them parked. To see the results: ${context.program} webhooks status --organisation ${login}`,
      };
    });
}

const describeWaiting = ({ total, behind, failed, parked }: SyncRequestCounts): (string | false)[] => [
  `${counted(total, 'pull request waits', 'pull requests wait')} to be synced, ${failed} of them after a failure.`,
  parked > 0 &&
    `Of these, ${counted(parked, 'is parked: it is', 'are parked: they are')} tried again within a minute of the next change, or by a retry.`,
  behind > 0 &&
    `Of the others, ${counted(behind, 'waits', 'wait')} until GitHub shows what a webhook announced. This is normal and usually takes seconds.`,
];

function describeChecks(
  context: Context,
  organisation: Organisation,
  { waiting, failing, parked }: CheckRunCounts,
  failures: Awaited<ReturnType<typeof listFailingCheckRuns>>,
): string[] {
  if (!areChecksEnabled(organisation)) return [];
  const failed = failing + parked;
  return [
    `Scores are shown on GitHub: ${counted(waiting, 'check run waits', 'check runs wait')} to be published${failed === 0 ? '' : `, ${failed} failed and ${parked} of these ${parked === 1 ? 'is' : 'are'} parked`}.`,
    ...describeFailing(context, organisation.login, failed, failures),
  ];
}

function describeFailing(
  { program }: Context,
  login: string,
  failed: number,
  requests: readonly (Omit<Failure, 'url'> & { nodeId?: string })[],
): string[] {
  if (requests.length === 0) return [];
  const shown = requests.slice(0, maxFailing.text);
  const rows = shown.map(({ name, nodeId = '', attempts, dueAt, reason }) => [
    brief(name ?? nodeId),
    String(attempts),
    dueAt === null ? 'parked' : showTime(dueAt),
    brief(reason, 300),
  ]);
  return [
    '',
    table(['PULL REQUEST', 'FAILURES', 'NEXT TRY (UTC)', 'REASON'], rows, ''),
    ...(failed > shown.length ? [`… and ${failed - shown.length} more`] : []),
    `Retry them now: ${program} webhooks retry --organisation ${login}`,
  ];
}
