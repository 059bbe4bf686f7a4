import { listAuditEvents } from '../database/audit-log.ts';
import { parseDay } from '../reports/period.ts';
import { table } from '../text/terminal.ts';
import { unixSeconds } from '../text/times.ts';
import type { PullscoreCommand } from './command.ts';
import { CommandError, type Context, checkUsage, parseLimit, showTime } from './context.ts';

export function auditLogCommand(program: PullscoreCommand, context: Context): void {
  program
    .command('audit-log')
    .description('show changes and their actors: syncs, imports, deletions, tokens, users, rules and settings')
    .option('--organisation <login>', 'only organisations that have this login or had it, removed ones included')
    .option('--since <day>', 'only from this day on, such as 2026-01-31', day =>
      checkUsage(() => parseDay('since', day)),
    )
    .option('--limit <number>', 'only the latest ones, as many as this', parseLimit)
    .examples('audit-log --organisation acme --since 2026-01-31')
    .answerWith<{ organisation?: string; since?: number; limit?: number }>(
      ({ organisation: login, since, limit }) =>
        async ({ database }) => {
          const events = await listAuditEvents(database.executor, { login, since, limit });
          if (events === undefined) {
            const message = `No organisation has the login ${login} here, or had it.`;
            throw new CommandError(message, `List them: ${context.program} organisation list`, 'not_found');
          }
          return {
            json: events.map(event => ({
              happened_at: unixSeconds(event.happenedAt),
              organisation: event.organisation,
              actor: event.actor,
              action: event.action,
              subject: event.subject,
              request_id: event.requestId,
              count: event.count,
            })),
            text: table(
              ['TIME (UTC)', 'ORGANISATION', 'ACTOR', 'ACTION', 'SUBJECT', 'COUNT', 'REQUEST'],
              events.map(event => [
                showTime(event.happenedAt),
                event.organisation,
                event.actor,
                event.action,
                event.subject,
                String(event.count),
                event.requestId ?? '-',
              ]),
              since === undefined ? 'Nothing is recorded yet.' : 'Nothing is recorded since that day.',
            ),
          };
        },
    );
}
