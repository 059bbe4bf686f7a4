import { markOthersLeft, saveMembers } from '../database/members.ts';
import type { Organisation } from '../database/organisations.ts';
import { drawTicket } from '../database/pull-requests.ts';
import { requestUntrackedOfMembers } from '../database/untracked-pull-requests.ts';
import type { Deps } from '../deps.ts';
import { maxMembers } from '../github/client.ts';
import type { GithubMember } from '../github/organisation.ts';
import { createPageSize, withPageSize } from '../github/page-size.ts';
import type { MemberPage } from '../github/pages.ts';
import { callGithub } from './github-limits.ts';
import { followOrganisation, identifyOrganisation } from './organisation.ts';

export interface SyncedMembers {
  /** Whom GitHub lists. */
  members: number;
  /** Of those known before, how many have left now. Null if GitHub lists public members only: then nobody leaves. */
  left: number | null;
}

/**
 * Makes the members those whom GitHub lists now, and has the earlier pull requests of those who are new fetched.
 * Nothing changes unless the whole list came, nor for a person of whom something later than the list is known.
 */
export async function syncMembers(deps: Deps, unidentified: Organisation): Promise<SyncedMembers> {
  const organisation = await identifyOrganisation(deps, unidentified);
  const ticket = await drawTicket(deps.database.executor);
  const pageSize = createPageSize(maxMembers);
  const readPage = (after: string | null): Promise<MemberPage> =>
    withPageSize(pageSize, maxMembers, size =>
      callGithub(deps, organisation, () => deps.github.pageMembers(organisation, after, size), 'background'),
    );

  const listed: GithubMember[] = [];
  let isPublicOnly = false;
  for (let after: string | null = null; ; ) {
    const page = await readPage(after);
    await followOrganisation(deps, organisation, ticket, page.organisation);
    listed.push(...page.items);
    isPublicOnly ||= page.isPublicOnly;
    if (!page.hasNextPage) break;
    after = page.endCursor;
  }
  return deps.database.transaction(async executor => {
    await saveMembers(executor, organisation.id, ticket, listed);
    const githubIds = listed.map(({ githubId }) => githubId);
    const left = isPublicOnly ? null : await markOthersLeft(executor, organisation.id, ticket, githubIds);
    // Of all members, not only of those who are new: a fetch that was being saved meanwhile may have left some behind.
    await requestUntrackedOfMembers(executor, organisation.id);
    return { members: listed.length, left };
  });
}
