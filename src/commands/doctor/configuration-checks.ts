/** Checks of the variables: those of this shell, and those that the processes of the service report. */
import { type Config, isLoopback, isUnencrypted } from '../../config.ts';
import type { Database } from '../../database/client.ts';
import { hashValues, listServiceReports, type ServiceReport, setsVariable } from '../../database/service-reports.ts';
import { counted } from '../../text/number-formats.ts';
import { showTime } from '../context.ts';
import { goneSeconds, sharedNames, sharedValues } from '../report-process.ts';
import { defineCheck, list, ok, type Verdict, warning } from './findings.ts';
import { describeVariables, type Scope } from './scope.ts';

const remedy = 'Fix it in the environment of the service: with docker compose, in .env.';

/** This shell: where doctor runs, which may not be where the service runs. */
export const environment = defineCheck('configuration', 'environment', remedy, {
  ask: async (scope: { config: Config; organisation?: never }) => scope.config,
  judge: ({ variables, envFile, misspeltVariables, publicUrl, github, comparisonInterval }) => [
    ok(`${describeVariables(envFile === undefined ? 'in this shell' : `in this shell or in ${envFile}`, variables)}.`),
    ...misspeltVariables.map(([name, meant]) => warning(`${name} is not read.`, `If you mean ${meant}, rename it.`)),
    isUnencrypted(publicUrl) &&
      warning(
        'PUBLIC_URL is not https: others can read access tokens.',
        'Put a TLS proxy in front: docs/deployment.md.',
      ),
    isUnencrypted(github.apiUrl) &&
      warning(
        'GITHUB_API_URL is not https: others can read the credentials for GitHub.',
        'Use the https:// address of the GitHub server.',
      ),
    comparisonInterval === 0 &&
      warning(
        'RECONCILE_INTERVAL is 0: changes that a webhook misses are never found.',
        'Set it to a number of seconds, such as 900.',
      ),
  ],
});

export const credentialVariables = ['GITHUB_TOKEN', 'GITHUB_APP_ID'] as const;

export const processes = defineCheck('configuration', 'environment', remedy, {
  ask: async ({ config, database }: Scope & { database: Database | undefined }) => {
    const reports = database === undefined ? [] : await listServiceReports(database.executor, goneSeconds);
    const [first] = reports;
    // Of this shell, with the salt of the reports.
    const fingerprint = first === undefined ? '' : await hashValues(sharedValues(config), first.salt);
    return { reports, fingerprint };
  },
  judge({ reports, fingerprint }, { config }) {
    const groups = groupByVariables(reports);
    const services = groups.filter(({ command }) => command === 'serve');
    // If no service runs, this shell's variables are taken for its own.
    const shell = { name: 'this shell', variables: config.variables };
    return [
      ...groups.map(({ name, variables, startedAt }) =>
        ok(`${describeVariables(`for ${name}`, variables)} (reported ${showTime(startedAt)} UTC).`),
      ),
      ...(services.length > 0 ? services : [shell]).flatMap(each => checkVariables(each, config)),
      ...groups.map(
        ({ name, variables }) =>
          !setsVariable(variables, ...credentialVariables) &&
          warning(
            `GitHub credentials are not set for ${name}: it fetches nothing.`,
            'Set GITHUB_TOKEN, or GITHUB_APP_ID and GITHUB_APP_PRIVATE_KEY, there.',
          ),
      ),
      ...compareValues(reports, { variables: config.variables, fingerprint }),
      ...reports.map(
        ({ place, refusedDeliveries, startedAt }) =>
          refusedDeliveries > 0 &&
          warning(
            `${place} has refused ${counted(refusedDeliveries, 'webhook delivery', 'webhook deliveries')} since ${showTime(startedAt)} UTC.`,
            'See Recent Deliveries of the webhook on GitHub, and the log of the service. Those that GitHub does not list came from others.',
          ),
      ),
    ];
  },
});

function checkVariables(
  { name, variables }: { name: string; variables: readonly string[] },
  config: Config,
): (Verdict | false)[] {
  return [
    !setsVariable(variables, 'GITHUB_WEBHOOK_SECRET') &&
      warning(
        `GITHUB_WEBHOOK_SECRET is not set for ${name}: webhooks are refused.`,
        'Choose a secret, and set it for the service and on GitHub.',
      ),
    // A report does not say what HOST is; if doctor runs in the service's container, HOST is the same here.
    variables.includes('HOST') &&
      !isLoopback(config.host) &&
      !variables.includes('PUBLIC_URL') &&
      warning(
        `PUBLIC_URL is not set for ${name}, but HOST is: links contain the address of each request.`,
        'Set PUBLIC_URL to the address that clients and GitHub use, such as https://pullscore.example.com.',
      ),
  ];
}

/** Processes of a command that set the same variables are one group. `startedAt` is the latest. */
function groupByVariables(reports: readonly ServiceReport[]) {
  const groups = new Map<string, ServiceReport[]>();
  for (const report of reports) {
    const key = `${report.command} ${report.variables}`;
    groups.set(key, [...(groups.get(key) ?? []), report]);
  }
  return [...groups.values()].flatMap(group =>
    group.slice(-1).map(last => ({ ...last, name: nameOf(last, group, reports) })),
  );
}

/** How messages name processes of a command: by their places, unless no others run. */
function nameOf({ command }: ServiceReport, group: readonly ServiceReport[], reports: readonly ServiceReport[]) {
  const name = command === 'serve' ? 'the service' : 'the worker';
  const isWhole = reports.filter(report => report.command === command).length === group.length;
  if (isWhole && group.length === 1) return name;
  return `${name} (${isWhole ? `${group.length} processes` : group.map(({ place }) => place).join('; ')})`;
}

interface Values {
  variables: readonly string[];
  fingerprint: string;
}

const sharedNamesIn = ({ variables }: Values) => sharedNames.filter(name => setsVariable(variables, name)).join();

/** Whether both set the same variables, but not to the same values. If they set different ones, their lists show that. */
const differ = (one: Values, other: Values): boolean =>
  sharedNamesIn(one) === sharedNamesIn(other) &&
  one.fingerprint !== other.fingerprint &&
  // A process of the release before has none.
  one.fingerprint !== '' &&
  other.fingerprint !== '';

function compareValues(reports: readonly ServiceReport[], shell: Values): (Verdict | false)[] {
  const name = (report: ServiceReport) => nameOf(report, [report], reports);
  const pairs = reports.flatMap((one, index) => reports.slice(index + 1).map(other => [one, other] as const));
  const pair = pairs.find(([one, other]) => differ(one, other));
  const unlikeShell = reports.find(report => differ(shell, report));
  return [
    pair !== undefined &&
      warning(
        `Values differ between ${list(pair.map(name))}, which set the same variables.`,
        'Set the same values for all processes, and restart them.',
      ),
    unlikeShell !== undefined &&
      warning(
        `Values differ between this shell and ${name(unlikeShell)}, which set the same variables: what is checked here may not hold there.`,
        'Run doctor in the environment of the service, or set the same values here.',
      ),
  ];
}
