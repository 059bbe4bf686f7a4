import {
  issueCommentEvent,
  type PullRequestWebhook,
  pullRequestEvent,
  reviewCommentEvent,
  reviewEvent,
  reviewThreadEvent,
  type WebhookEvent,
} from './events.ts';
import type { Repository } from './repository.ts';
import { type Account, globalId } from './world.ts';

type ReviewState = 'APPROVED' | 'CHANGES_REQUESTED' | 'COMMENTED' | 'DISMISSED' | 'PENDING';
type Verdict = Exclude<ReviewState, 'DISMISSED'>;

export interface Review {
  id: number;
  nodeId: string;
  author: Account | null;
  state: ReviewState;
  body: string;
  submittedAt: number | null;
  /** On lines of code. */
  comments: number;
}

export interface ChangedFile {
  path: string;
  additions: number;
  deletions: number;
}

/** What is not given is as in a pull request just opened with one commit. */
export type PullRequestOptions = Partial<
  Pick<
    PullRequest,
    | ('additions' | 'assignees' | 'author' | 'authorAssociation' | 'base' | 'body' | 'changedFiles' | 'closedAt')
    | ('comments' | 'commits' | 'createdAt' | 'deletions' | 'draft' | 'files' | 'fromFork' | 'head' | 'id' | 'labels')
    | ('linkedIssues' | 'mergedAt' | 'mergedBy' | 'milestone' | 'number' | 'reviewDecision' | 'state' | 'title')
    | 'updatedAt'
  >
>;

const sum = (files: ChangedFile[], key: 'additions' | 'deletions') =>
  files.reduce((total, file) => total + file[key], 0);

/** Times are Unix seconds. */
export class PullRequest {
  readonly repository: Repository;
  readonly id: number;
  /** A pull request is also an issue, with another id. */
  readonly issueId: number;
  readonly nodeId: string;
  readonly number: number;
  /** Null: the account is gone. By default the organisation's first member, or nobody. */
  readonly author: Account | null;
  readonly createdAt: number;
  /** Undefined: it follows from the author's membership at the time of the request. */
  readonly authorAssociation: string | undefined;
  title: string;
  body = '';
  state: 'CLOSED' | 'MERGED' | 'OPEN' = 'OPEN';
  draft = false;
  base = 'main';
  head: string;
  fromFork = false;
  milestone: string | null = null;
  additions: number;
  deletions: number;
  changedFiles: number;
  commits = 1;
  forcePushes = 0;
  comments = 0;
  linkedIssues = 0;
  /** Null: the branch has no rules for reviews. */
  reviewDecision: string | null = null;
  /** When it was marked as ready for review. */
  readyTimes: number[] = [];
  updatedAt: number;
  mergedAt: number | null;
  closedAt: number | null;
  labels: string[] = [];
  assignees: Account[] = [];
  files: ChangedFile[] = [];
  /** By default the author, once it is merged. */
  mergedBy: Account | null;
  reviews: Review[] = [];
  dismissals: { review: Review; previousState: ReviewState; at: number }[] = [];
  /** Null: of a team. */
  reviewRequests: { reviewer: Account | null; at: number }[] = [];
  /** The webhook of its opening; undefined if it was added as history. */
  opened: PullRequestWebhook | undefined;
  /** What GraphQL shows instead of this: an earlier state, or nothing yet. GitHub's replicas lag behind its webhooks. */
  #held: { before: PullRequest | undefined } | undefined;

  constructor(repository: Repository, number: number, { id, ...options }: PullRequestOptions) {
    const { clock, world, members } = repository.organisation;
    const { files = [], state } = options;
    this.repository = repository;
    this.number = number;
    this.id = id ?? world.nextId('pullRequest');
    this.issueId = world.nextId('issue');
    this.nodeId = globalId('PR', repository.id, this.id);
    this.author = options.author === undefined ? ([...members.values()][0] ?? null) : options.author;
    this.title = `Pull request ${number}`;
    this.head = `branch-${number}`;
    this.additions = sum(files, 'additions');
    this.deletions = sum(files, 'deletions');
    this.changedFiles = files.length;
    this.createdAt = options.createdAt ?? clock.now();
    this.mergedAt = state === 'MERGED' ? this.createdAt : null;
    this.closedAt = options.mergedAt ?? this.mergedAt ?? (state === 'CLOSED' ? this.createdAt : null);
    this.mergedBy = state === 'MERGED' ? this.author : null;
    this.updatedAt = options.closedAt ?? this.closedAt ?? this.createdAt;
    Object.assign(this, options);
  }

