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

/** A repository of a page, and GitHub's cursor of its place. */
export interface ListedRepository extends GithubRepository {
  cursor: string;
}

/** The ids stay what they are; the login can be given up and taken by others. */
export interface GithubIdentity {
  githubId: number;
  nodeId: string;
  login: string;
}

export interface GithubMember {
  githubId: number;
  login: string;
  /** The login where the account has no name. */
  name: string;
  photoUrl: string;
}

export interface GithubOrganisation extends GithubIdentity {
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

const identity = 'id databaseId login';

export const repositoriesQuery = `
query Repositories($id: ID!, $first: Int!, $after: String, $facts: Boolean!) {
  ${rateLimit}
  node(id: $id) {
    ... on Organization {
      ${identity}
      repositories(first: $first, after: $after, orderBy: { field: CREATED_AT, direction: ASC }) {
        totalCount
        ${pageInfo}
        edges { cursor node @include(if: $facts) { ...RepositoryFacts } }
      }
    }
  }
}
${repositoryFragment}`;

export const repositoryQuery = `
query Repository($id: ID!, $name: String!) {
  ${rateLimit}
  node(id: $id) { ... on Organization { ${identity} repository(name: $name) { ...RepositoryFacts } } }
}
${repositoryFragment}`;

export const membersQuery = `
query Members($id: ID!, $first: Int!, $after: String) {
  ${rateLimit}
  node(id: $id) {
    ... on Organization {
      ${identity}
      viewerIsAMember
      membersWithRole(first: $first, after: $after) {
        totalCount
        ${pageInfo}
        nodes { databaseId login name avatarUrl }
      }
    }
  }
}`;

const organisationFragment = `
fragment OrganisationFacts on Organization {
  ${identity}
  name
  avatarUrl
  repositories { totalCount }
  membersWithRole { totalCount }
}`;

export const organisationQuery = `
query Organisation($id: ID!) {
  ${rateLimit}
  node(id: $id) { ...OrganisationFacts }
}
${organisationFragment}`;

export const organisationByLoginQuery = `
query Organisation($login: String!) {
  ${rateLimit}
  organization(login: $login) { ...OrganisationFacts }
}
${organisationFragment}`;

const nameOf = (node: unknown) => optionalText(node, 'name')?.trim() || text(node, 'login');

/** @throws Misfit, as all four do, where anything is not what GitHub documents. */
export const readIdentity = (node: unknown): GithubIdentity => ({
  githubId: id(node, 'databaseId'),
  nodeId: text(node, 'id'),
  login: text(node, 'login'),
});

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
    ...readIdentity(node),
    name: nameOf(node),
    photoUrl: link(node, 'avatarUrl'),
    repositories: count(node, 'repositories.totalCount'),
    members: present(node, 'membersWithRole') ? count(node, 'membersWithRole.totalCount') : null,
  };
}
