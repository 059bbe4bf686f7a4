import { and, eq, inArray, lte, sql } from 'drizzle-orm';
import { newId } from '../ids.ts';
import type { Database, Executor } from './client.ts';
import { members } from './schema.ts';

export type Member = typeof members.$inferSelect;

/** A person as GitHub names them. */
export interface MemberProfile {
  readonly githubId: number;
  readonly login: string;
  readonly name: string;
  readonly photoUrl: string;
}

/** What an older fetch than the row's found does not count. */
const isBehind = sql`${members.fetchTicket} <= excluded.fetch_ticket`;

/**
 * Adds those that are new and updates the profiles of the rest, who are members again if they had left; those of whom
 * something later is known stay as they are.
 *
 * @param ticket drawn before GitHub was asked
 * @returns ids by GitHub id
 */
export async function saveMembers(
  executor: Executor,
  organisationId: string,
  ticket: number,
  profiles: readonly MemberProfile[],
): Promise<Map<number, string>> {
  if (profiles.length === 0) return new Map();
  const rows = [...new Map(profiles.map(profile => [profile.githubId, profile])).values()]
    // One order everywhere, so that two savers never wait for each other.
    .sort((a, b) => a.githubId - b.githubId)
    .map(profile => ({ organisationId, id: newId(), ...profile, fetchTicket: ticket }));
  const ids = new Map<number, string>();
  // A statement takes 65,535 parameters at most.
  for (let start = 0; start < rows.length; start += 1_000) {
    const saved = await executor
      .insert(members)
      .values(rows.slice(start, start + 1_000))
      .onConflictDoUpdate({
        target: [members.organisationId, members.githubId],
        set: {
          login: sql`excluded.login`,
          name: sql`excluded.name`,
          photoUrl: sql`excluded.photo_url`,
          leftAt: null,
          fetchTicket: ticket,
        },
        setWhere: isBehind,
      })
      .returning({ id: members.id, githubId: members.githubId });
    for (const member of saved) ids.set(member.githubId, member.id);
  }
  const ahead = rows.flatMap(({ githubId }) => (ids.has(githubId) ? [] : [githubId]));
  for (const [githubId, { id }] of await findMembers(executor, organisationId, ahead)) ids.set(githubId, id);
  return ids;
}

/** Updates the profile of someone who is known, and a member or not as before. */
export async function saveProfile(
  executor: Executor,
  organisationId: string,
  ticket: number,
  { githubId, login, name, photoUrl }: MemberProfile,
): Promise<void> {
  await executor
    .update(members)
    .set({ login, name, photoUrl, fetchTicket: ticket })
    .where(
      and(eq(members.organisationId, organisationId), eq(members.githubId, githubId), lte(members.fetchTicket, ticket)),
    );
}

/** Those of them that are known, also if they have left, by GitHub id. */
export async function findMembers(
  executor: Executor,
  organisationId: string,
  githubIds: readonly number[],
): Promise<Map<number, Member>> {
  if (githubIds.length === 0) return new Map();
  const rows = await executor
    .select()
    .from(members)
    .where(and(eq(members.organisationId, organisationId), inArray(members.githubId, [...githubIds])));
  return new Map(rows.map(row => [row.githubId, row]));
}

/**
 * Marks everyone but those given as having left, except where something later is known. Runs in a transaction.
 *
 * @param ticket drawn before GitHub was asked
 * @returns how many had not before
 */
export async function markOthersLeft(
  executor: Executor,
  organisationId: string,
  ticket: number,
  githubIds: readonly number[],
): Promise<number> {
  const others = await executor
    .update(members)
    // Those who had left before, too: by the ticket, no older fetch finds them members.
    .set({ leftAt: sql`coalesce(${members.leftAt}, now())`, fetchTicket: ticket })
    .where(
      and(
        eq(members.organisationId, organisationId),
        lte(members.fetchTicket, ticket),
        sql`${members.githubId} <> all(${sql.param([...githubIds])}::bigint[])`,
      ),
    )
    .returning({ now: sql<boolean>`${members.leftAt} = now()` });
  return others.filter(({ now }) => now).length;
}

/** The last in Unix seconds, as text. */
export type MemberRow = [id: string, name: string, photoUrl: string, createdAt: string];

const columns = 'id, name, photo_url, floor(extract(epoch from created_at))::bigint';

const all = {
  name: 'members',
  text: `select ${columns} from members where organisation_id = $1 and left_at is null
    order by created_at desc, id desc`,
};

const ofId = { name: 'member_of_id', text: `select ${columns} from members where organisation_id = $1 and id = $2` };

/** Probes one index entry an organisation; asked only where the caller's own has no such member. */
const anywhere = {
  name: 'member_anywhere',
  text: `select exists (select from organisations join members on organisation_id = organisations.id
    where members.id = $1)`,
};

/** Those that have not left, latest first. */
export function readMembers(database: Database, organisationId: string): Promise<MemberRow[]> {
  return database.read(all, [organisationId]);
}

export async function findMemberRow(database: Database, organisationId: string, id: string) {
  const [row] = await database.read<MemberRow>(ofId, [organisationId, id]);
  return row;
}

export async function memberExistsAnywhere(database: Database, id: string): Promise<boolean> {
  const [row] = await database.read(anywhere, [id]);
  return row?.[0] === 't';
}
