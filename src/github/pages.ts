import type { ServiceError } from '../errors.ts';
import type { GithubError } from './errors.ts';
import type { GithubIdentity, GithubMember, ListedRepository } from './organisation.ts';
import type { FetchedPullRequest } from './pull-request.ts';

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

/** A page of what belongs to an organisation, and what that is called now. */
export interface OrganisationPage<Item> extends Page<Item> {
  organisation: GithubIdentity;
  /** By GitHub's clock, in Unix seconds. */
  repliedAt: number;
}

export interface RepositoryPage extends OrganisationPage<ListedRepository> {
  /** Why entries did not come whole. */
  failed: GithubError[];
}

export interface PullRequestPage extends Page<FetchedPullRequest> {
  /** Entries that did not come whole. The node id is absent if not even that came. */
  failed: { nodeId: string | undefined; error: ServiceError }[];
}

export interface MemberPage extends OrganisationPage<GithubMember> {
  /** GitHub hides the other members from the token, whose owner is not one of them. */
  isPublicOnly: boolean;
}
