import { createHash } from 'node:crypto';
import { createRequire } from 'node:module';
import type {
  IssuesMilestonedEvent,
  Label,
  Milestone,
  Organization,
  PullRequest as PullRequestPayload,
  PullRequestReviewSubmittedEvent,
  Repository as RepositoryPayload,
  SimplePullRequest,
  User,
} from '@octokit/webhooks-types';
import type { Organisation } from './organisation.ts';
import type { PullRequest } from './pull-request.ts';
import type { Repository } from './repository.ts';
import type { Tag } from './tags.ts';
import type { KnownHook } from './webhooks.ts';
import { type Account, globalId, isoTime, optionalIsoTime, type World } from './world.ts';

const sha = (...parts: unknown[]) => createHash('sha1').update(parts.join('/')).digest('hex');

/** A force-push leaves the number of commits as it is. */
export const headShaOf = ({ id, commits, forcePushes }: PullRequest): string => sha(id, commits, forcePushes);

/** Whether it is a head that the pull request has or had: GitHub keeps its commits. */
export function hadHead({ id, commits, forcePushes }: PullRequest, head: string): boolean {
  for (let pushes = forcePushes; pushes >= 0; pushes -= 1) {
    for (let count = commits; count >= 0; count -= 1) if (sha(id, count, pushes) === head) return true;
  }
  return false;
}

/** GitHub's published example of an event of an organisation. Its type is the caller's word. */
export function exampleOf<Event>(event: string, action: string): Event {
  const ofEvent = published.find(({ name }) => name === event)?.examples;
  const example = ofEvent?.findLast(each => each.action === action && 'organization' in each);
  if (example === undefined) throw new Error(`${event} ${action} has no published example`);
  return example as Event;
}
const published: { name: string; examples: { action?: string }[] }[] = createRequire(import.meta.url)(
  '@octokit/webhooks-examples',
);
const { pull_request: examplePullRequest, ...example } = exampleOf<PullRequestReviewSubmittedEvent>(
  'pull_request_review',
  'submitted',
);
const { head: _, base: __, ...exampleFields } = examplePullRequest;

/** A part of an example with other names in its addresses. */
export function like<Part extends object>({ apiUrl, webUrl }: World, part: Part, names: Record<string, string>): Part {
  const addresses = { ...names, 'https://api.github.com': apiUrl, 'https://github.com': webUrl };
  let text = JSON.stringify(part);
  for (const [from, to] of Object.entries(addresses)) {
    text = text.replaceAll(from, () => JSON.stringify(to).slice(1, -1));
  }
  return JSON.parse(text);
}

/** Undefined and deleted accounts are the ghost, as on github.com. */
export function userPayload(world: World, account: Account | null | undefined): User {
  const ghost = { id: 10_137, login: 'ghost', type: 'User', nodeId: globalId('U', 10_137) } as const;
  const { id, nodeId, login: plainLogin, type } = account && !account.deleted ? account : ghost;
  const login = type === 'Bot' ? `${plainLogin}[bot]` : plainLogin;
  return {
    ...like(world, example.sender, { Codertocat: login }),
    id,
    node_id: nodeId,
    avatar_url: `https://avatars.githubusercontent.com/u/${id}?v=4`,
    type: type === 'Mannequin' ? 'User' : type,
  };
}

function ownerPayload(organisation: Organisation): User {
  const { world, id, nodeId, login, avatarUrl } = organisation;
  const account = { type: 'User', id, nodeId, login, name: null, avatarUrl, deleted: false } as const;
  return { ...userPayload(world, account), type: 'Organization' };
}

export function organisationPayload({ world, id, nodeId, login, avatarUrl }: Organisation): Organization {
  const own = { id, node_id: nodeId, avatar_url: avatarUrl };
  return { ...like(world, exampleOrganisation, { Octocoders: login }), ...own };
}
const exampleOrganisation = example.organization as Organization;

export function repositoryPayload(repository: Repository): RepositoryPayload {
  const { organisation, id, nodeId, name, fullName, createdAt } = repository;
  const now = isoTime(organisation.clock.now());
  const open = repository.pullRequests.length;
  return {
    ...like(organisation.world, example.repository, { 'Codertocat/Hello-World': fullName }),
    id,
    node_id: nodeId,
    name,
    owner: ownerPayload(organisation),
    fork: repository.fork,
    archived: repository.archived,
    created_at: isoTime(createdAt),
    updated_at: now,
    pushed_at: now,
    open_issues_count: open,
    open_issues: open,
    default_branch: 'main',
  };
}

export function labelPayload({ organisation, id, fullName }: Repository, label: Tag): Label {
  return {
    id: label.id,
    node_id: globalId('LA', id, label.id),
    url: `${organisation.world.apiUrl}/repos/${fullName}/labels/${encodeURIComponent(label.name)}`,
    name: label.name,
    description: null,
    color: 'ededed',
    default: false,
  };
}

