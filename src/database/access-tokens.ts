import { and, eq, gt, isNull, or, sql } from 'drizzle-orm';
import { newId } from '../ids.ts';
import type { Database, Executor } from './client.ts';
import { accessTokens, organisations, users } from './schema.ts';
import { createSelection, placeholder, query } from './statement.ts';

export type AccessToken = typeof accessTokens.$inferSelect;

/** Who holds a valid token, and what it allows. */
export interface Caller {
  readonly tokenId: string;
  readonly organisationId: string;
  readonly userId: string;
  readonly scopes: readonly string[];
  /** Its last use must be written. */
  readonly useIsUnwritten: boolean;
}

export async function addAccessToken(
  executor: Executor,
  values: {
    organisationId: string;
    userId: string;
    name: string;
    tokenHash: string;
    scopes: string[];
    expiresAt: Date | null;
  },
): Promise<AccessToken> {
  const [added] = await executor
    .insert(accessTokens)
    .values({ id: newId(), ...values })
    .returning();
  if (added === undefined) throw new Error('the token was not stored');
  return added;
}

export function listAccessTokens(executor: Executor) {
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
    .orderBy(accessTokens.createdAt, accessTokens.id);
}

/** @returns false if no token has the id. A second revocation keeps the first time. */
export async function revokeAccessToken(executor: Executor, id: string): Promise<boolean> {
  const revoked = await executor
    .update(accessTokens)
    .set({ revokedAt: sql`coalesce(${accessTokens.revokedAt}, now())` })
    .where(eq(accessTokens.id, id))
    .returning({ id: accessTokens.id });
  return revoked.length > 0;
}

/** The last use was written more than ten minutes ago, or never. */
const useIsUnwritten = sql<boolean>`(${accessTokens.lastUsedAt} is null
  or ${accessTokens.lastUsedAt} < now() - interval '10 minutes')`;

const validTokens = createSelection(
  'valid_access_tokens',
  query
    .select({
      tokenHash: accessTokens.tokenHash,
      tokenId: accessTokens.id,
      organisationId: accessTokens.organisationId,
      userId: accessTokens.userId,
      scopes: sql<string>`array_to_string(${accessTokens.scopes}, ' ')`,
      useIsUnwritten,
    })
    .from(accessTokens)
    .where(
      and(
        sql`${accessTokens.tokenHash} = any(${placeholder('hashes')})`,
        isNull(accessTokens.revokedAt),
        or(isNull(accessTokens.expiresAt), gt(accessTokens.expiresAt, sql`now()`)),
      ),
    ),
);

/** Callers with valid tokens, by the token's hash. */
export async function findCallers(database: Database, hashes: readonly string[]): Promise<Map<string, Caller>> {
  const rows = await database.read(validTokens, { hashes });
  return new Map(
    rows.map(({ tokenHash, tokenId, organisationId, userId, scopes, useIsUnwritten }) => [
      tokenHash,
      { tokenId, organisationId, userId, scopes: scopes.split(' '), useIsUnwritten: useIsUnwritten === 't' },
    ]),
  );
}

export async function writeTokenUse(executor: Executor, caller: Caller): Promise<void> {
  await executor
    .update(accessTokens)
    .set({ lastUsedAt: sql`now()` })
    .where(
      and(
        eq(accessTokens.organisationId, caller.organisationId),
        eq(accessTokens.id, caller.tokenId),
        isNull(accessTokens.revokedAt),
        // Of many requests that saw the old time, only the first one writes.
        useIsUnwritten,
      ),
    );
}
