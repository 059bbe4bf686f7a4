import { markOthersLeft, saveMembers } from '../database/members.ts';
import type { Organisation } from '../database/organisations.ts';
import { drawTicket } from '../database/pull-requests.ts';
import type { Deps } from '../deps.ts';
import type { GithubMember } from '../github/organisation.ts';
import { callGithub } from './github-limits.ts';
import { followOrganisation, identifyOrganisation } from './organisation.ts';

/**
 * Makes the members those whom GitHub lists now. Nothing changes unless the whole list came, nor where
 * something later than the list is known of someone.
 *
 * @returns how many there are, and how many of those known before have left
 */
export async function syncMembers(deps: Deps, unidentified: Organisation): Promise<{ members: number; left: number }> {
  const organisation = await identifyOrganisation(deps, unidentified);
  const ticket = await drawTicket(deps.database.executor);
  const listed: GithubMember[] = [];
  for (let after: string | null = null; ; ) {
    const page = await callGithub(deps, organisation, () => deps.github.pageMembers(organisation, after), 'background');
    await followOrganisation(deps, organisation, ticket, page.organisation);
    listed.push(...page.items);
    if (!page.hasNextPage) break;
    after = page.endCursor;
  }
  return deps.database.transaction(async executor => {
    await saveMembers(executor, organisation.id, ticket, listed);
    const left = await markOthersLeft(
      executor,
      organisation.id,
      ticket,
      listed.map(member => member.githubId),
    );
    return { members: listed.length, left };
  });
}