  get url(): string {
    return `${this.repository.organisation.world.webUrl}/${this.repository.fullName}/pull/${this.number}`;
  }

  /** GraphQL keeps showing the current state until {@link catchUp}. Webhooks show the present. */
  lag(): void {
    this.#held ??= { before: this.#copy() };
  }

  /** GraphQL shows the present again. */
  catchUp(): void {
    this.#held = undefined;
  }

  /** What GraphQL shows: this, a read-only copy of an earlier state, or nothing yet. */
  shown(): PullRequest | undefined {
    return this.#held ? this.#held.before : this;
  }

  open(): PullRequestWebhook {
    if (this.opened === undefined && this.repository.isLagging) this.#held ??= { before: undefined };
    this.opened = pullRequestEvent(this, 'opened', {}, this.author);
    return this.opened;
  }

  /** Adds commits; lines of `files` that exist already are added up. */
  push(
    change: { commits?: number; files?: ChangedFile[]; additions?: number; deletions?: number } = {},
  ): PullRequestWebhook {
    this.#touch();
    const files = change.files ?? [];
    this.commits += change.commits ?? 1;
    this.additions += change.additions ?? sum(files, 'additions');
    this.deletions += change.deletions ?? sum(files, 'deletions');
    const merged = new Map(this.files.map(file => [file.path, { ...file }]));
    for (const file of files) {
      const known = merged.get(file.path);
      if (!known) this.changedFiles++;
      merged.set(file.path, {
        ...known,
        ...file,
        additions: (known?.additions ?? 0) + file.additions,
        deletions: (known?.deletions ?? 0) + file.deletions,
      });
    }
    this.files = [...merged.values()];
    return pullRequestEvent(this, 'synchronize', { before: '0'.repeat(40), after: 'f'.repeat(40) }, this.author);
  }

  /** Other commits, as many as before. */
  forcePush(): PullRequestWebhook {
    const fields = { before: '0'.repeat(40), after: 'f'.repeat(40) };
    return this.#change('synchronize', () => ({ forcePushes: this.forcePushes + 1 }), fields);
  }

  edit(change: { title?: string; body?: string; base?: string }): PullRequestWebhook {
    this.#touch();
    const changes: Record<string, { from: string }> = {};
    for (const key of ['title', 'body', 'base'] as const) {
      const value = change[key];
      if (value === undefined) continue;
      changes[key] = { from: this[key] };
      this[key] = value;
    }
    return pullRequestEvent(this, 'edited', { changes }, this.author);
  }

  label(name: string): PullRequestWebhook {
    return this.#change('labeled', () => ({ labels: [...new Set([...this.labels, name])] }), { label: { name } });
  }

  unlabel(name: string): PullRequestWebhook {
    const labels = this.labels.filter(label => label !== name);
    return this.#change('unlabeled', () => ({ labels }), { label: { name } });
  }

  assign(account: Account): PullRequestWebhook {
    return this.#change('assigned', () => ({ assignees: [...new Set([...this.assignees, account])] }));
  }

  setMilestone(title: string | null): PullRequestWebhook {
    return this.#change(title === null ? 'demilestoned' : 'milestoned', () => ({ milestone: title }));
  }

  /** GitHub sends no webhook for it. */
  linkIssues(total: number): void {
    this.#touch();
    this.linkedIssues = total;
  }

  markReady(): PullRequestWebhook {
    return this.#change('ready_for_review', at => ({ draft: false, readyTimes: [...this.readyTimes, at] }));
  }

  convertToDraft(): PullRequestWebhook {
    return this.#change('converted_to_draft', () => ({ draft: true }));
  }

  close(by: Account | null = this.author): PullRequestWebhook {
    return this.#change('closed', at => ({ state: 'CLOSED', closedAt: at }), {}, by);
  }

  merge(by: Account | null = this.author): PullRequestWebhook {
    return this.#change('closed', at => ({ state: 'MERGED', mergedBy: by, mergedAt: at, closedAt: at }), {}, by);
  }

  reopen(): PullRequestWebhook {
    return this.#change('reopened', () => ({ state: 'OPEN', closedAt: null }));
  }

  /** @param reviewer null: a team */
  requestReview(reviewer: Account | null): PullRequestWebhook {
    return this.#change('review_requested', at => ({ reviewRequests: [...this.reviewRequests, { reviewer, at }] }));
  }

