import { and, eq, inArray, isNull, sql } from 'drizzle-orm';
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

/**
 * Adds those that are new and updates the profiles of the rest, who are members again if they had left.
 *
 * @returns ids by GitHub id
 */
export async function saveMembers(
  executor: Executor,
  organisationId: string,
  profiles: readonly MemberProfile[],
): Promise<Map<number, string>> {
  if (profiles.length === 0) return new Map();
  const rows = [...new Map(profiles.map(profile => [profile.githubId, profile])).values()]
    // One order everywhere, so that two savers never wait for each other.
    .sort((a, b) => a.githubId - b.githubId)
    .map(profile => ({ organisationId, id: newId(), ...profile }));
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
        },
      })
      .returning({ id: members.id, githubId: members.githubId });
    for (const member of saved) ids.set(member.githubId, member.id);
  }
  return ids;
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

/** Marks everyone but those given as having left. @returns how many had not before */
export async function markOthersLeft(
  executor: Executor,
  organisationId: string,
  githubIds: readonly number[],
): Promise<number> {
  const left = await executor
    .update(members)
    .set({ leftAt: sql`now()` })
    .where(
      and(
        eq(members.organisationId, organisationId),
        isNull(members.leftAt),
        sql`${members.githubId} <> all(${sql.param([...githubIds])}::bigint[])`,
      ),
    )
    .returning({ id: members.id });
  return left.length;
}

export async function markLeft(executor: Executor, organisationId: string, githubId: number): Promise<void> {
  await executor
    .update(members)
    .set({ leftAt: sql`now()` })
    .where(and(eq(members.organisationId, organisationId), eq(members.githubId, githubId), isNull(members.leftAt)));
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
