import { and, asc, desc, eq, gt, isNull, lte, type SQL, Subquery, sql } from 'drizzle-orm';
import { newId } from '../ids.ts';
import type { Database, Executor } from './client.ts';
import { readErased } from './erased-people.ts';
import { createExistsAnywhere } from './organisations.ts';
import { createFindByGithubId } from './rows-by-github-id.ts';
import { members } from './schema.ts';
import {
  afterAllIds,
  createSelection,
  hasGithubId,
  limited,
  placeholder,
  query,
  type RowOf,
  sortedForLocking,
} from './statement.ts';

export type Member = typeof members.$inferSelect;

/** A person as GitHub names them. */
export type MemberProfile = Pick<Member, 'githubId' | 'login' | 'name' | 'photoUrl'>;

/** Keeps the login that another one replaces. @param login the new one */
const formerLoginsAfter = (login: SQL) => sql`case when ${members.login} = ${login} then ${members.formerLogins}
  else array_append(array_remove(${members.formerLogins}, ${members.login}), ${members.login}) end`;

/** False if the row is from a newer fetch. */
const isBehind = sql`${members.fetchTicket} <= excluded.fetch_ticket`;

/**
 * Adds new members and updates the profiles of known ones, up to a thousand, who are members again if they had left. Rows
 * from a newer fetch stay as they are.
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
  const isErased = await readErased(executor, organisationId);
  const rows = sortedForLocking(profiles)
    .filter(({ githubId }) => !isErased(githubId))
    .map(profile => ({ organisationId, id: newId(), ...profile, fetchTicket: ticket }));
  if (rows.length === 0) return new Map();
  const saved = await executor
    .insert(members)
    .values(rows)
    .onConflictDoUpdate({
      target: [members.organisationId, members.githubId],
      set: {
        login: sql`excluded.login`,
        formerLogins: formerLoginsAfter(sql`excluded.login`),
        name: sql`excluded.name`,
        photoUrl: sql`excluded.photo_url`,
        leftAt: null,
        fetchTicket: ticket,
      },
      setWhere: isBehind,
    })
    .returning({ id: members.id, githubId: members.githubId });
  const ids = new Map(saved.map(({ githubId, id }) => [githubId, id]));
  const ahead = rows.flatMap(({ githubId }) => (ids.has(githubId) ? [] : [githubId]));
  for (const [githubId, { id }] of await findMembers(executor, organisationId, ahead)) ids.set(githubId, id);
  return ids;
}

/** Updates the profile of a known person, or their login alone. Whether they are a member stays as it is. */
export async function saveProfile(
  executor: Executor,
  organisationId: string,
  ticket: number,
  { githubId, login, ...others }: Pick<Member, 'githubId' | 'login'> & Partial<MemberProfile>,
): Promise<void> {
  await executor
    .update(members)
    .set({ login, formerLogins: formerLoginsAfter(sql`${login}`), ...others, fetchTicket: ticket })
    .where(and(hasGithubId(members, organisationId, [githubId]), lte(members.fetchTicket, ticket)));
}

/** Saves new logins of known people, also of those who have left: what is stored under these logins is about them. */
export async function followLogins(
  executor: Executor,
  organisationId: string,
  ticket: number,
  people: readonly Pick<Member, 'githubId' | 'login'>[],
): Promise<void> {
  const logins = new Map(people.map(({ githubId, login }) => [githubId, login]));
  const known = await findMembers(executor, organisationId, [...logins.keys()]);
  for (const { githubId, login: former, fetchTicket } of sortedForLocking([...known.values()])) {
    const login = logins.get(githubId) ?? former;
    if (login !== former && fetchTicket <= ticket)
      await saveProfile(executor, organisationId, ticket, { githubId, login });
  }
}

/** Sorted by login; `left` includes those who have left. */
export const listMembers = (executor: Executor, organisationId: string, left: boolean): Promise<Member[]> =>
  executor
    .select()
    .from(members)
    .where(and(eq(members.organisationId, organisationId), left ? undefined : isNull(members.leftAt)))
    .orderBy(sql`lower(${members.login})`, members.id);

/**
 * Also those who have left. Several, if somebody took the login of a person who gave it up. If nobody has it, those who
 * had it before.
 */
export async function findMembersByLogin(executor: Executor, organisationId: string, login: string): Promise<Member[]> {
  const isOfOrganisation = eq(members.organisationId, organisationId);
  const wanted = login.toLowerCase();
  const present = await executor
    .select()
    .from(members)
    .where(and(isOfOrganisation, eq(sql`lower(${members.login})`, wanted)))
    .orderBy(members.id);
  if (present.length > 0) return present;
  const hadIt = sql`lower(${members.formerLogins}::text)::text[] @> array[${wanted}]`;
  return executor.select().from(members).where(and(isOfOrganisation, hadIt)).orderBy(members.id);
}

/** Stored members by GitHub id, including those who have left. */
export const findMembers = createFindByGithubId(members);

