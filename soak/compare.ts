/** Compares what is stored with the model, while no client does anything. */
import { isDeepStrictEqual } from 'node:util';
import { and, asc, eq, inArray, sql } from 'drizzle-orm';
import type { Database, Executor } from '../src/database/client.ts';
import { isInPresentRepository } from '../src/database/pull-requests.ts';
import {
  checkRuns,
  deletedPullRequests,
  members,
  organisations,
  pullRequests,
  repositories,
  scoreChanges,
  webhookDeliveries,
} from '../src/database/schema.ts';
import { formatId } from '../src/ids.ts';
import type { Reviewer } from '../src/pull-request.ts';
import { formatInteger } from '../src/text/number-formats.ts';
import {
  isAskedFor,
  isHere,
  type ModelOrganisation,
  type ModelPullRequest,
  type Subject,
  standingOf,
} from './model.ts';
import type { Scene } from './play.ts';
import { createScoring, rulesetOf } from './rules.ts';
import { type Columns, isMember } from './versions.ts';

/**
 * How much must be known: what was acknowledged (`settled`); after a comparison with GitHub and a sweep, also what no
 * webhook announced (`compared`); after an import, everything that GitHub has (`imported`).
 */
export type Stage = 'settled' | 'compared' | 'imported';

type Stored = Awaited<ReturnType<typeof readStored>>;
type Row = Stored['rows'][number];

/** A snapshot, because retries and background requests may still be saved. */
const readStored = ({ executor }: Database, organisationId: string) =>
  executor.transaction(each => readTables(each, organisationId), { isolationLevel: 'repeatable read' });

async function readTables(executor: Pick<Executor, 'select' | 'execute'>, organisationId: string) {
  const of = <Table extends { organisationId: Parameters<typeof eq>[0] }>(table: Table) =>
    eq(table.organisationId, organisationId);
  const joined = await executor
    .select({ row: pullRequests, repository: repositories, author: members })
    .from(pullRequests)
    .innerJoin(repositories, and(of(repositories), eq(repositories.id, pullRequests.repositoryId)))
    .innerJoin(members, and(of(members), eq(members.id, pullRequests.memberId)))
    .where(of(pullRequests));
  const [organisation] = await executor.select().from(organisations).where(eq(organisations.id, organisationId));
  const rows = joined.map(({ row, repository, author }) => ({
    ...row,
    repository: repository.name,
    repositoryGithubId: repository.githubId,
    memberGithubId: author.githubId,
  }));
  return {
    rows,
    organisation,
    tombstones: await executor.select().from(deletedPullRequests).where(of(deletedPullRequests)),
    changes: await executor.select().from(scoreChanges).where(of(scoreChanges)).orderBy(asc(scoreChanges.id)),
    members: await executor.select().from(members).where(of(members)),
    repositories: await executor.select().from(repositories).where(of(repositories)),
    deliveries: await executor.select().from(webhookDeliveries).where(of(webhookDeliveries)),
    /** The last one that was drawn. */
    ticket: Number(
      (await executor.execute<{ last: string }>(sql`select last_value as last from tickets`)).rows[0]?.last,
    ),
  };
}

interface Comparison {
  stored: Stored;
  organisation: ModelOrganisation;
  stage: Stage;
  scene: Scene;
  scoreOf: ReturnType<typeof createScoring>;
  /** Reports a difference, in plain words. */
  differ(text: string): void;
}

/** Adds how what is stored of the organisation differs from the model. */
export async function compare(scene: Scene, organisation: ModelOrganisation, stage: Stage): Promise<void> {
  const { arena, differences, model } = scene;
  const stored = await readStored(arena.database, organisation.id);
  for (const { githubId } of stored.members) {
    if (!organisation.knownSince.has(githubId)) organisation.knownSince.set(githubId, stored.ticket);
  }
  const differ = (text: string) => void differences.push(`${organisation.github.login} (${stage}): ${text}`);
  const scoreOf = createScoring(rulesetOf(organisation.rules));
  const comparison = { stored, organisation, stage, scene, scoreOf, differ };
  const rows = new Map(stored.rows.map(row => [row.githubId, row]));
  for (const pullRequest of model.pullRequests) {
    const row = rows.get(pullRequest.source.id);
    rows.delete(pullRequest.source.id);
    const ofThis = (text: string) => differ(`${pullRequest.name}: ${text}`);
    if (row !== undefined) comparePresent({ ...comparison, differ: ofThis }, pullRequest, row);
    else compareAbsent(comparison, pullRequest).forEach(ofThis);
  }
  for (const { url } of rows.values()) differ(`${url} was never on GitHub`);
  compareScoreChanges(comparison);
  compareMembers(comparison);
  compareRepositories(comparison);
  compareDeliveries(comparison);
  compareLogin(comparison);
  const version = stored.organisation?.rulesetVersion;
  if (version !== organisation.rulesetVersion) {
    differ(`ruleset ${version} is in force, not ${organisation.rulesetVersion}`);
  }
}

