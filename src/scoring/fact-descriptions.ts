/** What each fact means and where it comes from. The documentation and the JSON Schema are made from this table. */
import type { FactName } from './facts.ts';

export interface FactDescription {
  /** One line of documentation. */
  meaning: string;
  /** Of a number: what it counts or measures. */
  unit?: string;
  /** Fields of GitHub's `PullRequest`, in GraphQL. */
  sources: readonly string[];
}

const people = 'people';
const unixTime = 'Unix seconds';
const hours = 'hours, with fractions';

export const factDescriptions: { readonly [Name in FactName]: FactDescription } = {
  number: { meaning: 'Its number within the repository.', unit: 'none', sources: ['number'] },
  additions: { meaning: 'Lines added.', unit: 'lines', sources: ['additions'] },
  deletions: { meaning: 'Lines removed.', unit: 'lines', sources: ['deletions'] },
  size: { meaning: 'Lines added and removed together.', unit: 'lines', sources: ['additions', 'deletions'] },
  changed_files: { meaning: 'Files changed, all of them.', unit: 'files', sources: ['changedFiles'] },
  commits: { meaning: 'Its commits.', unit: 'commits', sources: ['commits.totalCount'] },
  comments: {
    meaning: 'Comments in the conversation; remarks on lines of code are not among them.',
    unit: 'comments',
    sources: ['comments.totalCount'],
  },
  reviews: {
    meaning: 'Reviews submitted by anyone but the author.',
    unit: 'reviews',
    sources: ['reviews.totalCount', 'reviews.nodes.author'],
  },
  approvals: {
    meaning: 'People whose latest verdict is an approval.',
    unit: people,
    sources: ['latestOpinionatedReviews.nodes.state'],
  },
  changes_requested: {
    meaning: 'People whose latest verdict asks for changes.',
    unit: people,
    sources: ['latestOpinionatedReviews.nodes.state'],
  },
  linked_issues: {
    meaning: 'Issues that it closes when it is merged.',
    unit: 'issues',
    sources: ['closingIssuesReferences.totalCount'],
  },
  created_at: { meaning: 'When it was opened.', unit: unixTime, sources: ['createdAt'] },
  updated_at: { meaning: 'When GitHub last saw it change.', unit: unixTime, sources: ['updatedAt'] },
  merged_at: { meaning: 'When it was merged.', unit: unixTime, sources: ['mergedAt'] },
  closed_at: { meaning: 'When it was closed; being merged closes it.', unit: unixTime, sources: ['closedAt'] },
  hours_to_first_review: {
    meaning: 'From its opening to the first review by another.',
    unit: hours,
    sources: ['createdAt', 'reviews.nodes.submittedAt'],
  },
  hours_to_merge: { meaning: 'From its opening to its merging.', unit: hours, sources: ['createdAt', 'mergedAt'] },
  hours_to_close: { meaning: 'From its opening to its closing.', unit: hours, sources: ['createdAt', 'closedAt'] },
  title: { meaning: 'Its title.', sources: ['title'] },
  body: { meaning: 'Its description, in Markdown as written; empty where there is none.', sources: ['body'] },
  state: {
    meaning: '`"merged"`, else `"closed"`, else `"draft"`, else `"open"`: the first that fits.',
    sources: ['state', 'isDraft'],
  },
  author: { meaning: "Its author's login; `ghost` where the account is gone.", sources: ['author.login'] },
  author_association: {
    meaning: "The author's standing in the repository: `MEMBER`, `OWNER`, `COLLABORATOR`, `CONTRIBUTOR` and the like.",
    sources: ['authorAssociation'],
  },
  base: { meaning: 'The branch that it goes into.', sources: ['baseRefName'] },
  head: { meaning: 'The branch that it comes from.', sources: ['headRefName'] },
  repository: {
    meaning: 'Its repository, as `owner/name`.',
    sources: ['repository.owner.login', 'repository.name'],
  },
  milestone: { meaning: "Its milestone's title.", sources: ['milestone.title'] },
  draft: {
    meaning: 'Whether it is marked as a draft. A draft that was closed still is, though its `state` is `"closed"`.',
    sources: ['isDraft'],
  },
  merged: { meaning: 'Whether it is merged.', sources: ['state'] },
  from_fork: { meaning: 'Whether it comes from another repository.', sources: ['isCrossRepository'] },
  author_is_bot: { meaning: 'Whether its author is an app.', sources: ['author.__typename'] },
  labels: { meaning: 'The names of its labels, the first 100.', sources: ['labels.nodes.name'] },
  assignees: { meaning: 'The logins of its assignees, the first 20.', sources: ['assignees.nodes.login'] },
  files: {
    meaning: 'The paths of the changed files, the first 100. `changed_files` counts them all.',
    sources: ['files.nodes.path'],
  },
};
