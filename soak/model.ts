/**
 * What the service must hold, derived from what happened on GitHub and what the service was asked, independently of how
 * the service does it. If its guarantees leave room, the model knows how much.
 */
import { isDeepStrictEqual } from 'node:util';
import type { WebhookEvent } from '../test/support/github/events.ts';
import type { Organisation as GithubOrganisation } from '../test/support/github/organisation.ts';
import type { PullRequest } from '../test/support/github/pull-request.ts';
import type { Repository } from '../test/support/github/repository.ts';
import type { Account } from '../test/support/github/world.ts';
import type { Choice } from './rules.ts';
import { type Columns, columnsOf, isLagging, isMember, isShown } from './versions.ts';

/** A state that GitHub showed for a while, and the owner of its repository then. */
export interface Version {
  owner: GithubOrganisation;
  columns: Columns;
}

/** What one of our organisations may hold of a pull request. */
export interface Standing {
  /** What was last seen stored: its id, and the oldest version that it can be. */
  seen?: { id: string; version: number } | undefined;
  /** A webhook about this version was acknowledged while the pull request was the organisation's, and stored or a member's. */
  acknowledged?: number | undefined;
  /**
   * It changed while it was the organisation's, or a webhook about it was acknowledged, and it has existed since: a
   * comparison fetches it, whoever its author is, and it is remembered in case they become a member.
   */
  known: boolean;
  /**
   * The latest deletion here: `updated_at` of the stored copy was at least `from`, GitHub's was `until`; a fetch with a
   * lower ticket began before it.
   */
  deleted?: { from: number; until: number; ticket: number } | undefined;
  /** Ids that were deleted. */
  formerIds: Set<string>;
}

export interface ModelPullRequest {
  readonly source: PullRequest;
  readonly name: string;
  /** Every state that GitHub showed, oldest first. */
  readonly versions: Version[];
  readonly standings: Map<ModelOrganisation, Standing>;
  /** A comparison skips it: what GitHub forbids is not requested again. */
  isForbidden: boolean;
}

/** What only a comparison shows: whether somebody is a member, a repository's name, the organisation's login. */
export type Subject = `member ${number}` | `repository ${number}` | 'login';

export type ModelOrganisation = ReturnType<typeof organisationOf>;

/** @param id ours */
export const organisationOf = (github: GithubOrganisation, id: string, token: string) => ({
  github,
  id,
  token,
  webhooksEnabled: true,
  /** The state of each on GitHub, and since which moment of the model. */
  subjects: new Map<Subject, { state: unknown; since: number }>(),
  /** When an acknowledged webhook last asked for a comparison, and for one that includes the members. */
  comparisonAskedAt: 0,
  membersAskedAt: 0,
  /** The rules in force. */
  rules: [] as Choice,
  rulesetVersion: 0,
  /** Every login that it has had. */
  logins: new Set<string>(),
  /** Everybody who has ever been a member, by GitHub id. */
  members: new Map<number, Account>(),
  /** GitHub ids of those who are known as members whenever a fetch with a higher ticket is saved. */
  knownSince: new Map<number, number>(),
  /** GitHub ids of those who were erased, and the last ticket until then. */
  erased: new Map<number, number>(),
  /** GUIDs that were answered with 202. */
  acknowledged: new Set<string>(),
});

export type Model = ReturnType<typeof createModel>;

/** Whether it is unchanged on GitHub since an acknowledged webhook asked for a comparison. */
export function isAskedFor(organisation: ModelOrganisation, subject: Subject): boolean {
  const { subjects, comparisonAskedAt, membersAskedAt, webhooksEnabled } = organisation;
  const askedAt = subject.startsWith('member') ? membersAskedAt : comparisonAskedAt;
  return webhooksEnabled && (subjects.get(subject)?.since ?? Number.POSITIVE_INFINITY) <= askedAt;
}

export const isHere = ({ source }: ModelPullRequest, { github }: ModelOrganisation) =>
  isShown(source) && source.repository.organisation === github;

export function standingOf(pullRequest: ModelPullRequest, organisation: ModelOrganisation): Standing {
  const known = pullRequest.standings.get(organisation);
  if (known !== undefined) return known;
  const standing: Standing = { known: false, formerIds: new Set() };
  pullRequest.standings.set(organisation, standing);
  return standing;
}

const asksForComparison =
  /^(organization (renamed|member_added|member_removed)|repository (renamed|transferred|deleted))$/;

