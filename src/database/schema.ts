import { sql } from 'drizzle-orm';
import {
  bigint,
  bigserial,
  boolean,
  check,
  customType,
  foreignKey,
  index,
  integer,
  jsonb,
  pgSequence,
  pgTable,
  primaryKey,
  text,
  timestamp,
  unique,
  uniqueIndex,
  uuid,
} from 'drizzle-orm/pg-core';
import type { PullRequestState } from '../scoring/facts.ts';
import type { RuleDefinition, RuleLogic } from '../scoring/ruleset.ts';

/*
 * Indexes are ascending also where reads go from the latest backwards: PostgreSQL scans them either way.
 *
 * Every table that belongs to an organisation has a primary key that starts with organisation_id, and its foreign keys
 * carry it: no row can point into another organisation, and the tables can be distributed by organisation.
 */

/** GitHub's numeric ids pass 2^31 but not 2^53. */
const githubId = (name: string) => bigint(name, { mode: 'number' });

/** A time of GitHub's: whole Unix seconds outside, timestamptz within. */
const seconds = customType<{ data: number; driverData: Date | string }>({
  dataType: () => 'timestamp (0) with time zone',
  toDriver: value => new Date(value * 1000).toISOString(),
  fromDriver: value => new Date(value).getTime() / 1000,
});

/** JSON that comes and goes as text. `pg` parses what it reads. */
const jsonText = customType<{ data: string; driverData: unknown }>({
  dataType: () => 'json',
  toDriver: value => value,
  fromDriver: value => JSON.stringify(value),
});

const moment = (name: string) => timestamp(name, { withTimezone: true });
const now = (name: string) => moment(name).notNull().defaultNow();

const organisationId = () =>
  uuid('organisation_id')
    .notNull()
    .references(() => organisations.id, { onDelete: 'cascade' });

/**
 * Drawn before the fetch, or by the webhook, that GitHub's names in the row came from: what an older one found changes
 * nothing. What finds a row as it is leaves it, and its ticket, but for comparisons with GitHub, which move that.
 */
const fetchTicket = () => bigint('fetch_ticket', { mode: 'number' }).notNull().default(0);

/** Orders fetches, deletions and sync requests against each other, on all replicas. */
export const tickets = pgSequence('tickets');

export const organisations = pgTable(
  'organisations',
  {
    id: uuid('id').primaryKey(),
    /** Unknown until GitHub first names it; from then on it, not the login, identifies the organisation. */
    githubId: githubId('github_id').unique(),
    /** GitHub's other id, which its GraphQL asks for; unknown as long as no query has told it. */
    nodeId: text('node_id'),
    /** As GitHub last told; `renamed_…` from when it has told that another one has the login, until it is asked again. */
    login: text('login').notNull(),
    name: text('name').notNull(),
    photoUrl: text('photo_url').notNull(),
    fetchTicket: fetchTicket(),
    webhooksEnabled: boolean('webhooks_enabled').notNull().default(true),
    /** The version of `rulesets` in force; 0 before the first. */
    rulesetVersion: integer('ruleset_version').notNull().default(0),
    /** When a sync request of its was last taken up: the organisation served longest ago comes next. */
    syncServedAt: now('sync_served_at'),
    /** Until then one replica fetches for it, and no other does. */
    syncLeasedUntil: now('sync_leased_until'),
    /** When it is next compared with GitHub; in the near future while a replica is at it (its lease). */
    reconcileDueAt: now('reconcile_due_at'),
    /** A webhook asked for a comparison. GitHub may answer that one from before the event, so another follows then. */
    reconcileAgainAt: moment('reconcile_again_at'),
    /** GitHub's cursor of the last page of repositories that was compared, while a comparison is interrupted. */
    reconcileCursor: text('reconcile_cursor'),
    /** When a comparison next includes the members. */
    membersDueAt: now('members_due_at'),
    /** When stored pull requests were last asked for again, in the background. */
    sweptAt: now('swept_at'),
    createdAt: now('created_at'),
  },
  table => [uniqueIndex('organisations_login').on(sql`lower(${table.login})`)],
);

export const users = pgTable(
  'users',
  {
    organisationId: organisationId(),
    id: uuid('id').notNull(),
    name: text('name').notNull(),
    email: text('email').notNull(),
    photoUrl: text('photo_url').notNull(),
    createdAt: now('created_at'),
  },
  table => [
    primaryKey({ columns: [table.organisationId, table.id] }),
    uniqueIndex('users_email').on(table.organisationId, sql`lower(${table.email})`),
    index('users_by_name').on(table.organisationId, sql`${table.name} collate "und-x-icu"`, table.id),
  ],
);

