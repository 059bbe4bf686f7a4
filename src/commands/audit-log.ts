import { listAuditEvents } from '../database/audit-log.ts';
import type { PullscoreCommand } from './command.ts';
import { type Context, parseDay, seconds, showTime, withDeps } from './context.ts';
import { table } from './terminal.ts';

export function auditLogCommand(program: PullscoreCommand, context: Context): void {
  program
    .command('audit-log')
    .description('show who changed what: syncs, imports, deletions, tokens, users, rules and settings')
    .option('--organisation <login>', 'only organisations that have this login or had it, removed ones included')
    .option('--since <day>', 'only from this day on, such as 2026-01-31')
    .examples('audit-log --organisation acme --since 2026-01-31')
    .answer<{ organisation?: string; since?: string }>(({ organisation, since }) => {
      const start = parseDay(since);
      return withDeps(context, async ({ database }) => {
        const events = await listAuditEvents(database.executor, { login: organisation, since: start });
        return {
          json: events.map(event => ({
            happened_at: seconds(event.happenedAt),
            organisation: event.organisation,
            actor: event.actor,
            action: event.action,
            subject: event.subject,
            request_id: event.requestId,
          })),
          text: table(
            ['TIME (UTC)', 'ORGANISATION', 'WHO', 'ACTION', 'WHAT', 'REQUEST'],
            events.map(event => [
              showTime(event.happenedAt),
              event.organisation,
              event.actor,
              event.action,
              event.subject,
              event.requestId ?? '-',
            ]),
            'Nothing is recorded yet.',
          ),
        };
      });
    });
}
