import type { Command } from 'commander';
import { setWebhooksEnabled } from '../database/organisations.ts';
import { countSyncRequests } from '../database/sync-requests.ts';
import { listDeliveries } from '../database/webhook-deliveries.ts';
import { answering, type Context, requireOrganisation, seconds, showTime, table, withDeps } from './context.ts';

export function webhookCommands(program: Command, context: Context): void {
  const group = program.command('webhooks').description('whether deliveries from GitHub are taken');

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
  setting('enable', 'take deliveries (the default)', true);
  setting('disable', 'answer deliveries, but ignore them', false);

  group
    .command('status')
    .description('the setting, the last deliveries, and what waits to be synced')
    .requiredOption('--organisation <login>', 'the organisation')
    .addHelpText('after', `\nExample:\n  ${context.program} webhooks status --organisation acme`)
    .action(
      answering<{ organisation: string }>(context, ({ organisation: login }) =>
        withDeps(context, async deps => {
          const organisation = await requireOrganisation(context, deps, login);
          const { executor } = deps.database;
          const [deliveries, requests] = await Promise.all([
            listDeliveries(executor, organisation.id, 20),
            countSyncRequests(executor, organisation.id),
          ]);
          const secret = deps.config.webhookSecrets.length > 0;
          return {
            json: {
              organisation: organisation.login,
              webhooks_enabled: organisation.webhooksEnabled,
              secret_configured: secret,
              waiting: requests.waiting,
              failing: requests.failing,
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
              `${requests.waiting} pull requests wait to be synced, ${requests.failing} of them after a failure.`,
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
            ].join('\n'),
          };
        }),
      ),
    );
}
