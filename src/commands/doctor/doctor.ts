import { pino } from 'pino';
import { countSyncRequests, listFailingRequests } from '../../database/backlog.ts';
import { areChecksEnabled, countCheckRuns, listFailingCheckRuns } from '../../database/check-runs.ts';
import { connectDatabase, type Database } from '../../database/client.ts';
import { findAbandonedDatabases } from '../../database/embedded/abandoned.ts';
import { type EmbeddedDatabase, joinEmbeddedDatabase } from '../../database/embedded.ts';
import { findHalfErased } from '../../database/erasure.ts';
import { findLimits } from '../../database/github-rate-limits.ts';
import { findOrganisation, listOrganisations, type Organisation } from '../../database/organisations.ts';
import { countOutdated } from '../../database/rescoring.ts';
import { getRuleset } from '../../database/rules.ts';
import { listServiceReports, type ServiceReport, setsVariable } from '../../database/service-reports.ts';
import { countGoneDeliveries } from '../../database/webhook-deliveries.ts';
import { createGithub, type Github } from '../../github/client.ts';
import { mayWriteChecks, readPermissions } from '../../github/permissions.ts';
import { createInspection, type GithubInspection } from '../../github/rest.ts';
import { countOrganisationsOnCredential, credentialOf, keepToLimits } from '../../sync/ask-github.ts';
import { maxProseWidth } from '../../text/terminal.ts';
import type { PullscoreCommand } from '../command.ts';
import type { Context } from '../context.ts';
import { type Check, createReport, type Finding, hasProblem, type Report, showFindings } from './findings.ts';
import * as remote from './github-checks.ts';
import { countWorkers, findUnconfirmedRepositories, inspectOrganisation, inspectServer } from './inspection.ts';
import * as local from './local-checks.ts';
import { checkService, credentialVariables, readService } from './service-checks.ts';

const logs = 'See the logs of the service and of the database.';
const app = 'See the settings of the App on GitHub.';

/** All checks: area, name, function from facts to findings, and what to do if the facts can't be gathered. */
const checks = {
  environment: ['configuration', 'environment', local.checkEnvironment, local.environmentRemedy],
  service: ['configuration', 'environment', checkService, local.environmentRemedy],
  server: ['database', 'server', local.checkServer, local.serverRemedy],
  abandoned: ['database', 'abandoned', local.checkAbandoned, 'Check the rights of /var/lib/pullscore.'],

  organisations: ['organisations', 'organisations', local.checkOrganisations, logs],
  rules: ['organisations', 'rules', local.checkRules, logs],
  people: ['organisations', 'people', local.checkPeople, logs],
  scores: ['organisations', 'scores', local.checkScores, logs],

  rateLimit: ['github', 'patience', remote.checkRateLimit, logs],
  reach: ['github', 'reach', remote.checkReach, 'Check GITHUB_API_URL, the network and its proxy.'],
  credentials: ['github', 'credentials', remote.checkCredentials, 'Check the credentials.'],
  installation: ['github', 'installation', remote.checkInstallation, app],
  permissions: ['github', 'installation', remote.checkPermissions, app],
  points: ['github', 'limit', remote.checkPoints, app],
  profile: ['github', 'organisation', remote.checkProfile, remote.allow(readPermissions)],
  members: ['github', 'members', remote.checkMembers, remote.allow(['members'])],
  pullRequests: ['github', 'pull_requests', remote.checkPullRequests, remote.allow(remote.pullRequestPermissions)],
  repositories: ['github', 'repositories', remote.checkRepositories, 'Check the permissions of the credentials.'],

  deliveries: ['webhooks', 'deliveries', local.checkDeliveries, logs],
  hook: ['webhooks', 'hook', remote.checkHook, 'See Webhooks in the settings of the organisation on GitHub.'],

  workers: ['background', 'workers', local.checkWorkers, logs],
  requests: ['background', 'requests', local.checkBacklog, logs],
  checkRuns: ['background', 'checks', local.checkCheckRuns, logs],
  comparison: ['background', 'comparison', local.checkComparison, logs],
} as const;

export function doctorCommand(program: PullscoreCommand, context: Context): void {
  program
    .command('doctor')
    .description('check everything the service needs, and say how to fix what is wrong')
    .option('--organisation <login>', 'check only this organisation')
    .addHelpText(
      'after',
      `
Checks the configuration, the database, GitHub and its webhooks, and changes nothing. Exits with 1 if something stops
the service from working, and with 0 if there are only warnings.`,
    )
    .examples('doctor')
    .answer<{ organisation?: string }>(async ({ organisation }) => {
      const findings = await examine(context, organisation);
      return {
        json: { ok: !hasProblem(findings), checks: findings },
        text: showFindings(findings, Math.min(context.columns, maxProseWidth)),
        failure: hasProblem(findings) ? 'Problems found; see above for fixes.' : undefined,
      };
    });
}

