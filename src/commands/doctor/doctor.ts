import { pino } from 'pino';
import { areChecksEnabled } from '../../database/check-runs.ts';
import { connectDatabase, type Database } from '../../database/client.ts';
import { type EmbeddedDatabase, joinEmbeddedDatabase } from '../../database/embedded-server.ts';
import type { Organisation } from '../../database/organisations.ts';
import { type ServiceReport, setsVariable } from '../../database/service-reports.ts';
import { createGithub } from '../../github/github.ts';
import { mayWriteChecks, readPermissions } from '../../github/permissions.ts';
import { createInspection } from '../../github/rest.ts';
import { keepToLimits } from '../../sync/share-github-points.ts';
import type { PullscoreCommand } from '../command.ts';
import { type Context, whileOpen } from '../context.ts';
import * as background from './background-checks.ts';
import * as settings from './configuration-checks.ts';
import * as databases from './database-checks.ts';
import { createReport, type Finding, hasProblem, type Report, showFindings } from './findings.ts';
import * as remote from './github-checks.ts';
import { inspectOrganisation } from './inspection.ts';
import * as stored from './organisation-checks.ts';
import type { OrganisationScope, Scope } from './scope.ts';
import * as webhooks from './webhook-checks.ts';

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
        text: showFindings(findings, context.columns),
        failure: hasProblem(findings) ? 'Problems found; see above for fixes.' : undefined,
      };
    });
}

/** Runs all checks. Those that depend on something that failed are reported as skipped. */
export async function examine(context: Context, login: string | undefined): Promise<Finding[]> {
  const report = createReport();
  const config = await report.check(settings.environment, context);
  if (config === undefined) {
    const why = 'Database, GitHub and webhooks are not checked: the configuration is not valid.';
    report.skip('database', 'server', why);
    return report.findings;
  }
  const scope = { program: context.program, config, workers: 0 };
  let embedded: Promise<EmbeddedDatabase> | undefined;
  let database: Database | undefined;
  return whileOpen(
    config.databaseUrl === undefined,
    async signal => signal,
    async () => {
      await database?.close();
      await embedded?.then(server => server.leave()).catch(() => undefined);
    },
    async signal => {
      const findUrl = async () => {
        if (config.databaseUrl !== undefined) return config.databaseUrl;
        embedded = joinEmbeddedDatabase({ home: config.home, create: false, signal });
        return (await embedded).url;
      };
      const server = await report.check(databases.server, { ...scope, findUrl });
      // Unlike other commands, doctor does not migrate the database.
      if (server?.pendingMigrations === 0) database = connectDatabase(server.url, pino({ level: 'silent' }));
      const service = await report.check(settings.processes, { ...scope, database });
      const known = database && { database, organisations: await checkDatabase(report, scope, database, login) };
      if (known === undefined) {
        const why = "Organisations, deliveries and background work are not checked: the database can't be used yet.";
        report.skip('organisations', 'organisations', why);
      }
      const clients = { github: createGithub(config.github), inspection: createInspection(config.github) };
      await checkGithub(report, { ...scope, ...clients, reports: service?.reports ?? [] }, known);
      return report.findings;
    },
  );
}

/** Counts the workers, too. @returns the organisations to check: one if its login is given */
async function checkDatabase(
  report: Report,
  scope: Scope,
  database: Database,
  login: string | undefined,
): Promise<readonly Organisation[]> {
  const chosen = await report.check(stored.organisations, { ...scope, login, database });
  scope.workers = (await report.check(background.workers, { ...scope, executor: database.executor })) ?? 0;
  const organisations = chosen?.filter(({ removedAt }) => removedAt === null) ?? [];
  for (const organisation of organisations) {
    const inspecting = inspectOrganisation(database.executor, organisation.id);
    const own = { ...scope, database, organisation, inspecting };
    await Promise.all([
      report.check(stored.rules, own),
      report.check(stored.ignored, own),
      report.check(stored.people, own),
      report.check(stored.scores, own),
      report.check(webhooks.deliveries, own),
      report.check(background.requests, own),
      areChecksEnabled(organisation) && report.check(background.checkRuns, own),
      report.check(background.comparison, own),
    ]);
  }
  return organisations;
}

