import { recordAuditEvent } from '../database/audit-log.ts';
import type { Executor } from '../database/client.ts';
import { removeErased } from '../database/erased-people.ts';
import { eraseMember } from '../database/erasure.ts';
import { findMembersByLogin, listMembers, type Member } from '../database/members.ts';
import type { Organisation } from '../database/organisations.ts';
import { readPersonalData } from '../database/personal-data.ts';
import { readSnapshot } from '../database/snapshot.ts';
import type { Deps } from '../deps.ts';
import { noCredentials } from '../github/credentials.ts';
import { formatId, type IdPrefix, parseId } from '../ids.ts';
import { readMemberList, syncMembers } from '../sync/sync-members.ts';
import { counted, formatInteger } from '../text/number-formats.ts';
import { table } from '../text/terminal.ts';
import { unixSeconds } from '../text/times.ts';
import { type Answer, jsonDocument, type PullscoreCommand } from './command.ts';
import { CommandError, type Context, confirm, operator, showTime } from './context.ts';

export function memberCommands(program: PullscoreCommand, context: Context): void {
  const group = program.command('members').description("the organisation's members");

  group
    .command('list')
    .description('list the members, and with --left also those who have left')
    .option('--left', 'also list those who have left: their pull requests are kept')
    .examples('members list --organisation acme')
    .answerFor<{ left?: boolean }>(({ left = false }) => async ({ database }, { id, login }) => {
      const members = await listMembers(database.executor, id, left);
      return {
        json: members.map(member => ({
          id: formatId('mem', member.id),
          external_id: String(member.githubId),
          login: member.login,
          name: member.name,
          created_at: unixSeconds(member.createdAt),
          left_at: unixSeconds(member.leftAt),
        })),
        text: table(
          ['LOGIN', 'NAME', ...(left ? ['LEFT (UTC)'] : [])],
          members.map(member => [member.login, member.name, ...(left ? [showTime(member.leftAt)] : [])]),
          `No members of ${login} are known. Fetch the list: ${context.program} members sync --organisation ${login}`,
        ),
      };
    });

  group
    .command('sync')
    .description("read GitHub's list of members now")
    .examples('members sync --organisation acme')
    .answerFor(() => async (deps, organisation) => {
      if (!deps.github.configured) throw noCredentials();
      const { members, left } = await syncMembers(deps, organisation, executor =>
        recordAuditEvent(executor, organisation.id, operator(), 'members.sync', organisation.login),
      );
      return { json: { members, left }, text: describeMembers(organisation.login, members, left) };
    });

  const one = program.command('member').description('one member of the organisation');

  one
    .command('export')
    .description('print all that is stored about a person, as JSON')
    .argument('<login>', "the person's login on GitHub, a former one, or their id")
    .examples('member export ada --organisation acme > ada.json')
    .answerFor((_, person) => async ({ database }, organisation) => {
      const { login, member } = await requirePerson(database.executor, organisation, person);
      await recordAuditEvent(database.executor, organisation.id, operator(), 'member.export', login);
      const data = await readSnapshot(database, executor => readPersonalData(executor, organisation.id, member));
      const json = { organisation: organisation.login, login, ...representRows(data) };
      return { json, text: jsonDocument(json).trimEnd() };
    });

  one
    .command('erase')
    .description('delete what is stored about a person, and store nothing about them any more')
    .argument('<login>', "the person's login on GitHub, a former one, or their id")
    .option('--yes', 'do not ask')
    .option('--allow', 'store data about the person again: for a member who no longer objects')
    .addHelpText(
      'after',
      `
Deletes the profile, the pull requests and reviews with their scores, and the assignments; what the person merged shows
"ghost".
From then on nothing about them is stored, whatever GitHub says: their id is kept as a hash. If the command is
interrupted, the service goes on with it, or run it again. Titles and descriptions of others' pull requests stay as they
are. The audit log keeps for three years that this login was erased, with the time and the operator: it is the
evidence that you did it.`,
    )
    .examples('member erase ada --organisation acme --yes', 'member erase ada --organisation acme --allow')
    .answerFor<{ yes?: boolean; allow?: boolean }>(({ yes, allow }, person) => async (deps, organisation) => {
      const { database } = deps;
      if (allow) return allowMember(deps, organisation, person);
      const { login, member } = await requirePerson(database.executor, organisation, person);
      await confirm(context, `Erase ${login} from ${organisation.login}?`, login, yes);
      const { pullRequests, assignments, reviews } = await eraseMember(database, organisation.id, member, executor =>
        recordAuditEvent(executor, organisation.id, operator(), 'member.erase', login),
      );
      return {
        json: {
          organisation: organisation.login,
          login,
          pull_requests: pullRequests,
          assignments,
          reviews,
          had_left: member.leftAt !== null,
        },
        text: `Erased ${login}: the profile, ${counted(pullRequests, 'pull request')}, ${counted(assignments, 'assignment')} and ${counted(reviews, 'review')}. Nothing about them is stored any more.`,
      };
    });
}

