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
  json,
  jsonb,
  pgSequence,
  pgTable,
  primaryKey,
  smallint,
  text,
  timestamp,
  unique,
  uniqueIndex,
  uuid,
} from 'drizzle-orm/pg-core';
import type { PullRequestState, Reviewer } from '../pull-request.ts';
import type { Definition } from '../scoring/language/definitions.ts';
import type { RuleDefinition, RuleLogic } from '../scoring/rule.ts';

/*
 * Indexes are ascending even if reads go from the latest backwards: PostgreSQL scans them either way.
 *
 * Every table that belongs to an organisation has a primary key that starts with organisation_id, and its foreign keys
 * carry it: no row can point into another organisation, and the tables can be distributed by organisation.
 */

/** GitHub's numeric ids pass 2^31 but not 2^53. */
const githubId = (name: string) => bigint(name, { mode: 'number' });

/** A time from GitHub: whole Unix seconds in code, timestamptz in the database. */
const seconds = customType<{ data: number; driverData: Date | string }>({
  dataType: () => 'timestamp (0) with time zone',
  toDriver: value => new Date(value * 1000).toISOString(),
  fromDriver: value => new Date(value).getTime() / 1000,
});

/** JSON that is text in code. `pg` parses what it reads, so this writes it as text again. */
const jsonText = customType<{ data: string; driverData: unknown }>({
  dataType: () => 'json',
  toDriver: value => value,
  fromDriver: value => JSON.stringify(value),
});

/** The id of a transaction, which is never given out again. In JavaScript a text of digits. */
const transactionId = customType<{ data: string }>({ dataType: () => 'xid8' });

const moment = (name: string) => timestamp(name, { withTimezone: true });
const now = (name: string) => moment(name).notNull().defaultNow();

const organisationId = () =>
  uuid('organisation_id')
    .notNull()
    .references(() => organisations.id, { onDelete: 'cascade' });

/**
 * The ticket of the fetch that the row's names came from: an older answer changes nothing. A fetch that confirms
 * the row leaves the ticket as it is; only comparisons renew it.
 */
const fetchTicket = () => bigint('fetch_ticket', { mode: 'number' }).notNull().default(0);

/** Orders fetches, deletions and sync requests against each other, on all replicas. */
export const tickets = pgSequence('tickets');