/** GitHub shows the stored score of each open pull request, on the commit that was scored. */
export async function compareCheckRuns({ arena, model, differences }: Scene, { id, github }: ModelOrganisation) {
  const isOpen = inArray(pullRequests.state, ['draft', 'open']);
  const rows = await arena.database.executor
    .select({ row: pullRequests, failure: checkRuns.lastError })
    .from(pullRequests)
    .leftJoin(checkRuns, and(eq(checkRuns.organisationId, id), eq(checkRuns.pullRequestId, pullRequests.id)))
    .where(and(eq(pullRequests.organisationId, id), isOpen, isInPresentRepository(id)));
  for (const { row, failure } of rows) {
    const source = model.pullRequests.find(each => each.source.id === row.githubId)?.source;
    // One that was removed from GitHub stays stored as it was.
    if (source === undefined || !source.repository.pullRequests.includes(source)) continue;
    const shown = source.repository.checkRunOn(row.headSha)?.title;
    const score = `Score ${formatInteger(row.score)}`;
    if (shown === score || shown?.startsWith(`${score} (`)) continue;
    differences.push(`${github.login}: ${row.url} shows ${shown} on GitHub, not ${score}: ${failure}`);
  }
}

function compareAbsent(comparison: Comparison, pullRequest: ModelPullRequest): string[] {
  const { stored, organisation, stage, scene } = comparison;
  const { source, versions } = pullRequest;
  const standing = standingOf(pullRequest, organisation);
  const { deleted } = standing;
  const tombstone = stored.tombstones.find(({ githubId }) => githubId === source.id);
  const acknowledged = scene.troubles.poisoned.has(pullRequest) ? undefined : standing.acknowledged;
  const announced = versions[acknowledged ?? -1]?.columns.sourceUpdatedAt;
  let isAnnounced = announced !== undefined;
  if (deleted === undefined && tombstone !== undefined) return ['has a tombstone, and was never deleted'];
  if (deleted !== undefined) {
    if (tombstone === undefined) return ['was deleted, and has no tombstone'];
    const { sourceUpdatedAt } = tombstone;
    if (sourceUpdatedAt < deleted.from || sourceUpdatedAt > deleted.until) {
      return [`its tombstone is of ${sourceUpdatedAt}, not of ${deleted.from} to ${deleted.until}`];
    }
    if (source.updatedAt <= sourceUpdatedAt) return [];
    // A webhook about what was deleted does not bring it back, only one about a later change.
    isAnnounced = announced !== undefined && announced > sourceUpdatedAt;
    // It had changed before it was deleted, unseen by the stored copy: any new fetch brings it back.
    if (!isAnnounced && source.updatedAt <= deleted.until && stage !== 'imported') return [];
  } else if (standing.seen !== undefined) {
    return ['was stored, and is gone without having been deleted'];
  }
  const must = {
    settled: isAnnounced,
    compared: isAnnounced || (standing.known && isMember(source)),
    imported: isMember(source),
  }[stage];
  return must && isHere(pullRequest, organisation) ? ["is a member's on GitHub, and not stored"] : [];
}

