/**
 * A pull request as GitHub describes it, and the facts derived from it, which rules read.
 * All times are Unix seconds, whole as GitHub's are.
 */

export type PullRequestState = (typeof closedLists)['state'][number];

/** What is fetched from GitHub and stored: everything a score can depend on. */
export interface PullRequestRecord {
  /** `owner/name` */
  repository: string;
  number: number;
  title: string;
  body: string;
  state: PullRequestState;
  /** GitHub's flag: a draft stays one if it is closed. */
  draft: boolean;
  author: string;
  authorAssociation: string;
  authorIsBot: boolean;
  base: string;
  head: string;
  fromFork: boolean;
  milestone: string | null;
  additions: number;
  deletions: number;
  changedFiles: number;
  commits: number;
  /** Those in the conversation, without those on lines of code. */
  comments: number;
  /** Those submitted by people other than the author. */
  reviews: number;
  /** People whose latest verdict is an approval. */
  approvals: number;
  /** People whose latest verdict asks for changes. */
  changesRequested: number;
  /** Of the approvals, those by people who may push. */
  writerApprovals: number;
  /** How often people asked for changes, whatever their latest verdict is. */
  timesChangesRequested: number;
  /** Reviews submitted by bots other than the author. */
  botReviews: number;
  linkedIssues: number;
  createdAt: number;
  sourceUpdatedAt: number;
  mergedAt: number | null;
  closedAt: number | null;
  /** Null also if it is not merged. */
  mergedBy: string | null;
  selfMerged: boolean;
  /** By a person other than the author. */
  firstReviewAt: number | null;
  labels: string[];
  assignees: string[];
  /** Paths of the changed files: all of them, up to GitHub's 3,000. */
  files: string[];
  /**
   * For each of `files`, three numbers: lines added, lines removed, and 0. In place of the 0, the release before stored what
   * happened to the file, and it expects a number there while replicas are replaced.
   */
  fileChanges: number[] | null;
}

export type FactType = 'number' | 'text' | 'boolean' | 'list';

/** The variables of the rule language and their types. */
export const factTypes = {
  number: 'number',
  additions: 'number',
  deletions: 'number',
  size: 'number',
  changed_files: 'number',
  commits: 'number',
  comments: 'number',
  reviews: 'number',
  approvals: 'number',
  changes_requested: 'number',
  times_changes_requested: 'number',
  writer_approvals: 'number',
  bot_reviews: 'number',
  linked_issues: 'number',
  created_at: 'number',
  updated_at: 'number',
  merged_at: 'number',
  closed_at: 'number',
  hours_to_first_review: 'number',
  hours_to_merge: 'number',
  hours_to_close: 'number',
  title: 'text',
  body: 'text',
  state: 'text',
  author: 'text',
  author_association: 'text',
  base: 'text',
  head: 'text',
  repository: 'text',
  milestone: 'text',
  merged_by: 'text',
  draft: 'boolean',
  merged: 'boolean',
  from_fork: 'boolean',
  author_is_bot: 'boolean',
  self_merged: 'boolean',
  labels: 'list',
  assignees: 'list',
  files: 'list',
} as const satisfies Record<string, FactType>;

export type FactName = keyof typeof factTypes;

/** What functions read and rules can't name: {@link PullRequestRecord.fileChanges}. */
type HiddenFact = 'file_changes';

/** What expressions read. */
export type SourceName = FactName | HiddenFact;

export const isFactName = (name: string): name is FactName => Object.hasOwn(factTypes, name);

/** Text facts with a closed list of values: all the values that GitHub has for each. */
export const closedLists = {
  state: ['open', 'draft', 'closed', 'merged'],
  author_association: [
    'COLLABORATOR',
    'CONTRIBUTOR',
    'FIRST_TIMER',
    'FIRST_TIME_CONTRIBUTOR',
    'MANNEQUIN',
    'MEMBER',
    'NONE',
    'OWNER',
  ],
} as const satisfies { readonly [Name in FactName]?: readonly string[] };

export const hasClosedList = (name: SourceName): name is keyof typeof closedLists => Object.hasOwn(closedLists, name);

interface FactValues {
  number: number;
  text: string;
  boolean: boolean;
  list: readonly string[];
}

/** Why a fact is absent that GitHub did not give. */
export const unknownReason = 'it is not known until the next fetch';

/** The facts that may be absent, and why they are; an absent fact is null in {@link Facts}. */
export const absenceReasons = {
  merged_at: 'it is not merged',
  closed_at: 'it is still open',
  hours_to_first_review: 'nobody else has reviewed it',
  hours_to_merge: 'it is not merged',
  hours_to_close: 'it is still open',
  milestone: 'it has no milestone',
  merged_by: 'it is not merged',
} as const satisfies { readonly [Name in FactName]?: string };

export type OptionalFactName = keyof typeof absenceReasons;

export const isOptionalFact = (name: SourceName): name is OptionalFactName => Object.hasOwn(absenceReasons, name);

export type Facts = {
  readonly [Name in FactName]: FactValues[(typeof factTypes)[Name]] | (Name extends OptionalFactName ? null : never);
} & { readonly [Name in HiddenFact]: readonly number[] | null };

export const hoursBetween = (start: number | null, end: number | null): number | null =>
  start === null || end === null ? null : (end - start) / 3600;

export function factsOf(record: PullRequestRecord): Facts {
  return {
    number: record.number,
    additions: record.additions,
    deletions: record.deletions,
    size: record.additions + record.deletions,
    changed_files: record.changedFiles,
    commits: record.commits,
    comments: record.comments,
    reviews: record.reviews,
    approvals: record.approvals,
    changes_requested: record.changesRequested,
    times_changes_requested: record.timesChangesRequested,
    writer_approvals: record.writerApprovals,
    bot_reviews: record.botReviews,
    linked_issues: record.linkedIssues,
    created_at: record.createdAt,
    updated_at: record.sourceUpdatedAt,
    merged_at: record.mergedAt,
    closed_at: record.closedAt,
    hours_to_first_review: hoursBetween(record.createdAt, record.firstReviewAt),
    hours_to_merge: hoursBetween(record.createdAt, record.mergedAt),
    hours_to_close: hoursBetween(record.createdAt, record.closedAt),
    title: record.title,
    body: record.body,
    state: record.state,
    author: record.author,
    author_association: record.authorAssociation,
    base: record.base,
    head: record.head,
    repository: record.repository,
    milestone: record.milestone,
    merged_by: record.mergedBy,
    draft: record.draft,
    merged: record.state === 'merged',
    from_fork: record.fromFork,
    author_is_bot: record.authorIsBot,
    self_merged: record.selfMerged ?? false,
    labels: record.labels,
    assignees: record.assignees,
    files: record.files,
    file_changes: record.fileChanges,
  };
}
