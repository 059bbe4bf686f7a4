/**
 * What the service must hold, worked out from what happened on GitHub and what was asked of the service, without
 * looking at how the service does it. Where its guarantees leave room, the model knows how much.
 */
import { isDeepStrictEqual } from 'node:util';
import type { Organisation as GithubOrganisation } from '../test/support/github/organisation.ts';
import type { PullRequest } from '../test/support/github/pull-request.ts';
import type { Repository } from '../test/support/github/repository.ts';
import type { Account } from '../test/support/github/world.ts';
import { createNotices, type Notices } from './notices.ts';
import type { Ruleset } from './rules.ts';
import { type Columns, columnsOf, isMember, isShown } from './versions.ts';

/** One state that GitHub showed for a while, and whose repository it was then. */
export interface Version {
  owner: GithubOrganisation;
  columns: Columns;
}

/** One pull request as one of our organisations may hold it. */
export interface Standing {
  /** What was last seen stored: its id, and the oldest version that it can have been. */
  seen?: { id: string; version: number } | undefined;
  /**
   * A webhook about this version was acknowledged while the pull request was the organisation's, and stored already or
   * a member's.
   */
  acknowledged?: number | undefined;
  /** Its author was a member all the time since its latest change. */
  memberSinceChange: boolean;
  /** Of the row that was stored when it last changed. */
  idAtChange?: string | undefined;
  /**
   * The latest deletion here: `updated_at` of the stored copy was no less than `from`, GitHub's was `until`; a fetch
   * with a lower ticket began before it.
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
  /** The version that its latest change made; later ones differ in what GitHub does not date: names, association. */
  changed: number;
  readonly standings: Map<ModelOrganisation, Standing>;
}

export interface ModelOrganisation {
  readonly github: GithubOrganisation;
  /** Our id. */
  readonly id: string;
  readonly token: string;
  webhooksEnabled: boolean;
  /** Since it was last renamed on GitHub, a webhook that tells of it was acknowledged. */
  isRenamingTold: boolean;
  ruleset: Ruleset;
  rulesetVersion: number;
  /** Every login that it has had. */
  readonly logins: Set<string>;
  /** Everybody who has ever been a member, by GitHub id. */
  readonly members: Map<number, Account>;
  readonly notices: Notices;
  /** GUIDs that were answered with 202. */
  readonly acknowledged: Set<string>;
}

export interface Model {
  readonly organisations: ModelOrganisation[];
  readonly pullRequests: ModelPullRequest[];
  /** Every `owner/name` that a repository has had, by its GitHub id. */
  readonly repositoryNames: Map<number, Set<string>>;
  add(pullRequest: PullRequest): ModelPullRequest;
  /** After anything happened on GitHub. @param changed the pull requests whose `updated_at` it set, be it to the same */
  record(changed: readonly ModelPullRequest[], repositories: readonly Repository[]): void;
}

export const organisationOf = (github: GithubOrganisation, id: string, token: string): ModelOrganisation => ({
  github,
  id,
  token,
  webhooksEnabled: true,
  isRenamingTold: false,
  ruleset: [],
  rulesetVersion: 0,
  logins: new Set(),
  members: new Map(),
  notices: createNotices(github),
  acknowledged: new Set(),
});

export const isHere = ({ source }: ModelPullRequest, { github }: ModelOrganisation) =>
  isShown(source) && source.repository.organisation === github;

export function standingOf(pullRequest: ModelPullRequest, organisation: ModelOrganisation): Standing {
  const known = pullRequest.standings.get(organisation);
  if (known !== undefined) return known;
  const standing: Standing = { memberSinceChange: false, formerIds: new Set() };
  pullRequest.standings.set(organisation, standing);
  return standing;
}

export function createModel(organisations: ModelOrganisation[]): Model {
  const pullRequests: ModelPullRequest[] = [];
  const repositoryNames = new Map<number, Set<string>>();

  function recordVersion(pullRequest: ModelPullRequest, hasChanged: boolean): void {
    const { source, versions } = pullRequest;
    if (isShown(source)) {
      const version = { owner: source.repository.organisation, columns: columnsOf(source) };
      if (hasChanged || !isDeepStrictEqual(versions.at(-1), version)) versions.push(version);
      if (hasChanged) pullRequest.changed = versions.length - 1;
    }
    for (const organisation of organisations) {
      const standing = standingOf(pullRequest, organisation);
      // What is stored is kept up to date also when its author has left.
      const isKept = isHere(pullRequest, organisation) && (isMember(source) || standing.seen !== undefined);
      const author = source.author;
      const belongs = author !== null && !author.deleted && organisation.github.members.has(author.id);
      standing.memberSinceChange = isShown(source) && belongs && (hasChanged || standing.memberSinceChange);
      if (hasChanged) standing.idAtChange = standing.seen?.id;
      if (!isKept) standing.acknowledged = undefined;
    }
  }

  return {
    organisations,
    pullRequests,
    repositoryNames,
    add(source) {
      const name = `${source.repository.name}#${source.number}`;
      const pullRequest: ModelPullRequest = { source, name, versions: [], changed: 0, standings: new Map() };
      pullRequests.push(pullRequest);
      return pullRequest;
    },
    record(changed, repositories) {
      for (const { github, logins, members, notices } of organisations) {
        logins.add(github.login);
        for (const [id, account] of github.members) members.set(id, account);
        notices.record(repositories);
      }
      for (const { id, fullName } of repositories) {
        const names = repositoryNames.get(id) ?? new Set();
        repositoryNames.set(id, names.add(fullName));
      }
      for (const pullRequest of pullRequests) recordVersion(pullRequest, changed.includes(pullRequest));
    },
  };
}
