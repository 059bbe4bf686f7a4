/** Rules within all limits keep within the time and the memory of a scorer's process, whatever they are asked for. */
import { sql } from 'drizzle-orm';
import { expect, onTestFinished } from 'vitest';
import { setChecksEnabled } from '../../src/database/check-runs.ts';
import type { JobKind, Scorer } from '../../src/scorer/jobs.ts';
import { createScorer } from '../../src/scorer/scorer.ts';
import type { Facts } from '../../src/scoring/facts.ts';
import { checkRulesFile } from '../../src/scoring/file/check-rules-file.ts';
import { publishCheckRuns } from '../../src/sync/publish-check-runs.ts';
import { factsWith, reviewWith } from '../scoring/support.ts';
import { applyRules } from '../support/tenants.ts';
import { appOptions } from '../support/world.ts';
import { rule, type SyncTenant, startSyncWorld } from '../sync/support.ts';

const world = await startSyncWorld(...appOptions());
const { service, test } = world;

/** Six groups of eight comparisons: as many parts as an expression may have. */
const group = Array.from({ length: 8 }, (_, index) => `size > ${index}`).join(' && ');
const longDefinition = { d: Array.from({ length: 6 }, () => `(${group})`).join(' || ') };

/** Entries whose text is short and whose explanation is long. */
const longRules = (entries: number) =>
  Array.from({ length: entries / 50 }, (_, index) => ({
    name: `Long ${index}`,
    logic: Array.from({ length: 50 }, () => ({ expression: 'd', effect: { action: 'ADD', value: '1' } })),
  }));

/** Puts the rules of a file in force. */
async function applyFile({ id }: SyncTenant, file: { define?: object; rules?: object[]; reviews?: object[] }) {
  const checked = checkRulesFile(Buffer.from(JSON.stringify({ rules: [], ...file })));
  expect(checked.problems).toEqual([]);
  await applyRules(service, id, checked);
}

/** As `serve` has it. */
function processesOfRules(): Scorer {
  const scorer = createScorer(service.database, service.log, { environment: {} });
  onTestFinished(() => scorer.close());
  return scorer;
}

const explain = ({ id }: SyncTenant, facts: Facts) =>
  processesOfRules().run('explain', { organisationId: id, version: 1, facts });

const suspendedVersionOf = async (tenant: SyncTenant) => (await tenant.row()).suspendedVersion;

test('check runs of ten pull requests by a thousand long entries are published', async ({ tenant }) => {
  const { id } = tenant;
  await applyFile(tenant, { define: longDefinition, rules: longRules(1_000) });
  await tenant.sync(...tenant.open(10));
  await service.database.transaction(executor => setChecksEnabled(executor, id, true));
  await publishCheckRuns({ ...service, scorer: processesOfRules() }, { organisationId: id });
  expect(await suspendedVersionOf(tenant)).toBeNull();
  expect(tenant.web.checkRuns).toHaveLength(10);
});

test('a pull request with fifty reviews is explained by a hundred long entries, with some of its reviews', async () => {
  const tenant = await world.newTenant();
  await applyFile(tenant, { define: longDefinition, reviews: longRules(100) });
  const reviews = Array.from({ length: 50 }, (_, index) => reviewWith({ member: `mem_${index}` }));
  const explanation = await explain(tenant, factsWith({ size: 3, given_reviews: reviews }));
  expect(explanation.reviews.length).toBeGreaterThan(0);
  expect(explanation.reviews.length).toBeLessThan(50);
  expect(await suspendedVersionOf(tenant)).toBeNull();
});

test('a pull request with many files is explained by a thousand entries that read them again and again', async () => {
  const tenant = await world.newTenant();
  const lengths = Array.from({ length: 20 }, () => 'length(files) > 3000').join(' || ');
  await applyFile(tenant, { define: { d: lengths }, rules: longRules(1_000) });
  const facts = factsWith({ files: Array.from({ length: 3_000 }, (_, index) => `${index}/`.padEnd(87, 'x')) });
  await expect(explain(tenant, facts)).resolves.toMatchObject({ score: 0 });
  expect(await suspendedVersionOf(tenant)).toBeNull();
});