export function createModel(organisations: readonly ModelOrganisation[]) {
  const pullRequests: ModelPullRequest[] = [];
  /** Every `owner/name` that a repository has had, by its GitHub id. */
  const repositoryNames = new Map<number, Set<string>>();
  let moment = 0;
  let isTrusted = true;

  function recordVersion(pullRequest: ModelPullRequest, hasChanged: boolean): void {
    const { source, versions } = pullRequest;
    if (isShown(source)) {
      const owner = source.repository.organisation;
      const shown = source.shown();
      if (shown !== undefined && shown !== source) {
        // Old facts among new names.
        const lagging = { owner, columns: columnsOf(shown) };
        if (!versions.some(version => isDeepStrictEqual(version, lagging))) versions.push(lagging);
      }
      const present = { owner, columns: columnsOf(source) };
      if (hasChanged || !isDeepStrictEqual(versions.at(-1), present)) versions.push(present);
    }
    for (const organisation of organisations) {
      const standing = standingOf(pullRequest, organisation);
      const here = isHere(pullRequest, organisation);
      standing.known = here && ((hasChanged && !pullRequest.isForbidden) || standing.known);
      // A stored pull request is kept up to date even if its author has left.
      if (!here || !(isMember(source) || standing.seen !== undefined)) standing.acknowledged = undefined;
    }
  }

  function recordSubjects(
    { github, logins, members, subjects }: ModelOrganisation,
    repositories: readonly Repository[],
  ) {
    logins.add(github.login);
    for (const [id, account] of github.members) members.set(id, account);
    const record = (subject: Subject, state: unknown) => {
      if (subjects.get(subject)?.state !== state) subjects.set(subject, { state, since: moment });
    };
    record('login', github.login);
    for (const id of members.keys()) record(`member ${id}`, github.members.has(id));
    for (const { id, fullName, organisation, removed } of repositories) {
      record(`repository ${id}`, organisation === github && !removed ? fullName : 'not here');
    }
  }

  return {
    organisations,
    pullRequests,
    repositoryNames,
    add(source: PullRequest): ModelPullRequest {
      const name = `${source.repository.name}#${source.number}`;
      const pullRequest: ModelPullRequest = { source, name, versions: [], standings: new Map(), isForbidden: false };
      pullRequests.push(pullRequest);
      return pullRequest;
    },
    /** Call it after any change on GitHub. @param changed pull requests whose `updated_at` it set, even to the same time */
    record(changed: readonly ModelPullRequest[], repositories: readonly Repository[]): void {
      moment += 1;
      for (const organisation of organisations) recordSubjects(organisation, repositories);
      for (const { id, fullName } of repositories) {
        const names = repositoryNames.get(id) ?? new Set();
        repositoryNames.set(id, names.add(fullName));
      }
      const those = new Set(changed);
      for (const pullRequest of pullRequests) recordVersion(pullRequest, those.has(pullRequest));
    },
    /** Until GitHub shows it again, only a webhook makes it known. */
    forbid(pullRequest: ModelPullRequest): void {
      pullRequest.isForbidden = true;
      for (const standing of pullRequest.standings.values()) standing.known = false;
    },
    /** GitHub fails at times from now on: what a webhook asks for may come only with the next comparison. */
    distrust(): void {
      isTrusted = false;
      for (const organisation of organisations) {
        organisation.comparisonAskedAt = 0;
        organisation.membersAskedAt = 0;
      }
    },
    /** A webhook of the organisation was acknowledged. @param pullRequest the one that it is about, if any */
    acknowledge(
      organisation: ModelOrganisation,
      { event, action, payload }: WebhookEvent,
      pullRequest: ModelPullRequest | undefined,
    ): void {
      if (isTrusted && asksForComparison.test(`${event} ${action}`)) {
        organisation.comparisonAskedAt = moment;
        if (action?.startsWith('member_')) organisation.membersAskedAt = moment;
      }
      if (pullRequest === undefined || !isHere(pullRequest, organisation)) return;
      const { source, versions } = pullRequest;
      const standing = standingOf(pullRequest, organisation);
      standing.known = true;
      if (!isMember(source) && standing.seen === undefined) return;
      // While GraphQL lags, only what is older than the webhook is known to be too old.
      const floor = isLagging(source) ? floorOf(payload) : source.updatedAt;
      const oldest = isLagging(source)
        ? versions.findIndex(({ columns }) => columns.sourceUpdatedAt >= floor)
        : versions.length - 1;
      standing.acknowledged = Math.max(standing.acknowledged ?? 0, oldest);
    },
  };
}

/** The payload's `updated_at`, in Unix seconds. */
function floorOf(payload: object): number {
  const { pull_request, issue } = payload as Record<'pull_request' | 'issue', { updated_at: string } | undefined>;
  return Date.parse((pull_request ?? issue)?.updated_at ?? '') / 1000;
}
