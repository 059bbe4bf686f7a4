import type { Command } from 'commander';
import {
  countSyncRequests,
  type FailingRequest,
  listFailingRequests,
  retrySyncRequests,
  type SyncRequestCounts,
} from '../database/backlog.ts';
import { setWebhooksEnabled } from '../database/organisations.ts';
import { countGoneDeliveries, goneDays, listDeliveries } from '../database/webhook-deliveries.ts';
import { answering, type Context, requireOrganisation, seconds, showTime, table, withDeps } from './context.ts';
import { brief } from './explanation-text.ts';
import { counted } from './numbers.ts';

/** Failing pull requests that `status` shows, as text and as JSON. */
const maxFailing = { text: 20, json: 100 };

export function webhookCommands(program: Command, context: Context): void {
  const group = program.command('webhooks').description('whether deliveries from GitHub are accepted');

  const setting = (name: 'enable' | 'disable', description: string, enabled: boolean) =>
    group
      .command(name)
      .description(description)
      .requiredOption('--organisation <login>', 'the organisation')
      .addHelpText('after', `\nExample:\n  ${context.program} webhooks ${name} --organisation acme`)
      .action(
        answering<{ organisation: string }>(context, ({ organisation: login }) =>
          withDeps(context, async deps => {
            const organisation = await requireOrganisation(context, deps, login);
            await setWebhooksEnabled(deps.database.executor, organisation.id, enabled);
            return {
              json: { organisation: organisation.login, webhooks_enabled: enabled },
              text: enabled
                ? `Webhooks are enabled for ${organisation.login}: what changed meanwhile is fetched now.`
                : `Webhooks are disabled for ${organisation.login}: deliveries are answered and ignored.`,
            };
          }),
        ),
      );
  setting('enable', 'accept deliveries (the default)', true);
  setting('disable', 'answer deliveries, but ignore them', false);

  group
    .command('status')
    .description('the setting, the last deliveries, and what waits to be synced or fails')
    .requiredOption('--organisation <login>', 'the organisation')
    .addHelpText('after', `\nExample:\n  ${context.program} webhooks status --organisation acme`)
    .action(
      answering<{ organisation: string }>(context, ({ organisation: login }) =>
        withDeps(context, async deps => {
          const organisation = await requireOrganisation(context, deps, login);
          const { executor } = deps.database;
          const [deliveries, gone, requests, failing] = await Promise.all([
            listDeliveries(executor, organisation.id, 20),
            countGoneDeliveries(executor, organisation.id),
            countSyncRequests(executor, organisation.id),
            listFailingRequests(executor, organisation.id, maxFailing.json),
          ]);
          const secret = deps.config.webhookSecrets.length > 0;
          return {
            json: {
              organisation: organisation.login,
              webhooks_enabled: organisation.webhooksEnabled,
              secret_configured: secret,
              waiting: requests.waiting,
              behind: requests.behind,
              failing: requests.failing,
              parked: requests.parked,
              gone,
              failures: failing.map(request => ({
                pull_request: request.name,
                url: request.url,
                external_id: String(request.githubId),
                attempts: request.attempts,
                reason: request.reason,
                parked: request.dueAt === null,
                requested_at: seconds(request.requestedAt),
                due_at: seconds(request.dueAt),
              })),
              deliveries: deliveries.map(delivery => ({
                guid: delivery.guid,
                event: delivery.event,
                action: delivery.action,
                state: delivery.state,
                received_at: seconds(delivery.receivedAt),
                applied_at: seconds(delivery.appliedAt),
              })),
            },
            text: [
              `Webhooks are ${organisation.webhooksEnabled ? 'enabled' : 'disabled'} for ${organisation.login}.`,
              ...(secret ? [] : ['GITHUB_WEBHOOK_SECRET is not set here: without it the service refuses deliveries.']),
              ...describeWaiting(requests),
              ...describeGone(context, organisation.login, gone),
              ...describeFailing(context, organisation.login, requests, failing),
              '',
              table(
                ['RECEIVED', 'EVENT', 'ACTION', 'STATE', 'DELIVERY'],
                deliveries.map(delivery => [
                  showTime(delivery.receivedAt),
                  delivery.event,
                  delivery.action,
                  delivery.state,
                  delivery.guid,
                ]),
                'No delivery has arrived yet. On GitHub, add a webhook to PUBLIC_URL/webhooks/github with content type application/json.',
              ),
              ...(deliveries.some(({ state }) => state === 'gone')
                ? ['gone: GitHub did not show the pull request for a quarter of an hour.']
                : []),
            ].join('\n'),
          };
        }),
      ),
    );

  group
    .command('retry')
    .description('retry all pull requests whose sync failed, parked ones too')
    .requiredOption('--organisation <login>', 'the organisation')
    .addHelpText(
      'after',
      `\nA pull request that keeps failing is parked: it is tried again within a minute of its next change, or by this command.\n\nExample:\n  ${context.program} webhooks retry --organisation acme`,
    )
    .action(
      answering<{ organisation: string }>(context, ({ organisation: login }) =>
        withDeps(context, async deps => {
          const organisation = await requireOrganisation(context, deps, login);
          const { retried, parked } = await retrySyncRequests(deps.database.executor, organisation.id);
          return {
            json: { organisation: organisation.login, retried, parked },
            text:
              retried === 0
                ? `No pull request of ${organisation.login} has failed.`
                : `Retrying ${counted(retried, 'pull request')}, ${parked} of them parked. To see how they do: ${context.program} webhooks status --organisation ${organisation.login}`,
          };
        }),
      ),
    );
}

function describeWaiting({ waiting, behind, failing, parked }: SyncRequestCounts): string[] {
  const lines = [
    `${counted(waiting, 'pull request waits', 'pull requests wait')} to be synced, ${failing} of them after a failure.`,
  ];
  if (parked > 0) {
    lines.push(
      `Of these, ${counted(parked, 'is parked: it is', 'are parked: they are')} tried again within a minute of the next change, or by a retry.`,
    );
  }
  if (behind > 0) {
    lines.push(
      `Of these, ${counted(behind, 'waits', 'wait')} until GitHub shows what a webhook announced. This is not a failure, and usually takes seconds.`,
    );
  }
  return lines;
}

function describeGone({ program }: Context, login: string, gone: number): string[] {
  if (gone === 0) return [];
  const found = `GitHub never showed the pull request of ${counted(gone, 'delivery', 'deliveries')} within the last ${goneDays} days.`;
  return [`${found} What to do: ${program} doctor --organisation ${login}`];
}

function describeFailing(
  { program }: Context,
  login: string,
  { failing }: SyncRequestCounts,
  requests: readonly FailingRequest[],
): string[] {
  if (requests.length === 0) return [];
  const shown = requests.slice(0, maxFailing.text);
  const rows = shown.map(({ name, nodeId, attempts, dueAt, reason }) => [
    brief(name ?? nodeId),
    String(attempts),
    dueAt === null ? 'parked' : showTime(dueAt),
    brief(reason, 300),
  ]);
  return [
    '',
    table(['PULL REQUEST', 'FAILURES', 'NEXT TRY', 'REASON'], rows, ''),
    ...(failing > shown.length ? [`… and ${failing - shown.length} more`] : []),
    `Retry them now: ${program} webhooks retry --organisation ${login}`,
  ];
}
