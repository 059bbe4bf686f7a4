import { count, flag, id, link, list, optionalText, optionalTime, present, text } from './reading.ts';
import { pageInfo, rateLimit } from './transport.ts';

export interface GithubRepository {
  githubId: number;
  nodeId: string;
  /** The owner's login. */
  owner: string;
  name: string;
  archived: boolean;
  pullRequests: number;
  /** When any of its pull requests last changed, in Unix seconds; null where it has none. */
  pullRequestsUpdatedAt: number | null;
}

export interface GithubMember {
  githubId: number;
  login: string;
  /** The login where the account has no name. */
  name: string;
  photoUrl: string;
}

export interface GithubOrganisation {
  githubId: number;
  login: string;
  name: string;
  photoUrl: string;
  repositories: number;
  /** Null where the credentials may not read the member list. */
  members: number | null;
}

const repositoryFragment = `
fragment RepositoryFacts on Repository {
  id
  databaseId
  name
  isArchived
  owner { login }
  pullRequests(first: 1, orderBy: { field: UPDATED_AT, direction: DESC }) { totalCount nodes { updatedAt } }
}`;

export const repositoriesQuery = `
query Repositories($login: String!, $after: String) {
  ${rateLimit}
  organization(login: $login) {
    repositories(first: 100, after: $after, orderBy: { field: CREATED_AT, direction: ASC }) {
      totalCount
      ${pageInfo}
      nodes { ...RepositoryFacts }
    }
  }
}
${repositoryFragment}`;

export const repositoryQuery = `
query Repository($owner: String!, $name: String!) {
  ${rateLimit}
  repository(owner: $owner, name: $name) { ...RepositoryFacts }
}
${repositoryFragment}`;

export const membersQuery = `
query Members($login: String!, $after: String) {
  ${rateLimit}
  organization(login: $login) {
    membersWithRole(first: 100, after: $after) {
      totalCount
      ${pageInfo}
      nodes { databaseId login name avatarUrl }
    }
  }
}`;

export const organisationQuery = `
query Organisation($login: String!) {
  ${rateLimit}
  organization(login: $login) {
    databaseId
    login
    name
    avatarUrl
    repositories { totalCount }
    membersWithRole { totalCount }
  }
}`;

const nameOf = (node: unknown) => optionalText(node, 'name')?.trim() || text(node, 'login');

/** @throws Misfit, as all three do, where anything is not what GitHub documents. */
export function readRepository(node: unknown): GithubRepository {
  const [latest] = list(node, 'pullRequests.nodes');
  return {
    githubId: id(node, 'databaseId'),
    nodeId: text(node, 'id'),
    owner: text(node, 'owner.login'),
    name: text(node, 'name'),
    archived: flag(node, 'isArchived'),
    pullRequests: count(node, 'pullRequests.totalCount'),
    pullRequestsUpdatedAt: latest === undefined ? null : optionalTime(latest, 'updatedAt'),
  };
}

export function readMember(node: unknown): GithubMember {
  return {
    githubId: id(node, 'databaseId'),
    login: text(node, 'login'),
    name: nameOf(node),
    photoUrl: link(node, 'avatarUrl'),
  };
}

export function readOrganisation(node: unknown): GithubOrganisation {
  return {
    ...readMember(node),
    repositories: count(node, 'repositories.totalCount'),
    members: present(node, 'membersWithRole') ? count(node, 'membersWithRole.totalCount') : null,
  };
}
