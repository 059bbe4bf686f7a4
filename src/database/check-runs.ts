import { and, count, eq, isNotNull, isNull, not, type SQL, sql } from 'drizzle-orm';
import type { Executor } from './client.ts';
import { renewContentVersion } from './content-versions.ts';
import { type Lease, takeLease } from './lease.ts';
import { areRulesSuspended, type Organisation, updateOrganisation } from './organisations.ts';
import { isInPresentRepository, isInRepository } from './pull-requests.ts';
import { checkRuns, contentVersions, organisations, pullRequests, repositories, scoreChanges } from './schema.ts';
import { isOneOf, secondsFromNow } from './statement.ts';

/*
 * The scores that GitHub shows as check runs. They are a level: what is stored is compared with what was published, and
 * the difference is published. So nothing has to remember that a pull request has changed.
 */

/** Organisations that show their scores, of which something may have changed since GitHub was shown everything. */
const withNews = sql`(select ${organisations.id} from ${organisations} join ${contentVersions}
  on ${contentVersions.organisationId} = ${organisations.id}
  where ${organisations.checksDueAt} is not null
    and ${organisations.checksVersion} is distinct from ${contentVersions.storedVersion})`;

/**
 * Takes the organisation that has waited longest, of those that show their scores and may have something new to show.
 *
 * @param organisationId undefined: any
 * @returns also the version to save once all of it is shown
 */
export async function claimCheckRuns(
  executor: Executor,
  leaseSeconds: number,
  organisationId?: string,
): Promise<{ lease: Lease; storedVersion: string } | undefined> {
  const lease = await takeLease(executor, 'checksDueAt', leaseSeconds, {
    isFree: and(isNull(organisations.removedAt), not(areRulesSuspended)),
    isWanted: sql`${organisations.id} in ${withNews}`,
    organisationId,
  });
  if (lease === undefined) return undefined;
  const [version] = await executor
    .select({ storedVersion: contentVersions.storedVersion })
    .from(contentVersions)
    .where(eq(contentVersions.organisationId, lease.organisationId));
  return version && { lease, ...version };
}

export const areChecksEnabled = ({ checksDueAt }: Pick<Organisation, 'checksDueAt'>): boolean => checksDueAt !== null;

/** What was published stays on GitHub. Runs in a transaction. */
export async function setChecksEnabled(executor: Executor, id: string, enabled: boolean): Promise<void> {
  await updateOrganisation(executor, id, { checksDueAt: enabled ? sql`now()` : null });
  if (!enabled) return;
  await retryCheckRuns(executor, id);
  await renewContentVersion(executor, id, { isVisible: false });
}

/**
 * Open pull requests, and closed ones that have not had their last check run.
 *
 * @param organisationId undefined: of all organisations that may have something to show
 */
const candidates = (organisationId: string | undefined): SQL => {
  const isWanted = (table: typeof pullRequests | typeof checkRuns) =>
    organisationId === undefined
      ? sql`${table.organisationId} in ${withNews}`
      : eq(table.organisationId, organisationId);
  return sql`(
    select ${pullRequests.organisationId}, ${pullRequests.id} from ${pullRequests}
    where ${isWanted(pullRequests)} and ${pullRequests.state} in ('draft', 'open')
    union
    select ${checkRuns.organisationId}, ${checkRuns.pullRequestId} from ${checkRuns}
    where ${isWanted(checkRuns)} and not ${checkRuns.isFinal}
  ) as candidates (organisation_id, id)`;
};

// Citus follows the organisation from table to table, not through the union.
const joined = sql`
  join organisations on organisations.id = candidates.organisation_id
  join pull_requests on pull_requests.organisation_id = candidates.organisation_id and pull_requests.id = candidates.id
  left join check_runs on check_runs.organisation_id = pull_requests.organisation_id and pull_request_id = candidates.id`;

/**
 * Whether the stored row is not the one that was tried last. PostgreSQL gives a row another `xmin` with each change, so
 * no column has to be compared. A score that is yet to be recalculated is shown after that.
 */
const hasChanged = sql`(check_runs.pull_request_id is null
    or check_runs.row_version <> pull_requests.xmin::text
    or check_runs.ruleset_version <> organisations.ruleset_version)
  and not exists (
    select 1 from rescore_ranges as ranges
    where ranges.organisation_id = pull_requests.organisation_id and from_id <= candidates.id
      and (until_id is null or candidates.id < until_id)
      and pull_requests.fetch_ticket < ranges.ticket
  )`;

