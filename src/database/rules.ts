import { and, desc, eq, getTableColumns, isNull, notInArray, sql } from 'drizzle-orm';
import { preconditionFailed } from '../errors.ts';
import { newId } from '../ids.ts';
import { differ } from '../scoring/plan/rule-changes.ts';
import { evaluatedLogic, type Ruleset } from '../scoring/ruleset.ts';
import { storable } from '../text/storable.ts';
import { recordAuditEvent } from './audit-log.ts';
import type { Database, Executor } from './client.ts';
import { renewContentVersion } from './content-versions.ts';
import { lockOrganisation, updateOrganisation } from './organisations.ts';
import { requestRescoring } from './rescore-ranges.ts';
import { organisations, rulesets, rules as rulesTable } from './schema.ts';
import { createSelection, placeholder, query, type RowOf } from './statement.ts';

const latestRules = createSelection(
  'latest_rules',
  query
    .select({
      id: rulesTable.id,
      name: rulesTable.name,
      description: rulesTable.description,
      isEnabled: rulesTable.isEnabled,
      logic: rulesTable.logic,
      createdAt: sql<number>`floor(extract(epoch from ${rulesTable.createdAt}))::bigint`,
    })
    .from(rulesTable)
    .where(eq(rulesTable.organisationId, placeholder('organisationId')))
    .orderBy(desc(rulesTable.createdAt), desc(rulesTable.position)),
  ['name', 'description', 'logic'],
);

export type RuleRow = RowOf<typeof latestRules>;

const versionInForce = createSelection(
  'ruleset_version',
  query
    .select({ version: organisations.rulesetVersion })
    .from(organisations)
    .where(eq(organisations.id, placeholder('organisationId'))),
);

export async function findRulesetVersion(database: Database, organisationId: string): Promise<string | undefined> {
  const [row] = await database.read(versionInForce, { organisationId });
  return row?.version;
}

/** The rules in force, latest first: `isEnabled` is `t` or `f`, `logic` is JSON, `createdAt` is in Unix seconds. */
export const readRules = (database: Database, organisationId: string): Promise<RuleRow[]> =>
  database.read(latestRules, { organisationId });

/** Rules, with the text of the file that they were applied from. */
export type RulesetWithSource = Ruleset & { source: string };

/** A version, with the rule and the entry for which it is suspended; null if it is not. */
export type StoredRuleset = RulesetWithSource & { suspension: string | null };

/** In force before any rules were applied. */
const noRuleset: StoredRuleset = {
  definitions: [],
  rules: [],
  reviews: [],
  source: '# No rules have been applied yet.\nrules: []\n',
  suspension: null,
};

const isVersion = (organisationId: string, version: number) =>
  and(eq(rulesets.organisationId, organisationId), eq(rulesets.version, version));

/** One version; without rules for version 0, before the first was applied. */
export async function getRuleset(executor: Executor, organisationId: string, version: number): Promise<StoredRuleset> {
  if (version === 0) return noRuleset;
  const [ruleset] = await executor
    .select({
      definitions: rulesets.definitions,
      rules: rulesets.rules,
      reviews: rulesets.reviews,
      source: rulesets.source,
      suspension: rulesets.suspension,
    })
    .from(rulesets)
    .where(isVersion(organisationId, version));
  if (ruleset === undefined) throw new Error(`ruleset ${version} of organisation ${organisationId} is gone`);
  return ruleset;
}

/**
 * Nothing is scored by this version any more; stored scores stay. Runs in a transaction.
 *
 * @param entry the rule and the entry that break a bound
 */
export async function suspendRules(
  executor: Executor,
  organisationId: string,
  version: number,
  entry: string,
): Promise<void> {
  const { rowCount } = await executor
    .update(rulesets)
    .set({ suspendedAt: sql`now()`, suspension: storable(entry) })
    .where(and(isVersion(organisationId, version), isNull(rulesets.suspendedAt)));
  if (rowCount !== 0) {
    // An explanation may have run rules of before: those in force stay as they are.
    const suspendedVersion = sql`greatest(${organisations.suspendedVersion}, ${version}::int)`;
    await updateOrganisation(executor, organisationId, { suspendedVersion });
    await recordAuditEvent(executor, organisationId, { name: 'pullscore', requestId: null }, 'rules.suspend', entry);
  }
}

