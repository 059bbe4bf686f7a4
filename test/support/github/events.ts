import type {
  IssueCommentEvent,
  Organization,
  PullRequest as PullRequestPayload,
  PullRequestReview,
  Repository as RepositoryPayload,
  SimplePullRequest,
  User,
} from '@octokit/webhooks-types';
import type { Organisation } from './organisation.ts';
import {
  exampleOf,
  hookPayload,
  like,
  organisationPayload,
  pullRequestPayload,
  repositoryPayload,
  simplePullRequestPayload,
  userPayload,
} from './payloads.ts';
import type { PullRequest, Review } from './pull-request.ts';
import type { Repository } from './repository.ts';
import type { KnownHook } from './webhooks.ts';
import { type Account, globalId, isoTime, optionalIsoTime } from './world.ts';

/** A webhook as GitHub sends it: `event` and `action` name it, `payload` is the body. */
export interface WebhookEvent<Payload extends object = object> {
  event: string;
  action: string | undefined;
  payload: Payload;
}

export type PullRequestWebhook = WebhookEvent<{
  action: string;
  pull_request: PullRequestPayload | SimplePullRequest;
  repository: RepositoryPayload;
  organization: Organization;
  sender: User;
}>;

/** Sends an event of an organisation to the webhooks. */
export function organisationEvent<Fields extends object>(
  organisation: Organisation,
  event: string,
  action: string,
  fields: Fields,
  by: Account | null | undefined,
) {
  const { world } = organisation;
  const own = { organization: organisationPayload(organisation), sender: userPayload(world, by) };
  const webhook = { event, action, payload: { action, ...fields, ...own } };
  world.emit(webhook, organisation);
  return webhook;
}

export function repositoryEvent<Fields extends object>(
  repository: Repository,
  event: string,
  action: string,
  fields: Fields,
  by: Account | null | undefined,
) {
  const whole = { ...fields, repository: repositoryPayload(repository) };
  return organisationEvent(repository.organisation, event, action, whole, by);
}

export function pullRequestEvent(pullRequest: PullRequest, action: string, fields: object, by: Account | null) {
  const { number, repository } = pullRequest;
  const whole = { number, pull_request: pullRequestPayload(pullRequest), ...fields };
  return repositoryEvent(repository, 'pull_request', action, whole, by);
}

export function reviewEvent(pullRequest: PullRequest, review: Review, action: string, by: Account | null) {
  const { world } = pullRequest.repository.organisation;
  const simple = simplePullRequestPayload(pullRequest);
  const page = `${simple.html_url}#pullrequestreview-${review.id}`;
  const body: PullRequestReview = {
    id: review.id,
    node_id: review.nodeId,
    user: userPayload(world, review.author),
    body: review.body === '' ? null : review.body,
    commit_id: simple.head.sha,
    submitted_at: optionalIsoTime(review.submittedAt),
    state: review.state.toLowerCase() as PullRequestReview['state'],
    html_url: page,
    pull_request_url: simple.url,
    author_association: 'MEMBER',
    _links: { html: { href: page }, pull_request: { href: simple.url } },
  };
  const fields = { review: body, pull_request: simple };
  return repositoryEvent(pullRequest.repository, 'pull_request_review', action, fields, by);
}

function commentFields(pullRequest: PullRequest, body: string, by: Account | null) {
  const { world } = pullRequest.repository.organisation;
  const at = isoTime(pullRequest.updatedAt);
  const id = world.nextId('comment');
  return { id, node_id: globalId('C', id), body, user: userPayload(world, by), created_at: at, updated_at: at };
}

export function reviewCommentEvent(pullRequest: PullRequest, body: string, by: Account | null) {
  const fields = { comment: commentFields(pullRequest, body, by), pull_request: simplePullRequestPayload(pullRequest) };
  return repositoryEvent(pullRequest.repository, 'pull_request_review_comment', 'created', fields, by);
}

export function reviewThreadEvent(pullRequest: PullRequest, by: Account | null) {
  const { repository } = pullRequest;
  const thread = { node_id: globalId('PRRT', repository.id, 1), comments: [] };
  const fields = { thread, pull_request: simplePullRequestPayload(pullRequest) };
  return repositoryEvent(repository, 'pull_request_review_thread', 'resolved', fields, by);
}

/**
 * A conversation comment is an issue's: its payload has no `pull_request`, only `issue.pull_request`. `issue.id` is the
 * issue's own, `issue.node_id` is the pull request's. So it is in the published example of `issues` `milestoned`, and in
 * `issue_comment` as GitHub sent it to others in 2024.
 */
export function issueCommentEvent(
  pullRequest: PullRequest,
  action: 'created' | 'deleted',
  body: string,
  by: Account | null,
): WebhookEvent {
  const { repository, issueId, comments } = pullRequest;
  const { world } = repository.organisation;
  const names = {
    'Codertocat/Hello-World': repository.fullName,
    'issues/1': `issues/${pullRequest.number}`,
  };
  const example = like(world, exampleOf<IssueCommentEvent>('issue_comment', 'created'), names);
  const simple = simplePullRequestPayload(pullRequest);
  const { url, html_url, diff_url, patch_url, merged_at } = simple;
  const own = Object.fromEntries(
    Object.entries(simple).filter(([name]) => name in example.issue && !name.endsWith('url')),
  );
  const issue = {
    ...example.issue,
    ...own,
    html_url,
    id: issueId,
    comments,
    pull_request: { url, html_url, diff_url, patch_url, merged_at },
  };
  const comment = { ...example.comment, ...commentFields(pullRequest, body, by) };
  return repositoryEvent(repository, 'issue_comment', action, { issue, comment }, by);
}

export function pingEvent(organisation: Organisation, hook: KnownHook): WebhookEvent {
  return {
    event: 'ping',
    action: undefined,
    payload: {
      zen: 'Keep it logically awesome.',
      hook_id: hook.id,
      hook: hookPayload(organisation, hook),
      organization: organisationPayload(organisation),
      sender: userPayload(organisation.world, undefined),
    },
  };
}