export const accessTokens = pgTable(
  'access_tokens',
  {
    organisationId: organisationId(),
    id: uuid('id').notNull(),
    userId: uuid('user_id').notNull(),
    name: text('name').notNull(),
    /** SHA-256 of the token in hexadecimal; the token itself is never stored. */
    tokenHash: text('token_hash').notNull(),
    scopes: text('scopes').array().notNull(),
    createdAt: now('created_at'),
    expiresAt: moment('expires_at'),
    revokedAt: moment('revoked_at'),
    lastUsedAt: moment('last_used_at'),
  },
  table => [
    primaryKey({ columns: [table.organisationId, table.id] }),
    foreignKey({
      columns: [table.organisationId, table.userId],
      foreignColumns: [users.organisationId, users.id],
    }).onDelete('cascade'),
    index('access_tokens_token_hash').on(table.tokenHash),
  ],
);

export const members = pgTable(
  'members',
  {
    organisationId: organisationId(),
    id: uuid('id').notNull(),
    githubId: githubId('github_id').notNull(),
    login: text('login').notNull(),
    name: text('name').notNull(),
    photoUrl: text('photo_url').notNull(),
    createdAt: now('created_at'),
    /** Set once GitHub no longer lists the person; their pull requests stay. */
    leftAt: moment('left_at'),
    fetchTicket: fetchTicket(),
  },
  table => [
    primaryKey({ columns: [table.organisationId, table.id] }),
    unique('members_github_id').on(table.organisationId, table.githubId),
    index('members_by_creation').on(table.organisationId, table.createdAt, table.id),
  ],
);

export const repositories = pgTable(
  'repositories',
  {
    organisationId: organisationId(),
    id: uuid('id').notNull(),
    githubId: githubId('github_id').notNull(),
    nodeId: text('node_id').notNull(),
    /** `owner/name` */
    name: text('name').notNull(),
    createdAt: now('created_at'),
    /** By GitHub's clock: what changed before is here. Null before the first comparison. */
    reconciledAt: seconds('reconciled_at'),
    /** While a comparison is interrupted: GitHub's cursor of the last page saved, and what `reconciled_at` becomes. */
    reconcileCursor: text('reconcile_cursor'),
    reconcileUntil: seconds('reconcile_until'),
    /** Set while an import is under way or interrupted: GitHub's cursor after the last page saved, empty before the first. */
    importCursor: text('import_cursor'),
    /** When the latest import began. */
    importedAt: moment('imported_at'),
    fetchTicket: fetchTicket(),
  },
  table => [
    primaryKey({ columns: [table.organisationId, table.id] }),
    unique('repositories_github_id').on(table.organisationId, table.githubId),
  ],
);

export const pullRequests = pgTable(
  'pull_requests',
  {
    organisationId: organisationId(),
    id: uuid('id').notNull(),
    repositoryId: uuid('repository_id').notNull(),
    memberId: uuid('member_id').notNull(),
    githubId: githubId('github_id').notNull(),
    nodeId: text('node_id').notNull(),
    url: text('url').notNull(),

    number: integer('number').notNull(),
    title: text('title').notNull(),
    body: text('body').notNull(),
    state: text('state').$type<PullRequestState>().notNull(),
    draft: boolean('draft').notNull(),
    author: text('author').notNull(),
    authorAssociation: text('author_association').notNull(),
    authorIsBot: boolean('author_is_bot').notNull(),
    base: text('base').notNull(),
    head: text('head').notNull(),
    fromFork: boolean('from_fork').notNull(),
    milestone: text('milestone'),
    additions: integer('additions').notNull(),
    deletions: integer('deletions').notNull(),
    changedFiles: integer('changed_files').notNull(),
    commits: integer('commits').notNull(),
    comments: integer('comments').notNull(),
    reviews: integer('reviews').notNull(),
    approvals: integer('approvals').notNull(),
    changesRequested: integer('changes_requested').notNull(),
    linkedIssues: integer('linked_issues').notNull(),
    createdAt: seconds('created_at').notNull(),
    sourceUpdatedAt: seconds('source_updated_at').notNull(),
    mergedAt: seconds('merged_at'),
    closedAt: seconds('closed_at'),
    firstReviewAt: seconds('first_review_at'),
    labels: text('labels').array().notNull(),
    assignees: text('assignees').array().notNull(),
    files: text('files').array().notNull(),

    score: integer('score').notNull(),
    /** `json`, not `jsonb`: it is served as it was written. */
    scoreBreakdown: jsonText('score_breakdown').notNull(),
    /** The ruleset that wrote the score; later ones that gave the same have left the row as it was. */
    rulesetVersion: integer('ruleset_version').notNull(),
    /** Drawn before the fetch that these columns came from. */
    fetchTicket: bigint('fetch_ticket', { mode: 'number' }).notNull(),
    /** When the fetch was saved, or when the sweep last asked for one. */
    fetchedAt: now('fetched_at'),
  },
  table => [
    primaryKey({ columns: [table.organisationId, table.id] }),
    unique('pull_requests_github_id').on(table.organisationId, table.githubId),
    foreignKey({
      columns: [table.organisationId, table.repositoryId],
      foreignColumns: [repositories.organisationId, repositories.id],
    }),
    foreignKey({
      columns: [table.organisationId, table.memberId],
      foreignColumns: [members.organisationId, members.id],
    }),
    check('pull_requests_state', sql`${table.state} in ('closed', 'draft', 'merged', 'open')`),
    index('pull_requests_by_creation').on(table.organisationId, table.createdAt, table.id),
    index('pull_requests_of_member').on(table.organisationId, table.memberId, table.createdAt, table.id),
    index('pull_requests_by_number').on(table.organisationId, table.repositoryId, table.number),
    index('pull_requests_by_fetch').on(table.organisationId, table.fetchedAt),
  ],
);