function comparePresent(comparison: Comparison, pullRequest: ModelPullRequest, row: Row): void {
  const { stored, organisation, stage, scene, differ } = comparison;
  const { source, versions } = pullRequest;
  const standing = standingOf(pullRequest, organisation);
  const { seen, deleted } = standing;
  const last = versions.length - 1;
  const differing = (columns: Columns | undefined) => differingColumns(comparison, row, columns);

  const matching = versions.flatMap((version, index) =>
    version.owner === organisation.github && differing(version.columns) === '' ? [index] : [],
  );
  const version = matching.at(-1) ?? -1;
  const wasNew = seen?.id !== row.id;
  const oldest = Math.max(
    wasNew ? 0 : (seen?.version ?? 0),
    scene.troubles.poisoned.has(pullRequest) ? 0 : (standing.acknowledged ?? 0),
    stage !== 'settled' && isHere(pullRequest, organisation) ? last : 0,
  );
  if (matching.length === 0) {
    differ(`is stored as GitHub never showed it: ${differing(versions[last]?.columns)}`);
  } else if (version < oldest || row.sourceUpdatedAt < (versions[oldest]?.columns.sourceUpdatedAt ?? 0)) {
    differ(`is stored as version ${version}, not ${oldest} or later: ${differing(versions[oldest]?.columns)}`);
  }

  if (standing.formerIds.has(row.id)) differ('was deleted, and is back under the same id');
  if (seen !== undefined && wasNew) differ('has a new id without having been deleted');
  if (deleted !== undefined && row.sourceUpdatedAt <= deleted.from) {
    differ(`was deleted, and is back without a change: of ${row.sourceUpdatedAt}`);
  }
  if (deleted !== undefined && row.fetchTicket < deleted.ticket) {
    differ('was deleted, and is back by a fetch that began before');
  }
  if (stored.tombstones.some(({ githubId }) => githubId === source.id)) differ('is stored, and has a tombstone');
  if (source.author === null || row.memberGithubId !== source.author.id) differ("is stored as another's");
  if (stage === 'imported' && seen === undefined && !(isHere(pullRequest, organisation) && isMember(source))) {
    differ("was imported, and is not a member's here");
  }
  if (row.repositoryGithubId !== source.repository.id) differ('is stored in another repository');
  const url = `https://github.com/${row.repository}/pull/${row.number}`;
  if (row.url !== url) differ(`has the address ${row.url}, not ${url}`);

  const { score, breakdown, reviewScores = null } = comparison.scoreOf(row);
  if (row.score !== score || row.scoreBreakdown !== breakdown) {
    differ(`scores ${row.score} by ${row.scoreBreakdown}, not ${score} by ${breakdown}`);
  }
  if (row.reviewScores !== reviewScores) differ(`its reviews score ${row.reviewScores}, not ${reviewScores}`);
  if (row.rulesetVersion > organisation.rulesetVersion) {
    differ(`was scored under ruleset ${row.rulesetVersion}, which does not exist yet`);
  }

  const seenVersion = Math.max(oldest, matching.find(index => index >= oldest) ?? 0);
  standing.seen = { id: row.id, version: seenVersion };
}

/** As they must be stored in the row: without those who were erased, and members by their id. */
function reviewersIn({ organisation, stored }: Comparison, row: Row, { reviewers }: Columns): Reviewer[] {
  const { members: everybody, knownSince, erased } = organisation;
  return reviewers
    .filter(({ githubId }) => {
      const erasedAt = erased.get(githubId ?? 0);
      // Somebody who was nobody when it was fetched was not erased from it.
      return erasedAt === undefined || (row.fetchTicket < erasedAt && row.reviewers?.length === reviewers.length);
    })
    .map(({ githubId, login, ...facts }, index) => {
      const person = stored.members.find(each => each.githubId === githubId);
      const wasKnown = (knownSince.get(githubId ?? 0) ?? Number.POSITIVE_INFINITY) < row.fetchTicket;
      // Who became a member at about the time of the fetch may be nobody until the next one.
      const isNamed = wasKnown || (row.reviewers?.[index]?.member != null && everybody.has(githubId ?? 0));
      const member = isNamed && person !== undefined ? formatId('mem', person.id) : null;
      return { member, login: member !== null || facts.isBot ? login : null, ...facts };
    });
}

