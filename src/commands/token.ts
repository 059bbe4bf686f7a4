import { generateAccessToken, hashAccessToken, scopes as knownScopes } from '../access-token.ts';
import { serviceUrl } from '../config.ts';
import {
  type AccessToken,
  addAccessToken,
  listAccessTokens,
  revokeAccessToken,
  rotateAccessToken,
} from '../database/access-tokens.ts';
import { type AuditAction, recordAuditEvent } from '../database/audit-log.ts';
import type { Executor } from '../database/client.ts';
import { formatId, parseId } from '../ids.ts';
import { type Column, shrinking, table } from '../text/terminal.ts';
import { maxUnixSeconds, startOfDay, unixSeconds } from '../text/times.ts';
import type { PullscoreCommand } from './command.ts';
import { CommandError, type Context, operator, requireOrganisation, showTime, UsageError } from './context.ts';
import { requireUser } from './user.ts';

const unitHours: Record<string, number> = { h: 1, d: 24, w: 168, y: 8_760 };

/** @param text such as `12h`; anything else is NaN */
function hoursOf(text: string): number {
  const [, amount, unit = ''] = /^([1-9]\d{0,4})([hdwy])$/.exec(text) ?? [];
  return Number(amount) * (unitHours[unit] ?? Number.NaN);
}

/** @param text `12h`, `90d`, `4w`, `1y`, or a day such as 2027-01-31, which ends at midnight UTC */
function parseExpiry(text: string): Date {
  const hours = hoursOf(text);
  const now = Date.now() / 1000;
  const day = startOfDay(text);
  // A day ends at its end.
  const moment = Number.isNaN(hours) ? day && day + 86_400 : now + hours * 3_600;
  if (moment === undefined) {
    throw new UsageError(`"${text}" is not a valid expiry.`, 'Give 12h, 90d, 4w, 1y or a day such as 2027-01-31.');
  }
  if (moment <= now) throw new UsageError(`${text} is in the past.`, 'Give a later time.');
  if (moment > maxUnixSeconds)
    throw new UsageError(`${text} is too late.`, 'Without --expires the token never expires.');
  return new Date(moment * 1000);
}

function parseScopes(text: string): string[] {
  const scopes = text.split(',').map(scope => scope.trim());
  for (const scope of scopes) {
    if (!(knownScopes as readonly string[]).includes(scope)) {
      throw new UsageError(`"${scope}" is not a scope.`, `Give one or more of ${knownScopes.join(',')}.`);
    }
  }
  return knownScopes.filter(scope => scopes.includes(scope));
}

/** A narrow terminal has no room for all; other commands take the id. */
const wide = (column: Column): Column => ({ ...column, minWidth: 140 });

