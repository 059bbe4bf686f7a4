import { type Static, type TProperties, Type } from '@sinclair/typebox';
import type { ServiceError } from '../errors.ts';
import { Reply, UnexpectedReply } from './decode.ts';
import type { GithubError } from './errors.ts';
import type { GithubIdentity, GithubMember, ListedRepository } from './organisation.ts';
import type { FetchedPullRequest } from './pull-request.ts';

/** What is selected of every connection that is read by pages. */
export const pageInfo = 'totalCount pageInfo { endCursor hasNextPage }';
const PageInfo = Type.Object({
  totalCount: Reply.Count,
  pageInfo: Type.Object({ endCursor: Reply.Nullable(Reply.Text), hasNextPage: Reply.Flag }),
});
export const pageOf = <Parts extends TProperties>(parts: Parts) => Type.Object({ ...PageInfo.properties, ...parts });

/** @throws UnexpectedReply if there is a next page, but no new cursor */
export function readPageInfo({ totalCount, pageInfo }: Static<typeof PageInfo>, after: string | null) {
  const { hasNextPage, endCursor = null } = pageInfo;
  if (hasNextPage && (endCursor === null || endCursor === after)) throw new UnexpectedReply('endCursor leads nowhere');
  return { totalCount, hasNextPage, endCursor };
}

export interface Page<Item> {
  items: Item[];
  /** Where the next page starts; stable while entries come and go. Null on an empty page. */
  endCursor: string | null;
  hasNextPage: boolean;
  totalCount: number;
}

/** Which page of a repository's pull requests, in all states: oldest first, or latest change first. */
export interface PageChoice {
  order: 'created' | 'updated';
  after: string | null;
  pageSize: number;
}

/** A page of what belongs to an organisation, and its current login. */
export interface OrganisationPage<Item> extends Page<Item> {
  organisation: GithubIdentity;
  /** By GitHub's clock, in Unix seconds. */
  repliedAt: number;
}

export interface RepositoryPage extends OrganisationPage<ListedRepository> {
  /** Why entries are missing. */
  failed: GithubError[];
}

export interface PullRequestPage extends Page<FetchedPullRequest> {
  /** Entries that are missing or incomplete. The node id is undefined if GitHub did not return it. */
  failed: { nodeId: string | undefined; error: ServiceError }[];
}

export interface MemberPage extends OrganisationPage<GithubMember> {
  /** The token's owner is not a member, so GitHub hides all members that are not public. */
  isPublicOnly: boolean;
}