/** Fetched, but not kept: the author was not a member. They are fetched again when the author becomes one. */
export const untrackedPullRequests = pgTable(
  'untracked_pull_requests',
  {
    organisationId: organisationId(),
    githubId: githubId('github_id').notNull(),
    nodeId: text('node_id').notNull(),
    authorGithubId: githubId('author_github_id').notNull(),
  },
  table => [
    primaryKey({ columns: [table.organisationId, table.githubId] }),
    index('untracked_pull_requests_by_author').on(table.organisationId, table.authorGithubId),
  ],
);

/** What was deleted here and must not come back before it changes on GitHub. */
export const deletedPullRequests = pgTable(
  'deleted_pull_requests',
  {
    organisationId: organisationId(),
    githubId: githubId('github_id').notNull(),
    sourceUpdatedAt: seconds('source_updated_at').notNull(),
    /** Drawn within the deletion: a fetch with a lower ticket began before it. */
    ticket: bigint('ticket', { mode: 'number' }).notNull(),
    deletedAt: now('deleted_at'),
  },
  table => [primaryKey({ columns: [table.organisationId, table.githubId] })],
);

export const rules = pgTable(
  'rules',
  {
    organisationId: organisationId(),
    id: uuid('id').notNull(),
    name: text('name').notNull(),
    description: text('description').notNull(),
    isEnabled: boolean('is_enabled').notNull(),
    /** Place in the file, from 0. */
    position: integer('position').notNull(),
    logic: jsonb('logic').$type<RuleLogic[]>().notNull(),
    createdAt: now('created_at'),
  },
  table => [
    primaryKey({ columns: [table.organisationId, table.id] }),
    unique('rules_name').on(table.organisationId, table.name),
  ],
);

/** Each applied version, whole. */
export const rulesets = pgTable(
  'rulesets',
  {
    organisationId: organisationId(),
    version: integer('version').notNull(),
    rules: jsonb('rules').$type<RuleDefinition[]>().notNull(),
    appliedAt: now('applied_at'),
    /** Who ran the command, as the operating system or the operator says. */
    appliedBy: text('applied_by').notNull(),
  },
  table => [primaryKey({ columns: [table.organisationId, table.version] })],
);

/**
 * Says: the scores of the pull requests from one id up to another may be older than the ruleset in force. Gone once
 * they have been looked at: a score that the new ruleset leaves as it is keeps its row, and its older version number.
 */
export const rescoreRanges = pgTable(
  'rescore_ranges',
  {
    organisationId: organisationId(),
    fromId: uuid('from_id').notNull(),
    /** Exclusive; null is the end. */
    untilId: uuid('until_id'),
    /** Small enough to be worked off as it is; the others are cut up first. */
    isBatch: boolean('is_batch').notNull(),
    /** Repositories were renamed: addresses of pull requests may have a former name. */
    urlsInDoubt: boolean('urls_in_doubt').notNull().default(false),
  },
  table => [primaryKey({ columns: [table.organisationId, table.fromId] })],
);

