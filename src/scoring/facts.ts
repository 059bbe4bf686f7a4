/** The facts: what rules read of a pull request. */
import { type PullRequestRecord, pullRequestStates, type Reviewer, reviewVerdicts } from '../pull-request.ts';

interface FactValues {
  number: number;
  text: string;
  boolean: boolean;
  list: readonly string[];
}

export type FactType = keyof FactValues;

export type Field = keyof PullRequestRecord;
type FieldOf<Type extends FactType> = {
  [Name in Field]: PullRequestRecord[Name] extends FactValues[Type] | null ? Name : never;
}[Field];

interface Fact<Type extends FactType = FactType> {
  readonly type: Type;
  /** The field that holds it, or all fields that `read` reads. */
  readonly from: FieldOf<Type> | readonly Field[];
  /** Undefined if a field holds the fact itself. */
  readonly read?: (record: PullRequestRecord) => FactValues[Type] | null;
  /** Why it is absent (null in {@link Facts}); undefined if it never is. */
  readonly absence?: string;
  /** All the values that GitHub has for it; undefined if there can be others. */
  readonly values?: readonly string[];
  /** It is one of a review: rules below `reviews:` alone read it. */
  readonly isOfReview?: true;
}

/** Why a fact is absent that GitHub did not give. */
export const unknownReason = 'it is not known until the next fetch';

export const hoursBetween = (start: number | null, end: number | null): number | null =>
  start === null || end === null ? null : (end - start) / 3600;

type Moment = 'createdAt' | 'readyAt' | 'firstReviewAt' | 'mergedAt' | 'closedAt';

const hours = (begin: Moment, end: Moment, absence: string) =>
  ({
    type: 'number',
    from: [begin, end],
    read: (record: PullRequestRecord) => hoursBetween(record[begin], record[end]),
    absence,
  }) as const;

const unknownIsFalse = (field: 'repositoryIsArchived' | 'repositoryIsPrivate') =>
  ({ type: 'boolean', from: [field], read: (record: PullRequestRecord) => record[field] ?? false }) as const;

/** `readReviews` gives their values. */
const ofReview = { from: ['reviewers', 'readyAt'], isOfReview: true } as const;

const table = {
  number: { type: 'number', from: 'number' },
  additions: { type: 'number', from: 'additions' },
  deletions: { type: 'number', from: 'deletions' },
  size: { type: 'number', from: ['additions', 'deletions'], read: ({ additions, deletions }) => additions + deletions },
  changed_files: { type: 'number', from: 'changedFiles' },
  commits: { type: 'number', from: 'commits' },
  comments: { type: 'number', from: 'comments' },
  reviews: { type: 'number', from: 'reviews' },
  approvals: { type: 'number', from: 'approvals' },
  changes_requested: { type: 'number', from: 'changesRequested' },
  times_changes_requested: { type: 'number', from: 'timesChangesRequested' },
  writer_approvals: { type: 'number', from: 'writerApprovals' },
  bot_reviews: { type: 'number', from: 'botReviews' },
  linked_issues: { type: 'number', from: 'linkedIssues' },
  distinct_reviewers: { type: 'number', from: 'distinctReviewers', absence: unknownReason },
  created_at: { type: 'number', from: 'createdAt' },
  updated_at: { type: 'number', from: 'sourceUpdatedAt' },
  merged_at: { type: 'number', from: 'mergedAt', absence: 'it is not merged' },
  closed_at: { type: 'number', from: 'closedAt', absence: 'it is still open' },
  ready_at: { type: 'number', from: 'readyAt', absence: `it is a draft, or ${unknownReason}` },
  hours_to_first_review: hours('createdAt', 'firstReviewAt', 'nobody else has reviewed it'),
  hours_to_merge: hours('createdAt', 'mergedAt', 'it is not merged'),
  hours_to_close: hours('createdAt', 'closedAt', 'it is still open'),
  hours_from_ready_to_first_review: {
    type: 'number',
    from: ['readyAt', 'firstReviewAt'],
    // It may have been reviewed as a draft.
    read: ({ readyAt, firstReviewAt }) =>
      hoursBetween(readyAt, firstReviewAt === null ? null : Math.max(firstReviewAt, readyAt ?? 0)),
    absence: 'nobody else has reviewed it, or `ready_at` is absent',
  },
  hours_from_ready_to_merge: hours('readyAt', 'mergedAt', 'it is not merged, or `ready_at` is absent'),
  title: { type: 'text', from: 'title' },
  body: { type: 'text', from: 'body' },
  state: { type: 'text', from: 'state', values: pullRequestStates },
  author: { type: 'text', from: 'author' },
  author_association: {
    type: 'text',
    from: 'authorAssociation',
    values: [
      'COLLABORATOR',
      'CONTRIBUTOR',
      'FIRST_TIMER',
      'FIRST_TIME_CONTRIBUTOR',
      'MANNEQUIN',
      'MEMBER',
      'NONE',
      'OWNER',
    ],
  },
  base: { type: 'text', from: 'base' },
  head: { type: 'text', from: 'head' },
  repository: { type: 'text', from: 'repository' },
  milestone: { type: 'text', from: 'milestone', absence: 'it has no milestone' },
  merged_by: { type: 'text', from: 'mergedBy', absence: 'it is not merged' },
  review_decision: {
    type: 'text',
    from: 'reviewDecision',
    absence: `its branch asks for no review, or ${unknownReason}`,
    values: ['APPROVED', 'CHANGES_REQUESTED', 'REVIEW_REQUIRED'],
  },
  draft: { type: 'boolean', from: 'draft' },
  merged: { type: 'boolean', from: ['state'], read: ({ state }) => state === 'merged' },
  from_fork: { type: 'boolean', from: 'fromFork' },
  author_is_bot: { type: 'boolean', from: 'authorIsBot' },
  self_merged: { type: 'boolean', from: 'selfMerged' },
  repository_is_archived: unknownIsFalse('repositoryIsArchived'),
  repository_is_private: unknownIsFalse('repositoryIsPrivate'),
  labels: { type: 'list', from: 'labels' },
  assignees: { type: 'list', from: 'assignees' },
  files: { type: 'list', from: 'files' },
  reviewer: { ...ofReview, type: 'text', absence: 'the reviewer is not a member' },
  verdict: { ...ofReview, type: 'text', absence: 'every review of theirs was dismissed', values: reviewVerdicts },
  review_comments: { ...ofReview, type: 'number' },
  hours_to_review: { ...ofReview, type: 'number' },
  reviewer_is_member: { ...ofReview, type: 'boolean' },
  reviewer_may_write: { ...ofReview, type: 'boolean' },
  reviewer_is_bot: { ...ofReview, type: 'boolean' },
  was_requested: { ...ofReview, type: 'boolean' },
} as const satisfies Record<string, { [Type in FactType]: Fact<Type> }[FactType]>;

