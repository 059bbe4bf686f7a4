/** Compares what is stored with the model, while no client does anything. */
import { isDeepStrictEqual } from 'node:util';
import { and, eq } from 'drizzle-orm';
import type { Database, Executor } from '../src/database/client.ts';
import {
  deletedPullRequests,
  members,
  organisations,
  pullRequests,
  repositories,
  webhookDeliveries,
} from '../src/database/schema.ts';
import { factsOf } from '../src/scoring/facts.ts';
import { compileRuleset } from '../src/scoring/ruleset.ts';
import type { ModelPullRequest } from './model.ts';
import type { Scene } from './play.ts';
import { rulesetOf } from './rules.ts';
import { findBrokenChains } from './score-changes.ts';
import { type Columns, isMember } from './versions.ts';

/**
 * How much must be known: what was acknowledged (`settled`), or after a comparison with GitHub and a sweep, also what no
 * webhook announced (`compared`).
 */
export type Stage = 'settled' | 'compared';

type Stored = Awaited<ReturnType<typeof readTables>>;
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
    brokenChains: await findBrokenChains(executor, organisationId),
    members: await executor.select().from(members).where(of(members)),
    repositories: await executor.select().from(repositories).where(of(repositories)),
    deliveries: await executor.select().from(webhookDeliveries).where(of(webhookDeliveries)),
  };
}

interface Comparison {
  stored: Stored;
  stage: Stage;
  scene: Scene;
  /** Reports a difference, in plain words. */
  differ(text: string): void;
}

/** Adds how what is stored differs from the model. */
export async function compare(scene: Scene, stage: Stage): Promise<void> {
  const { arena, tenant, side, differences, model } = scene;
  const stored = await readStored(arena.database, tenant.organisation.id);
  const differ = (text: string) => void differences.push(`${stage}: ${text}`);
  const comparison = { stored, stage, scene, differ };
  // That the language gives the right numbers is held by test/scoring, with an interpreter of its own.
  const { score: scoreOf } = compileRuleset(rulesetOf(model.rules));
  const rows = new Map(stored.rows.map(row => [row.githubId, row]));
  for (const pullRequest of model.pullRequests) {
    const row = rows.get(pullRequest.source.id);
    rows.delete(pullRequest.source.id);
    const differThere = (text: string) => differ(`${pullRequest.name}: ${text}`);
    if (row === undefined) {
      const problem = compareAbsent(comparison, pullRequest);
      if (problem !== undefined) differThere(problem);
      continue;
    }
    comparePresent({ ...comparison, differ: differThere }, pullRequest, row);
    const { score, breakdown, reviewScores = null } = scoreOf(factsOf(row));
    if (row.score !== score || row.scoreBreakdown !== breakdown) {
      differThere(`scores ${row.score} by ${row.scoreBreakdown}, not ${score} by ${breakdown}`);
    }
    if (row.reviewScores !== reviewScores) differThere(`its reviews score ${row.reviewScores}, not ${reviewScores}`);
  }
  for (const { url } of rows.values()) differ(`${url} was never on GitHub`);
  stored.brokenChains.forEach(differ);
  const lost = new Set(model.acknowledged);
  for (const { guid, event, state } of stored.deliveries) {
    lost.delete(guid);
    if (state === 'pending') differ(`the delivery ${guid} of ${event} is pending for good`);
  }
  for (const guid of lost) differ(`the delivery ${guid} was acknowledged and lost`);
  const { login, rulesetVersion } = stored.organisation ?? {};
  if (rulesetVersion !== model.rulesetVersion)
    differ(`ruleset ${rulesetVersion} is in force, not ${model.rulesetVersion}`);
  if (stage === 'settled') return;
  if (login !== side.acme.login) differ(`the organisation is stored as ${login}, not ${side.acme.login}`);
  compareMembers(comparison);
  compareRepositories(comparison);
}

