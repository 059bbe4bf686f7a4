/** Compares what is stored with the model, while no client does anything. */
import { isDeepStrictEqual } from 'node:util';
import { eq, sql } from 'drizzle-orm';
import type { Executor } from '../src/database/client.ts';
import {
  deletedPullRequests,
  members,
  organisations,
  pullRequests,
  repositories,
  webhookDeliveries,
} from '../src/database/schema.ts';
import { factsOf } from '../src/scoring/facts.ts';
import { type CompiledRuleset, compileRuleset } from '../src/scoring/ruleset.ts';
import { type Columns, isMember, type ModelPullRequest } from './model.ts';
import type { Scene } from './play.ts';
import { rulesetOf } from './rules.ts';

/**
 * How much must be known: what was acknowledged (`settled`), or after a comparison with GitHub and a sweep, also what no
 * webhook announced (`compared`).
 */
export type Stage = 'settled' | 'compared';

type Stored = Awaited<ReturnType<typeof readStored>>;
type Row = Stored['rows'][number];

async function readStored(executor: Pick<Executor, 'select' | 'execute'>, organisationId: string) {
  const of = <Table extends { organisationId: Parameters<typeof eq>[0] }>(table: Table) =>
    eq(table.organisationId, organisationId);
  const [organisation] = await executor.select().from(organisations).where(eq(organisations.id, organisationId));
  return {
    rows: await executor.select().from(pullRequests).where(of(pullRequests)),
    organisation,
    tombstones: await executor.select().from(deletedPullRequests).where(of(deletedPullRequests)),
    brokenChains: await findBrokenChains(executor, organisationId),
    members: await executor.select().from(members).where(of(members)),
    repositories: await executor.select().from(repositories).where(of(repositories)),
    deliveries: await executor.select().from(webhookDeliveries).where(of(webhookDeliveries)),
  };
}

/** What is wrong with the history of scores, which is a chain of changes: keys forbid doubled rows, but none of this. */
export async function findBrokenChains(executor: Pick<Executor, 'execute'>, organisationId: string): Promise<string[]> {
  const { rows } = await executor.execute<{ what: string }>(sql`
    with chain as (
      select pull_request_id, from_score, to_score, lag(to_score) over same as before, lead(id) over same as next
      from score_changes where organisation_id = ${organisationId}
      window same as (partition by pull_request_id order by id)
    )
    select 'score changes with a gap, a double or no change: ' || pull_request_id as what
    from chain where from_score is distinct from before or from_score = to_score
    union all
    select 'a score that differs from its last change: ' || coalesce(id, pull_request_id)
    from (select * from chain where next is null) as last
    full join (select id, score from pull_requests where organisation_id = ${organisationId}) as stored
      on id = pull_request_id
    where score is distinct from to_score`);
  return rows.map(({ what }) => what);
}

interface Comparison {
  stored: Stored;
  stage: Stage;
  scene: Scene;
  scoreOf: CompiledRuleset['score'];
}

/** In plain words. */
type Differences = Generator<string, void>;

/** Adds how what is stored differs from the model. */
export async function compare(scene: Scene, stage: Stage): Promise<void> {
  // A snapshot, because retries and background requests may still be saved.
  const stored = await scene.arena.database.executor.transaction(
    each => readStored(each, scene.tenant.organisation.id),
    { isolationLevel: 'repeatable read' },
  );
  // That the language gives the right numbers is held by test/scoring, with an interpreter of its own.
  const { score: scoreOf } = compileRuleset(rulesetOf(scene.model.rules));
  for (const text of compareAll({ stored, stage, scene, scoreOf })) scene.differences.push(`${stage}: ${text}`);
}

function* compareAll(comparison: Comparison): Differences {
  const { stored, stage, scene } = comparison;
  const { model } = scene;
  const rows = new Map(stored.rows.map(row => [row.githubId, row]));
  for (const pullRequest of model.pullRequests) {
    const row = rows.get(pullRequest.source.id);
    rows.delete(pullRequest.source.id);
    const found = row ? comparePresent(comparison, pullRequest, row) : compareAbsent(comparison, pullRequest);
    for (const text of found) yield `${pullRequest.name}: ${text}`;
  }
  for (const { url } of rows.values()) yield `${url} was never on GitHub`;
  yield* stored.brokenChains;
  const lost = new Set(model.acknowledged);
  for (const { guid, event, state } of stored.deliveries) {
    lost.delete(guid);
    if (state === 'pending') yield `the delivery ${guid} of ${event} is pending for good`;
  }
  for (const guid of lost) yield `the delivery ${guid} was acknowledged and lost`;
  const rulesetVersion = stored.organisation?.rulesetVersion;
  if (rulesetVersion !== model.rulesetVersion) {
    yield `ruleset ${rulesetVersion} is in force, not ${model.rulesetVersion}`;
  }
  if (stage === 'compared') yield* compareOrganisation(comparison);
}