/**
 * Pull requests whose check run may have to change, those that are due first. One that has failed is tried alone, so
 * that it harms no others; if it has changed since, it does not wait for its next try.
 *
 * @param pace `minSeconds` between two check runs of one pull request
 * @returns up to `limit` ids, with the seconds until each is due
 */
export async function findCheckRunsToPublish(
  executor: Executor,
  organisationId: string,
  { minSeconds, limit }: { minSeconds: number; limit: number },
) {
  const { rows } = await executor.execute<{ id: string; seconds: number; attempts: number }>(sql`
    select candidates.id, coalesce(attempts, 0) as attempts, greatest(0, extract(epoch from coalesce(
        case when not (${hasChanged}) then due_at end, published_at + make_interval(secs => ${minSeconds}), now()) - now()
      ))::float8 as seconds
    from ${candidates(organisationId)} ${joined}
    where ${isInPresentRepository(organisationId)} and (due_at is not null or (${hasChanged}))
    order by seconds, (attempts > 0) is true, candidates.id limit ${limit}`);
  return rows;
}

const rowVersion = sql<string>`${pullRequests}.xmin::text`;

/** What check runs show, with the version of each row. */
export async function readShown(executor: Executor, organisationId: string, ids: readonly string[]) {
  const { id, changedAt, pullRequestId, fromScore, toScore } = scoreChanges;
  const isOfOrganisation = eq(scoreChanges.organisationId, organisationId);
  const last = executor
    .selectDistinctOn([pullRequestId], { pullRequestId, fromScore, toScore, changedAt })
    .from(scoreChanges)
    .where(and(isOfOrganisation, isOneOf(pullRequestId, ids)))
    .orderBy(pullRequestId, sql`${id} desc`)
    .as('last');
  return executor
    .select({
      pullRequest: pullRequests,
      repository: repositories.name,
      repositoryNodeId: repositories.nodeId,
      rowVersion,
      /** Null if the score has not changed yet. */
      formerScore: last.fromScore,
      shownHash: checkRuns.shownHash,
      attempts: sql<number>`coalesce(${checkRuns.attempts}, 0)`,
    })
    .from(pullRequests)
    .innerJoin(repositories, isInRepository)
    .leftJoin(last, eq(last.pullRequestId, pullRequests.id))
    .leftJoin(
      checkRuns,
      and(eq(checkRuns.organisationId, pullRequests.organisationId), eq(checkRuns.pullRequestId, pullRequests.id)),
    )
    .where(and(eq(pullRequests.organisationId, organisationId), isOneOf(pullRequests.id, ids)));
}

export type Shown = Awaited<ReturnType<typeof readShown>>[number];

/** What became of one try. */
export interface CheckRunTry {
  pullRequestId: string;
  rowVersion: string;
  rulesetVersion: number;
  result:
    | { shownHash: string; isFinal: boolean; isPublished: boolean }
    /** `seconds` until the next try; null parks it. */
    | { attempts: number; seconds: number | null; reason: string | null };
}

/** Runs in a transaction. */
export async function saveCheckRuns(
  executor: Executor,
  organisationId: string,
  tries: readonly CheckRunTry[],
): Promise<void> {
  // What was deleted meanwhile stays so.
  const tried = tries.map(({ pullRequestId }) => pullRequestId);
  const present = await executor
    .select({ id: pullRequests.id, rowVersion })
    .from(pullRequests)
    .where(and(eq(pullRequests.organisationId, organisationId), isOneOf(pullRequests.id, tried)))
    .orderBy(pullRequests.id)
    .for('share');
  const rowVersions = new Map(present.map(({ id, rowVersion }) => [id, rowVersion]));
  const rows = tries
    .filter(({ pullRequestId }) => rowVersions.has(pullRequestId))
    .map(({ result, ...row }) => ({
      organisationId,
      ...row,
      ...('reason' in result
        ? {
            isFinal: false,
            attempts: result.attempts,
            dueAt: result.seconds === null ? null : secondsFromNow(result.seconds),
            lastError: result.reason,
          }
        : {
            // If it has changed meanwhile, it may be open again.
            isFinal: result.isFinal && rowVersions.get(row.pullRequestId) === row.rowVersion,
            shownHash: result.shownHash,
            publishedAt: result.isPublished ? sql`now()` : null,
          }),
    }));
  if (rows.length === 0) return;
  // After a failure, GitHub still shows what it showed before.
  const hasShown = sql`excluded.shown_hash is not null`;
  await executor
    .insert(checkRuns)
    .values(rows)
    .onConflictDoUpdate({
      target: [checkRuns.organisationId, checkRuns.pullRequestId],
      set: {
        rowVersion: sql`excluded.row_version`,
        rulesetVersion: sql`excluded.ruleset_version`,
        shownHash: sql`coalesce(excluded.shown_hash, ${checkRuns.shownHash})`,
        isFinal: sql`case when ${hasShown} then excluded.is_final else ${checkRuns.isFinal} end`,
        publishedAt: sql`coalesce(excluded.published_at, ${checkRuns.publishedAt})`,
        dueAt: sql`excluded.due_at`,
        attempts: sql`excluded.attempts`,
        lastError: sql`excluded.last_error`,
      },
    });
}

