import type {
  Organization,
  PullRequest as PullRequestPayload,
  PullRequestReview,
  Repository as RepositoryPayload,
  SimplePullRequest,
  User,
} from '@octokit/webhooks-types';
import type { Organisation } from './organisation.ts';
import {
  organisationPayload,
  pullRequestPayload,
  repositoryPayload,
  simplePullRequestPayload,
  userPayload,
} from './payloads.ts';
import type { PullRequest, Review } from './pull-request.ts';
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

function tell(
  event: string,
  action: string,
  pullRequest: PullRequest,
  part: { pull_request: PullRequestPayload | SimplePullRequest; [name: string]: unknown },
  by: Account | null,
): PullRequestWebhook {
  const { repository } = pullRequest;
  const { organisation } = repository;
  const webhook: PullRequestWebhook = {
    event,
    action,
    payload: {
      action,
      ...part,
      repository: repositoryPayload(repository),
      organization: organisationPayload(organisation),
      sender: userPayload(organisation.world, by),
    },
  };
  organisation.world.emit(webhook, organisation);
  return webhook;
}

export function pullRequestEvent(pullRequest: PullRequest, action: string, part: object, by: Account | null) {
  const { number } = pullRequest;
  return tell(
    'pull_request',
    action,
    pullRequest,
    { number, pull_request: pullRequestPayload(pullRequest), ...part },
    by,
  );
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
  return tell('pull_request_review', action, pullRequest, { review: body, pull_request: simple }, by);
}

function commentPart(pullRequest: PullRequest, body: string, by: Account | null) {
  const { world } = pullRequest.repository.organisation;
  const at = isoTime(pullRequest.updatedAt);
  const id = world.nextId('comment');
  return { id, node_id: globalId('C', id), body, user: userPayload(world, by), created_at: at, updated_at: at };
}

export const reviewCommentEvent = (pullRequest: PullRequest, body: string, by: Account | null) =>
  tell(
    'pull_request_review_comment',
    'created',
    pullRequest,
    { comment: commentPart(pullRequest, body, by), pull_request: simplePullRequestPayload(pullRequest) },
    by,
  );

export const reviewThreadEvent = (pullRequest: PullRequest, by: Account | null) =>
  tell(
    'pull_request_review_thread',
    'resolved',
    pullRequest,
    {
      thread: { node_id: globalId('PRRT', pullRequest.repository.id, 1), comments: [] },
      pull_request: simplePullRequestPayload(pullRequest),
    },
    by,
  );

/** A remark on the conversation comes as an issue's; there is no `pull_request` in GitHub's, only `issue.pull_request`. */
export function issueCommentEvent(pullRequest: PullRequest, body: string, by: Account | null): WebhookEvent {
  const { repository, number, title } = pullRequest;
  const { organisation } = repository;
  const { url, html_url, diff_url, patch_url, node_id, id } = simplePullRequestPayload(pullRequest);
  const webhook: WebhookEvent = {
    event: 'issue_comment',
    action: 'created',
    payload: {
      action: 'created',
      issue: { id, node_id, number, title, html_url, pull_request: { url, html_url, diff_url, patch_url } },
      comment: commentPart(pullRequest, body, by),
      repository: repositoryPayload(repository),
      organization: organisationPayload(organisation),
      sender: userPayload(organisation.world, by),
    },
  };
  organisation.world.emit(webhook, organisation);
  return webhook;
}

export function pingEvent(organisation: Organisation, hookId: number, url: string): WebhookEvent {
  const { clock, world, login } = organisation;
  const hooks = `${world.apiUrl}/orgs/${login}/hooks/${hookId}`;
  const at = isoTime(clock.now());
  return {
    event: 'ping',
    action: undefined,
    payload: {
      zen: 'Keep it logically awesome.',
      hook_id: hookId,
      hook: {
        type: 'Organization',
        id: hookId,
        name: 'web',
        active: true,
        events: ['*'],
        config: { content_type: 'json', insecure_ssl: '0', url },
        updated_at: at,
        created_at: at,
        url: hooks,
        ping_url: `${hooks}/pings`,
        deliveries_url: `${hooks}/deliveries`,
      },
      organization: organisationPayload(organisation),
      sender: userPayload(world, undefined),
    },
  };
}
