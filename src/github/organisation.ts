import { type Static, type TProperties, Type } from '@sinclair/typebox';
import { TypeCompiler } from '@sinclair/typebox/compiler';
import { decode, optionalUnixSeconds, present, Reply } from './decode.ts';
import { pageInfo, pageOf, readPageInfo } from './pages.ts';
import { rateLimit } from './transport.ts';

const { Count, Entries, Flag, Id, Link, Nullable, Text, Time, Total } = Reply;

export interface GithubRepository {
  githubId: number;
  nodeId: string;
  /** The owner's login. */
  owner: string;
  name: string;
  pullRequests: number;
  /** When any of its pull requests last changed, in Unix seconds; null if it has none. */
  pullRequestsUpdatedAt: number | null;
}

/** A repository on a page, and the cursor of its place. */
export interface ListedRepository extends GithubRepository {
  cursor: string;
}

/** The ids never change; the login may be given up and taken by somebody else. */
export interface GithubIdentity {
  githubId: number;
  nodeId: string;
  login: string;
}

export interface GithubMember {
  githubId: number;
  login: string;
  /** The login if the account has no name. */
  name: string;
  photoUrl: string;
}

export interface GithubOrganisation extends GithubIdentity {
  name: string;
  photoUrl: string;
  repositories: number;
}

const identity = 'id databaseId login';
export const Identity = Type.Object({ id: Text, databaseId: Id, login: Text });
const checkOfOrganisation = <Parts extends TProperties>(parts: Parts) =>
  TypeCompiler.Compile(Type.Object({ ...Identity.properties, ...parts }));

const repositoryFragment = `
fragment RepositoryFacts on Repository {
  id
  databaseId
  name
  owner { login }
  pullRequests(first: 1, orderBy: { field: UPDATED_AT, direction: DESC }) { totalCount nodes { updatedAt } }
}`;
const Repository = Type.Object({
  id: Text,
  databaseId: Id,
  name: Text,
  owner: Type.Object({ login: Text }),
  pullRequests: Type.Object({
    totalCount: Count,
    nodes: Entries(Type.Object({ updatedAt: Nullable(Time) })),
  }),
});

export const repositoriesQuery = `
query Repositories($id: ID!, $first: Int!, $after: String, $facts: Boolean!) {
  ${rateLimit}
  node(id: $id) {
    ... on Organization {
      ${identity}
      repositories(first: $first, after: $after, orderBy: { field: CREATED_AT, direction: ASC }) {
        ${pageInfo}
        edges { cursor node @include(if: $facts) { ...RepositoryFacts } }
      }
    }
  }
}
${repositoryFragment}`;
const repositoriesCheck = checkOfOrganisation({ repositories: pageOf({ edges: Entries(Type.Unknown()) }) });
const repositoryEdgeCheck = TypeCompiler.Compile(Type.Object({ cursor: Text, node: Nullable(Repository) }));

export const repositoryQuery = `
query Repository($id: ID!, $name: String!) {
  ${rateLimit}
  node(id: $id) { ... on Organization { ${identity} repository(name: $name) { ...RepositoryFacts } } }
}
${repositoryFragment}`;
const namedRepositoryCheck = checkOfOrganisation({ repository: Nullable(Repository) });

export const repositoryOwnersQuery = `
query RepositoryOwners($ids: [ID!]!) {
  ${rateLimit}
  nodes(ids: $ids) {
    ... on Repository { owner { ... on Organization { databaseId } ... on User { databaseId } } }
  }
}`;
const ownedCheck = TypeCompiler.Compile(Type.Object({ owner: Type.Object({ databaseId: Id }) }));

export const membersQuery = `
query Members($id: ID!, $first: Int!, $after: String) {
  ${rateLimit}
  node(id: $id) {
    ... on Organization {
      ${identity}
      viewerIsAMember
      membersWithRole(first: $first, after: $after) {
        ${pageInfo}
        nodes { databaseId login name avatarUrl }
      }
    }
  }
}`;
const Member = Type.Object({ databaseId: Id, login: Text, name: Nullable(Text), avatarUrl: Link });
const membersCheck = checkOfOrganisation({
  viewerIsAMember: Flag,
  membersWithRole: pageOf({ nodes: Entries(Member) }),
});

const organisationFragment = `
fragment OrganisationFacts on Organization {
  ${identity}
  name
  avatarUrl
  repositories { totalCount }
}`;
const organisationCheck = checkOfOrganisation({
  name: Nullable(Text),
  avatarUrl: Link,
  repositories: Total,
});

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

export const identityOf = ({ id, databaseId, login }: Static<typeof Identity>): GithubIdentity => ({
  githubId: Number(databaseId),
  nodeId: id,
  login,
});

/** The login if the account has no name. */
export const nameOf = ({ name, login }: { name?: string | null; login: string }) => name?.trim() || login;

function repositoryOf(repository: Static<typeof Repository>): GithubRepository {
  const [latest] = present(repository.pullRequests.nodes);
  return {
    githubId: Number(repository.databaseId),
    nodeId: repository.id,
    owner: repository.owner.login,
    name: repository.name,
    pullRequests: repository.pullRequests.totalCount,
    pullRequestsUpdatedAt: optionalUnixSeconds(latest?.updatedAt),
  };
}

/**
 * Reads a page; its edges are read by {@link readListedRepository}.
 * @throws UnexpectedReply, as all these functions do, if anything is not as GitHub documents it
 */
export function readRepositories(answer: unknown, after: string | null) {
  const organisation = decode(repositoriesCheck, answer);
  const { repositories } = organisation;
  return {
    organisation: identityOf(organisation),
    edges: repositories.edges ?? [],
    ...readPageInfo(repositories, after),
  };
}

/** Undefined if GitHub does not show it, or was asked for the cursor only. */
export function readListedRepository(edge: unknown): ListedRepository | undefined {
  const { node, cursor } = decode(repositoryEdgeCheck, edge);
  return node ? { ...repositoryOf(node), cursor } : undefined;
}

export function readNamedRepository(answer: unknown) {
  const organisation = decode(namedRepositoryCheck, answer);
  const { repository } = organisation;
  return { organisation: identityOf(organisation), repository: repository ? repositoryOf(repository) : undefined };
}

/** GitHub's id of a repository's owner; undefined if GitHub did not return it. */
export const readOwner = (repository: unknown): number | undefined =>
  ownedCheck.Check(repository) ? Number(repository.owner.databaseId) : undefined;

export function readMembers(answer: unknown, after: string | null) {
  const organisation = decode(membersCheck, answer);
  const { membersWithRole, viewerIsAMember } = organisation;
  const items = present(membersWithRole.nodes).map(
    (member): GithubMember => ({
      githubId: Number(member.databaseId),
      login: member.login,
      name: nameOf(member),
      photoUrl: member.avatarUrl,
    }),
  );
  return {
    organisation: identityOf(organisation),
    viewerIsAMember,
    items,
    ...readPageInfo(membersWithRole, after),
  };
}

export function readOrganisation(answer: unknown): GithubOrganisation {
  const organisation = decode(organisationCheck, answer);
  return {
    ...identityOf(organisation),
    name: nameOf(organisation),
    photoUrl: organisation.avatarUrl,
    repositories: organisation.repositories.totalCount,
  };
}