/** Runs all checks. Those that depend on something that failed are reported as skipped. */
export async function examine(context: Context, login: string | undefined): Promise<Finding[]> {
  const report = createReport();
  const config = await report.check(checks.environment, {}, async () => context.config);
  if (config === undefined) {
    const why = 'Database, GitHub and webhooks are not checked: the configuration is not valid.';
    report.skip('database', 'server', why);
    return report.findings;
  }
  const scope = { program: context.program, config, workers: 0 };
  const opened: { embedded?: EmbeddedDatabase; database?: Database } = {};
  try {
    const server = await report.check(checks.server, scope, async () => {
      if (config.databaseUrl === undefined)
        opened.embedded = await joinEmbeddedDatabase({ home: config.home, create: false });
      return inspectServer(config.databaseUrl ?? opened.embedded?.url ?? '');
    });
    if (config.databaseUrl === undefined) await report.check(checks.abandoned, {}, findAbandonedDatabases);
    // Unlike other commands, doctor does not migrate the database.
    if (server?.pendingMigrations === 0) opened.database = connectDatabase(server.url, pino({ level: 'silent' }));
    const { database } = opened;
    const service = await report.check(checks.service, scope, async () =>
      readService(database === undefined ? [] : await listServiceReports(database.executor), config),
    );
    const stored = database && { database, organisations: await checkDatabase(report, scope, database, login) };
    if (stored === undefined) {
      const why = "Organisations, deliveries and background work are not checked: the database can't be used yet.";
      report.skip('organisations', 'organisations', why);
    }
    const clients = { github: createGithub(config.github), inspection: createInspection(config.github) };
    await checkGithub(report, { ...scope, ...clients, reports: service?.reports ?? [] }, stored);
    return report.findings;
  } finally {
    await opened.database?.close();
    await opened.embedded?.leave();
  }
}

/** Counts the workers, too. @returns the organisations to check: one if its login is given */
async function checkDatabase(
  report: Report,
  scope: local.Scope,
  database: Database,
  login: string | undefined,
): Promise<readonly Organisation[]> {
  const { executor } = database;
  const chosen = await report.check(checks.organisations, scope, async () => {
    const found = login === undefined ? await listOrganisations(executor) : [await findOrganisation(executor, login)];
    return { login, organisations: found.filter(each => each !== undefined) };
  });
  scope.workers = (await report.check(checks.workers, scope, () => countWorkers(executor))) ?? 0;
  const organisations = chosen?.organisations.filter(({ removedAt }) => removedAt === null) ?? [];
  for (const organisation of organisations) {
    const { id, rulesetVersion } = organisation;
    const own = { ...scope, organisation };
    const inspecting = inspectOrganisation(executor, id);
    await Promise.all([
      report.check(checks.rules, own, () => getRuleset(executor, id, rulesetVersion)),
      report.check(checks.people, own, async () => {
        const [inspection, halfErased] = await Promise.all([inspecting, findHalfErased(executor, id)]);
        return { ...inspection, halfErased };
      }),
      report.check(checks.scores, own, () => countOutdated(executor, id)),
      report.check(checks.deliveries, own, async () => {
        const [inspection, gone] = await Promise.all([inspecting, countGoneDeliveries(executor, id)]);
        return { ...inspection, gone };
      }),
      report.check(checks.requests, own, async () => {
        const [example] = await listFailingRequests(executor, id, 1);
        return { example, ...(await countSyncRequests(executor, id)) };
      }),
      areChecksEnabled(organisation) &&
        report.check(checks.checkRuns, own, async () => {
          const [example] = await listFailingCheckRuns(executor, id, 1);
          return { example, ...(await countCheckRuns(executor, id)) };
        }),
      report.check(checks.comparison, own, async () => {
        const [inspection, sharers] = await Promise.all([
          inspecting,
          countOrganisationsOnCredential({ ...scope, database }),
        ]);
        return { ...inspection, sharers };
      }),
    ]);
  }
  return organisations;
}

interface Access extends local.Scope {
  github: Github;
  inspection: GithubInspection;
  reports: readonly ServiceReport[];
}

interface Stored {
  database: Database;
  organisations: readonly Organisation[];
}