export const organisations = pgTable(
  'organisations',
  {
    id: uuid('id').primaryKey(),
    /** Unknown until GitHub first names it. From then on it identifies the organisation, not the login. */
    githubId: githubId('github_id').unique(),
    /** GitHub's other id, for GraphQL; unknown until a query has shown it. */
    nodeId: text('node_id'),
    /** GitHub's latest; `renamed_…` while GitHub has given the login to another and the new one is not known. */
    login: text('login').notNull(),
    /** Empty until GitHub first says it, unless an operator did. */
    name: text('name').notNull(),
    photoUrl: text('photo_url').notNull(),
    fetchTicket: fetchTicket(),
    webhooksEnabled: boolean('webhooks_enabled').notNull().default(true),
    /** Which of its repositories are ignored: by their names, in lower case and without the owner … */
    ignoredGlobs: text('ignored_globs').array().notNull().default(sql`'{}'`),
    /** … or by what GitHub says of them. */
    ignoresArchived: boolean('ignores_archived').notNull().default(false),
    ignoresForks: boolean('ignores_forks').notNull().default(false),
    /** The version of `rulesets` in force; 0 before the first. */
    rulesetVersion: integer('ruleset_version').notNull().default(0),
    /** The latest version that broke a bound: while it is in force, nothing is scored. */
    suspendedVersion: integer('suspended_version'),
    /** GitHub's points that its webhooks and PUT syncs have used in the hour that ends at `points_reset_at`. */
    pointsUsed: integer('points_used').notNull().default(0),
    pointsResetAt: seconds('points_reset_at'),
    /** When its sync requests last had a turn: the organisation served longest ago comes next. */
    syncServedAt: now('sync_served_at'),
    /** When the last turn began in which GitHub showed one of its pull requests. */
    shownAt: moment('shown_at'),
    /** Until then only the replica with the turn fetches for it. */
    syncLeasedUntil: now('sync_leased_until'),
    /** When it is next compared with GitHub. While it is compared: far away, unless another comparison is requested. */
    comparisonDueAt: now('comparison_due_at'),
    /** Until then only the replica that compares it does. 1970: none does. Another time that has passed: it was killed. */
    comparisonLeasedUntil: moment('comparison_leased_until').notNull().default(sql`'epoch'`),
    /** Until then no webhook starts a comparison: the last one cost many points. */
    comparisonNotBefore: now('comparison_not_before'),
    /** When to repeat a comparison that a webhook asked for: the first answer may be from before the event. */
    comparisonAgainAt: moment('comparison_again_at'),
    /** Whether the next comparison is not just periodic: a webhook, say, asked for one that has not ended yet. */
    comparisonRequested: boolean('comparison_requested').notNull().default(false),
    /** When a comparison last reached its end. */
    comparedAt: moment('compared_at'),
    /** When a comparison last failed, in whole or in part, and why. Not before `compared_at`: that was the latest. */
    comparisonFailedAt: moment('comparison_failed_at'),
    comparisonFailure: text('comparison_failure'),
    /** When a comparison next includes the members. */
    membersDueAt: now('members_due_at'),
    sweptAt: now('swept_at'),
    /** When its old rows are next deleted and folded; while a replica does it, the end of the lease. */
    pruneDueAt: now('prune_due_at'),
    /** The pull request whose score changes were folded last; null before the first. */
    foldedId: uuid('folded_id'),
    /**
     * When to look next for scores to show on GitHub; while a replica does it, the end of the lease. Null: they are not
     * shown.
     */
    checksDueAt: moment('checks_due_at'),
    /** The stored version of which GitHub shows all; null if something is still to be shown. */
    checksVersion: uuid('checks_version'),
    /** Since when it is being removed: it has disappeared, and pruning deletes what is left of it. */
    removedAt: moment('removed_at'),
    createdAt: now('created_at'),
  },
  table => [
    uniqueIndex('organisations_login').on(sql`lower(${table.login})`),
    // To find whose turn it is without reading all that waits.
    index('organisations_by_turn').on(table.syncServedAt),
  ],
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
    /** In the future for a rotated token: the end of its grace period. */
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
    /** Logins that the person had before: pull requests that were not fetched since still name them. */
    formerLogins: text('former_logins').array().notNull().default(sql`'{}'`),
    createdAt: now('created_at'),
    /** Set once GitHub no longer lists the person; their pull requests stay. */
    leftAt: moment('left_at'),
    fetchTicket: fetchTicket(),
  },
  table => [
    primaryKey({ columns: [table.organisationId, table.id] }),
    unique('members_github_id').on(table.organisationId, table.githubId),
    index('members_by_creation').on(table.organisationId, table.createdAt, table.id),
    index('members_by_login').on(table.organisationId, sql`lower(${table.login})`).concurrently(),
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
    /** By GitHub's clock: all changes before this are stored. Null before the first comparison. */
    comparedAt: seconds('compared_at'),
    /** While an import is under way or interrupted: GitHub's cursor of the last page listed, empty before the first. */
    importCursor: text('import_cursor'),
    importedAt: moment('imported_at'),
    /** Set once GitHub says that it is elsewhere or gone, or once it is ignored; its pull requests stay. */
    leftAt: moment('left_at'),
    /** Why the organisation ignores it, as people read it; null if it is tracked, or has left. */
    ignoredBecause: text('ignored_because'),
    fetchTicket: fetchTicket(),
  },
  table => [
    primaryKey({ columns: [table.organisationId, table.id] }),
    unique('repositories_github_id').on(table.organisationId, table.githubId),
    index('repositories_by_name').on(table.organisationId, sql`lower(${table.name})`).concurrently(),
  ],
);