interface Stored {
  database: Database;
  organisations: readonly Organisation[];
}

/** @param known undefined if the database can't be used; GitHub's limits are then unknown */
async function checkGithub(
  report: Report,
  access: remote.Access & { reports: readonly ServiceReport[] },
  known: Stored | undefined,
) {
  const { github } = access;
  const free = known === undefined ? [] : await checkRateLimits(report, access, known);
  if (known !== undefined && known.organisations.length > 0 && free.length === 0) return;

  const [first] = free;
  const skipRights = (why: string) =>
    report.skip('github', 'rights', `Permissions and webhooks on GitHub are not checked: ${why}.`);
  const reached = await report.check(remote.reach, access);
  // Missing credentials are reported even if GitHub can't be reached.
  if (reached === undefined && github.configured) return skipRights("it can't be reached");
  const elsewhere = access.reports.find(({ variables }) => setsVariable(variables, ...settings.credentialVariables));
  if (!github.configured && elsewhere !== undefined) {
    return skipRights('the service has credentials for GitHub, this shell has none');
  }
  // Limits that are not known block no request.
  const within: remote.Call = request =>
    known === undefined || first === undefined
      ? request(github)
      : keepToLimits({ ...access, ...known }, first, request);
  const accepted = await report.check(remote.credentials, { ...access, first, within });
  if (reached === undefined) return skipRights("it can't be reached");
  if (accepted === undefined) return skipRights('GitHub accepts no credentials of this configuration');
  if (known === undefined) return skipRights("the organisations can't be read from the database");
  for (const organisation of free) await checkOnGithub(report, { ...access, ...known, organisation });
}

/** @returns the organisations whose rate limit does not block requests now */
async function checkRateLimits(report: Report, access: remote.Access, { database, organisations }: Stored) {
  const { config } = access;
  const usesApp = config.github.app !== undefined;
  const free: Organisation[] = [];
  // All organisations share the limit of a token.
  for (const organisation of usesApp ? organisations : organisations.slice(0, 1)) {
    const scope = usesApp ? { ...access, organisation } : access;
    const secondsBlocked = await report.check(remote.rateLimit, { ...scope, database, chosen: organisation });
    if (secondsBlocked === 0) free.push(...(usesApp ? [organisation] : organisations));
  }
  return free;
}

async function checkOnGithub(report: Report, access: remote.Access & Stored & OrganisationScope): Promise<void> {
  const { config, organisation } = access;
  const call: remote.Call = request => keepToLimits(access, organisation, request);
  const scope = { ...access, call };
  const skipHook = () => {
    const why = 'The webhook on GitHub is not checked: GitHub does not show the organisation.';
    if (organisation.webhooksEnabled) report.skip('webhooks', 'hook', why, organisation);
  };
  let missing: readonly string[] = [];
  if (config.github.app !== undefined) {
    const installation = await report.check(remote.installation, scope);
    if (installation === undefined) return skipHook();
    missing = readPermissions.filter(name => !Object.hasOwn(installation.permissions ?? {}, name));
    const lacksChecks = areChecksEnabled(organisation) && !mayWriteChecks(installation);
    await report.check(remote.permissions, { ...scope, missing, lacksChecks });
    await report.check(remote.points, scope);
  }
  const profile = await report.check(remote.profile, scope);
  if (profile === undefined) {
    report.skip('github', 'rights', 'Members and pull requests are not checked.', organisation);
    return skipHook();
  }
  const { githubId, nodeId, login } = profile;
  const own = { ...scope, current: { ...organisation, githubId, nodeId, login } };
  // Missing permissions are reported above.
  const mayRead = (names: readonly string[]) => !names.some(name => missing.includes(name));
  await Promise.all([
    mayRead(['members']) && report.check(remote.members, own),
    mayRead(remote.pullRequestPermissions) && report.check(remote.pullRequests, own),
  ]);
  if (!organisation.webhooksEnabled) return;
  // The order of repositories depends on comparisons.
  if (config.comparisonInterval > 0) await report.check(remote.repositories, own);
  await report.check(webhooks.hook, own);
}
