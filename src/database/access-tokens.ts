import { and, eq, gt, inArray, isNull, or, sql } from 'drizzle-orm';
import { newId } from '../ids.ts';
import { maxUnixSeconds } from '../text/times.ts';
import type { Database, Executor } from './client.ts';
import { accessTokens, contentVersions, organisations, users } from './schema.ts';
import { createSelection, placeholder, query, secondsFromNow } from './statement.ts';

export type AccessToken = typeof accessTokens.$inferSelect;

/** The holder of a valid token, and what it allows. */
export interface Caller {
  readonly tokenId: string;
  readonly organisationId: string;
  readonly userId: string;
  readonly scopes: readonly string[];
  /** When it ends, in Unix seconds: as it was made, or sooner if it was rotated. Null if it does not end. */
  readonly endsAt: number | null;
  /** Version of the organisation's pull request lists; null before the first pull request. */
  readonly contentVersion: string | null;
  /** The stored time of its last use is out of date. */
  readonly isLastUseStale: boolean;
}

const isNotRevoked = or(isNull(accessTokens.revokedAt), gt(accessTokens.revokedAt, sql`now()`));

/** Neither revoked nor expired. A rotated token's `revokedAt` is the end of its grace period. */
export const isValidToken = and(
  isNotRevoked,
  or(isNull(accessTokens.expiresAt), gt(accessTokens.expiresAt, sql`now()`)),
);

export async function addAccessToken(
  executor: Executor,
  values: Pick<AccessToken, 'organisationId' | 'userId' | 'name' | 'tokenHash' | 'scopes' | 'expiresAt'>,
): Promise<AccessToken> {
  const [added] = await executor
    .insert(accessTokens)
    .values({ id: newId(), ...values })
    .returning();
  if (added === undefined) throw new Error('the token was not stored');
  return added;
}

/** @param organisationId undefined lists those of all organisations */
export function listAccessTokens(executor: Executor, organisationId?: string) {
  return executor
    .select({
      id: accessTokens.id,
      name: accessTokens.name,
      email: users.email,
      organisation: organisations.login,
      scopes: accessTokens.scopes,
      createdAt: accessTokens.createdAt,
      expiresAt: accessTokens.expiresAt,
      revokedAt: accessTokens.revokedAt,
      lastUsedAt: accessTokens.lastUsedAt,
    })
    .from(accessTokens)
    .innerJoin(users, and(eq(users.organisationId, accessTokens.organisationId), eq(users.id, accessTokens.userId)))
    .innerJoin(organisations, eq(organisations.id, accessTokens.organisationId))
    .where(organisationId === undefined ? undefined : eq(accessTokens.organisationId, organisationId))
    .orderBy(accessTokens.createdAt, accessTokens.id);
}

/** @returns undefined if no token has the id; `changed` is false if it was revoked before */
export async function revokeAccessToken(executor: Executor, id: string) {
  const token = await findAccessToken(executor, id);
  if (token === undefined) return undefined;
  const { rowCount } = await executor
    .update(accessTokens)
    .set({ revokedAt: sql`now()` })
    .where(and(isToken(token), isNotRevoked));
  return { token, changed: rowCount === 1 };
}

/** In any organisation: an operator names it by its id alone. */
async function findAccessToken(executor: Executor, id: string): Promise<AccessToken | undefined> {
  const [token] = await executor.select().from(accessTokens).where(eq(accessTokens.id, id));
  return token;
}

const isToken = ({ organisationId, id }: Pick<AccessToken, 'organisationId' | 'id'>) =>
  and(eq(accessTokens.organisationId, organisationId), eq(accessTokens.id, id));

const isLastUseStale = (accuracySeconds: unknown) => sql<boolean>`(${accessTokens.lastUsedAt} is null
  or ${accessTokens.lastUsedAt} < now() - make_interval(secs => ${accuracySeconds}))`;

/**
 * Replaces a valid token by a new one for the same user, with the same name, scopes and lifetime. Runs in a
 * transaction.
 *
 * @param graceSeconds how long the old one stays valid, if it does not expire before
 * @returns the new token, and when the old one ends; undefined if no valid token has the id
 */
export async function rotateAccessToken(executor: Executor, id: string, tokenHash: string, graceSeconds: number) {
  const found = await findAccessToken(executor, id);
  if (found === undefined) return undefined;
  const [former] = await executor
    .update(accessTokens)
    .set({
      revokedAt: sql`least(${accessTokens.revokedAt}, ${accessTokens.expiresAt}, ${secondsFromNow(graceSeconds)})`,
    })
    .where(and(isToken(found), isValidToken))
    .returning();
  if (former === undefined) return undefined;
  const { organisationId, userId, name, scopes, createdAt, expiresAt, revokedAt: formerEndsAt } = former;
  const added = await addAccessToken(executor, {
    organisationId,
    userId,
    name,
    tokenHash,
    scopes,
    expiresAt:
      expiresAt && new Date(Math.min(Date.now() + expiresAt.getTime() - createdAt.getTime(), maxUnixSeconds * 1_000)),
  });
  return { added, formerEndsAt };
}

const validTokens = createSelection(
  'valid_access_tokens',
  query
    .select({
      tokenHash: accessTokens.tokenHash,
      tokenId: accessTokens.id,
      organisationId: accessTokens.organisationId,
      userId: accessTokens.userId,
      scopes: sql<string>`array_to_string(${accessTokens.scopes}, ' ')`,
      endsAt: sql<
        string | null
      >`floor(extract(epoch from least(${accessTokens.revokedAt}, ${accessTokens.expiresAt})))::bigint`,
      contentVersion: contentVersions.version,
      isLastUseStale: isLastUseStale(placeholder('accuracySeconds')),
    })
    .from(accessTokens)
    .leftJoin(contentVersions, eq(contentVersions.organisationId, accessTokens.organisationId))
    .where(and(sql`${accessTokens.tokenHash} = any(${placeholder('hashes')})`, isValidToken)),
);

/** Callers with valid tokens, by the token's hash. @param accuracySeconds of the stored times of their last use */
export async function findCallers(
  database: Database,
  hashes: readonly string[],
  accuracySeconds: number,
): Promise<Map<string, Caller>> {
  const rows = await database.read(validTokens, { hashes, accuracySeconds });
  return new Map(
    rows.map(({ tokenHash, scopes, endsAt, isLastUseStale, ...caller }) => [
      tokenHash,
      {
        ...caller,
        scopes: scopes.split(' '),
        endsAt: endsAt === null ? null : Number(endsAt),
        isLastUseStale: isLastUseStale === 't',
      },
    ]),
  );
}

/** Waits for no lock: while something else changes the token, its last use is not written. */
export async function writeTokenUse(
  executor: Executor,
  { organisationId, tokenId: id }: Caller,
  accuracySeconds: number,
): Promise<void> {
  const token = isToken({ organisationId, id });
  const free = executor
    .select({ id: accessTokens.id })
    .from(accessTokens)
    // Of many requests that saw the old time, only the first one writes.
    .where(and(token, isNotRevoked, isLastUseStale(accuracySeconds)))
    .for('no key update', { skipLocked: true });
  await executor
    .update(accessTokens)
    .set({ lastUsedAt: sql`now()` })
    .where(and(token, inArray(accessTokens.id, free)));
}