/**
 * Append-only. Without a foreign key to the pull request, which would cost a re-scoring a third more; a deletion takes
 * the changes with it.
 */
export const scoreChanges = pgTable(
  'score_changes',
  {
    organisationId: organisationId(),
    id: bigserial('id', { mode: 'number' }).notNull(),
    pullRequestId: uuid('pull_request_id').notNull(),
    changedAt: now('changed_at'),
    /** Null when the pull request was first seen. */
    fromScore: integer('from_score'),
    toScore: integer('to_score').notNull(),
    cause: text('cause').$type<'pull_request' | 'ruleset'>().notNull(),
    rulesetVersion: integer('ruleset_version').notNull(),
  },
  table => [
    primaryKey({ columns: [table.organisationId, table.pullRequestId, table.id] }),
    check('score_changes_cause', sql`${table.cause} in ('pull_request', 'ruleset')`),
  ],
);

export const webhookDeliveries = pgTable(
  'webhook_deliveries',
  {
    organisationId: organisationId(),
    /** `X-GitHub-Delivery`: a redelivery has the same one. */
    guid: text('guid').notNull(),
    event: text('event').notNull(),
    action: text('action').notNull(),
    /** `gone`: GitHub never showed the pull request, however often it was asked. */
    state: text('state').$type<'pending' | 'applied' | 'gone'>().notNull(),
    pullRequestGithubId: githubId('pull_request_github_id'),
    /** The sync request's; applied once a sync that covers it is done. */
    ticket: bigint('ticket', { mode: 'number' }).notNull(),
    receivedAt: now('received_at'),
    appliedAt: moment('applied_at'),
  },
  table => [
    primaryKey({ columns: [table.organisationId, table.guid] }),
    check('webhook_deliveries_state', sql`${table.state} in ('pending', 'applied', 'gone')`),
    index('webhook_deliveries_pending')
      .on(table.organisationId, table.pullRequestGithubId)
      .where(sql`${table.state} = 'pending'`),
    index('webhook_deliveries_by_receipt').on(table.organisationId, table.receivedAt),
    index('webhook_deliveries_gone').on(table.organisationId, table.receivedAt).where(sql`${table.state} = 'gone'`),
  ],
);

/**
 * A row says: this pull request must be fetched. Many updates of one pull request fold into one row. Whoever holds the
 * organisation's `sync_leased_until` fetches.
 */
export const syncRequests = pgTable(
  'sync_requests',
  {
    organisationId: organisationId(),
    githubId: githubId('github_id').notNull(),
    nodeId: text('node_id').notNull(),
    /** Drawn anew by each update: the row is done only by a fetch that began after it. */
    ticket: bigint('ticket', { mode: 'number' }).notNull(),
    /** The floor: a webhook named this `updated_at`, so that an older answer does not settle the request. */
    minSourceUpdatedAt: seconds('min_source_updated_at'),
    requestedAt: now('requested_at'),
    /** When it is fetched: in the future while a failure, or GitHub's lag, is waited out. Null parks it. */
    dueAt: moment('due_at').default(sql`now()`),
    /** Failures in a row. */
    attempts: integer('attempts').notNull().default(0),
    lastError: text('last_error'),
    /** Since when GitHub has given the same answer, which is older than the floor, or nothing. */
    behindSince: moment('behind_since'),
    /** That answer's `updated_at`; null if GitHub did not show the pull request. */
    behindSourceUpdatedAt: seconds('behind_source_updated_at'),
    /** GitHub failed on it by itself: it is fetched alone, so that it harms no others. */
    isIsolated: boolean('is_isolated').notNull().default(false),
    /** Nobody waits for it: it fills up requests to GitHub, and stops at the reserve of points. */
    isBackground: boolean('is_background').notNull().default(false),
  },
  table => [
    primaryKey({ columns: [table.organisationId, table.githubId] }),
    index('sync_requests_by_due').on(table.organisationId, table.dueAt),
  ],
);

/** What GitHub said last of a credential's points and patience; all replicas keep to it. */
export const githubLimits = pgTable('github_limits', {
  /** `token`, or `app:` and the organisation's id. */
  credential: text('credential').primaryKey(),
  /** No replica calls with the credential before. */
  blockedUntil: now('blocked_until'),
  /** In a row without an answer from GitHub about when to come back. */
  refusals: integer('refusals').notNull().default(0),
  /** Points of an hour, and how many of them are left until `reset_at`; null on a server without rate limits. */
  points: integer('points'),
  remainingPoints: integer('remaining_points'),
  resetAt: seconds('reset_at'),
});
