import { type Actor, recordAuditEvent } from '../database/audit-log.ts';
import { countOutdated } from '../database/backlog.ts';
import type { Database } from '../database/client.ts';
import { getOrganisation } from '../database/organisations.ts';
import { countPullRequests } from '../database/pull-requests.ts';
import { applyRuleset, getRuleset, type RulesetWithSource } from '../database/rules.ts';
import { defineKey } from '../scoring/file/rules-file.ts';

export type RulesDocument = Awaited<ReturnType<typeof readRules>>;

/** The rules in force, as the file that was applied. @param version another one that was applied */
export async function readRules({ executor }: Database, organisationId: string, version?: number) {
  const number = version ?? (await getOrganisation(executor, organisationId)).rulesetVersion;
  const { definitions, rules, reviews, source } = await getRuleset(executor, organisationId, number);
  return { ...defineKey(definitions), rules, reviews, source, version: number };
}

export type AppliedDocument = Awaited<ReturnType<typeof applyRules>>;

/**
 * Puts rules in force.
 *
 * @param options `appliedBy`: for the history; `expected`: the version that must be in force
 * @throws ServiceError `precondition_failed` if another version is in force
 */
export async function applyRules(
  database: Database,
  organisationId: string,
  ruleset: RulesetWithSource,
  { actor, appliedBy, expected }: { actor: Actor; appliedBy: string; expected: number | undefined },
) {
  const { version, changed, sourceChanged } = await database.transaction(async executor => {
    const options = { appliedBy: appliedBy.slice(0, 200), expected };
    const applied = await applyRuleset(executor, organisationId, ruleset, options);
    if (applied.sourceChanged) {
      const subject = `version ${applied.version}${applied.changed ? '' : ', comments and tests'}`;
      await recordAuditEvent(executor, organisationId, actor, 'rules.apply', subject);
    }
    return applied;
  });
  // New rules make all of them outdated, and these are counted sooner.
  const count = changed ? countPullRequests : countOutdated;
  const outdated = await count(database.executor, organisationId);
  const { login } = await getOrganisation(database.executor, organisationId);
  return {
    organisation: login,
    version,
    changed,
    rules: ruleset.rules.length,
    reviews: ruleset.reviews.length,
    source_changed: sourceChanged,
    outdated,
  };
}