type Table = typeof table;
export type FactName = keyof Table;
type ReviewFactName = { [Name in FactName]: Table[Name] extends { isOfReview: true } ? Name : never }[FactName];

/** The variables of the rule language. */
export const factTable: { readonly [Name in FactName]: Fact } = table;
export const factNames = Object.keys(table) as FactName[];
/** Of a pull request, whoever reviewed it. */
export const pullRequestFactNames = factNames.filter(name => !factTable[name].isOfReview);

/** Of a review, besides those of its pull request. */
export const reviewFactNames = factNames.filter((name): name is ReviewFactName => factTable[name].isOfReview === true);

export const isFactName = (name: string): name is FactName => Object.hasOwn(table, name);

/** What rules can't name: functions read {@link PullRequestRecord.fileChanges}, and `readReviews` makes the reviews. */
const hiddenFields = { file_changes: ['fileChanges'], given_reviews: ofReview.from } as const;

/** What expressions read. */
export type SourceName = FactName | keyof typeof hiddenFields;

/** Undefined for what rules can't name. */
export const factOf = (name: SourceName): Fact | undefined => (isFactName(name) ? factTable[name] : undefined);

type ValuesOf<Names extends FactName> = {
  readonly [Name in Names]: FactValues[Table[Name]['type']] | (Table[Name] extends { absence: string } ? null : never);
};

/** What rules read of one review, and who gets its points: `mem_…`, null for nobody. */
export type ReviewFacts = ValuesOf<ReviewFactName> & { readonly member: string | null };

/** Of a pull request, or of a review with those of its pull request. */
export type Facts = ValuesOf<Exclude<FactName, ReviewFactName>> &
  Partial<ReviewFacts> & {
    readonly file_changes: readonly number[] | null;
    readonly given_reviews: readonly ReviewFacts[] | null;
  };

function readReviews({ reviewers, readyAt }: PullRequestRecord): ReviewFacts[] | null {
  const hoursTo = ({ firstReviewAt, requestedAt }: Reviewer) => {
    const begin = Math.max(readyAt ?? firstReviewAt, requestedAt ?? 0);
    // It may have been reviewed as a draft.
    return (Math.max(firstReviewAt, begin) - begin) / 3600;
  };
  if (reviewers === null) return null;
  return reviewers.map(reviewer => ({
    member: reviewer.member,
    reviewer: reviewer.login,
    verdict: reviewer.verdict,
    review_comments: reviewer.comments,
    hours_to_review: hoursTo(reviewer),
    reviewer_is_member: reviewer.member !== null,
    reviewer_may_write: reviewer.mayWrite,
    reviewer_is_bot: reviewer.isBot,
    was_requested: reviewer.requestedAt !== null,
  }));
}

const emptyValues = { number: 0, text: '', boolean: false, list: [] } as const satisfies FactValues;

/** Facts that can be absent are; the others are 0, false or empty. */
const emptyOf = (names: readonly FactName[]) =>
  Object.fromEntries(
    names.map(name => {
      const { type, absence } = factTable[name];
      return [name, absence === undefined ? emptyValues[type] : null];
    }),
  );

export const emptyFacts = { ...emptyOf(pullRequestFactNames), file_changes: [], given_reviews: [] } as unknown as Facts;

/** By nobody. */
export const emptyReview = { ...emptyOf(reviewFactNames), member: null } as unknown as ReviewFacts;

/** The fields from which a fact is read. */
export function fieldsOf(name: SourceName): readonly Field[] {
  const from = isFactName(name) ? factTable[name].from : hiddenFields[name];
  return typeof from === 'string' ? [from] : from;
}

const sourceNames: readonly SourceName[] = [...pullRequestFactNames, 'file_changes', 'given_reviews'];
const readers = new Map<SourceName, (record: PullRequestRecord) => unknown>([
  ...sourceNames.map(name => {
    const [field] = fieldsOf(name);
    return [name, factOf(name)?.read ?? ((record: PullRequestRecord) => record[field as Field])] as const;
  }),
  ['given_reviews', readReviews],
]);

/** @param names the facts that are read; the others are empty. Those of reviews are in `given_reviews`. */
export function factsOf(record: PullRequestRecord, names: Iterable<SourceName> = sourceNames): Facts {
  const facts: Record<string, unknown> = { ...emptyFacts };
  for (const name of names) facts[name] = readers.get(name)?.(record);
  return facts as Facts;
}
