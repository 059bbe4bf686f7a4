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
import { isAskedFor, isHere, type Model, type ModelOrganisation, type ModelPullRequest, standingOf } from './model.ts';
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
  model: Model;
  organisation: ModelOrganisation;
  stage: Stage;
  /** Pull requests that GitHub fails on: acknowledged changes of these may be missing. */
  poisoned: ReadonlySet<ModelPullRequest>;
  scoreOf: ReturnType<typeof createScoring>;
}

/** @returns the differences, in plain words */
export async function compare(
  database: Database,
  model: Model,
  organisation: ModelOrganisation,
  stage: Stage,
  poisoned: ReadonlySet<ModelPullRequest>,
): Promise<string[]> {
  const stored = await readStored(database, organisation.id);
  for (const { githubId } of stored.members) {
    if (!organisation.knownSince.has(githubId)) organisation.knownSince.set(githubId, stored.ticket);
  }
  const scoreOf = createScoring(rulesetOf(organisation.rules));
  const comparison = { stored, model, organisation, stage, poisoned, scoreOf };
  const rows = new Map(stored.rows.map(row => [row.githubId, row]));
  const known = new Set(model.pullRequests.map(({ source }) => source.id));
  return [
    ...model.pullRequests.flatMap(pullRequest => {
      const row = rows.get(pullRequest.source.id);
      const differences =
        row === undefined ? compareAbsent(comparison, pullRequest) : comparePresent(comparison, pullRequest, row);
      return differences.map(text => `${pullRequest.name}: ${text}`);
    }),
    ...stored.rows.filter(row => !known.has(row.githubId)).map(row => `${row.url} was never on GitHub`),
    ...compareScoreChanges(stored),
    ...compareMembers(comparison),
    ...compareRepositories(comparison),
    ...compareDeliveries(comparison),
    ...compareLogin(comparison),
    ...(stored.organisation?.rulesetVersion === organisation.rulesetVersion
      ? []
      : [`ruleset ${stored.organisation?.rulesetVersion} is in force, not ${organisation.rulesetVersion}`]),
  ].map(text => `${organisation.github.login} (${stage}): ${text}`);
}

/** GitHub shows the stored score of each open pull request, on the commit that was scored. */
export async function compareCheckRuns(
  { executor }: Database,
  model: Model,
  { id, github }: ModelOrganisation,
): Promise<string[]> {
  const rows = await executor
    .select({ row: pullRequests, failure: checkRuns.lastError })
    .from(pullRequests)
    .leftJoin(checkRuns, and(eq(checkRuns.organisationId, id), eq(checkRuns.pullRequestId, pullRequests.id)))
    .where(
      and(
        eq(pullRequests.organisationId, id),
        inArray(pullRequests.state, ['draft', 'open']),
        isInPresentRepository(id),
      ),
    );
  return rows.flatMap(({ row, failure }) => {
    const source = model.pullRequests.find(each => each.source.id === row.githubId)?.source;
    // One that was removed from GitHub stays stored as it was.
    if (source === undefined || !source.repository.pullRequests.includes(source)) return [];
    const shown = source.repository.checkRunOn(row.headSha)?.title;
    const score = `Score ${formatInteger(row.score)}`;
    const isRight = shown === score || shown?.startsWith(`${score} (`);
    return isRight ? [] : [`${github.login}: ${row.url} shows ${shown} on GitHub, not ${score}: ${failure}`];
  });
}

