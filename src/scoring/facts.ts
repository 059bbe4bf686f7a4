/**
 * A pull request as GitHub describes it, and the facts derived from it, which rules read.
 * All times are Unix seconds, whole as GitHub's are.
 */

export type PullRequestState = 'closed' | 'draft' | 'merged' | 'open';

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
  /** Those submitted by anyone but the author. */
  reviews: number;
  /** People whose latest verdict is an approval. */
  approvals: number;
  /** People whose latest verdict asks for changes. */
  changesRequested: number;
  linkedIssues: number;
  createdAt: number;
  sourceUpdatedAt: number;
  mergedAt: number | null;
  closedAt: number | null;
  firstReviewAt: number | null;
  labels: string[];
  assignees: string[];
  /** Paths of the first 100 changed files. */
  files: string[];
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
  draft: 'boolean',
  merged: 'boolean',
  from_fork: 'boolean',
  author_is_bot: 'boolean',
  labels: 'list',
  assignees: 'list',
  files: 'list',
} as const satisfies Record<string, FactType>;

export type FactName = keyof typeof factTypes;

export const isFactName = (name: string): name is FactName => Object.hasOwn(factTypes, name);

interface FactValues {
  number: number;
  text: string;
  boolean: boolean;
  list: readonly string[];
}

/** The facts that may be absent, and why they are; an absent fact is null in {@link Facts}. */
export const absenceReasons = {
  merged_at: 'it is not merged',
  closed_at: 'it is still open',
  hours_to_first_review: 'nobody else has reviewed it',
  hours_to_merge: 'it is not merged',
  hours_to_close: 'it is still open',
  milestone: 'it has no milestone',
} as const satisfies { readonly [Name in FactName]?: string };

export type OptionalFactName = keyof typeof absenceReasons;

export const isOptionalFact = (name: FactName): name is OptionalFactName => Object.hasOwn(absenceReasons, name);

export type Facts = {
  readonly [Name in FactName]: FactValues[(typeof factTypes)[Name]] | (Name extends OptionalFactName ? null : never);
};

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
    draft: record.draft,
    merged: record.state === 'merged',
    from_fork: record.fromFork,
    author_is_bot: record.authorIsBot,
    labels: record.labels,
    assignees: record.assignees,
    files: record.files,
  };
}