/** A migration has given it a fill factor of 50, so that re-scoring changes no index. */
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
    /** The commit whose facts these are. */
    headSha: text('head_sha').notNull(),

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
    writerApprovals: integer('writer_approvals').notNull(),
    timesChangesRequested: integer('times_changes_requested').notNull(),
    botReviews: integer('bot_reviews').notNull(),
    linkedIssues: integer('linked_issues').notNull(),
    createdAt: seconds('created_at').notNull(),
    sourceUpdatedAt: seconds('source_updated_at').notNull(),
    mergedAt: seconds('merged_at'),
    closedAt: seconds('closed_at'),
    mergedBy: text('merged_by'),
    selfMerged: boolean('self_merged').notNull(),
    firstReviewAt: seconds('first_review_at'),
    labels: text('labels').array().notNull(),
    assignees: text('assignees').array().notNull(),
    files: text('files').array().notNull(),
    /**
     * For each of `files`, two numbers: see `PullRequestRecord`. `json`, which takes about 6 bytes for a file; two
     * arrays would take 8, and about 50 more for each row.
     */
    fileChanges: json('file_changes').$type<number[]>(),
    /** These came later: see `newerColumns`. */
    distinctReviewers: integer('distinct_reviewers'),
    reviewDecision: text('review_decision'),
    readyAt: seconds('ready_at'),
    repositoryIsArchived: boolean('repository_is_archived'),
    repositoryIsPrivate: boolean('repository_is_private'),
    /** `json`, because nothing searches it but erasures. */
    reviewers: json('reviewers').$type<Reviewer[]>(),

    score: integer('score').notNull(),
    /** `json`, not `jsonb`: it is served exactly as it was written. */
    scoreBreakdown: jsonText('score_breakdown').notNull(),
    /** What rules gave for reviews: see `Score` in src/scoring. Null if there are none. */
    reviewScores: jsonText('review_scores'),
    /** The ruleset that wrote the score. Later ones with the same result have left the row as it was. */
    rulesetVersion: integer('ruleset_version').notNull(),
    /** The `factsVersion` of the release that saved the row: a column that came later was not written then. */
    factsVersion: smallint('facts_version').notNull().default(0),
    /** Drawn before the fetch that these columns came from. */
    fetchTicket: bigint('fetch_ticket', { mode: 'number' }).notNull(),
    /** When the fetch was saved, or when the sweep last asked for one. */
    fetchedAt: now('fetched_at'),
    /**
     * The transaction that last changed what clients see; it has a row in `changes`. Without an index, so that
     * re-scoring changes no index.
     */
    changedBy: transactionId('changed_by').notNull().default('0'),
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
    // For lists with filters, see src/database/pull-request-filters.ts, and for the list of a member without any.
    ...(
      [
        ['creation', table.createdAt],
        ['update', table.sourceUpdatedAt],
        ['merge', table.mergedAt],
      ] as const
    ).flatMap(([name, time]) => {
      const { organisationId, id, state, repositoryId, memberId } = table;
      const lists = [
        index(`pull_requests_of_state_by_${name}`).on(organisationId, state, time, id),
        index(`pull_requests_of_repository_by_${name}`).on(organisationId, repositoryId, state, time, id),
        index(`pull_requests_of_member_by_${name}`).on(organisationId, memberId, time, id, state, repositoryId),
      ];
      return lists.map(list => (time.notNull ? list : list.where(sql`${time} is not null`)).concurrently());
    }),
    index('pull_requests_by_number').on(table.organisationId, table.repositoryId, table.number),
    index('pull_requests_by_fetch').on(table.organisationId, table.fetchedAt),
    index('pull_requests_open').on(table.organisationId, table.id).where(sql`${table.state} in ('draft', 'open')`),
  ],
);

