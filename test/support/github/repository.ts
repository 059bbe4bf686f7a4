import { repositoryEvent, type WebhookEvent } from './events.ts';
import type { Organisation } from './organisation.ts';
import { labelPayload, milestonePayload, organisationPayload } from './payloads.ts';
import { PullRequest, type PullRequestOptions } from './pull-request.ts';
import { Tags } from './tags.ts';
import { globalId } from './world.ts';

export type PullRequestOrder = 'createdAt' | 'updatedAt';

const by = (order: PullRequestOrder) => (a: PullRequest, b: PullRequest) => a[order] - b[order] || a.id - b.id;

export class Repository {
  organisation: Organisation;
  readonly id: number;
  readonly nodeId: string;
  name: string;
  readonly createdAt: number;
  archived = false;
  removed = false;
  readonly pullRequests: PullRequest[] = [];
  readonly labels: Tags;
  readonly milestones: Tags;
  /** Moves with every change of a pull request: sorted lists are kept until then. */
  version = 0;
  #nextNumber = 1;
  #lagMilliseconds = 0;
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
    this.#tell('created', {});
  }

  get fullName(): string {
    return `${this.organisation.login}/${this.name}`;
  }

  /** How long a change of its pull requests stays unseen in GraphQL. */
  get lagMilliseconds(): number {
    return Math.max(this.#lagMilliseconds, this.organisation.world.lagMilliseconds);
  }

  /** GraphQL shows changes of its pull requests, and those that are opened, so much later; or after {@link catchUp}. */
  lag(milliseconds = Number.POSITIVE_INFINITY): void {
    this.#lagMilliseconds = milliseconds;
  }

  /** GraphQL shows all pull requests as they are, and lags no longer. */
  catchUp(): void {
    this.#lagMilliseconds = 0;
    for (const pullRequest of this.pullRequests) pullRequest.catchUp();
  }

  /** Opens one and tells the webhooks; {@link PullRequest.opened} is that event. */
  openPullRequest(options: PullRequestOptions = {}): PullRequest {
    const pullRequest = this.addPullRequest(options);
    pullRequest.open();
    return pullRequest;
  }

  /** Puts one in silently, as history that was there before. */
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

  /** As GraphQL shows them, in the order that they have there. */
  shownBy(order: PullRequestOrder): PullRequest[] {
    const present = this.sortedBy(order);
    if (present.every(pullRequest => pullRequest.shown() === pullRequest)) return present;
    return present.flatMap(pullRequest => pullRequest.shown() ?? []).sort(by(order));
  }

  rename(name: string): WebhookEvent {
    const from = this.name;
    this.remember();
    this.name = name;
    this.version++;
    return this.#tell('renamed', { changes: { repository: { name: { from } } } });
  }

  transfer(organisation: Organisation): WebhookEvent {
    const former = this.organisation;
    this.remember();
    former.repositories.splice(former.repositories.indexOf(this), 1);
    organisation.repositories.push(this);
    this.organisation = organisation;
    this.version++;
    return this.#tell('transferred', { changes: { owner: { from: { organization: organisationPayload(former) } } } });
  }

  /** The pull requests that have it follow, and no time of theirs moves. So it is for the three below. */
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

  /** Gone, its pull requests with it. */
  remove(): WebhookEvent {
    const { world, repositories } = this.organisation;
    repositories.splice(repositories.indexOf(this), 1);
    world.nodes.delete(this.nodeId);
    for (const pullRequest of this.pullRequests) world.nodes.delete(pullRequest.nodeId);
    this.removed = true;
    return this.#tell('deleted', {});
  }

  /** It goes on being found by the name that it has now. */
  remember(): void {
    this.organisation.world.formerNames.set(this.fullName.toLowerCase(), this);
  }

  #tell(action: string, part: object): WebhookEvent {
    return repositoryEvent(this, 'repository', action, part, undefined);
  }
}
