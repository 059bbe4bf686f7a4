import { createHash } from 'node:crypto';
import type {
  Label,
  Milestone,
  Organization,
  PullRequest as PullRequestPayload,
  Repository as RepositoryPayload,
  SimplePullRequest,
  User,
} from '@octokit/webhooks-types';
import type { Organisation } from './organisation.ts';
import type { PullRequest } from './pull-request.ts';
import type { Repository } from './repository.ts';
import type { Tag } from './tags.ts';
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

/** Undefined and deleted accounts are the ghost, as on github.com. */
export function userPayload(world: World, account: Account | null | undefined): User {
  const ghost = { id: 10_137, login: 'ghost', type: 'User', nodeId: globalId('U', 10_137) } as const;
  const { id, nodeId, login: plainLogin, type } = account && !account.deleted ? account : ghost;
  const login = type === 'Bot' ? `${plainLogin}[bot]` : plainLogin;
  const url = `${world.apiUrl}/users/${login}`;
  return {
    login,
    id,
    node_id: nodeId,
    avatar_url: `https://avatars.githubusercontent.com/u/${id}?v=4`,
    gravatar_id: '',
    url,
    html_url: `${world.webUrl}/${login}`,
    followers_url: `${url}/followers`,
    following_url: `${url}/following{/other_user}`,
    gists_url: `${url}/gists{/gist_id}`,
    starred_url: `${url}/starred{/owner}{/repo}`,
    subscriptions_url: `${url}/subscriptions`,
    organizations_url: `${url}/orgs`,
    repos_url: `${url}/repos`,
    events_url: `${url}/events{/privacy}`,
    received_events_url: `${url}/received_events`,
    type: type === 'Mannequin' ? 'User' : type,
    site_admin: false,
  };
}

function ownerPayload(organisation: Organisation): User {
  const { world, id, nodeId, login, avatarUrl } = organisation;
  const account = { type: 'User', id, nodeId, login, name: null, avatarUrl, deleted: false } as const;
  return { ...userPayload(world, account), type: 'Organization' };
}

export function organisationPayload({ world, id, nodeId, login, avatarUrl }: Organisation): Organization {
  const url = `${world.apiUrl}/orgs/${login}`;
  return {
    login,
    id,
    node_id: nodeId,
    url,
    repos_url: `${url}/repos`,
    events_url: `${url}/events`,
    hooks_url: `${url}/hooks`,
    issues_url: `${url}/issues`,
    members_url: `${url}/members{/member}`,
    public_members_url: `${url}/public_members{/member}`,
    avatar_url: avatarUrl,
    description: null,
  };
}