export function tokenCommands(program: PullscoreCommand, context: Context): void {
  const group = program.command('token').description('access tokens for the HTTP API');
  const listThem = `List them: ${context.program} token list`;

  group
    .command('create')
    .description('create an access token, which is shown only once')
    .requiredOption('--user <email>', 'the holder of the token')
    .option('--organisation <login>', 'needed if several organisations have this user')
    .option('--name <name>', 'what the token is for')
    .option('--scopes <scopes>', `what the token allows: ${knownScopes.join(',')}`, 'read')
    .option(
      '--expires <when>',
      'after 12h, 90d, 4w or 1y, or at the end of a day (UTC) such as 2027-01-31 (default: never)',
    )
    .option('--link', 'print the address that opens the page signed in, instead of the token')
    .examples('token create --user ada@acme.example --scopes read,sync --expires 90d')
    .answerWith<{
      user: string;
      organisation?: string;
      name?: string;
      scopes: string;
      expires?: string;
      link?: boolean;
    }>(({ name = '', ...options }) => {
      if (name.length > 200) throw new UsageError('The name can have 200 characters at most.');
      if (options.link && !context.config.web) {
        throw new UsageError('WEB=false turns the page off.', 'Leave --link out, or set WEB=true.');
      }
      const scopes = parseScopes(options.scopes);
      const expiresAt = options.expires === undefined ? null : parseExpiry(options.expires);
      return async deps => {
        const user = await requireUser(context, deps, options.user, options.organisation);
        const token = generateAccessToken();
        const stored = await deps.database.transaction(async executor => {
          const added = await addAccessToken(executor, {
            organisationId: user.organisationId,
            userId: user.id,
            name,
            tokenHash: hashAccessToken(token),
            scopes,
            expiresAt,
          });
          await recordToken(executor, 'token.create', added);
          return added;
        });
        const answer = created(stored, token);
        if (!options.link) return answer;
        // Browsers don't send what follows the #.
        const link = `${serviceUrl(context.config)}/#token=${token}`;
        return { json: { ...answer.json, link }, text: link };
      };
    });

  group
    .command('list')
    .description('list the tokens, without their secrets')
    .option('--organisation <login>', 'only those of this organisation')
    .examples('token list')
    .answerWith<{ organisation?: string }>(({ organisation: login }) => async deps => {
      const organisation = login === undefined ? undefined : await requireOrganisation(context, deps, login);
      const listed = await listAccessTokens(deps.database.executor, organisation?.id);
      const isPast = (moment: Date | null) => moment !== null && moment.getTime() <= Date.now();
      const tokens = listed.map(({ expiresAt, revokedAt, ...token }) => ({
        ...token,
        state: isPast(revokedAt) ? 'revoked' : isPast(expiresAt) ? 'expired' : 'valid',
        revokedAt: isPast(revokedAt) ? revokedAt : null,
        // The grace of a rotated one ends before it expires.
        expiresAt: isPast(revokedAt) ? expiresAt : (revokedAt ?? expiresAt),
      }));
      return {
        json: tokens.map(token => ({
          id: formatId('tok', token.id),
          name: token.name,
          user: token.email,
          organisation: token.organisation,
          scopes: token.scopes,
          state: token.state,
          created_at: unixSeconds(token.createdAt),
          expires_at: unixSeconds(token.expiresAt),
          revoked_at: unixSeconds(token.revokedAt),
          last_used_at: unixSeconds(token.lastUsedAt),
        })),
        text: table(
          [
            ...['ID', shrinking('ORGANISATION'), shrinking('USER'), wide(shrinking('NAME'))],
            ...[wide({ heading: 'SCOPES' }), 'STATE', 'EXPIRES (UTC)', wide({ heading: 'LAST USED (UTC, ±10 MIN)' })],
          ],
          tokens.map(({ id, organisation, email, name, scopes, state, expiresAt, lastUsedAt }) => [
            ...[formatId('tok', id), organisation, email, name, scopes.join(','), state],
            ...[expiresAt === null ? 'never' : showTime(expiresAt), showTime(lastUsedAt)],
          ]),
          `There are no tokens yet. Create one: ${context.program} token create --user EMAIL --scopes read,sync`,
          { width: context.columns },
        ),
      };
    });

  group
    .command('revoke')
    .description('revoke a token: the next request with it is refused')
    .argument('<id>', 'see `token list`')
    .examples('token revoke tok_01jz8k3v5xe2ksn5q0w4g7h9ab')
    .answerWith((_options, text) => async ({ database }) => {
      const id = parseId('tok', text);
      const revoked = await database.transaction(async executor => {
        const found = id === undefined ? undefined : await revokeAccessToken(executor, id);
        if (found?.changed) await recordToken(executor, 'token.revoke', found.token);
        return found;
      });
      if (!revoked) throw new CommandError(`There is no token ${text}.`, listThem, 'not_found');
      return {
        json: { id: text, revoked: true },
        text: revoked.changed ? `Revoked ${text}.` : `Nothing to do: ${text} was revoked before.`,
      };
    });

  group
    .command('rotate')
    .description('replace a token with a new one of the same name, scopes and lifetime')
    .argument('<id>', 'see `token list`')
    .option('--grace <time>', 'how long the old token stays valid: 0, 12h, 1d or 1w', '1d')
    .examples('token rotate tok_01jz8k3v5xe2ksn5q0w4g7h9ab --grace 12h')
    .answerWith<{ grace: string }>(({ grace }, text) => {
      const graceSeconds = grace === '0' ? 0 : hoursOf(grace) * 3_600;
      if (!(Date.now() / 1000 + graceSeconds <= maxUnixSeconds)) {
        throw new UsageError(`"${grace}" is not a valid time.`, 'Give 0, 12h, 1d or 1w.');
      }
      return async ({ database }) => {
        const id = parseId('tok', text);
        const token = generateAccessToken();
        const rotated = await database.transaction(async executor => {
          const replaced = id && (await rotateAccessToken(executor, id, hashAccessToken(token), graceSeconds));
          if (replaced) await recordToken(executor, 'token.rotate', replaced.added, `${text} replaced by `);
          return replaced;
        });
        if (!rotated) throw new CommandError(`There is no valid token ${text}.`, listThem, 'not_found');
        const { added, formerEndsAt } = rotated;
        const answer = created(added, token);
        const end = graceSeconds === 0 ? 'is no longer valid' : `is valid until ${showTime(formerEndsAt)} UTC`;
        return {
          text: answer.text,
          json: { ...answer.json, replaced: { id: text, ends_at: unixSeconds(formerEndsAt) } },
          note: `The new token has the id ${answer.json.id}. The old one, ${text}, ${end}.`,
        };
      };
    });
}

const created = ({ id, scopes, expiresAt }: AccessToken, token: string) => ({
  json: { id: formatId('tok', id), token, scopes, expires_at: unixSeconds(expiresAt) },
  text: token,
});

const recordToken = (executor: Executor, action: AuditAction, { organisationId, id }: AccessToken, prefix = '') =>
  recordAuditEvent(executor, organisationId, operator(), action, `${prefix}${formatId('tok', id)}`);
