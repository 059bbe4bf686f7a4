import { and, asc, desc, eq, getTableColumns, sql } from 'drizzle-orm';
import { newId } from '../ids.ts';
import type { Database, Executor } from './client.ts';
import { organisations, users } from './schema.ts';
import { beforeAllIds, createSelection, limited, placeholder, query, type RowOf } from './statement.ts';

export type User = typeof users.$inferSelect;

/** A user without a photo has the organisation's. */
const photoUrl = sql<string>`case when ${users.photoUrl} = '' then ${organisations.photoUrl} else ${users.photoUrl} end`;

/** @returns undefined if the organisation has a user with the e-mail address already */
export async function addUser(
  executor: Executor,
  values: Pick<User, 'organisationId' | 'name' | 'email' | 'photoUrl'>,
): Promise<User | undefined> {
  const [added] = await executor
    .insert(users)
    .values({ id: newId(), ...values })
    .onConflictDoNothing()
    .returning();
  return added;
}

/** @param email only users who have it, in any case: one in each organisation */
export function listUsers(executor: Executor, email?: string): Promise<(User & { organisation: string })[]> {
  return executor
    .select({ ...getTableColumns(users), photoUrl, organisation: organisations.login })
    .from(users)
    .innerJoin(organisations, isInOrganisation)
    .where(email === undefined ? undefined : sql`lower(${users.email}) = lower(${email})`)
    .orderBy(organisations.login, sortedName, users.id);
}

/** Removes the user's tokens, too. */
export async function removeUser(executor: Executor, user: User): Promise<void> {
  await executor.delete(users).where(and(eq(users.organisationId, user.organisationId), eq(users.id, user.id)));
}

/** `createdAt` in Unix seconds. */
const fields = {
  id: users.id,
  name: users.name,
  email: users.email,
  photoUrl,
  createdAt: sql<number>`floor(extract(epoch from ${users.createdAt}))::bigint`,
};

const isOfOrganisation = eq(users.organisationId, placeholder('organisationId'));
const isInOrganisation = eq(organisations.id, users.organisationId);

const userOfId = createSelection(
  'user_of_id',
  query
    .select(fields)
    .from(users)
    .innerJoin(organisations, isInOrganisation)
    .where(and(isOfOrganisation, eq(users.id, placeholder('id')))),
);

/** As people sort names: the ICU root collation. */
const sortedName = sql`${users.name} collate "und-x-icu"`;

function createPage(direction: 'next' | 'previous') {
  const [isPast, order] = direction === 'next' ? [sql`>`, asc] : [sql`<`, desc];
  const position = sql`(${placeholder('name')}, ${placeholder('id')})`;
  return createSelection(
    `users_${direction}`,
    query
      .select(fields)
      .from(users)
      .innerJoin(organisations, isInOrganisation)
      .where(and(isOfOrganisation, sql`(${sortedName}, ${users.id}) ${isPast} ${position}`))
      .orderBy(order(sortedName), order(users.id)),
    ['name', 'email', 'photoUrl'],
  );
}

const pages = { next: createPage('next'), previous: createPage('previous') };

export type UserPosition = { name: string; id: string };

/** Comes before every user. */
export const beforeAllUsers: UserPosition = { name: '', id: beforeAllIds };

export async function findUserRow(database: Database, organisationId: string, id: string) {
  const [row] = await database.read(userOfId, { organisationId, id });
  return row;
}

export type UserPageRow = RowOf<(typeof pages)['next']>;

/** Sorted by name, equal names by id; towards the previous page in reverse. */
export function readUserPage(
  database: Database,
  organisationId: string,
  direction: 'next' | 'previous',
  from: UserPosition,
  limit: number,
): Promise<UserPageRow[]> {
  return database.read(limited(pages[direction], limit), { organisationId, ...from });
}