test('a check of many large tests gives what is wrong with the file, and no more', async () => {
  const files = Array.from({ length: 1_000 }, (_, index) => `src/${index}.ts`);
  const tests = Array.from({ length: 30 }, (_, index) => ({ name: `t${index}`, pull_request: { files }, score: 7 }));
  const file = JSON.stringify({ define: longDefinition, rules: longRules(50), tests });
  const { source, ...checked } = await processesOfRules().run('check', { organisationId: 'a', file });
  expect(source).toBe(file);
  expect(JSON.stringify(checked).length).toBeLessThan(file.length);
  expect(checked.problems).toHaveLength(30);
  expect(checked.problems[0]?.message).toMatch(/^test "t0" expected 7, but the score is 0 \(nothing counted\)/);
});

test('a pull request is explained in time by rules that are nested as deeply as they may be', async ({ tenant }) => {
  const balanced = (parts: string[]): string => {
    const half = parts.length >> 1;
    return half === 0 ? parts.join() : `(${balanced(parts.slice(0, half))} || ${balanced(parts.slice(half))})`;
  };
  const matches = Array.from({ length: 36 }, (_, index) => `matches(body, "[a-z].{20}(q|#7|${index}z)!")`);
  const expression = `${'!('.repeat(24)}${balanced(matches)}${')'.repeat(24)}`;
  await applyFile(tenant, {
    rules: [{ name: 'Deep', logic: [{ expression, effect: { action: 'ADD', value: '1' } }] }],
  });
  const facts = factsWith({ body: 'The fix of core-12 '.repeat(3_449) });
  await expect(explain(tenant, facts)).resolves.toMatchObject({ score: 0 });
  expect(await suspendedVersionOf(tenant)).toBeNull();
});

test('five hundred reviews are scored in time by rules that calculate as much as they may', async ({ tenant }) => {
  const nested = (call: string, fact: string) => `${`${call}(`.repeat(25)}${fact}${')'.repeat(25)}`;
  const pairs = [
    ['floor', 'abs'],
    ['ceil', 'round'],
    ['abs', 'floor'],
  ] as const;
  const number = pairs
    .map(([one, two]) => `(${nested(one, 'review_comments')} + ${nested(two, 'hours_to_review')})`)
    .join(' + ');
  const logic = Array.from({ length: 50 }, () => ({ expression: 'd', effect: { action: 'ADD', value: 'n' } }));
  const reviews = ['One', 'Two'].map(name => ({ name, logic }));
  await applyFile(tenant, { define: { d: `${number} != 7`, n: number }, reviews });
  const given = Array.from({ length: 500 }, (_, index) =>
    reviewWith({ member: `mem_${index}`, review_comments: index, hours_to_review: index / 7 }),
  );
  const facts = [factsWith({ given_reviews: given })];
  const scores = await processesOfRules().run('score', { organisationId: tenant.id, version: 1, facts });
  expect(scores).toHaveLength(1);
  expect(await suspendedVersionOf(tenant)).toBeNull();
});

test('pull requests with hundreds of reviews are scored in several jobs', async ({ tenant }) => {
  await applyRules(service, tenant.id, { reviews: [rule('1')] });
  const reviewers = Array.from({ length: 450 }, (_, index) => world.github.account(`reviewer-${index}`));
  const pullRequests = tenant.open(5);
  for (const each of pullRequests) for (const reviewer of reviewers) each.review(reviewer, 'APPROVED');
  const jobs: number[] = [];
  const scorer: Scorer = {
    ...service.scorer,
    run(kind, input, options) {
      if (isScore(kind, input)) jobs.push(input.facts.length);
      return service.scorer.run(kind, input, options);
    },
  };
  await tenant.on({ ...service, scorer }).sync(...pullRequests);
  expect(jobs).toEqual([4, 1]);
});

const isScore = (kind: JobKind, _input: unknown): _input is { facts: readonly unknown[] } => kind === 'score';

test('hundreds of pull requests as large as GitHub has them are planned', async ({ tenant }) => {
  const { id: organisationId } = tenant;
  await tenant.newStored(450);
  const { executor } = service.database;
  const isFirst = sql`id = (select min(id::text)::uuid from pull_requests where organisation_id = ${organisationId})`;
  // As long as a description and all paths together. Compressed once.
  await executor.execute(sql`update pull_requests set body = repeat('ж', 327680) where ${isFirst}`);
  await executor.execute(sql`
    update pull_requests set body = (select body from pull_requests where ${isFirst})
    where organisation_id = ${organisationId}`);
  const ruleset = { definitions: [], rules: [rule('1', 'contains(body, "x")')], reviews: [] };
  const planned = await processesOfRules().run('plan', { organisationId, ruleset, withAudit: false });
  expect(planned.result.pull_requests.total).toBe(450);
});