/** When and by whom a version was applied, and its rules for reviews; undefined for version 0. */
export async function findApplication(executor: Executor, organisationId: string, version: number) {
  const { appliedAt, appliedBy, reviews } = rulesets;
  const [applied] = await executor
    .select({ appliedAt, appliedBy, reviews })
    .from(rulesets)
    .where(isVersion(organisationId, version));
  return applied;
}

/** Latest first, without their rules. */
export function listApplications(executor: Executor, organisationId: string, limit: number) {
  const { version, appliedAt, appliedBy, suspendedAt } = rulesets;
  return executor
    .select({ version, appliedAt, appliedBy, suspendedAt })
    .from(rulesets)
    .where(eq(rulesets.organisationId, organisationId))
    .orderBy(desc(version))
    .limit(limit);
}

/** Latest first, without their files' texts. */
export function listRulesets(executor: Executor, organisationId: string) {
  const { source: _, ...columns } = getTableColumns(rulesets);
  return executor
    .select(columns)
    .from(rulesets)
    .where(eq(rulesets.organisationId, organisationId))
    .orderBy(desc(rulesets.version));
}

/**
 * Makes it the organisation's next ruleset, which makes every score stale, unless the rules are in force already and only
 * the text of their file differs. A rule that keeps its name keeps its id and time of creation. Runs in a transaction.
 *
 * @param options `expected`: the version that must be in force
 * @throws ServiceError `precondition_failed` if another version is in force
 */
export async function applyRuleset(
  executor: Executor,
  organisationId: string,
  { source, ...given }: RulesetWithSource,
  { appliedBy = '', expected }: { appliedBy?: string; expected?: number | undefined } = {},
): Promise<{ version: number; changed: boolean; sourceChanged: boolean }> {
  const ruleset: Ruleset = JSON.parse(
    JSON.stringify({ definitions: given.definitions, rules: given.rules, reviews: given.reviews }),
    (_key, value) => (typeof value === 'string' ? storable(value) : value),
  );
  const { definitions, rules, reviews } = ruleset;
  const { rulesetVersion: current } = await lockOrganisation(executor, organisationId, 'exclusive');
  if (expected !== undefined && expected !== current) {
    const message = `Version ${current} of the rules is in force, not ${expected}.`;
    throw preconditionFailed(message, undefined, { parameter: 'if-match' });
  }
  const inForce = await getRuleset(executor, organisationId, current);
  const changed = current === 0 || differ(inForce, ruleset);
  const sourceChanged = changed || source !== inForce.source;
  if (!sourceChanged) return { version: current, changed, sourceChanged };
  const version = current + 1;
  await executor.insert(rulesets).values({ organisationId, version, definitions, rules, reviews, source, appliedBy });
  await updateOrganisation(executor, organisationId, { rulesetVersion: version });
  if (!changed) {
    const { suspension } = inForce;
    if (suspension !== null) await suspendRules(executor, organisationId, version, suspension);
    // Check runs compare versions.
    await renewContentVersion(executor, organisationId, { isVisible: false });
    return { version, changed, sourceChanged };
  }
  const names = rules.map(rule => rule.name);
  await executor
    .delete(rulesTable)
    .where(and(eq(rulesTable.organisationId, organisationId), notInArray(rulesTable.name, names)));
  if (rules.length > 0) {
    await executor
      .insert(rulesTable)
      .values(
        rules.map((rule, position) => ({
          organisationId,
          id: newId(),
          name: rule.name,
          description: rule.description,
          isEnabled: rule.is_enabled,
          logic: evaluatedLogic(rule),
          position,
        })),
      )
      .onConflictDoUpdate({
        target: [rulesTable.organisationId, rulesTable.name],
        set: {
          description: sql`excluded.description`,
          isEnabled: sql`excluded.is_enabled`,
          logic: sql`excluded.logic`,
          position: sql`excluded.position`,
        },
      });
  }
  await requestRescoring(executor, organisationId);
  return { version, changed, sourceChanged };
}
