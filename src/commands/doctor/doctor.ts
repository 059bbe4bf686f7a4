import type { Command } from 'commander';
import { pino } from 'pino';
import type { Config } from '../../config.ts';
import { connectDatabase, type Database } from '../../database/client.ts';
import { type EmbeddedDatabase, joinEmbeddedDatabase } from '../../database/embedded.ts';
import { findOrganisation, listOrganisations, type Organisation } from '../../database/organisations.ts';
import { createGithub } from '../../github/client.ts';
import { createInspection } from '../../github/inspection.ts';
import { answering, CommandError, type Context } from '../context.ts';
import { readConfig } from './configuration.ts';
import { check, type Finding, finding, isFailed, ok, problem, skipped, warning } from './findings.ts';
import {
  type GithubAccess,
  lookAtCredentials,
  lookAtPatience,
  lookAtReach,
  lookAtRights,
  lookForCredentials,
} from './github.ts';
import { lookAtHook } from './hooks.ts';
import { lookAtOrganisation, lookAtWorkers } from './organisation.ts';
import { lookAtRepositories } from './repositories.ts';
import { lookAtServer } from './server.ts';
import { showFindings } from './text.ts';

export function doctorCommand(program: Command, context: Context): void {
  program
    .command('doctor')
    .description('look at everything the service needs, and say what is wrong and what to do')
    .option('--organisation <login>', 'only this one')
    .addHelpText(
      'after',
      `
It looks at the configuration, the database, GitHub and the webhooks there, and changes nothing. It ends with 1 where
something keeps the service from its work, and with 0 where there are only warnings.

Example:
  ${context.program} doctor`,
    )
    .action(async (...args) => {
      let findings: Finding[] = [];
      await answering<{ organisation?: string }>(context, async ({ organisation }) => {
        findings = await examine(context, organisation);
        const columns = 'columns' in context.stdout ? Number(context.stdout.columns) : undefined;
        return {
          json: { ok: !isFailed(findings), checks: findings },
          text: showFindings(findings, columns),
        };
      })(...args);
      if (isFailed(findings)) {
        throw new CommandError('Something keeps the service from its work: what, and what to do, is told above.');
      }
    });
}

async function examine(context: Context, login: string | undefined): Promise<Finding[]> {
  const { config, findings } = readConfig(context);
  if (config === undefined) {
    const rest = skipped('Database, GitHub and webhooks are not looked at: the configuration is not usable.');
    return [...findings, finding({ area: 'database', name: 'server' }, rest)];
  }
  const opened = await openDatabase(context, config);
  findings.push(...opened.findings);
  try {
    const organisations =
      opened.database === undefined ? undefined : await chooseOrganisations(context, opened.database, login);
    findings.push(...(organisations?.findings ?? []));
    const access: GithubAccess = {
      config,
      github: createGithub(config.github),
      inspection: createInspection(config.github),
      database: opened.database,
    };
    const [local, remote] = await Promise.all([
      lookAtHoldings(context, config, opened.database, organisations?.chosen ?? [], opened.workers),
      lookAtGithub(context, access, organisations?.chosen),
    ]);
    return [...findings, ...local, ...remote];
  } finally {
    await opened.close();
  }
}

interface OpenedDatabase {
  findings: Finding[];
  /** Undefined where it can't be used, or its schema is not up to date. */
  database: Database | undefined;
  workers: number;
  close(): Promise<void>;
}

/** Opens it as it is: unlike for other commands, nothing is migrated. */
async function openDatabase(context: Context, config: Config): Promise<OpenedDatabase> {
  let embedded: EmbeddedDatabase | undefined;
  const findings: Finding[] = [];
  if (config.databaseUrl === undefined) {
    const joined = await check(
      { area: 'database', name: 'server' },
      async () => {
        embedded = await joinEmbeddedDatabase({ home: config.home });
        return [];
      },
      'Set DATABASE_URL to a PostgreSQL of yours.',
    );
    findings.push(...joined);
  }
  const url = config.databaseUrl ?? embedded?.url;
  const { server, findings: found } =
    url === undefined ? { server: undefined, findings: [] } : await lookAtServer(context, config, url);
  findings.push(...found);
  // What goes wrong with it becomes a finding.
  const isUsable = url !== undefined && server?.pendingMigrations === 0;
  const database = isUsable ? connectDatabase(url, pino({ level: 'silent' })) : undefined;
  return {
    findings,
    database,
    workers: server?.workers ?? 0,
    async close() {
      await database?.close();
      await embedded?.leave();
    },
  };
}

async function chooseOrganisations({ program }: Context, { executor }: Database, login: string | undefined) {
  let chosen: Organisation[] = [];
  const findings = await check(
    { area: 'organisations', name: 'organisations' },
    async () => {
      if (login !== undefined) {
        const one = await findOrganisation(executor, login);
        chosen = one === undefined ? [] : [one];
        return one === undefined
          ? problem(`There is no organisation ${login} here.`, `Add it: ${program} organisation add ${login}`)
          : [];
      }
      chosen = await listOrganisations(executor);
      return chosen.length === 0
        ? warning('No organisation is tracked yet.', `Add one: ${program} organisation add LOGIN`)
        : ok(`Tracked here: ${chosen.map(each => each.login).join(', ')}.`);
    },
    'See the log of the database.',
  );
  return { chosen, findings };
}

async function lookAtHoldings(
  context: Context,
  config: Config,
  database: Database | undefined,
  organisations: readonly Organisation[],
  workers: number,
): Promise<Finding[]> {
  if (database === undefined) {
    const unseen = skipped("Organisations, deliveries and upkeep are not looked at: the database can't be used yet.");
    return [finding({ area: 'organisations', name: 'organisations' }, unseen)];
  }
  const findings = [lookAtWorkers(context, config, workers)];
  for (const organisation of organisations) {
    findings.push(...(await lookAtOrganisation(context, config, database, organisation, workers)));
  }
  return findings;
}

/** @param organisations undefined where the database does not tell */
async function lookAtGithub(
  context: Context,
  access: GithubAccess,
  organisations: readonly Organisation[] | undefined,
): Promise<Finding[]> {
  const { findings, free } = await lookAtPatience(access, organisations ?? []);
  if (organisations !== undefined && organisations.length > 0 && free.length === 0) return findings;

  const reach = await lookAtReach(access);
  findings.push(...reach);
  const unseen = (why: string) =>
    finding({ area: 'github', name: 'rights' }, skipped(`Rights and webhooks on GitHub are not looked at: ${why}.`));
  if (isFailed(reach)) {
    findings.push(...lookForCredentials(access), unseen("it can't be reached"));
    return findings;
  }
  const credentials = await lookAtCredentials(access, free[0]);
  findings.push(...credentials);
  if (isFailed(credentials)) return [...findings, unseen('there are no credentials that it takes')];
  if (organisations === undefined) return [...findings, unseen('the database does not tell of which organisations')];
  for (const organisation of free) {
    const rights = await lookAtRights(access, context.program, organisation);
    findings.push(...rights.findings);
    if (!organisation.webhooksEnabled) continue;
    if (rights.shown) findings.push(...(await lookAtRepositories(access, rights.shown)));
    const place = { area: 'webhooks', name: 'hook', organisation: organisation.login } as const;
    const notShown = finding(place, skipped('The webhook on GitHub is not looked at: the organisation is not shown.'));
    findings.push(...(rights.shown ? await lookAtHook(context, access, rights.shown, place) : [notShown]));
  }
  return findings;
}
