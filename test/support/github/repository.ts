import { repositoryEvent, type WebhookEvent } from './events.ts';
import type { Organisation } from './organisation.ts';
import { labelPayload, milestonePayload, organisationPayload } from './payloads.ts';
import { PullRequest, type PullRequestOptions } from './pull-request.ts';
import { Tags } from './tags.ts';
import { globalId } from './world.ts';

/** As GraphQL's `CheckRun`. */
export interface CheckRun {
  headSha: string;
  name: string;
  conclusion: string;
  externalId: string | undefined;
  title: string;
  summary: string;
}

type PullRequestOrder = 'createdAt' | 'updatedAt';

const by = (order: PullRequestOrder) => (a: PullRequest, b: PullRequest) => a[order] - b[order] || a.id - b.id;

export class Repository {
  organisation: Organisation;
  readonly id: number;
  readonly nodeId: string;
  name: string;
  readonly createdAt: number;
  removed = false;
  archived = false;
  fork = false;
  private = false;
  readonly pullRequests: PullRequest[] = [];
  /** GitHub ids of members who may not push. */
  readonly readers = new Set<number>();
  /** Created by Apps, oldest first. */
  readonly checkRuns: CheckRun[] = [];
  readonly labels: Tags;
  readonly milestones: Tags;
  /** Changes with every change of a pull request: sorted lists are cached until then. */
  version = 0;
  isLagging = false;
  #nextNumber = 1;
  readonly #sorted = new Map<PullRequestOrder, { version: number; pullRequests: PullRequest[] }>();

  constructor(organisation: Organisation, name: string) {
    const { clock, world } = organisation;
    this.organisation = organisation;
    this.name = name;
    this.id = world.nextId('repository');
    this.nodeId = globalId('R', this.id);
    this.createdAt = clock.now();
    this.labels = new Tags(world, 'label');
    this.milestones = new Tags(world, 'milestone');
    organisation.repositories.push(this);
    world.nodes.set(this.nodeId, this);
    this.#emit('created', {});
  }

  get fullName(): string {
    return `${this.organisation.login}/${this.name}`;
  }

  get updatedAt(): number {
    return Math.max(this.createdAt, ...this.pullRequests.map(each => each.updatedAt));
  }

  /** GraphQL shows new pull requests and changes of any only after {@link catchUp}. Webhooks announce them at once. */
  lag(): void {
    this.isLagging = true;
  }

  /** GraphQL shows all pull requests as they are, and no longer lags. */
  catchUp(): void {
    this.isLagging = false;
    for (const pullRequest of this.pullRequests) pullRequest.catchUp();
  }

  /** Opens one and sends {@link PullRequest.opened} to the webhooks. */
  openPullRequest(options: PullRequestOptions = {}): PullRequest {
    const pullRequest = this.addPullRequest(options);
    pullRequest.open();
    return pullRequest;
  }

  /** Adds one without a webhook, as history. */
  addPullRequest(options: PullRequestOptions = {}): PullRequest {
    const number = options.number ?? this.#nextNumber;
    this.#nextNumber = Math.max(this.#nextNumber, number + 1);
    const pullRequest = new PullRequest(this, number, options);
    this.pullRequests.push(pullRequest);
    this.organisation.world.nodes.set(pullRequest.nodeId, pullRequest);
    this.version++;
    return pullRequest;
  }

  /** Ascending; equal times by id. */
  sortedBy(order: PullRequestOrder): PullRequest[] {
    const known = this.#sorted.get(order);
    if (known?.version === this.version) return known.pullRequests;
    const pullRequests = this.pullRequests.toSorted(by(order));
    this.#sorted.set(order, { version: this.version, pullRequests });
    return pullRequests;
  }

  /** As GraphQL shows them, in its order. */
  shownBy(order: PullRequestOrder): PullRequest[] {
    const present = this.sortedBy(order);
    if (present.every(pullRequest => pullRequest.shown() === pullRequest)) return present;
    return present.flatMap(pullRequest => pullRequest.shown() ?? []).sort(by(order));
  }

  /** What GitHub shows on a commit: the latest check run of the name. */
  checkRunOn(headSha: string): CheckRun | undefined {
    return this.checkRuns.findLast(each => each.headSha === headSha);
  }

  rename(name: string): WebhookEvent {
    const from = this.name;
    this.remember();
    this.name = name;
    this.version++;
    return this.#emit('renamed', { changes: { repository: { name: { from } } } });
  }

  transfer(organisation: Organisation): WebhookEvent {
    const former = this.organisation;
    this.remember();
    former.repositories.splice(former.repositories.indexOf(this), 1);
    organisation.repositories.push(this);
    this.organisation = organisation;
    this.version++;
    return this.#emit('transferred', { changes: { owner: { from: { organization: organisationPayload(former) } } } });
  }

  archive(): WebhookEvent {
    this.archived = true;
    return this.#emit('archived', {});
  }

  unarchive(): WebhookEvent {
    this.archived = false;
    return this.#emit('unarchived', {});
  }

  /** Changes all pull requests with the label, but none of their times. So do the three below. */
  renameLabel(from: string, to: string): WebhookEvent {
    const label = labelPayload(this, this.labels.rename(from, to));
    for (const pullRequest of this.pullRequests) pullRequest.replaceLabel(from, to);
    return repositoryEvent(this, 'label', 'edited', { label, changes: { name: { from } } }, undefined);
  }

  deleteLabel(name: string): WebhookEvent {
    const label = labelPayload(this, this.labels.delete(name));
    for (const pullRequest of this.pullRequests) pullRequest.replaceLabel(name, null);
    return repositoryEvent(this, 'label', 'deleted', { label }, undefined);
  }

  renameMilestone(from: string, to: string): WebhookEvent {
    const milestone = milestonePayload(this, this.milestones.rename(from, to));
    for (const pullRequest of this.pullRequests) pullRequest.replaceMilestone(from, to);
    return repositoryEvent(this, 'milestone', 'edited', { milestone, changes: { title: { from } } }, undefined);
  }

  deleteMilestone(title: string): WebhookEvent {
    const milestone = milestonePayload(this, this.milestones.delete(title));
    for (const pullRequest of this.pullRequests) pullRequest.replaceMilestone(title, null);
    return repositoryEvent(this, 'milestone', 'deleted', { milestone }, undefined);
  }

  /** Removes it and its pull requests. */
  remove(): WebhookEvent {
    const { world, repositories } = this.organisation;
    repositories.splice(repositories.indexOf(this), 1);
    world.nodes.delete(this.nodeId);
    for (const pullRequest of this.pullRequests) world.nodes.delete(pullRequest.nodeId);
    this.removed = true;
    return this.#emit('deleted', {});
  }

  /** Keeps it reachable by its current name. */
  remember(): void {
    this.organisation.world.formerNames.set(this.fullName.toLowerCase(), this);
  }

  #emit(action: string, fields: object): WebhookEvent {
    return repositoryEvent(this, 'repository', action, fields, undefined);
  }
}