export function milestonePayload({ organisation, id: repositoryId, fullName }: Repository, tag: Tag): Milestone {
  const { id, number, name } = tag;
  const names = {
    'Codertocat/Hello-World': fullName,
    'milestone/1': `milestone/${number}`,
    'milestones/1': `milestones/${number}`,
  };
  const own = { id, node_id: globalId('MI', repositoryId, id), number, title: name };
  return { ...like(organisation.world, exampleMilestone, names), ...own };
}
const { milestone: exampleMilestone } = exampleOf<IssuesMilestonedEvent>('issues', 'milestoned');

/** GitHub's association of the author with the repository's organisation. */
export function associationOf({
  authorAssociation,
  author,
  repository,
}: PullRequest): SimplePullRequest['author_association'] {
  if (authorAssociation !== undefined) return authorAssociation as SimplePullRequest['author_association'];
  return author && !author.deleted && repository.organisation.members.has(author.id) ? 'MEMBER' : 'CONTRIBUTOR';
}

/** What every event about a pull request shows of it. */
export function simplePullRequestPayload(pullRequest: PullRequest): SimplePullRequest {
  const { repository, number, author, milestone } = pullRequest;
  const { world } = repository.organisation;
  const repo = repositoryPayload(repository);
  const headSha = headShaOf(pullRequest);
  const assignees = pullRequest.assignees.map(account => userPayload(world, account));
  const headOwner = pullRequest.fromFork ? userPayload(world, author) : repo.owner;
  const branch = (ref: string, sha: string, user: User) => ({ label: `${user.login}:${ref}`, ref, sha, user, repo });
  return {
    ...like(world, exampleFields, {
      'Codertocat/Hello-World': repository.fullName,
      'pull/2': `pull/${number}`,
      'pulls/2': `pulls/${number}`,
      'issues/2': `issues/${number}`,
      [examplePullRequest.head.sha]: headSha,
    }),
    id: pullRequest.id,
    node_id: pullRequest.nodeId,
    number,
    state: pullRequest.state === 'OPEN' ? 'open' : 'closed',
    title: pullRequest.title,
    user: userPayload(world, author),
    body: pullRequest.body === '' ? null : pullRequest.body,
    created_at: isoTime(pullRequest.createdAt),
    updated_at: isoTime(pullRequest.updatedAt),
    closed_at: optionalIsoTime(pullRequest.closedAt),
    merged_at: optionalIsoTime(pullRequest.mergedAt),
    merge_commit_sha: pullRequest.state === 'MERGED' ? sha(headSha, 'merge') : null,
    assignee: assignees[0] ?? null,
    assignees,
    requested_reviewers: [],
    labels: pullRequest.labels.map(name => labelPayload(repository, repository.labels.of(name))),
    milestone: milestone === null ? null : milestonePayload(repository, repository.milestones.of(milestone)),
    draft: pullRequest.draft,
    head: branch(pullRequest.head, headSha, headOwner),
    base: branch(pullRequest.base, sha(repo.id), repo.owner),
    author_association: associationOf(pullRequest),
  };
}

export function pullRequestPayload(pullRequest: PullRequest): PullRequestPayload {
  const merged = pullRequest.state === 'MERGED';
  return {
    ...simplePullRequestPayload(pullRequest),
    merged,
    mergeable: merged ? null : true,
    rebaseable: merged ? null : true,
    mergeable_state: merged ? 'unknown' : 'clean',
    merged_by: merged ? userPayload(pullRequest.repository.organisation.world, pullRequest.mergedBy) : null,
    comments: pullRequest.comments,
    review_comments: 0,
    maintainer_can_modify: false,
    commits: pullRequest.commits,
    additions: pullRequest.additions,
    deletions: pullRequest.deletions,
    changed_files: pullRequest.changedFiles,
  };
}

export const configOf = ({ url, secret, contentType = 'json' }: KnownHook) => ({
  url,
  content_type: contentType,
  insecure_ssl: '0',
  ...(secret !== '' && { secret: '********' }),
});

export function hookPayload({ world, login }: Organisation, hook: KnownHook) {
  const url = `${world.apiUrl}/orgs/${login}/hooks/${hook.id}`;
  return {
    type: 'Organization',
    id: hook.id,
    name: 'web',
    active: hook.active ?? true,
    events: hook.events ?? ['*'],
    config: configOf(hook),
    updated_at: '2026-01-01T00:00:00Z',
    created_at: '2026-01-01T00:00:00Z',
    url,
    ping_url: `${url}/pings`,
    deliveries_url: `${url}/deliveries`,
  };
}
