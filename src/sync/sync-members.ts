import type { Executor } from '../database/client.ts';
import { readErased } from '../database/erased-people.ts';
import { findMembers, type MemberProfile, markOthersLeft, saveMembers, saveProfile } from '../database/members.ts';
import { lockOrganisation, type Organisation } from '../database/organisations.ts';
import { sortedForLocking } from '../database/statement.ts';
import { requestUntrackedOfMembers } from '../database/untracked-pull-requests.ts';
import type { Deps } from '../deps.ts';
import type { FetchedPullRequest } from '../github/pull-request.ts';
import { identifyOrganisation } from './identify-organisation.ts';
import { askPage, readPages } from './list-page.ts';

/** A member's pull requests may be fetched all the time: then a fetch overtakes each list. */
const maxLists = 3;

/** Deletions and new rules wait for the transaction. */
const maxSavedAtOnce = 1_000;

/**
 * Makes the stored members those that GitHub lists, and requests the earlier pull requests of new ones. Saves nothing
 * unless GitHub returned the whole list, and skips people with newer stored data.
 *
 * @param record runs in the last transaction that saves them
 * @returns how many members GitHub lists, without people erased here, and how many of those known before have left; null
 * if GitHub lists public members only: then none leaves
 */
export async function syncMembers(
  deps: Deps,
  unidentified: Organisation,
  record?: (executor: Executor) => Promise<void>,
) {
  let allLeft = 0;
  for (let lists = 1; ; lists += 1) {
    const { organisation, ticket, listed, isPublicOnly } = await readMemberList(deps, unidentified);
    const { id } = organisation;
    for (let start = 0; start < listed.length; start += maxSavedAtOnce) {
      await deps.database.transaction(async executor => {
        // What is erased meanwhile stays so.
        await lockOrganisation(executor, id, 'shared');
        await saveMembers(executor, id, ticket, listed.slice(start, start + maxSavedAtOnce));
      });
    }
    const leftBefore = allLeft;
    /** @param mayLeave undefined: not known */
    const save = (mayLeave: boolean | undefined) =>
      deps.database.transaction(async executor => {
        await lockOrganisation(executor, id, 'shared');
        if (mayLeave !== false) {
          const githubIds = listed.map(({ githubId }) => githubId);
          const { left, isOvertaken } = await markOthersLeft(executor, id, ticket, githubIds);
          if (left > 0 && mayLeave === undefined) throw new MembersWouldLeave();
          // Not added: the transaction may be run again.
          allLeft = leftBefore + left;
          // A fetch overtook the list: it shows a new name of somebody who has left or is back, or a new member.
          if (isOvertaken && lists < maxLists) return 'overtaken';
        }
        await record?.(executor);
        const isErased = await readErased(executor, id);
        const members = listed.filter(({ githubId }) => !isErased(githubId)).length;
        return { members, left: mayLeave === false ? null : allLeft };
      });
    const ask = async () => !isPublicOnly && (await deps.github.readsMembers(organisation));
    // An operator is told about it. Otherwise it takes no request while no member would leave.
    const saving = save(isPublicOnly || record !== undefined ? await ask() : undefined);
    const result = await saving.catch(async (error: unknown) => {
      if (error instanceof MembersWouldLeave) return save(await ask());
      throw error;
    });
    if (result === 'overtaken') continue;
    // Of all members, not only new ones: a fetch that was saved at the same moment may have left some behind.
    while (await deps.database.transaction(executor => requestUntrackedOfMembers(executor, id)));
    return result;
  }
}

/** Ends a transaction: whether GitHub lists all members must be known first. */
class MembersWouldLeave extends Error {}

/** @returns `ticket` was drawn before the first request; `isPublicOnly`: GitHub lists public members only */
export async function readMemberList(deps: Deps, unidentified: Organisation) {
  const organisation = await identifyOrganisation(deps, unidentified);
  const readPage = async (after: string | null) => {
    const { reply, ticket } = await askPage(
      deps,
      organisation,
      'members',
      (github, pageSize) => github.pageMembers(organisation, after, { pageSize, asksRest: false }),
      page => page.organisation,
    );
    return { ...reply, ticket };
  };

  // The list is only as new as its first page.
  let ticket = Number.POSITIVE_INFINITY;
  const listed: MemberProfile[] = [];
  let isPublicOnly = false;
  for await (const page of readPages(readPage)) {
    ticket = Math.min(ticket, page.ticket);
    listed.push(...page.items);
    isPublicOnly ||= page.isPublicOnly;
  }
  return { organisation, ticket, listed, isPublicOnly };
}

const profileKeys = ['login', 'name', 'photoUrl'] as const;

/**
 * Makes authors members if GitHub marks them so, and follows their renames.
 *
 * @returns `ids` of authors who are members, by GitHub id; `joined`: GitHub ids of those who were not members before
 */
export async function saveAuthors(
  executor: Executor,
  organisationId: string,
  ticket: number,
  fetched: readonly FetchedPullRequest[],
): Promise<{ ids: Map<number, string>; joined: number[] }> {
  const profiles = new Map<number, MemberProfile & { marked: boolean }>();
  for (const { author, authorName, authorPhotoUrl, authorGithubId, authorAssociation } of fetched) {
    if (authorGithubId === null) continue;
    profiles.set(authorGithubId, {
      githubId: authorGithubId,
      login: author,
      name: authorName,
      photoUrl: authorPhotoUrl,
      marked: ['MEMBER', 'OWNER'].includes(authorAssociation) || (profiles.get(authorGithubId)?.marked ?? false),
    });
  }
  const known = await findMembers(executor, organisationId, [...profiles.keys()]);
  const ids = new Map<number, string>();
  const changed: MemberProfile[] = [];
  for (const { marked, ...profile } of sortedForLocking([...profiles.values()])) {
    const member = known.get(profile.githubId);
    const isPresent = member !== undefined && member.leftAt === null;
    if (!isPresent && !marked) continue;
    if (member !== undefined) ids.set(profile.githubId, member.id);
    if (isPresent && profileKeys.every(key => member[key] === profile[key])) continue;
    if (marked) changed.push(profile);
    // Unlike saveMembers, this does not bring back a member that has left meanwhile.
    else await saveProfile(executor, organisationId, ticket, profile);
  }
  for (const [githubId, id] of await saveMembers(executor, organisationId, ticket, changed)) ids.set(githubId, id);
  const joined = changed.flatMap(({ githubId }) =>
    known.get(githubId)?.leftAt === null || !ids.has(githubId) ? [] : [githubId],
  );
  return { ids, joined };
}