/**
 * Marks everyone else as having left, unless something newer is known about them. Runs in a transaction.
 *
 * @returns `left`: how many it marked; `isOvertaken`: whether some stay as they are, against the list, because of
 * something newer
 */
export async function markOthersLeft(
  executor: Executor,
  organisationId: string,
  ticket: number,
  githubIds: readonly number[],
): Promise<{ left: number; isOvertaken: boolean }> {
  const isOfOrganisation = eq(members.organisationId, organisationId);
  const isUnlisted = sql`${members.githubId} <> all(${sql.param([...githubIds])}::bigint[])`;
  const isOther = and(isOfOrganisation, isUnlisted, lte(members.fetchTicket, ticket));
  const { rowCount } = await executor
    .update(members)
    .set({ leftAt: sql`now()` })
    .where(and(isOther, isNull(members.leftAt)));
  // Also those who had left before: the ticket keeps an older fetch from making them members again.
  await executor.update(members).set({ fetchTicket: ticket }).where(isOther);
  const newer = await executor.$count(
    members,
    and(isOfOrganisation, gt(members.fetchTicket, ticket), sql`(${isUnlisted}) = (${members.leftAt} is null)`),
  );
  return { left: rowCount ?? 0, isOvertaken: newer > 0 };
}

/** Times in Unix seconds. */
const fields = {
  id: members.id,
  name: members.name,
  photoUrl: members.photoUrl,
  createdAt: sql<number>`floor(extract(epoch from ${members.createdAt}))::bigint`,
  login: members.login,
  leftAt: sql<number | null>`floor(extract(epoch from ${members.leftAt}))::bigint`,
};

const isOfOrganisation = eq(members.organisationId, placeholder('organisationId'));
const hasId = eq(members.id, placeholder('id'));

const memberOfId = createSelection(
  'member_of_id',
  query.select(fields).from(members).where(and(isOfOrganisation, hasId)),
);

export type MemberRow = RowOf<typeof memberOfId>;

/** In microseconds, because many members share a second. */
const microseconds = sql<number>`(extract(epoch from ${members.createdAt}) * 1000000)::bigint`;

function createMemberPage(list: 'present' | 'login', direction: 'next' | 'previous') {
  const [isPast, order] = direction === 'next' ? [sql`<`, desc] : [sql`>`, asc];
  const position = sql`(to_timestamp(${placeholder('microseconds')}::float8 / 1000000), ${placeholder('id')}::uuid)`;
  const hasLogin = sql`lower(${members.login}) = ${placeholder('login')}`;
  // Materialised: otherwise PostgreSQL may follow the index in the order of time to the end.
  const source =
    list === 'present'
      ? sql`select * from ${members} where ${and(isOfOrganisation, isNull(members.leftAt))}`
      : sql`with found as materialized (select * from ${members} where ${and(isOfOrganisation, hasLogin)})
          select * from found`;
  return createSelection(
    `members_of_${list}_${direction}`,
    query
      .select({ ...fields, microseconds })
      .from(new Subquery<string, Record<string, unknown>>(source, {}, 'members'))
      .where(sql`(${members.createdAt}, ${members.id}) ${isPast} ${position}`)
      .orderBy(order(members.createdAt), order(members.id)),
  );
}

const memberPages = {
  present: { next: createMemberPage('present', 'next'), previous: createMemberPage('present', 'previous') },
  login: { next: createMemberPage('login', 'next'), previous: createMemberPage('login', 'previous') },
};

export type MemberPageRow = RowOf<(typeof memberPages)['present']['next']>;

export const beforeAllMembers = { microseconds: Infinity, id: afterAllIds };

/** Members that one statement reads. */
const stepSize = 100;

/** Members who have not left, latest first, in steps that hold up no other request. */
export async function* readMembers(database: Database, organisationId: string): AsyncGenerator<readonly MemberRow[]> {
  const step = limited(memberPages.present.next, stepSize);
  let after: { microseconds: number | string; id: string } = beforeAllMembers;
  for (;;) {
    const rows = await database.readStep(step, { organisationId, ...after });
    yield rows;
    const last = rows.at(-1);
    if (last === undefined || rows.length < stepSize) return;
    after = { microseconds: last.microseconds, id: last.id };
  }
}

/**
 * Latest first; towards the previous page in reverse.
 *
 * @param list members who have not left; with a login, in lower case, all people who have it
 */
export function readMemberPage(
  database: Database,
  { organisationId, login }: { organisationId: string; login: string | undefined },
  direction: 'next' | 'previous',
  from: typeof beforeAllMembers,
  limit: number,
): Promise<MemberPageRow[]> {
  const page = memberPages[login === undefined ? 'present' : 'login'][direction];
  return database.read(limited(page, limit), { organisationId, login, ...from });
}

export async function findMemberRow(database: Database, organisationId: string, id: string) {
  const [row] = await database.read(memberOfId, { organisationId, id });
  return row;
}

export const memberExistsAnywhere = createExistsAnywhere('member_anywhere', members);