/** What a pull request's check run on GitHub shows. Without a row it has none. */
export const checkRuns = pgTable(
  'check_runs',
  {
    organisationId: organisationId(),
    pullRequestId: uuid('pull_request_id').notNull(),
    /** `xmin` of the row that was last tried, and the rules in force: others mean that there may be more to show. */
    rowVersion: text('row_version').notNull(),
    rulesetVersion: integer('ruleset_version').notNull(),
    /** Of the commit and the texts that GitHub shows; null if it has not taken any yet. */
    shownHash: text('shown_hash'),
    /** The pull request is closed, and this is its last one. */
    isFinal: boolean('is_final').notNull(),
    publishedAt: moment('published_at'),
    /** When it is tried again after a failure; null if only a change of the pull request or a retry asks for that. */
    dueAt: moment('due_at'),
    /** Failures in a row. */
    attempts: integer('attempts').notNull().default(0),
    lastError: text('last_error'),
  },
  table => [
    primaryKey({ columns: [table.organisationId, table.pullRequestId] }),
    foreignKey({
      columns: [table.organisationId, table.pullRequestId],
      foreignColumns: [pullRequests.organisationId, pullRequests.id],
    }).onDelete('cascade'),
    index('check_runs_failing').on(table.organisationId).where(sql`${table.lastError} is not null`),
  ],
);

/** People whose data was erased. Nothing about them is saved again. */
export const erasedPeople = pgTable(
  'erased_people',
  {
    organisationId: organisationId(),
    /** Of GitHub's id of the person: see `hashOfPerson`. */
    idHash: text('id_hash').notNull(),
    erasedAt: now('erased_at'),
    /** Null until nothing that was stored before is left. */
    finishedAt: moment('finished_at'),
  },
  table => [primaryKey({ columns: [table.organisationId, table.idHash] })],
);

/** Fetched, but not kept: the author was not a member, or the repository is not tracked. They are fetched again when it is. */
export const untrackedPullRequests = pgTable(
  'untracked_pull_requests',
  {
    organisationId: organisationId(),
    githubId: githubId('github_id').notNull(),
    nodeId: text('node_id').notNull(),
    /** Null if the account is gone. */
    authorGithubId: githubId('author_github_id'),
    /** The repository belonged to another owner, or was ignored. */
    awaitsRepository: boolean('awaits_repository').notNull().default(false),
    /** Its state when it was fetched. */
    sourceUpdatedAt: seconds('source_updated_at').notNull(),
  },
  table => [
    primaryKey({ columns: [table.organisationId, table.githubId] }),
    index('untracked_pull_requests_by_author').on(table.organisationId, table.authorGithubId),
  ],
);

/** Tombstones: what was deleted here does not come back before it changes on GitHub. */
export const deletedPullRequests = pgTable(
  'deleted_pull_requests',
  {
    organisationId: organisationId(),
    githubId: githubId('github_id').notNull(),
    sourceUpdatedAt: seconds('source_updated_at').notNull(),
    /** Drawn by the deletion: a fetch with a lower ticket began before it. */
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
    /** With the whole conditions, as they are evaluated. */
    logic: jsonb('logic').$type<RuleLogic[]>().notNull(),
    createdAt: now('created_at'),
  },
  table => [
    primaryKey({ columns: [table.organisationId, table.id] }),
    unique('rules_name').on(table.organisationId, table.name),
  ],
);

/** Every version that was applied, complete and as it was written. */
export const rulesets = pgTable(
  'rulesets',
  {
    organisationId: organisationId(),
    version: integer('version').notNull(),
    definitions: jsonb('definitions').$type<Definition[]>().notNull().default([]),
    rules: jsonb('rules').$type<RuleDefinition[]>().notNull(),
    reviews: jsonb('reviews').$type<RuleDefinition[]>().notNull().default([]),
    /** The text of the file with these rules. */
    source: text('source').notNull(),
    appliedAt: now('applied_at'),
    /** The author, by the operating system or the operator. */
    appliedBy: text('applied_by').notNull(),
    /** When they broke a bound while they were in force; nothing is scored by them any more. */
    suspendedAt: moment('suspended_at'),
    /** The rule and the entry that did. */
    suspension: text('suspension'),
  },
  table => [primaryKey({ columns: [table.organisationId, table.version] })],
);