function* compareAbsent({ stored, stage, scene }: Comparison, pullRequest: ModelPullRequest): Differences {
  const { source, versions, deleted, seen, acknowledged } = pullRequest;
  const tombstone = stored.tombstones.find(({ githubId }) => githubId === source.id);
  const announced = versions[acknowledged ?? -1]?.sourceUpdatedAt;
  let isAnnounced = announced !== undefined;
  if (deleted === undefined && tombstone !== undefined) yield 'has a tombstone, and was never deleted';
  if (deleted !== undefined) {
    if (tombstone === undefined) return yield 'was deleted, and has no tombstone';
    const { sourceUpdatedAt } = tombstone;
    if (sourceUpdatedAt < deleted.from || sourceUpdatedAt > deleted.until) {
      yield `its tombstone is of ${sourceUpdatedAt}, not of ${deleted.from} to ${deleted.until}`;
    }
    if (source.updatedAt <= sourceUpdatedAt) return;
    // A webhook about what was deleted does not bring it back, only one about a later change.
    isAnnounced = announced !== undefined && announced > sourceUpdatedAt;
    // It had changed before it was deleted, unseen by the stored copy: any new fetch brings it back.
    if (!isAnnounced && source.updatedAt <= deleted.until) return;
  } else if (seen !== undefined) {
    yield 'was stored, and is gone without having been deleted';
  }
  const must = isAnnounced || (stage === 'compared' && pullRequest.known && isMember(source));
  if (must && scene.model.isHere(pullRequest)) yield "is a member's on GitHub, and not stored";
}

function* comparePresent(comparison: Comparison, pullRequest: ModelPullRequest, row: Row): Differences {
  const { stored, stage, scene } = comparison;
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
    yield `is stored as GitHub never showed it: ${differing(row, versions.at(-1))}`;
  } else if (version < oldest || row.sourceUpdatedAt < (versions[oldest]?.sourceUpdatedAt ?? 0)) {
    yield `is stored as version ${version}, not ${oldest} or later: ${differing(row, versions[oldest])}`;
  }

  if (pullRequest.formerIds.has(row.id)) yield 'was deleted, and is back under the same id';
  if (seen !== undefined && wasNew) yield 'has a new id without having been deleted';
  if (deleted !== undefined && row.sourceUpdatedAt <= deleted.from) {
    yield `was deleted, and is back without a change: of ${row.sourceUpdatedAt}`;
  }
  if (deleted !== undefined && row.fetchTicket < deleted.ticket) {
    yield 'was deleted, and is back by a fetch that began before';
  }
  if (stored.tombstones.some(({ githubId }) => githubId === source.id)) yield 'is stored, and has a tombstone';
  const member = stored.members.find(({ id }) => id === row.memberId);
  if (member?.githubId !== source.author?.id) yield "is stored as another's";
  const { githubId, name = '' } = stored.repositories.find(({ id }) => id === row.repositoryId) ?? {};
  if (githubId !== source.repository.id) yield 'is stored in another repository';
  const url = `https://github.com/${name}/pull/${row.number}`;
  if (row.url !== url) yield `has the address ${row.url}, not ${url}`;

  if (row.rulesetVersion > scene.model.rulesetVersion) yield `was scored under ruleset ${row.rulesetVersion}`;
  const { score, breakdown, reviewScores = null } = comparison.scoreOf(factsOf({ ...row, repository: name }));
  if (row.score !== score || row.scoreBreakdown !== breakdown) {
    yield `scores ${row.score} by ${row.scoreBreakdown}, not ${score} by ${breakdown}`;
  }
  if (row.reviewScores !== reviewScores) yield `its reviews score ${row.reviewScores}, not ${reviewScores}`;
  pullRequest.seen = { id: row.id, version: Math.max(oldest, matching.find(index => index >= oldest) ?? 0) };
}

/** Empty if the row has these columns. */
const differing = (row: Row, columns: Partial<Columns> = {}): string =>
  Object.entries(columns)
    .filter(([name, value]) => !isDeepStrictEqual(row[name as keyof Columns], value))
    .map(([name, value]) => `${name} ${JSON.stringify(row[name as keyof Columns])}, on GitHub ${JSON.stringify(value)}`)
    .join('; ');

function* compareOrganisation({ stored, scene: { side } }: Comparison): Differences {
  const login = stored.organisation?.login;
  if (login !== side.acme.login) yield `the organisation is stored as ${login}, not ${side.acme.login}`;
  const present = stored.members.filter(({ leftAt }) => leftAt === null);
  const onGithub = [...side.acme.members.values()];
  for (const { login, githubId } of present) {
    if (onGithub.every(({ id }) => id !== githubId)) yield `${login} is stored as a member`;
  }
  for (const { id, login } of onGithub) {
    if (present.every(({ githubId }) => githubId !== id)) yield `the member ${login} is not stored`;
  }
  // A comparison only adds repositories with pull requests that it reads.
  for (const { githubId, name, leftAt } of stored.repositories) {
    const found = side.acme.repositories.find(({ id }) => id === githubId);
    if (found !== undefined && found.fullName !== name) yield `the repository ${found.fullName} is stored as ${name}`;
    if ((found === undefined) !== (leftAt !== null)) {
      yield `the repository ${name} is ${leftAt === null ? 'here' : 'marked'}, and on GitHub the opposite`;
    }
  }
}
