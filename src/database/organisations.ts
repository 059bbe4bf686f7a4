import { and, eq, isNotNull, isNull, lte, or, sql } from 'drizzle-orm';
import type { PgUpdateSetSource } from 'drizzle-orm/pg-core';
import { badRequest, notFound, rulesSuspended, ServiceError } from '../errors.ts';
import { newId } from '../ids.ts';
import type { Database, Executor } from './client.ts';
import { type members, organisations, type pullRequests } from './schema.ts';
import { createSelection, placeholder, query } from './statement.ts';

export type Organisation = typeof organisations.$inferSelect;

export type IdentifiedOrganisation = Organisation & { githubId: number; nodeId: string };

/** How GitHub knows an organisation. An organisation that has no name yet gets this one. */
export type GithubIdentity = Pick<IdentifiedOrganisation, 'githubId' | 'nodeId' | 'login'> & { name?: string };

const hasLogin = (login: string) => sql`lower(${organisations.login}) = lower(${login})`;

/** Whether the rules in force are suspended: what needs a score waits for others. */
export const areRulesSuspended = sql<boolean>`${organisations.suspendedVersion} is not distinct from ${organisations.rulesetVersion}`;

/**
 * The version of the rules to score by.
 *
 * @throws ServiceError `rules_suspended`
 */
export async function getUsableVersion(executor: Executor, organisationId: string): Promise<number> {
  const { rulesetVersion, suspendedVersion } = await getOrganisation(executor, organisationId);
  if (rulesetVersion === suspendedVersion) throw rulesSuspended();
  return rulesetVersion;
}

/** @returns undefined if an organisation with the login already exists */
export async function addOrganisation(
  executor: Executor,
  values: Omit<typeof organisations.$inferInsert, 'id'> & { id?: string },
): Promise<Organisation | undefined> {
  const [added] = await executor
    .insert(organisations)
    .values({ id: newId(), ...values })
    .onConflictDoNothing()
    .returning();
  return added;
}

export function countOrganisations(executor: Executor): Promise<number> {
  return executor.$count(organisations);
}

export function listOrganisations(executor: Executor): Promise<Organisation[]> {
  return executor.select().from(organisations).orderBy(organisations.login);
}

/** GitHub's logins are case-insensitive. */
export async function findOrganisation(executor: Executor, login: string): Promise<Organisation | undefined> {
  const [organisation] = await executor.select().from(organisations).where(hasLogin(login));
  return organisation;
}

/** By GitHub's id if it is known, otherwise by login, which can be given up and taken by others. */
export async function findGithubOrganisation(
  executor: Executor,
  { githubId, login }: { githubId: number; login: string },
): Promise<Organisation | undefined> {
  const [organisation] = await executor
    .select()
    .from(organisations)
    .where(or(eq(organisations.githubId, githubId), and(isNull(organisations.githubId), hasLogin(login))))
    .orderBy(organisations.githubId)
    .limit(1);
  return organisation;
}

/**
 * Saves the organisation's ids and its login, which is taken away from another organisation here that has it. If one of
 * the two rows is from a newer fetch, the logins stay as they are. Runs in a transaction.
 *
 * @param ticket drawn before GitHub was asked
 * @returns whether its login has changed
 * @throws ServiceError `bad_request` if the ids belong to another organisation here
 */
export async function saveGithubIdentity(
  executor: Executor,
  id: string,
  ticket: number,
  { githubId, nodeId, login, name = '' }: GithubIdentity,
): Promise<boolean> {
  const rows = await executor
    .select()
    .from(organisations)
    .where(or(eq(organisations.id, id), eq(organisations.githubId, githubId), hasLogin(login)))
    .orderBy(organisations.id)
    .for('no key update');
  const own = rows.find(each => each.id === id);
  // It was removed meanwhile. Another row may be the same organisation, added again.
  if (own === undefined) return false;
  const others = rows.filter(each => each.id !== id);
  const duplicate = others.find(each => each.githubId === githubId);
  if (duplicate !== undefined) {
    throw badRequest(
      `GitHub's organisation ${login} is tracked here already, as ${duplicate.login}.`,
      'Use that organisation.',
    );
  }
  const isOutdated = rows.some(({ fetchTicket }) => fetchTicket > ticket);
  const isRenamed = !isOutdated && own.login !== login;
  if (isRenamed && others.length > 0) await releaseLogin(executor, ticket, { githubId, login });
  // The ticket moves even if the login is the same: an older answer with a former login may be on its way.
  await executor
    .update(organisations)
    .set({
      githubId,
      nodeId,
      name: sql`case when ${organisations.name} = '' then ${name} else ${organisations.name} end`,
      ...(isOutdated ? {} : { login, fetchTicket: ticket }),
    })
    .where(and(eq(organisations.id, id), or(isNull(organisations.githubId), eq(organisations.githubId, githubId))));
  return isRenamed;
}