/** A row says: the scores of the pull requests from one id up to another may be older than the ruleset in force. */
export const rescoreRanges = pgTable(
  'rescore_ranges',
  {
    organisationId: organisationId(),
    fromId: uuid('from_id').notNull(),
    /** Never reused: a different id tells a worker that the range was replaced since it was read. */
    id: uuid('id').notNull().defaultRandom(),
    /** Exclusive; null is the end. */
    untilId: uuid('until_id'),
    /** Small enough for one step; other ranges are split first. */
    isBatch: boolean('is_batch').notNull(),
    /** Repositories were renamed: addresses of pull requests may contain a former name. */
    urlsStale: boolean('urls_stale').notNull().default(false),
    /** Drawn when it was requested: what a later fetch saved was scored after that. */
    ticket: bigint('ticket', { mode: 'number' }).notNull(),
    /** Until then a worker scores the range, and others leave it alone. */
    leasedUntil: moment('leased_until'),
  },
  table => [primaryKey({ columns: [table.organisationId, table.fromId] })],
);

/**
 * The latest changes of a pull request, and earlier ones folded by month. Without a foreign key to the pull request,
 * which would make re-scoring take a third longer.
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
    /** How many changes this row covers: the first was from `from_score`, the last to `to_score`. */
    changes: integer('changes').notNull().default(1),
  },
  table => [
    primaryKey({ columns: [table.organisationId, table.pullRequestId, table.id] }),
    check('score_changes_cause', sql`${table.cause} in ('pull_request', 'ruleset')`),
  ],
);

/**
 * The feed of changes. A row says: this transaction changed pull requests with these ids, namely those whose `changed_by`
 * it is. Others in between have not changed, or changed again later.
 */
export const changes = pgTable(
  'changes',
  {
    organisationId: organisationId(),
    transaction: transactionId('transaction').notNull(),
    fromId: uuid('from_id').notNull(),
    /** Inclusive. */
    untilId: uuid('until_id').notNull(),
    isDeletion: boolean('is_deletion').notNull().default(false),
    recordedAt: now('recorded_at'),
  },
  table => [primaryKey({ columns: [table.organisationId, table.transaction, table.fromId] })],
);

/** A separate table: changing a version must not wait for a lock on the organisation's row. */
export const contentVersions = pgTable('content_versions', {
  organisationId: organisationId().primaryKey(),
  version: uuid('version').notNull(),
  /** Changes also if only what clients don't see has changed. */
  storedVersion: uuid('stored_version').notNull(),
});

