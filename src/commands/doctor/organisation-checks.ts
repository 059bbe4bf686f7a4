/** Checks of what is stored of organisations. */

import { countOutdated } from '../../database/backlog.ts';
import type { Database } from '../../database/client.ts';
import { findHalfErased } from '../../database/erasure.ts';
import { findOrganisation, listOrganisations } from '../../database/organisations.ts';
import { listIgnoredRepositories } from '../../database/repositories.ts';
import { getRuleset } from '../../database/rules.ts';
import { describeSuspension } from '../../errors.ts';
import { compileRuleset } from '../../scoring/ruleset.ts';
import { reasonOfGlob } from '../../sync/ignore-repositories.ts';
import { counted, formatInteger } from '../../text/number-formats.ts';
import { showTime } from '../context.ts';
import { describeIgnored } from '../organisation-settings.ts';
import { countRules } from '../rules-file.ts';
import { defineCheck, list, ok, problem, warning } from './findings.ts';
import { command, logs, type Scope, type StoredScope } from './scope.ts';

export const organisations = defineCheck('organisations', 'organisations', logs, {
  ask: async ({ login, database: { executor } }: Scope & { login: string | undefined; database: Database }) => {
    const found = login === undefined ? await listOrganisations(executor) : [await findOrganisation(executor, login)];
    return found.filter(each => each !== undefined);
  },
  judge(organisations, { login, program, config }) {
    const removed = organisations.flatMap(({ login: name, removedAt }) =>
      removedAt === null
        ? []
        : warning(
            `The removal of ${name} began at ${showTime(removedAt)} UTC; a running service finishes it.`,
            `To do it now: ${program} organisation remove ${name} --yes`,
          ),
    );
    if (login !== undefined) {
      if (organisations.length > 0) return removed;
      return problem(`There is no organisation ${login} here.`, `Add it: ${program} organisation add ${login}`);
    }
    const tracked = organisations.filter(({ removedAt }) => removedAt === null).map(each => each.login);
    return [
      tracked.length > 0
        ? ok(`Tracked here: ${tracked.join(', ')}.`)
        : warning('No organisation is tracked yet.', `Add one: ${program} organisation add LOGIN`),
      ...removed,
      ...config.webhookSecrets.map(
        ({ login: owner }, index) =>
          owner !== undefined &&
          !tracked.some(each => each.toLowerCase() === owner) &&
          // The login may be a part of the secret, so it is not shown.
          warning(
            `Secret ${index + 1} of GITHUB_WEBHOOK_SECRET begins with a login that is not tracked here.`,
            'Correct the login. If the colon belongs to the secret, use GITHUB_WEBHOOK_SECRET_FILE, with a colon before it.',
          ),
      ),
    ];
  },
});

export const rules = defineCheck('organisations', 'rules', logs, {
  ask: ({ database, organisation }: StoredScope) =>
    getRuleset(database.executor, organisation.id, organisation.rulesetVersion),
  judge(ruleset, scope) {
    const { rulesetVersion } = scope.organisation;
    if (ruleset.suspension !== null) {
      return problem(
        describeSuspension(ruleset.suspension),
        `Simplify that entry, and apply the rules. To get them: ${command(scope, 'rules export')}`,
      );
    }
    const [invalid] = compileRuleset(ruleset).problems;
    const apply = `Apply some: ${command(scope, 'rules apply rules.example.yaml')}`;
    if (rulesetVersion === 0) return warning('No rules are in force: every score is 0.', apply);
    if (invalid === undefined)
      return ok(`${countRules(ruleset.rules.length, ruleset.reviews.length)} in force, version ${rulesetVersion}.`);
    return warning(
      `A rule is not valid in this release, so it does not count: ${invalid.message}`,
      `Fix and apply the rules. To get them: ${command(scope, 'rules export')}`,
    );
  },
});

export const ignored = defineCheck('organisations', 'ignored', logs, {
  ask: ({ database, organisation }: StoredScope) => listIgnoredRepositories(database.executor, organisation.id),
  judge(repositories, { program, organisation }) {
    const setting = describeIgnored(organisation);
    const settings = `${program} organisation settings ${organisation.login}`;
    const reasons = new Set(repositories.map(({ ignoredBecause }) => ignoredBecause));
    const unused = organisation.ignoredGlobs.filter(glob => !reasons.has(reasonOfGlob(glob)));
    return [
      (setting !== '' || repositories.length > 0) &&
        ok(
          `Ignored: ${setting || 'nothing'}; ${counted(repositories.length, 'repository', 'repositories')} so far. To see them: ${settings}`,
        ),
      // Otherwise the setting may be newer than the comparison.
      ...(organisation.comparisonRequested ? [] : unused).map(glob =>
        warning(
          `The glob ${glob} ignores no repository that is not ignored anyway.`,
          `If it is wrong, take it back: ${settings} --unignore '${glob}'`,
        ),
      ),
    ];
  },
});

export const people = defineCheck('organisations', 'people', logs, {
  ask: async ({ database, organisation, inspecting }: StoredScope) => ({
    ...(await inspecting),
    // Members whose erasure has begun and not finished.
    halfErased: await findHalfErased(database.executor, organisation.id),
  }),
  judge({ members, users, tokens, halfErased }, scope) {
    const counts = [counted(members, 'member'), counted(users, 'user'), counted(tokens, 'valid access token')];
    return [
      members > 0 && tokens > 0 && ok(`${list(counts)}.`),
      ...halfErased.map(({ login }) =>
        warning(
          `${login} is being erased; a running service finishes that.`,
          `To do it now: ${command(scope, `member erase ${login} --yes`)}`,
        ),
      ),
      members === 0 &&
        warning(
          'No members are known: only pull requests whose authors GitHub marks as members are kept.',
          `Fetch the list: ${command(scope, 'members sync')}`,
        ),
      users === 0 &&
        warning(
          'There is no user, so nobody can read the scores.',
          `Add one: ${command(scope, 'user add --name NAME --email EMAIL')}`,
        ),
      users > 0 &&
        tokens === 0 &&
        warning('No user has a valid access token.', `Create one: ${command(scope, 'token create --user EMAIL')}`),
    ];
  },
});

export const scores = defineCheck('organisations', 'scores', logs, {
  ask: async ({ database, organisation, inspecting }: StoredScope) => ({
    outdated: await countOutdated(database.executor, organisation.id),
    total: (await inspecting).pullRequests,
  }),
  judge({ outdated, total }, scope) {
    if (total === 0) return warning('No pull requests are stored yet.', `Import them: ${command(scope, 'import')}`);
    if (outdated === 0) return ok(`${counted(total, 'pull request')}, all scored by the rules in force.`);
    const found = `${formatInteger(outdated)} of ${formatInteger(total)} scores are not up to date with the rules in force.`;
    return scope.workers > 0 ? ok(found) : warning(found, `Run: ${command(scope, 'rescore')}`);
  },
});