function compareAbsent(
  { stored: { tombstones }, organisation, stage, poisoned }: Comparison,
  pullRequest: ModelPullRequest,
): string[] {
  const { source, versions } = pullRequest;
  const standing = standingOf(pullRequest, organisation);
  const { deleted } = standing;
  const tombstone = tombstones.find(({ githubId }) => githubId === source.id);
  const acknowledged = poisoned.has(pullRequest) ? undefined : standing.acknowledged;
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

function comparePresent(
  { stored, organisation, stage, poisoned, scoreOf }: Comparison,
  pullRequest: ModelPullRequest,
  row: Row,
): string[] {
  const { source, versions } = pullRequest;
  const standing = standingOf(pullRequest, organisation);
  const { seen, deleted } = standing;
  const differences: string[] = [];
  const last = versions.length - 1;
  const reviewers = (columns: Columns) => reviewersIn(columns, row, organisation, stored.members);

  const matching = versions.flatMap((version, index) =>
    version.owner === organisation.github && differing(row, version.columns, reviewers) === '' ? [index] : [],
  );
  const version = matching.at(-1) ?? -1;
  const wasNew = seen?.id !== row.id;
  const oldest = Math.max(
    wasNew ? 0 : (seen?.version ?? 0),
    poisoned.has(pullRequest) ? 0 : (standing.acknowledged ?? 0),
    stage !== 'settled' && isHere(pullRequest, organisation) ? last : 0,
  );
  if (matching.length === 0) {
    differences.push(`is stored as GitHub never showed it: ${differing(row, versions[last]?.columns, reviewers)}`);
  } else if (version < oldest || row.sourceUpdatedAt < (versions[oldest]?.columns.sourceUpdatedAt ?? 0)) {
    differences.push(
      `is stored as version ${version}, not ${oldest} or later: ${differing(row, versions[oldest]?.columns, reviewers)}`,
    );
  }

  if (standing.formerIds.has(row.id)) differences.push('was deleted, and is back under the same id');
  if (seen !== undefined && wasNew) differences.push('has a new id without having been deleted');
  if (deleted !== undefined && row.sourceUpdatedAt <= deleted.from) {
    differences.push(`was deleted, and is back without a change: of ${row.sourceUpdatedAt}`);
  }
  if (deleted !== undefined && row.fetchTicket < deleted.ticket) {
    differences.push('was deleted, and is back by a fetch that began before');
  }
  if (stored.tombstones.some(({ githubId }) => githubId === source.id))
    differences.push('is stored, and has a tombstone');
  if (source.author === null || row.memberGithubId !== source.author.id) differences.push("is stored as another's");
  if (stage === 'imported' && seen === undefined && !(isHere(pullRequest, organisation) && isMember(source))) {
    differences.push("was imported, and is not a member's here");
  }
  if (row.repositoryGithubId !== source.repository.id) differences.push('is stored in another repository');
  const url = `https://github.com/${row.repository}/pull/${row.number}`;
  if (row.url !== url) differences.push(`has the address ${row.url}, not ${url}`);

  const { score, breakdown, reviewScores } = scoreOf(row);
  if (row.score !== score || row.scoreBreakdown !== breakdown) {
    differences.push(`scores ${row.score} by ${row.scoreBreakdown}, not ${score} by ${breakdown}`);
  }
  if (row.reviewScores !== (reviewScores ?? null)) {
    differences.push(`its reviews score ${row.reviewScores}, not ${reviewScores}`);
  }
  if (row.rulesetVersion > organisation.rulesetVersion) {
    differences.push(`was scored under ruleset ${row.rulesetVersion}, which does not exist yet`);
  }

  const seenVersion = Math.max(oldest, matching.find(index => index >= oldest) ?? 0);
  standing.seen = { id: row.id, version: seenVersion };
  return differences;
}

/** As they must be stored in the row: without those who were erased, and members by their id. */
function reviewersIn(
  { reviewers }: Columns,
  row: Row,
  { members: everybody, knownSince, erased }: ModelOrganisation,
  people: Stored['members'],
): Reviewer[] {
  return reviewers
    .filter(({ githubId }) => {
      const erasedAt = erased.get(githubId ?? 0) ?? Number.POSITIVE_INFINITY;
      // Somebody who was nobody when it was fetched was not erased from it.
      const wasNobody = row.fetchTicket < erasedAt && row.reviewers?.length === reviewers.length;
      return !erased.has(githubId ?? 0) || wasNobody;
    })
    .map(({ githubId, login, ...facts }, index) => {
      const person = people.find(each => each.githubId === githubId);
      const wasKnown = (knownSince.get(githubId ?? 0) ?? Number.POSITIVE_INFINITY) < row.fetchTicket;
      // Who became a member at about the time of the fetch may be nobody until the next one.
      const isNamed = wasKnown || (row.reviewers?.[index]?.member != null && everybody.has(githubId ?? 0));
      const member = isNamed && person !== undefined ? formatId('mem', person.id) : null;
      return { member, login: member !== null || facts.isBot ? login : null, ...facts };
    });
}

/** Empty if the row has these columns. */
const differing = (row: Row, columns: Columns | undefined, reviewers: (columns: Columns) => Reviewer[]): string =>
  Object.entries(columns === undefined ? {} : { ...columns, reviewers: reviewers(columns) })
    .filter(([name, value]) => !isDeepStrictEqual(row[name as keyof Row], value))
    .map(([name, value]) => `${name} ${JSON.stringify(row[name as keyof Row])}, on GitHub ${JSON.stringify(value)}`)
    .join('; ');

function compareScoreChanges({ rows, changes }: Stored): string[] {
  const latest = new Map<string, number>();
  const differences: string[] = [];
  for (const { pullRequestId, fromScore, toScore } of changes) {
    const before = latest.get(pullRequestId) ?? null;
    if (before !== fromScore)
      differences.push(`a score change goes from ${fromScore}, and the one before to ${before}`);
    if (before === toScore) differences.push(`a score change goes from ${before} to the same`);
    latest.set(pullRequestId, toScore);
  }
  for (const { id, score, url } of rows) {
    if (latest.get(id) !== score) differences.push(`${url} scores ${score}, by its changes ${latest.get(id)}`);
    latest.delete(id);
  }
  if (latest.size > 0) differences.push(`score changes are left of ${latest.size} pull requests that are not stored`);
  return differences;
}

function compareMembers({ stored, organisation, stage }: Comparison): string[] {
  const { github, members: everybody, erased } = organisation;
  const differences = stored.members
    .filter(({ githubId }) => !everybody.has(githubId) || erased.has(githubId))
    .map(({ login }) => `${login} is stored as a member, and never was one, or was erased`);
  const now = stored.members.filter(({ leftAt }) => leftAt === null);
  for (const { id, login } of everybody.values()) {
    if (erased.has(id)) continue;
    const isMemberHere = now.some(({ githubId }) => githubId === id);
    if ((stage !== 'settled' || isAskedFor(organisation, `member ${id}`)) && isMemberHere !== github.members.has(id)) {
      differences.push(`${login} is ${isMemberHere ? 'a member' : 'not a member'} here, and on GitHub the opposite`);
    }
  }
  if (stage === 'settled') return differences;
  for (const { id, login, name, avatarUrl } of github.members.values()) {
    if (erased.has(id)) continue;
    const member = now.find(({ githubId }) => githubId === id);
    if (member?.login !== login || member.name !== (name ?? login) || member.photoUrl !== avatarUrl) {
      differences.push(`the member ${login} is stored as ${JSON.stringify(member ?? null)}`);
    }
  }
  return differences;
}

function compareLogin({ stored, organisation, stage }: Comparison): string[] {
  const { github, logins } = organisation;
  const isKnown = stage !== 'settled' || isAskedFor(organisation, 'login');
  const login = stored.organisation?.login ?? '';
  if (!isKnown && login !== `renamed_${github.id}` && !logins.has(login)) return [`it never had the login ${login}`];
  return isKnown && login !== github.login ? [`it is stored as ${login}`] : [];
}

function compareRepositories({ stored, model: { repositoryNames }, organisation, stage }: Comparison): string[] {
  const differences = stored.repositories
    .filter(({ githubId, name }) => !repositoryNames.get(githubId)?.has(name))
    .map(({ name }) => `there never was a repository ${name}`);
  // A comparison only adds repositories with pull requests that it reads.
  for (const { githubId, name, leftAt } of stored.repositories) {
    if (stage === 'settled' && !isAskedFor(organisation, `repository ${githubId}`)) continue;
    const repository = organisation.github.repositories.find(({ id }) => id === githubId);
    if (repository !== undefined && repository.fullName !== name) {
      differences.push(`the repository ${repository.fullName} is stored as ${name}`);
    }
    if ((repository === undefined) !== (leftAt !== null)) {
      differences.push(`the repository ${name} is ${leftAt === null ? 'here' : 'marked'}, and on GitHub the opposite`);
    }
  }
  return differences;
}

function compareDeliveries({ stored: { deliveries }, organisation, poisoned }: Comparison): string[] {
  const spared = new Set([...poisoned].map(({ source }) => source.id));
  const pending = deliveries.filter(
    ({ state, pullRequestGithubId: id }) => state === 'pending' && !(id !== null && spared.has(id)),
  );
  const recorded = new Set(deliveries.map(({ guid }) => guid));
  return [
    ...pending.map(({ guid, event }) => `the delivery ${guid} of ${event} is pending for good`),
    ...[...organisation.acknowledged]
      .filter(guid => !recorded.has(guid))
      .map(guid => `the delivery ${guid} was acknowledged and lost`),
  ];
}