/** Pull requests that were closed before have been reopened: each gets another last check run. */
export async function expectLastCheckRuns(
  executor: Executor,
  organisationId: string,
  ids: readonly string[],
): Promise<void> {
  if (ids.length === 0) return;
  await executor
    .update(checkRuns)
    .set({ isFinal: false })
    .where(and(eq(checkRuns.organisationId, organisationId), isOneOf(checkRuns.pullRequestId, ids)));
}

export type CheckRunCounts = Awaited<ReturnType<typeof countCheckRuns>>;

/** @param organisationId undefined counts those of all organisations */
export async function countCheckRuns(executor: Executor, organisationId?: string) {
  const { rows } = await executor.execute<{ waiting: number }>(sql`
    select count(*)::int as waiting from ${candidates(organisationId)} ${joined}
    where organisations.checks_due_at is not null and last_error is null and ${hasChanged}
      and not exists (
        select 1 from repositories where repositories.organisation_id = pull_requests.organisation_id
          and repositories.id = pull_requests.repository_id and left_at is not null
      )`);
  const isFailing = and(
    isNotNull(checkRuns.lastError),
    organisationId === undefined ? undefined : eq(checkRuns.organisationId, organisationId),
  );
  const [failures] = await executor
    .select({ failed: count(), parked: sql<number>`(count(*) filter (where ${checkRuns.dueAt} is null))::int` })
    .from(checkRuns)
    .where(isFailing);
  const { failed = 0, parked = 0 } = failures ?? {};
  return {
    waiting: rows[0]?.waiting ?? 0,
    /** They failed, and are tried again. */
    failing: failed - parked,
    /** Only a change of the pull request, or a retry, asks for another try. */
    parked,
  };
}

/** Parked ones first. */
export function listFailingCheckRuns(executor: Executor, organisationId: string, limit: number) {
  const { attempts, dueAt, lastError } = checkRuns;
  return executor
    .select({
      name: sql<string>`${repositories.name} || '#' || ${pullRequests.number}`,
      url: pullRequests.url,
      attempts,
      dueAt,
      reason: sql<string>`${lastError}`,
    })
    .from(checkRuns)
    .innerJoin(
      pullRequests,
      and(eq(pullRequests.organisationId, checkRuns.organisationId), eq(pullRequests.id, checkRuns.pullRequestId)),
    )
    .innerJoin(repositories, isInRepository)
    .where(and(eq(checkRuns.organisationId, organisationId), isNotNull(lastError)))
    .orderBy(sql`${dueAt} nulls first`, pullRequests.id)
    .limit(limit);
}

/** Makes failed ones due at once, parked ones included. Runs in a transaction. */
export async function retryCheckRuns(
  executor: Executor,
  organisationId: string,
): Promise<{ retried: number; parked: number }> {
  const hasFailed = and(eq(checkRuns.organisationId, organisationId), isNotNull(checkRuns.lastError));
  const parked = await executor.$count(checkRuns, and(hasFailed, isNull(checkRuns.dueAt)));
  const { rowCount } = await executor
    .update(checkRuns)
    .set({ dueAt: sql`now()`, attempts: 0, lastError: null })
    .where(hasFailed);
  await executor
    .update(organisations)
    .set({ checksVersion: null, checksDueAt: sql`now()` })
    .where(and(eq(organisations.id, organisationId), isNotNull(organisations.checksDueAt)));
  return { retried: rowCount ?? 0, parked };
}