export const webhookDeliveries = pgTable(
  'webhook_deliveries',
  {
    organisationId: organisationId(),
    /** `X-GitHub-Delivery`: a redelivery has the same one. */
    guid: text('guid').notNull(),
    event: text('event').notNull(),
    action: text('action').notNull(),
    /** `gone`: GitHub never showed the pull request. */
    state: text('state').$type<'pending' | 'applied' | 'gone'>().notNull(),
    pullRequestGithubId: githubId('pull_request_github_id'),
    /** As the payload gave it: another delivery for the same id may have given another one, and one of them is wrong. */
    pullRequestNodeId: text('pull_request_node_id'),
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

/** A row says: this pull request must be fetched. Many updates of one pull request fold into one row. */
export const syncRequests = pgTable(
  'sync_requests',
  {
    organisationId: organisationId(),
    githubId: githubId('github_id').notNull(),
    nodeId: text('node_id').notNull(),
    /** New with each update: only a fetch that began after that settles the request. */
    ticket: bigint('ticket', { mode: 'number' }).notNull(),
    /** The floor: a webhook named this `updated_at`, and an older answer does not settle the request. */
    minSourceUpdatedAt: seconds('min_source_updated_at'),
    requestedAt: now('requested_at'),
    /** When it is fetched next; later after a failure, or while GitHub lags. Null parks the request. */
    dueAt: moment('due_at').default(sql`now()`),
    /** Failures in a row. */
    attempts: integer('attempts').notNull().default(0),
    lastError: text('last_error'),
    /** Since when GitHub has given the same answer below the floor, or shown nothing. */
    behindSince: moment('behind_since'),
    /** That answer's `updated_at`; null if GitHub did not show the pull request. */
    behindSourceUpdatedAt: seconds('behind_source_updated_at'),
    /** When GitHub last failed on it, alone or with others. */
    failedAt: moment('failed_at'),
    /** It failed with others, and is fetched with half of them until the one is found that makes them fail. */
    isCandidate: boolean('is_candidate').notNull().default(false),
    /** GitHub failed on it alone: it is fetched alone, so that it harms no others. */
    isIsolated: boolean('is_isolated').notNull().default(false),
    /** Nobody waits for it: it only fills requests that have room, and does not use the reserve of points. */
    isBackground: boolean('is_background').notNull().default(false),
  },
  table => [
    primaryKey({ columns: [table.organisationId, table.githubId] }),
    index('sync_requests_by_due').on(table.organisationId, table.dueAt),
    index('sync_requests_by_turn').on(table.organisationId, table.isIsolated, table.isBackground, table.dueAt),
    index('sync_requests_behind').on(table.organisationId, table.dueAt).where(sql`${table.behindSince} is not null`),
  ],
);

/** Changes and their actors. Without a foreign key: the record that an organisation was removed outlives it. */
export const auditEvents = pgTable(
  'audit_events',
  {
    organisationId: uuid('organisation_id').notNull(),
    id: bigserial('id', { mode: 'number' }).notNull(),
    happenedAt: now('happened_at'),
    /** Its login at the time. */
    organisation: text('organisation').notNull(),
    /** The e-mail address of the user whose token it was, or the operating system's user. */
    actor: text('actor').notNull(),
    /** Such as `token.create`. */
    action: text('action').notNull(),
    /** What was changed, such as an id, a login or an e-mail address. */
    subject: text('subject').notNull(),
    /** `x-request-id`, the first one; null for a command. */
    requestId: text('request_id'),
    /** How often a client asked for the same sync within a minute; else 1. */
    count: integer('count').notNull().default(1),
  },
  table => [
    primaryKey({ columns: [table.organisationId, table.id] }),
    index('audit_events_by_time').on(table.organisationId, table.happenedAt),
    index('audit_events_of_removals').on(table.happenedAt).where(sql`${table.action} = 'organisation.remove'`),
  ],
);

/** GitHub's latest limits for a credential. All replicas keep to them. Rows of former credentials are pruned. */
export const githubLimits = pgTable('github_limits', {
  /** A hash of the token; for an App, a hash of its id, a colon and the organisation's id. */
  credential: text('credential').primaryKey(),
  /** No replica uses the credential before this. */
  blockedUntil: now('blocked_until'),
  /** Refusals in a row for which GitHub named no time to try again. */
  refusals: integer('refusals').notNull().default(0),
  /** Points per hour, and how many are left until `reset_at`; null on a server without rate limits. */
  points: integer('points'),
  remainingPoints: integer('remaining_points'),
  resetAt: seconds('reset_at'),
});

/** What each process of `serve` and `worker` tells commands in other shells. */
export const serviceReports = pgTable('service_reports', {
  process: text('process').primaryKey(),
  command: text('command').$type<'serve' | 'worker'>().notNull(),
  /** Where it runs: the name of its host, and its process id there. */
  place: text('place').notNull(),
  startedAt: now('started_at'),
  /** A process that crashed no longer renews this. */
  seenAt: now('seen_at'),
  /** Names of those that are set, such as `GITHUB_TOKEN` or `GITHUB_TOKEN_FILE`, without their values. */
  variables: text('variables').array().notNull(),
  /** The same in all rows: only then can fingerprints be compared. */
  salt: text('salt').notNull(),
  /** A slow hash of the values that processes should share; empty in a row of the release before. */
  fingerprint: text('fingerprint').notNull().default(''),
  /** Of the release before, which reads and writes it. */
  hashes: json('hashes').$type<Readonly<Record<string, string>>>().notNull().default({}),
  /** Webhook deliveries that the process has refused since its start. */
  refusedDeliveries: integer('refused_deliveries').notNull().default(0),
});
