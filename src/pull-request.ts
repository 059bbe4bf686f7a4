/** A pull request as GitHub describes it. All times are Unix seconds, whole as GitHub's are. */

export const pullRequestStates = ['open', 'draft', 'closed', 'merged'] as const;
export type PullRequestState = (typeof pullRequestStates)[number];

export const reviewVerdicts = ['approved', 'changes_requested', 'commented'] as const;

/** A person or a bot that reviewed a pull request, other than its author. */
export interface Reviewer {
  /** `mem_…`; null if they are not a member, or their account is gone. */
  member: string | null;
  /** Null if they are neither a member nor a bot. */
  login: string | null;
  isBot: boolean;
  /** Their last one that is not dismissed; a comment does not replace an approval. Null if all are dismissed. */
  verdict: (typeof reviewVerdicts)[number] | null;
  /** Those on lines of code, in all their reviews. */
  comments: number;
  firstReviewAt: number;
  /** When their first review was first asked of them by name; null if it was not. */
  requestedAt: number | null;
  mayWrite: boolean;
}

/** Later reviewers get no points: so many results are stored for one pull request at most. */
export const maxReviewers = 500;

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
  /** Of the people who submitted `reviews`, how many there are. Null until the next fetch. */
  distinctReviewers: number | null;
  /** What the branch's rules make of the reviews, as GitHub calls it. Null if they ask for none, or until the next fetch. */
  reviewDecision: string | null;
  /** When it was last marked as ready, or opened if it never was a draft. Null for a draft, and until the next fetch. */
  readyAt: number | null;
  /** In the order of their first reviews, up to {@link maxReviewers}. Null until the next fetch. */
  reviewers: Reviewer[] | null;
  /** Null until the next fetch. */
  repositoryIsArchived: boolean | null;
  repositoryIsPrivate: boolean | null;
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
  /** For each of `files`, two numbers: lines added, and lines removed. Null if GitHub does not list the files. */
  fileChanges: number[] | null;
}
