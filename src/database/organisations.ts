import { and, eq, isNull, lte, or, sql } from 'drizzle-orm';
import { ServiceError } from '../errors.ts';
import type { GithubIdentity } from '../github/organisation.ts';
import { newId } from '../ids.ts';
import type { Executor } from './client.ts';
import { organisations } from './schema.ts';

export type Organisation = typeof organisations.$inferSelect;

/** One that GitHub has told the ids of. */
export type IdentifiedOrganisation = Organisation & { githubId: number; nodeId: string };

const hasLogin = (login: string) => sql`lower(${organisations.login}) = lower(${login})`;

/** Undefined where an organisation of that login is there already. */
export async function addOrganisation(
  executor: Executor,
  values: Pick<
    typeof organisations.$inferInsert,
    'login' | 'githubId' | 'nodeId' | 'name' | 'photoUrl' | 'fetchTicket'
  > & { id?: string },
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
    .where(or(eq(organisations.githubId, githubId), and(isNull(organisations.githubId), hasLogin(login))))
    .orderBy(organisations.githubId)
    .limit(1);
  return organisation;
}

/**
 * Writes what GitHub says of the organisation: its ids, once they are known, and its login, which takes it away from
 * another one here. Of what a later fetch is known, of this one or of the other, the login stays as it is. Runs in a
 * transaction.
 *
 * @param ticket drawn before GitHub was asked
 * @returns whether its login has changed
 * @throws ServiceError `bad_request` where the ids are those of another organisation here
 */
export async function saveGithubIdentity(
  executor: Executor,
  id: string,
  ticket: number,
  { githubId, nodeId, login }: GithubIdentity,
): Promise<boolean> {
  const concerned = await executor
    .select()
    .from(organisations)
    .where(or(eq(organisations.id, id), eq(organisations.githubId, githubId), hasLogin(login)))
    .orderBy(organisations.id)
    .for('no key update');
  const others = concerned.filter(each => each.id !== id);
  const twin = others.find(each => each.githubId === githubId);
  if (twin !== undefined) {
    throw new ServiceError('bad_request', `GitHub's organisation ${login} is tracked here already, as ${twin.login}.`, {
      action: 'Use that one.',
    });
  }
  const own = concerned.find(each => each.id === id);
  const isOutdated = concerned.some(({ fetchTicket }) => fetchTicket > ticket);
  const isRenamed = !isOutdated && own?.login !== login;
  if (isRenamed && others.length > 0) await releaseLogin(executor, ticket, { githubId, login });
  // Also of the login that it has already: an earlier answer may be on its way, from when it had another for a while.
  await executor
    .update(organisations)
    .set({ githubId, nodeId, ...(isOutdated ? {} : { login, fetchTicket: ticket }) })
    .where(and(eq(organisations.id, id), or(isNull(organisations.githubId), eq(organisations.githubId, githubId))));
  return isRenamed;
}

/**
 * Takes the login away from an organisation here that is another one than GitHub's: it must have been renamed. Until
 * the comparison that it is made due for tells its new login, it goes by one that GitHub gives to nobody.
 *
 * @param ticket drawn before GitHub was asked: what a later fetch found stays
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
      reconcileDueAt: sql`now()`,
    })
    .where(
      and(
        hasLogin(login),
        sql`${organisations.githubId} is distinct from ${githubId}`,
        lte(organisations.fetchTicket, ticket),
      ),
    );
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
    .set({ webhooksEnabled: enabled, ...(enabled ? { reconcileDueAt: sql`now()`, reconcileCursor: null } : {}) })
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