/** Empty if the row has these columns. */
const differingColumns = (comparison: Comparison, row: Row, columns: Columns | undefined): string =>
  Object.entries(columns === undefined ? {} : { ...columns, reviewers: reviewersIn(comparison, row, columns) })
    .filter(([name, value]) => !isDeepStrictEqual(row[name as keyof Row], value))
    .map(([name, value]) => `${name} ${JSON.stringify(row[name as keyof Row])}, on GitHub ${JSON.stringify(value)}`)
    .join('; ');

function compareScoreChanges({ stored, differ }: Comparison): void {
  const latest = new Map<string, number>();
  for (const { pullRequestId, fromScore, toScore } of stored.changes) {
    const before = latest.get(pullRequestId) ?? null;
    if (before !== fromScore) differ(`a score change goes from ${fromScore}, and the one before to ${before}`);
    if (before === toScore) differ(`a score change goes from ${before} to the same`);
    latest.set(pullRequestId, toScore);
  }
  for (const { id, score, url } of stored.rows) {
    if (latest.get(id) !== score) differ(`${url} scores ${score}, by its changes ${latest.get(id)}`);
    latest.delete(id);
  }
  if (latest.size > 0) differ(`score changes are left of ${latest.size} pull requests that are not stored`);
}

/** Whether what is stored of it must be what GitHub shows. */
const isKnown = ({ stage, organisation }: Comparison, subject: Subject) =>
  stage !== 'settled' || isAskedFor(organisation, subject);

function compareMembers(comparison: Comparison): void {
  const { stored, organisation, stage, differ } = comparison;
  const { github, members: everybody, erased } = organisation;
  for (const { githubId, login } of stored.members) {
    if (everybody.has(githubId) && !erased.has(githubId)) continue;
    differ(`${login} is stored as a member, and never was one, or was erased`);
  }
  for (const { id, login, name, avatarUrl } of everybody.values()) {
    if (erased.has(id)) continue;
    const member = stored.members.find(({ githubId, leftAt }) => githubId === id && leftAt === null);
    const isOnGithub = github.members.has(id);
    if (isKnown(comparison, `member ${id}`) && (member !== undefined) !== isOnGithub) {
      differ(`${login} is ${member ? 'a member' : 'not a member'} here, and on GitHub the opposite`);
    }
    const isSame = member?.login === login && member.name === (name ?? login) && member.photoUrl === avatarUrl;
    if (stage !== 'settled' && isOnGithub && !isSame) {
      differ(`the member ${login} is stored as ${JSON.stringify(member ?? null)}`);
    }
  }
}

function compareLogin(comparison: Comparison): void {
  const { github, logins } = comparison.organisation;
  const login = comparison.stored.organisation?.login ?? '';
  const isRight = isKnown(comparison, 'login')
    ? login === github.login
    : login === `renamed_${github.id}` || logins.has(login);
  if (!isRight) comparison.differ(`it is stored as ${login}, and on GitHub as ${github.login}`);
}

function compareRepositories(comparison: Comparison): void {
  const { stored, organisation, scene, differ } = comparison;
  // A comparison only adds repositories with pull requests that it reads.
  for (const { githubId, name, leftAt } of stored.repositories) {
    if (!scene.model.repositoryNames.get(githubId)?.has(name)) differ(`there never was a repository ${name}`);
    if (!isKnown(comparison, `repository ${githubId}`)) continue;
    const repository = organisation.github.repositories.find(({ id }) => id === githubId);
    if (repository !== undefined && repository.fullName !== name) {
      differ(`the repository ${repository.fullName} is stored as ${name}`);
    }
    if ((repository === undefined) !== (leftAt !== null)) {
      differ(`the repository ${name} is ${leftAt === null ? 'here' : 'marked'}, and on GitHub the opposite`);
    }
  }
}

function compareDeliveries({ stored, organisation, scene, differ }: Comparison): void {
  const spared = new Set([...scene.troubles.poisoned.keys()].map(({ source }) => source.id));
  const lost = new Set(organisation.acknowledged);
  for (const { guid, event, state, pullRequestGithubId: id } of stored.deliveries) {
    lost.delete(guid);
    const isSpared = id !== null && spared.has(id);
    if (state === 'pending' && !isSpared) differ(`the delivery ${guid} of ${event} is pending for good`);
  }
  for (const guid of lost) differ(`the delivery ${guid} was acknowledged and lost`);
}