/**
 * Takes the login away from an organisation here that no longer has it on GitHub: it must have been renamed. Until a
 * comparison, due at once, finds its new login, it has one that GitHub gives to nobody. A row from a newer fetch stays
 * as it is.
 */
export async function releaseLogin(
  executor: Executor,
  ticket: number,
  { githubId, login }: Pick<GithubIdentity, 'githubId' | 'login'>,
): Promise<void> {
  await executor
    .update(organisations)
    .set({
      login: sql`'renamed_' || coalesce(${organisations.githubId}::text, ${organisations.id}::text)`,
      fetchTicket: ticket,
      comparisonDueAt: sql`now()`,
      comparisonRequested: true,
    })
    .where(
      and(
        hasLogin(login),
        sql`${organisations.githubId} is distinct from ${githubId}`,
        lte(organisations.fetchTicket, ticket),
      ),
    );
}

export const organisationGone = () => notFound('The organisation has been removed.');

/** Whether work has ended because its organisation was removed meanwhile. */
export const isOrganisationGone = (error: unknown): boolean =>
  error instanceof ServiceError && error.code === 'not_found' && error.message === organisationGone().message;

/** @throws ServiceError `not_found` if it has been removed, or is being removed */
export async function getOrganisation(executor: Executor, id: string): Promise<Organisation> {
  const isPresent = and(eq(organisations.id, id), isNull(organisations.removedAt));
  const [organisation] = await executor.select().from(organisations).where(isPresent);
  if (organisation === undefined) throw organisationGone();
  return organisation;
}

/** Whether its removal has begun. False if nothing is left of it. */
export async function isBeingRemoved(executor: Executor, id: string): Promise<boolean> {
  const isIt = and(eq(organisations.id, id), isNotNull(organisations.removedAt));
  return (await executor.$count(organisations, isIt)) > 0;
}

export async function updateOrganisation(
  executor: Executor,
  id: string,
  values: PgUpdateSetSource<typeof organisations>,
): Promise<void> {
  await executor.update(organisations).set(values).where(eq(organisations.id, id));
}

export async function setWebhooksEnabled(executor: Executor, id: string, enabled: boolean): Promise<void> {
  await updateOrganisation(executor, id, {
    webhooksEnabled: enabled,
    // Look at once for what was missed while they were disabled, even if a comparison is under way.
    ...(enabled ? { comparisonDueAt: sql`now()`, comparisonRequested: true } : {}),
  });
}

/**
 * Locks an organisation until the transaction ends. Saving and scoring take the lock shared. Changing rules, renaming a
 * repository and deleting take it exclusively: no save then mixes what was before with what comes after. It is an
 * advisory lock because PostgreSQL grants those in order: savers that keep coming would starve an exclusive row lock.
 *
 * @returns the organisation as it is under the lock
 */
export async function lockOrganisation(
  executor: Executor,
  organisationId: string,
  mode: 'shared' | 'exclusive',
): Promise<Organisation> {
  const lock = sql.raw(mode === 'shared' ? 'pg_advisory_xact_lock_shared' : 'pg_advisory_xact_lock');
  await executor.execute(sql`select ${lock}(hashtextextended(${organisationId}, 0))`);
  return getOrganisation(executor, organisationId);
}

/**
 * Creates the function that finds out whether any organisation has a row with an id. It probes one index entry per
 * organisation, and is for rows that the caller's own does not have.
 *
 * @param name of the statement
 */
export function createExistsAnywhere(name: string, table: typeof members | typeof pullRequests) {
  const isRow = and(eq(table.organisationId, organisations.id), eq(table.id, placeholder('id')));
  const anywhere = createSelection(name, query.select({ id: table.id }).from(organisations).innerJoin(table, isRow));
  return async (database: Database, id: string): Promise<boolean> => (await database.read(anywhere, { id })).length > 0;
}