/** By column, or by table for its own id. */
const prefixes: Readonly<Record<string, IdPrefix>> = {
  member_id: 'mem',
  pull_request_id: 'pr',
  repository_id: 'repo',
  members: 'mem',
  pull_requests: 'pr',
  assigned_to: 'pr',
  merged: 'pr',
  reviewed: 'pr',
};

/** Rows with ids and times as everywhere else. */
function representRows(data: Awaited<ReturnType<typeof readPersonalData>>) {
  const represent = (table: string, key: string, value: unknown) => {
    const prefix = prefixes[key === 'id' ? table : key];
    if (typeof value !== 'string') return value;
    if (prefix !== undefined && isUuid(value)) return formatId(prefix, value);
    return key.endsWith('_at') ? unixSeconds(new Date(value)) : value;
  };
  return Object.fromEntries(
    Object.entries(data).map(([table, rows]) => [
      table,
      rows.map(row =>
        Object.fromEntries(Object.entries(row).map(([key, value]) => [key, represent(table, key, value)])),
      ),
    ]),
  );
}

const isUuid = (text: string) => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(text);

/**
 * Several people can have had a login, one after the other.
 *
 * @param person their login, a former one, or their id
 * @returns also the login by which to name them
 * @throws CommandError if it is nobody, or several people
 */
async function requirePerson(
  executor: Executor,
  organisation: Organisation,
  person: string,
): Promise<{ login: string; member: Member }> {
  const id = parseId('mem', person);
  const people =
    id === undefined
      ? await findMembersByLogin(executor, organisation.id, person)
      : (await listMembers(executor, organisation.id, true)).filter(member => member.id === id);
  const [member, ...others] = people;
  if (member === undefined) {
    const message = `No member of ${organisation.login} has the ${id === undefined ? 'login' : 'id'} ${person}.`;
    throw new CommandError(message, 'Check its spelling. It may have been erased before.', 'not_found');
  }
  if (others.length > 0) {
    const each = people.map(({ id, leftAt }) => `${formatId('mem', id)} (${leftAt === null ? 'a member' : 'left'})`);
    throw new CommandError(
      `Several people have, or had, the login ${person}.`,
      `Name one by id: ${each.join(' or ')}.`,
    );
  }
  return { login: id === undefined ? person : member.login, member };
}

/** GitHub says which id the login has: here it is known as a hash only. */
async function allowMember(deps: Deps, organisation: Organisation, login: string): Promise<Answer> {
  const { database } = deps;
  if (!deps.github.configured) throw noCredentials();
  const { listed } = await readMemberList(deps, organisation);
  const member = listed.find(each => each.login.toLowerCase() === login.toLowerCase());
  const wasErased = await database.transaction(async executor => {
    if (member === undefined || !(await removeErased(executor, organisation.id, member.githubId))) return false;
    await recordAuditEvent(executor, organisation.id, operator(), 'member.allow', login);
    return true;
  });
  if (!wasErased) {
    const message = `No member of ${organisation.login} with the login ${login} on GitHub was erased.`;
    throw new CommandError(message, 'Check its spelling.', 'not_found');
  }
  return {
    json: { organisation: organisation.login, login, allowed: true },
    text: `${login} may be stored again. The next comparison adds them; their earlier pull requests return when they change.`,
  };
}

function describeMembers(login: string, members: number, left: number | null): string {
  if (left === null) {
    return `GitHub shows only the public members of ${login} to these credentials (${formatInteger(members)}), so nobody was marked as having left. Use the token of a member that may read Members (a classic one: the scope read:org), or an App that may.`;
  }
  return `${login} has ${counted(members, 'member')}${left === 0 ? '' : `; ${counted(left, 'has', 'have')} left`}.`;
}
