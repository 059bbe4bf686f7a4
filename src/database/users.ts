import { and, eq, sql } from 'drizzle-orm';
import { newId } from '../ids.ts';
import type { Database, Executor } from './client.ts';
import { organisations, users } from './schema.ts';

export type User = typeof users.$inferSelect;

/** @returns undefined if the organisation has a user with the e-mail address already */
export async function addUser(
  executor: Executor,
  values: { organisationId: string; name: string; email: string; photoUrl: string },
): Promise<User | undefined> {
  const [added] = await executor
    .insert(users)
    .values({ id: newId(), ...values })
    .onConflictDoNothing()
    .returning();
  return added;
}

export function listUsers(executor: Executor): Promise<(User & { organisation: string })[]> {
  return executor
    .select({
      organisationId: users.organisationId,
      id: users.id,
      name: users.name,
      email: users.email,
      photoUrl: users.photoUrl,
      createdAt: users.createdAt,
      organisation: organisations.login,
    })
    .from(users)
    .innerJoin(organisations, eq(organisations.id, users.organisationId))
    .orderBy(organisations.login, sql`${users.name} collate "und-x-icu"`, users.id);
}

/** One in each organisation that has the e-mail address, in any case. */
export function findUsers(executor: Executor, email: string): Promise<User[]> {
  return executor.select().from(users).where(sql`lower(${users.email}) = lower(${email})`);
}

/** Removes the user's tokens, too. */
export async function removeUser(executor: Executor, user: User): Promise<void> {
  await executor.delete(users).where(and(eq(users.organisationId, user.organisationId), eq(users.id, user.id)));
}

/** `createdAt` in Unix seconds, as text. */
export type UserRow = [id: string, name: string, email: string, photoUrl: string, createdAt: string];

const columns = 'id, name, email, photo_url, floor(extract(epoch from created_at))::bigint';

const ofId = { name: 'user_of_id', text: `select ${columns} from users where organisation_id = $1 and id = $2` };

/** The limit is in the text for the same reason as in pages of pull requests. */
const page = (direction: 'next' | 'previous', limit: number) => ({
  name: `users_${direction}_${limit}`,
  text: `select ${columns} from users
    where organisation_id = $1 and (name collate "und-x-icu", id) ${direction === 'next' ? '>' : '<'} ($2, $3)
    order by name collate "und-x-icu" ${direction === 'next' ? 'asc' : 'desc'}, id ${direction === 'next' ? 'asc' : 'desc'}
    limit ${Math.trunc(limit)}`,
});

export type UserPosition = { name: string; id: string };

/** Comes before every user. */
export const beforeAllUsers: UserPosition = { name: '', id: '00000000-0000-0000-0000-000000000000' };

export async function findUserRow(database: Database, organisationId: string, id: string) {
  const [row] = await database.read<UserRow>(ofId, [organisationId, id]);
  return row;
}

/**
 * Sorted as people sort names (the ICU root collation), equal names by id; towards the previous page in reverse.
 */
export function readUserPage(
  database: Database,
  organisationId: string,
  direction: 'next' | 'previous',
  from: UserPosition,
  limit: number,
): Promise<UserRow[]> {
  return database.read(page(direction, limit), [organisationId, from.name, from.id]);
}