/** @param stored undefined if the database can't be used; GitHub's limits are then unknown */
async function checkGithub(report: Report, access: Access, stored: Stored | undefined) {
  const { config, github, inspection } = access;
  const usesApp = config.github.app !== undefined;
  const free = stored === undefined ? [] : await checkRateLimits(report, access, stored);
  if (stored !== undefined && stored.organisations.length > 0 && free.length === 0) return;

  const [first] = free;
  const skipRights = (why: string) =>
    report.skip('github', 'rights', `Permissions and webhooks on GitHub are not checked: ${why}.`);
  const reached = await report.check(checks.reach, access, inspection.reach);
  // Missing credentials are reported even if GitHub can't be reached.
  if (reached === undefined && github.configured) return skipRights("it can't be reached");
  const elsewhere = access.reports.find(({ variables }) => setsVariable(variables, ...credentialVariables));
  if (!github.configured && elsewhere !== undefined) {
    return skipRights('the service has credentials for GitHub, this shell has none');
  }
  const readCredentials = async () =>
    usesApp ? { app: await inspection.readApp() } : inspection.readCredentials(first ?? { login: '' });
  const accepted = await report.check(checks.credentials, access, () =>
    stored === undefined || first === undefined
      ? readCredentials()
      : keepToLimits({ ...access, ...stored }, first, readCredentials),
  );
  if (reached === undefined) return skipRights("it can't be reached");
  if (accepted === undefined) return skipRights('GitHub accepts no credentials of this configuration');
  if (stored === undefined) return skipRights("the organisations can't be read from the database");
  for (const organisation of free) await checkOnGithub(report, { ...access, ...stored, organisation });
}

/** @returns the organisations whose rate limit does not block requests now */
async function checkRateLimits(report: Report, access: Access, { database, organisations }: Stored) {
  const { config } = access;
  const usesApp = config.github.app !== undefined;
  const free: Organisation[] = [];
  // All organisations share the limit of a token.
  for (const organisation of usesApp ? organisations : organisations.slice(0, 1)) {
    const scope = usesApp ? { ...access, organisation } : access;
    const credential = credentialOf(config, organisation);
    const gather = async () => (await findLimits(database.executor, credential, organisation.id)).secondsBlocked;
    const secondsBlocked = await report.check(checks.rateLimit, scope, gather);
    if (secondsBlocked === 0) free.push(...(usesApp ? [organisation] : organisations));
  }
  return free;
}

async function checkOnGithub(report: Report, scope: Access & Stored & local.OrganisationScope): Promise<void> {
  const { config, database, inspection, organisation } = scope;
  const call: remote.Call = request => keepToLimits(scope, organisation, request);
  const run = <Facts>(check: Check<Facts, local.OrganisationScope>, gather: () => Promise<Facts>) =>
    report.check(check, scope, gather);
  const skipHook = () => {
    const why = 'The webhook on GitHub is not checked: GitHub does not show the organisation.';
    if (organisation.webhooksEnabled) report.skip('webhooks', 'hook', why, organisation);
  };
  let missing: readonly string[] = [];
  if (config.github.app !== undefined) {
    const installation = await run(checks.installation, () => call(() => inspection.findInstallation(organisation)));
    if (installation === undefined) return skipHook();
    missing = readPermissions.filter(name => !Object.hasOwn(installation.permissions ?? {}, name));
    const lacksChecks = areChecksEnabled(organisation) && !mayWriteChecks(installation);
    await run(checks.permissions, async () => ({ missing, lacksChecks }));
    await run(checks.points, () => call(() => inspection.readCredentials(organisation)));
  }
  const profile = await run(checks.profile, () => call(github => github.findOrganisation(organisation)));
  if (profile === undefined) {
    report.skip('github', 'rights', 'Members and pull requests are not checked.', organisation);
    return skipHook();
  }
  const { githubId, nodeId, login } = profile;
  const current = { ...organisation, githubId, nodeId, login };
  // Missing permissions are reported above.
  const mayRead = (names: readonly string[]) => !names.some(name => missing.includes(name));
  await Promise.all([
    mayRead(['members']) && run(checks.members, () => call(github => github.pageMembers(current, null))),
    mayRead(remote.pullRequestPermissions) && run(checks.pullRequests, () => remote.tryPullRequests(call, current)),
  ]);
  if (!organisation.webhooksEnabled) return;
  // The order of repositories depends on comparisons.
  if (config.comparisonInterval > 0) {
    await run(checks.repositories, async () => {
      const stored = await findUnconfirmedRepositories(database.executor, organisation.id, remote.maxNamed);
      return remote.findLostRepositories(call, current, stored);
    });
  }
  await run(checks.hook, () => remote.readHook(call, inspection, config, current));
}