  /** Only its author sees a pending review: it has no time and no webhook. */
  review(
    author: Account | null,
    state: Verdict = 'COMMENTED',
    { body = '', comments = 0 }: { body?: string; comments?: number } = {},
  ): PullRequestWebhook | undefined {
    const { clock, world } = this.repository.organisation;
    const id = world.nextId('review');
    const submittedAt = state === 'PENDING' ? null : clock.now();
    const review = { id, nodeId: globalId('PRR', this.repository.id, id), author, state, body, submittedAt, comments };
    if (submittedAt !== null) this.#touch();
    this.reviews.push(review);
    return submittedAt === null ? undefined : reviewEvent(this, review, 'submitted', author);
  }

  /** Submits the pending review of `author`. It keeps its place among the reviews, which is that of its beginning. */
  submitReview(author: Account, state: Verdict): PullRequestWebhook {
    const review = this.reviews.find(each => each.author === author && each.state === 'PENDING');
    if (!review) throw new Error(`${author.login} has not begun a review of ${this.url}`);
    this.#touch();
    Object.assign(review, { state, submittedAt: this.updatedAt });
    return reviewEvent(this, review, 'submitted', author);
  }

  /** Dismisses the latest verdict of `author`. */
  dismissReview(author: Account, by: Account | null = this.author): PullRequestWebhook {
    const review = this.reviews.findLast(each => each.author === author && each.state !== 'PENDING');
    if (!review) throw new Error(`${author.login} has not reviewed ${this.url}`);
    this.#touch();
    this.dismissals = [...this.dismissals, { review, previousState: review.state, at: this.updatedAt }];
    review.state = 'DISMISSED';
    return reviewEvent(this, review, 'dismissed', by);
  }

  /** A comment on the conversation: counts in `comments`. */
  comment(author: Account | null, body = 'A remark.'): WebhookEvent {
    this.#touch();
    this.comments++;
    return issueCommentEvent(this, 'created', body, author);
  }

  /** Leaves `updatedAt` as it is, as GitHub may. */
  deleteComment(author: Account | null): WebhookEvent {
    if (this.comments === 0) throw new Error(`${this.url} has no comments`);
    this.#hold();
    this.comments--;
    return issueCommentEvent(this, 'deleted', 'A remark.', author);
  }

  /** An inline comment, which belongs to a review: it does not count in `comments`. */
  reviewComment(author: Account | null, body = 'An inline remark.'): PullRequestWebhook {
    this.review(author, 'COMMENTED', { comments: 1 });
    return reviewCommentEvent(this, body, author);
  }

  resolveThread(by: Account | null = this.author): PullRequestWebhook {
    this.#touch();
    return reviewThreadEvent(this, by);
  }

  /** Its repository's label is renamed, or deleted (null), without a change of any time. */
  replaceLabel(from: string, to: string | null): void {
    if (!this.labels.includes(from)) return;
    this.#hold();
    this.labels = this.labels.flatMap(label => (label === from ? (to ?? []) : label));
  }

  /** Its repository's milestone is renamed, or deleted (null), without a change of any time. */
  replaceMilestone(from: string, to: string | null): void {
    if (this.milestone !== from) return;
    this.#hold();
    this.milestone = to;
  }

  /** GitHub no longer shows it, and sends no webhook. */
  remove(): void {
    const { repository } = this;
    repository.pullRequests.splice(repository.pullRequests.indexOf(this), 1);
    repository.organisation.world.nodes.delete(this.nodeId);
    repository.version++;
  }

  /** Call it before any change: GraphQL may lag. */
  #hold() {
    if (this.repository.isLagging) this.lag();
  }

  /** Call it before a change that moves `updatedAt`. */
  #touch() {
    this.#hold();
    this.updatedAt = Math.max(this.updatedAt, this.repository.organisation.clock.now());
    this.repository.version++;
  }

  /** Reviews are changed in place; all other fields are replaced. */
  #copy(): PullRequest {
    const reviews = this.reviews.map(review => ({ ...review }));
    return Object.assign(Object.create(this), this, { reviews });
  }

  /** @param change gives what is different from now on, by the time of the change */
  #change(
    action: string,
    change: (at: number) => Partial<PullRequest>,
    fields: object = {},
    by: Account | null = this.author,
  ): PullRequestWebhook {
    this.#touch();
    Object.assign(this, change(this.updatedAt));
    return pullRequestEvent(this, action, fields, by);
  }
}
