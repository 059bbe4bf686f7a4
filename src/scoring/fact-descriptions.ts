/** What each fact means and where it comes from. The documentation and the JSON Schema are generated from it. */
import { closedLists, type FactName } from './facts.ts';

export interface FactDescription {
  /** One line of documentation. */
  meaning: string;
  /** What a number counts or measures. */
  unit?: string;
  /** Fields of GitHub's `PullRequest`, in GraphQL. */
  sources: readonly string[];
  /** The webhook events that announce changes. */
  webhooks: readonly string[];
  /** How stale it can get by changes that no webhook announces. Without this and without webhooks, it never changes. */
  otherwise?: string;
}

const people = 'people';
const unixTime = 'Unix seconds';
const hours = 'hours, with fractions';

const pullRequest = ['pull_request'];
/** Deleting the last comment of a review without a text deletes the review. */
const review = ['pull_request_review', 'pull_request_review_comment'];
const discussion = [...review, 'pull_request_review_thread', 'issue_comment'];

/** Only the sweep finds such changes: src/database/refetches.ts. */
const aDayIf = (change: string) => `a day if ${change}`;
const diff = { webhooks: pullRequest, otherwise: aDayIf('its base branch took over some of its commits') };
const authorIsGone = "the author's account is gone";

export const factDescriptions: { readonly [Name in FactName]: FactDescription } = {
  number: { meaning: 'The number within the repository.', unit: 'none', sources: ['number'], webhooks: [] },
  additions: { meaning: 'Lines added.', unit: 'lines', sources: ['additions'], ...diff },
  deletions: { meaning: 'Lines removed.', unit: 'lines', sources: ['deletions'], ...diff },
  size: { meaning: 'Lines added and removed together.', unit: 'lines', sources: ['additions', 'deletions'], ...diff },
  changed_files: { meaning: 'All changed files.', unit: 'files', sources: ['changedFiles'], ...diff },
  commits: { meaning: 'Commits.', unit: 'commits', sources: ['commits.totalCount'], ...diff },
  comments: {
    meaning: 'Comments in the conversation, without those on lines of code.',
    unit: 'comments',
    sources: ['comments.totalCount'],
    webhooks: ['issue_comment'],
  },
  reviews: {
    meaning: 'Reviews submitted by people other than the author.',
    unit: 'reviews',
    sources: ['reviews.totalCount', 'reviews.nodes.author'],
    webhooks: review,
    otherwise: aDayIf(authorIsGone),
  },
  approvals: {
    meaning: 'People whose latest verdict is an approval.',
    unit: people,
    sources: ['latestOpinionatedReviews.nodes.state', 'latestOpinionatedReviews.nodes.author'],
    webhooks: ['pull_request_review'],
    otherwise: aDayIf("a reviewer's account is gone"),
  },
  changes_requested: {
    meaning: 'People whose latest verdict asks for changes.',
    unit: people,
    sources: ['latestOpinionatedReviews.nodes.state', 'latestOpinionatedReviews.nodes.author'],
    webhooks: ['pull_request_review'],
    otherwise: aDayIf("a reviewer's account is gone"),
  },
  times_changes_requested: {
    meaning: 'How often people asked for changes, whatever they said later, and even if it was dismissed.',
    unit: 'reviews',
    sources: ['reviews.nodes.state', 'reviews.nodes.author', 'timelineItems.nodes.previousReviewState'],
    webhooks: ['pull_request_review'],
    otherwise: aDayIf(authorIsGone),
  },
  writer_approvals: {
    meaning: 'Of the `approvals`, those by people who may push to the repository.',
    unit: people,
    sources: ['latestOpinionatedReviews.nodes.state', 'latestOpinionatedReviews.nodes.authorCanPushToRepository'],
    webhooks: ['pull_request_review'],
    otherwise: aDayIf("a reviewer's rights changed or the account is gone"),
  },
  bot_reviews: {
    meaning: 'Reviews submitted by apps other than the author.',
    unit: 'reviews',
    sources: ['reviews.nodes.author'],
    webhooks: review,
    otherwise: aDayIf('the app is gone'),
  },
  linked_issues: {
    meaning: 'Issues that it closes when it is merged.',
    unit: 'issues',
    sources: ['closingIssuesReferences.totalCount'],
    webhooks: pullRequest,
    otherwise: aDayIf('an issue was linked by hand, moved or deleted'),
  },
  created_at: { meaning: 'When it was opened.', unit: unixTime, sources: ['createdAt'], webhooks: [] },
  updated_at: {
    meaning: 'When it last changed on GitHub.',
    unit: unixTime,
    sources: ['updatedAt'],
    webhooks: [...pullRequest, ...discussion],
    otherwise: 'until the next comparison if anything else changed it',
  },
  merged_at: { meaning: 'When it was merged.', unit: unixTime, sources: ['mergedAt'], webhooks: pullRequest },
  closed_at: {
    meaning: 'When it was closed; merging closes it, too.',
    unit: unixTime,
    sources: ['closedAt'],
    webhooks: pullRequest,
  },
  hours_to_first_review: {
    meaning: 'From opening to the first review by a person other than the author.',
    unit: hours,
    sources: ['createdAt', 'reviews.nodes.submittedAt', 'reviews.nodes.author'],
    webhooks: review,
    otherwise: aDayIf(authorIsGone),
  },
  hours_to_merge: {
    meaning: 'From opening to merging.',
    unit: hours,
    sources: ['createdAt', 'mergedAt'],
    webhooks: pullRequest,
  },
  hours_to_close: {
    meaning: 'From opening to closing.',
    unit: hours,
    sources: ['createdAt', 'closedAt'],
    webhooks: pullRequest,
  },
  title: { meaning: 'The title.', sources: ['title'], webhooks: pullRequest },
  body: {
    meaning: 'The description, in Markdown as written; empty if there is none.',
    sources: ['body'],
    webhooks: pullRequest,
  },
  state: {
    meaning: '`"merged"`, else `"closed"`, else `"draft"`, else `"open"`: the first that fits.',
    sources: ['state', 'isDraft'],
    webhooks: pullRequest,
  },
  author: {
    meaning: "The author's login; `ghost` if the account is gone.",
    sources: ['author.login'],
    webhooks: [],
    otherwise: aDayIf('the author was renamed or the account is gone'),
  },
  author_association: {
    meaning: `The author's standing in the repository: ${closedLists.author_association.map(text => `\`"${text}"\``).join(', ')}.`,
    sources: ['authorAssociation'],
    webhooks: [],
    otherwise: aDayIf('the author joined, left or got another role'),
  },
  base: {
    meaning: 'The branch that it is merged into.',
    sources: ['baseRefName'],
    webhooks: pullRequest,
    otherwise: aDayIf('the branch was renamed'),
  },
  head: {
    meaning: 'The branch that it comes from.',
    sources: ['headRefName'],
    webhooks: [],
    otherwise: aDayIf('the branch was renamed'),
  },
  repository: {
    meaning: 'The repository, as `owner/name`.',
    sources: ['repository.owner.login', 'repository.name'],
    webhooks: ['repository', 'organization'],
  },
  milestone: {
    meaning: "The milestone's title.",
    sources: ['milestone.title'],
    webhooks: [...pullRequest, 'milestone'],
  },
  merged_by: {
    meaning: 'The login of who merged it; `ghost` if the account is gone.',
    sources: ['mergedBy.login'],
    webhooks: pullRequest,
    otherwise: aDayIf('the account was renamed or is gone'),
  },
  draft: {
    meaning: 'Whether it is marked as a draft. A closed draft still is, though its `state` is `"closed"`.',
    sources: ['isDraft'],
    webhooks: pullRequest,
  },
  merged: { meaning: 'Whether it is merged.', sources: ['state'], webhooks: pullRequest },
  from_fork: { meaning: 'Whether it comes from another repository.', sources: ['isCrossRepository'], webhooks: [] },
  author_is_bot: {
    meaning: 'Whether the author is an app.',
    sources: ['author.__typename'],
    webhooks: [],
    otherwise: aDayIf(authorIsGone),
  },
  self_merged: {
    meaning: 'Whether the author merged it. False before it is merged, and before `merged_by` is known.',
    sources: ['mergedBy', 'author'],
    webhooks: pullRequest,
    otherwise: aDayIf(authorIsGone),
  },
  labels: {
    meaning: 'The names of its labels, the first 100.',
    sources: ['labels.nodes.name'],
    webhooks: [...pullRequest, 'label'],
  },
  assignees: {
    meaning: 'The logins of its assignees, the first 20.',
    sources: ['assignees.nodes.login'],
    webhooks: pullRequest,
    otherwise: aDayIf('a person was renamed or the account is gone'),
  },
  files: {
    meaning: 'The paths of the changed files. GitHub lists up to 3,000; `changed_files` counts them all.',
    sources: ['files.nodes.path'],
    ...diff,
  },
};
