import { type Static, type TProperties, Type } from '@sinclair/typebox';
import { decode, linkOrNone, matches, optionalUnixSeconds, present, Reply } from './decode.ts';
import type { GraphqlFailure } from './github-error.ts';
import { pageInfo, pageOf, readPageInfo } from './pages.ts';
import { rateLimit } from './transport.ts';

const { Count, Flag, Id, List, Nullable, OptionalLink, Text, Time, Total } = Reply;

const identity = 'id databaseId login';
export const Identity = Type.Object({ id: Text, databaseId: Id, login: Text });
const organisationWith = <Parts extends TProperties>(parts: Parts) => Type.Object({ ...Identity.properties, ...parts });

const repositoryFragment = `
fragment RepositoryFacts on Repository {
  id
  databaseId
  name
  isArchived
  isFork
  owner { login }
  pullRequests(first: 1, orderBy: { field: UPDATED_AT, direction: DESC }) { totalCount nodes { updatedAt } }
}`;
const Repository = Type.Object({
  id: Text,
  databaseId: Id,
  name: Text,
  isArchived: Flag,
  isFork: Flag,
  owner: Type.Object({ login: Text }),
  pullRequests: Type.Object({
    totalCount: Count,
    nodes: List(Type.Object({ updatedAt: Nullable(Time) })),
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
const Repositories = organisationWith({ repositories: pageOf({ edges: List(Type.Unknown()) }) });
const RepositoryEdge = Type.Object({ cursor: Text, node: Nullable(Repository) });

export const repositoryQuery = `
query Repository($id: ID!, $name: String!) {
  ${rateLimit}
  node(id: $id) { ... on Organization { ${identity} repository(name: $name) { ...RepositoryFacts } } }
}
${repositoryFragment}`;
const NamedRepository = organisationWith({ repository: Nullable(Repository) });

export const repositoryOwnersQuery = `
query RepositoryOwners($ids: [ID!]!) {
  ${rateLimit}
  nodes(ids: $ids) {
    ... on Repository { owner { ... on Organization { databaseId } ... on User { databaseId } } }
  }
}`;
const Owned = Type.Object({ owner: Type.Object({ databaseId: Id }) });

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
const Member = Type.Object({ databaseId: Id, login: Text, name: Nullable(Text), avatarUrl: OptionalLink });
const Members = organisationWith({
  viewerIsAMember: Flag,
  membersWithRole: pageOf({ nodes: List(Member) }),
});

const Organisation = organisationWith({
  name: Nullable(Text),
  avatarUrl: OptionalLink,
  repositories: Total,
});

const organisationQueryBy = (variable: string, field: string) => `
query Organisation(${variable}) {
  ${rateLimit}
  ${field} { ... on Organization { ${identity} name avatarUrl repositories { totalCount } } }
}`;
export const organisationQuery = organisationQueryBy('$id: ID!', 'node(id: $id)');
export const organisationByLoginQuery = organisationQueryBy('$login: String!', 'organization(login: $login)');

/** The ids never change; the login may be given up and taken by another account. */
export type GithubIdentity = ReturnType<typeof identityOf>;

export const identityOf = ({ id, databaseId, login }: Static<typeof Identity>) => ({
  githubId: Number(databaseId),
  nodeId: id,
  login,
});

/** The login if the account has no name. */
export const nameOf = ({ name, login }: { name?: string | null; login: string }) => name?.trim() || login;

export type GithubRepository = ReturnType<typeof repositoryOf>;

function repositoryOf(repository: Static<typeof Repository>) {
  const [latest] = present(repository.pullRequests.nodes);
  return {
    githubId: Number(repository.databaseId),
    nodeId: repository.id,
    /** The owner's login. */
    owner: repository.owner.login,
    /** `owner/name` */
    name: `${repository.owner.login}/${repository.name}`,
    isArchived: repository.isArchived,
    isFork: repository.isFork,
    pullRequests: repository.pullRequests.totalCount,
    /** When any of them last changed, in Unix seconds; null if there is none, infinite if GitHub failed on the latest. */
    pullRequestsUpdatedAt:
      latest === undefined && repository.pullRequests.totalCount > 0
        ? Number.POSITIVE_INFINITY
        : optionalUnixSeconds(latest?.updatedAt),
  };
}

/**
 * Reads a page; its edges are read by {@link readListedRepository}.
 * @throws UnexpectedReply, as all these functions do, if anything is not as GitHub documents it
 */
export function readRepositories(answer: unknown) {
  const organisation = decode(Repositories, answer);
  const { repositories } = organisation;
  return {
    organisation: identityOf(organisation),
    edges: repositories.edges,
    ...readPageInfo(repositories),
  };
}

/** With the cursor of its place. Undefined if GitHub does not show it, or was asked for the cursor only. */
export function readListedRepository(edge: unknown) {
  const { node, cursor } = decode(RepositoryEdge, edge);
  return node ? { ...repositoryOf(node), cursor } : undefined;
}

export function readNamedRepository(answer: unknown) {
  const organisation = decode(NamedRepository, answer);
  const { repository } = organisation;
  return { organisation: identityOf(organisation), repository: repository ? repositoryOf(repository) : undefined };
}

/** Those of the repositories that GitHub does not show, or shows with another owner; not those on which it failed. */
export function readLost(
  owner: number,
  nodeIds: readonly string[],
  nodes: readonly unknown[],
  failures: readonly GraphqlFailure[],
): Set<string> {
  const gone = new Set(failures.flatMap(({ path, type }) => (type === 'NOT_FOUND' ? [path.join('/')] : [])));
  const lost = nodeIds.filter((_, index) => {
    const repository = nodes[index];
    return gone.has(`nodes/${index}`) || (matches(Owned, repository) && Number(repository.owner.databaseId) !== owner);
  });
  return new Set(lost);
}

export function readMembers(answer: unknown) {
  const organisation = decode(Members, answer);
  const { membersWithRole, viewerIsAMember } = organisation;
  const items = present(membersWithRole.nodes).map(member => ({
    githubId: Number(member.databaseId),
    login: member.login,
    name: nameOf(member),
    photoUrl: linkOrNone(member.avatarUrl),
  }));
  return {
    organisation: identityOf(organisation),
    viewerIsAMember,
    items,
    ...readPageInfo(membersWithRole),
  };
}

export function readOrganisation(answer: unknown) {
  const organisation = decode(Organisation, answer);
  return {
    ...identityOf(organisation),
    name: nameOf(organisation),
    photoUrl: linkOrNone(organisation.avatarUrl),
    repositories: organisation.repositories.totalCount,
  };
}
