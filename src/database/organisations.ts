import { and, eq, isNull, or, sql } from 'drizzle-orm';
import { newId } from '../ids.ts';
import type { Executor } from './client.ts';
import { organisations } from './schema.ts';

export type Organisation = typeof organisations.$inferSelect;

const hasLogin = (login: string) => sql`lower(${organisations.login}) = lower(${login})`;

/** Undefined where an organisation of that login is there already. */
export async function addOrganisation(
  executor: Executor,
  values: { login: string; githubId: number | null; name: string; photoUrl: string },
): Promise<Organisation | undefined> {
  const [added] = await executor
    .insert(organisations)
    .values({ id: newId(), ...values })
    .onConflictDoNothing()
    .returning();
  return added;
}

export function listOrganisations(executor: Executor): Promise<Organisation[]> {
  return executor.select().from(organisations).orderBy(organisations.login);
}

/** GitHub's logins don't tell cases apart. */
export async function findOrganisation(executor: Executor, login: string): Promise<Organisation | undefined> {
  const [organisation] = await executor.select().from(organisations).where(hasLogin(login));
  return organisation;
}

/** By GitHub's id where it is known, else by login, which can be given up and taken by others. */
export async function findGithubOrganisation(
  executor: Executor,
  { githubId, login }: { githubId: number; login: string },
): Promise<Organisation | undefined> {
  const [organisation] = await executor
    .select()
    .from(organisations)
    .where(or(eq(organisations.githubId, githubId), and(isNull(organisations.githubId), hasLogin(login))));
  return organisation;
}

/** Writes what GitHub says of the organisation: its id, once it is known, and its login, when it was renamed. */
export async function saveGithubIdentity(
  executor: Executor,
  id: string,
  identity: { githubId: number; login: string },
): Promise<void> {
  await executor.update(organisations).set(identity).where(eq(organisations.id, id));
}

export async function getOrganisation(executor: Executor, id: string): Promise<Organisation> {
  const [organisation] = await executor.select().from(organisations).where(eq(organisations.id, id));
  if (organisation === undefined) throw new Error(`organisation ${id} is gone`);
  return organisation;
}

export async function setWebhooksEnabled(executor: Executor, id: string, enabled: boolean): Promise<void> {
  await executor
    .update(organisations)
    // What was missed while they were disabled is looked for at once, whatever is being compared already.
    .set({ webhooksEnabled: enabled, ...(enabled ? { reconcileDueAt: sql`now()` } : {}) })
    .where(eq(organisations.id, id));
}

/**
 * Holds the organisation's ruleset version, and deletions, off until the transaction ends. Saves take it shared, so
 * that they don't wait for each other. It is an advisory lock, which is given in turn: of a row lock, savers that keep
 * coming would never leave a gap for the one that wants it alone.
 *
 * @returns the version in force
 */
export async function lockRulesetVersion(
  executor: Executor,
  organisationId: string,
  strength: 'share' | 'update',
): Promise<number> {
  const lock = sql.raw(strength === 'share' ? 'pg_advisory_xact_lock_shared' : 'pg_advisory_xact_lock');
  await executor.execute(sql`select ${lock}(hashtextextended(${organisationId}, 0))`);
  const [organisation] = await executor
    .select({ rulesetVersion: organisations.rulesetVersion })
    .from(organisations)
    .where(eq(organisations.id, organisationId));
  if (organisation === undefined) throw new Error(`organisation ${organisationId} is gone`);
  return organisation.rulesetVersion;
}