export function repositoryPayload(repository: Repository): RepositoryPayload {
  const { organisation, id, nodeId, name, fullName, createdAt } = repository;
  const { clock, world } = organisation;
  const url = `${world.apiUrl}/repos/${fullName}`;
  const page = `${world.webUrl}/${fullName}`;
  const now = isoTime(clock.now());
  const open = repository.pullRequests.length;
  return {
    id,
    node_id: nodeId,
    name,
    full_name: fullName,
    private: false,
    owner: ownerPayload(organisation),
    html_url: page,
    description: null,
    fork: repository.fork,
    url,
    forks_url: `${url}/forks`,
    keys_url: `${url}/keys{/key_id}`,
    collaborators_url: `${url}/collaborators{/collaborator}`,
    teams_url: `${url}/teams`,
    hooks_url: `${url}/hooks`,
    issue_events_url: `${url}/issues/events{/number}`,
    events_url: `${url}/events`,
    assignees_url: `${url}/assignees{/user}`,
    branches_url: `${url}/branches{/branch}`,
    tags_url: `${url}/tags`,
    blobs_url: `${url}/git/blobs{/sha}`,
    git_tags_url: `${url}/git/tags{/sha}`,
    git_refs_url: `${url}/git/refs{/sha}`,
    trees_url: `${url}/git/trees{/sha}`,
    statuses_url: `${url}/statuses/{sha}`,
    languages_url: `${url}/languages`,
    stargazers_url: `${url}/stargazers`,
    contributors_url: `${url}/contributors`,
    subscribers_url: `${url}/subscribers`,
    subscription_url: `${url}/subscription`,
    commits_url: `${url}/commits{/sha}`,
    git_commits_url: `${url}/git/commits{/sha}`,
    comments_url: `${url}/comments{/number}`,
    issue_comment_url: `${url}/issues/comments{/number}`,
    contents_url: `${url}/contents/{+path}`,
    compare_url: `${url}/compare/{base}...{head}`,
    merges_url: `${url}/merges`,
    archive_url: `${url}/{archive_format}{/ref}`,
    downloads_url: `${url}/downloads`,
    issues_url: `${url}/issues{/number}`,
    pulls_url: `${url}/pulls{/number}`,
    milestones_url: `${url}/milestones{/number}`,
    notifications_url: `${url}/notifications{?since,all,participating}`,
    labels_url: `${url}/labels{/name}`,
    releases_url: `${url}/releases{/id}`,
    deployments_url: `${url}/deployments`,
    created_at: isoTime(createdAt),
    updated_at: now,
    pushed_at: now,
    git_url: `git://github.com/${fullName}.git`,
    ssh_url: `git@github.com:${fullName}.git`,
    clone_url: `${page}.git`,
    svn_url: page,
    homepage: null,
    size: 0,
    stargazers_count: 0,
    watchers_count: 0,
    language: null,
    has_issues: true,
    has_projects: true,
    has_downloads: true,
    has_wiki: true,
    has_pages: false,
    forks_count: 0,
    mirror_url: null,
    archived: repository.archived,
    disabled: false,
    open_issues_count: open,
    license: null,
    forks: 0,
    open_issues: open,
    watchers: 0,
    default_branch: 'main',
    is_template: false,
    web_commit_signoff_required: false,
    topics: [],
    visibility: 'public',
    custom_properties: {},
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

export function milestonePayload(repository: Repository, { id, number, name }: Tag): Milestone {
  const { world } = repository.organisation;
  const url = `${world.apiUrl}/repos/${repository.fullName}/milestones/${number}`;
  return {
    url,
    html_url: `${world.webUrl}/${repository.fullName}/milestone/${number}`,
    labels_url: `${url}/labels`,
    id,
    node_id: globalId('MI', repository.id, id),
    number,
    title: name,
    description: null,
    creator: userPayload(world, undefined),
    open_issues: 1,
    closed_issues: 0,
    state: 'open',
    created_at: isoTime(repository.createdAt),
    updated_at: isoTime(repository.createdAt),
    due_on: null,
    closed_at: null,
  };
}

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
  const url = `${repo.url}/pulls/${number}`;
  const issueUrl = `${repo.url}/issues/${number}`;
  const page = pullRequest.url;
  const headSha = headShaOf(pullRequest);
  const assignees = pullRequest.assignees.map(account => userPayload(world, account));
  const headOwner = pullRequest.fromFork ? userPayload(world, author) : repo.owner;
  return {
    url,
    id: pullRequest.id,
    node_id: pullRequest.nodeId,
    html_url: page,
    diff_url: `${page}.diff`,
    patch_url: `${page}.patch`,
    issue_url: issueUrl,
    number,
    state: pullRequest.state === 'OPEN' ? 'open' : 'closed',
    locked: false,
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
    requested_teams: [],
    labels: pullRequest.labels.map(name => labelPayload(repository, repository.labels.of(name))),
    milestone: milestone === null ? null : milestonePayload(repository, repository.milestones.of(milestone)),
    draft: pullRequest.draft,
    commits_url: `${url}/commits`,
    review_comments_url: `${url}/comments`,
    review_comment_url: `${repo.url}/pulls/comments{/number}`,
    comments_url: `${issueUrl}/comments`,
    statuses_url: `${repo.url}/statuses/${headSha}`,
    head: {
      label: `${headOwner.login}:${pullRequest.head}`,
      ref: pullRequest.head,
      sha: headSha,
      user: headOwner,
      repo,
    },
    base: {
      label: `${repo.owner.login}:${pullRequest.base}`,
      ref: pullRequest.base,
      sha: sha(repo.id),
      user: repo.owner,
      repo,
    },
    _links: {
      self: { href: url },
      html: { href: page },
      issue: { href: issueUrl },
      comments: { href: `${issueUrl}/comments` },
      review_comments: { href: `${url}/comments` },
      review_comment: { href: `${repo.url}/pulls/comments{/number}` },
      commits: { href: `${url}/commits` },
      statuses: { href: `${repo.url}/statuses/${headSha}` },
    },
    author_association: associationOf(pullRequest),
    auto_merge: null,
    active_lock_reason: null,
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