/** @returns what is wrong */
function compareAbsent({ stored, stage, scene }: Comparison, pullRequest: ModelPullRequest): string | undefined {
  const { source, versions, deleted, seen, acknowledged } = pullRequest;
  const tombstone = stored.tombstones.find(({ githubId }) => githubId === source.id);
  const announced = versions[acknowledged ?? -1]?.sourceUpdatedAt;
  let isAnnounced = announced !== undefined;
  if (deleted === undefined && tombstone !== undefined) return 'has a tombstone, and was never deleted';
  if (deleted !== undefined) {
    if (tombstone === undefined) return 'was deleted, and has no tombstone';
    const { sourceUpdatedAt } = tombstone;
    if (sourceUpdatedAt < deleted.from || sourceUpdatedAt > deleted.until) {
      return `its tombstone is of ${sourceUpdatedAt}, not of ${deleted.from} to ${deleted.until}`;
    }
    if (source.updatedAt <= sourceUpdatedAt) return undefined;
    // A webhook about what was deleted does not bring it back, only one about a later change.
    isAnnounced = announced !== undefined && announced > sourceUpdatedAt;
    // It had changed before it was deleted, unseen by the stored copy: any new fetch brings it back.
    if (!isAnnounced && source.updatedAt <= deleted.until) return undefined;
  } else if (seen !== undefined) {
    return 'was stored, and is gone without having been deleted';
  }
  const must = isAnnounced || (stage === 'compared' && pullRequest.known && isMember(source));
  return must && scene.model.isHere(pullRequest) ? "is a member's on GitHub, and not stored" : undefined;
}

function comparePresent({ stored, stage, scene, differ }: Comparison, pullRequest: ModelPullRequest, row: Row): void {
  const { source, versions, seen, deleted } = pullRequest;
  const matching = versions.flatMap((columns, index) => (differing(row, columns) === '' ? [index] : []));
  const version = matching.at(-1) ?? -1;
  const wasNew = seen?.id !== row.id;
  const oldest = Math.max(
    wasNew ? 0 : (seen?.version ?? 0),
    pullRequest.acknowledged ?? 0,
    stage === 'compared' && scene.model.isHere(pullRequest) ? versions.length - 1 : 0,
  );
  if (matching.length === 0) {
    differ(`is stored as GitHub never showed it: ${differing(row, versions.at(-1))}`);
  } else if (version < oldest || row.sourceUpdatedAt < (versions[oldest]?.sourceUpdatedAt ?? 0)) {
    differ(`is stored as version ${version}, not ${oldest} or later: ${differing(row, versions[oldest])}`);
  }

  if (pullRequest.formerIds.has(row.id)) differ('was deleted, and is back under the same id');
  if (seen !== undefined && wasNew) differ('has a new id without having been deleted');
  if (deleted !== undefined && row.sourceUpdatedAt <= deleted.from) {
    differ(`was deleted, and is back without a change: of ${row.sourceUpdatedAt}`);
  }
  if (deleted !== undefined && row.fetchTicket < deleted.ticket) {
    differ('was deleted, and is back by a fetch that began before');
  }
  if (stored.tombstones.some(({ githubId }) => githubId === source.id)) differ('is stored, and has a tombstone');
  if (row.memberGithubId !== source.author?.id) differ("is stored as another's");
  if (row.repositoryGithubId !== source.repository.id) differ('is stored in another repository');
  const url = `https://github.com/${row.repository}/pull/${row.number}`;
  if (row.url !== url) differ(`has the address ${row.url}, not ${url}`);

  if (row.rulesetVersion > scene.model.rulesetVersion) differ(`was scored under ruleset ${row.rulesetVersion}`);
  pullRequest.seen = { id: row.id, version: Math.max(oldest, matching.find(index => index >= oldest) ?? 0) };
}

/** Empty if the row has these columns. */
const differing = (row: Row, columns: Partial<Columns> = {}): string =>
  Object.entries(columns)
    .filter(([name, value]) => !isDeepStrictEqual(row[name as keyof Columns], value))
    .map(([name, value]) => `${name} ${JSON.stringify(row[name as keyof Columns])}, on GitHub ${JSON.stringify(value)}`)
    .join('; ');

function compareMembers({ stored, scene, differ }: Comparison): void {
  const present = stored.members.filter(({ leftAt }) => leftAt === null);
  const onGithub = [...scene.side.acme.members.values()];
  for (const { login, githubId } of present) {
    if (onGithub.every(({ id }) => id !== githubId)) differ(`${login} is stored as a member`);
  }
  for (const { id, login } of onGithub) {
    if (present.every(({ githubId }) => githubId !== id)) differ(`the member ${login} is not stored`);
  }
}

function compareRepositories({ stored, scene, differ }: Comparison): void {
  // A comparison only adds repositories with pull requests that it reads.
  for (const { githubId, name, leftAt } of stored.repositories) {
    const found = scene.side.acme.repositories.find(({ id }) => id === githubId);
    if (found !== undefined && found.fullName !== name) differ(`the repository ${found.fullName} is stored as ${name}`);
    if ((found === undefined) !== (leftAt !== null)) {
      differ(`the repository ${name} is ${leftAt === null ? 'here' : 'marked'}, and on GitHub the opposite`);
    }
  }
}
