/** Checks of the configuration and of the database. Each is a function from facts to findings. */
import { type Config, isUnencrypted, webhookUrl } from '../../config.ts';
import { describeHolder } from '../../database/advisory-lock.ts';
import type { FailingRequest, SyncRequestCounts } from '../../database/backlog.ts';
import type { CheckRunCounts } from '../../database/check-runs.ts';
import type { AbandonedDatabase } from '../../database/embedded/abandoned.ts';
import { migrationLock } from '../../database/migrate.ts';
import type { Organisation } from '../../database/organisations.ts';
import type { StoredRuleset } from '../../database/rules.ts';
import { maxRefetchesPerHour } from '../../database/sweep.ts';
import { goneDays } from '../../database/webhook-deliveries.ts';
import { describeSuspension } from '../../errors.ts';
import { compileRuleset } from '../../scoring/ruleset.ts';
import { counted, duration } from '../../text/numbers.ts';
import { describeComparison, lastFailure } from '../comparison.ts';
import { showTime } from '../context.ts';
import { list, ok, problem, skipped, type Verdict, type Verdicts, warning } from './findings.ts';
import type { OrganisationInspection, ServerInspection } from './inspection.ts';

/** What every check can use. */
export interface Scope {
  program: string;
  config: Config;
  /** How many processes on this database do the background work; 0 if it can't be used. */
  workers: number;
  organisation?: Organisation;
}

export interface OrganisationScope extends Scope {
  organisation: Organisation;
}

export const environmentRemedy = 'Fix it in the environment of the service: with docker compose, in .env.';

export const serverRemedy = ({ config }: Scope): string =>
  config.databaseUrl === undefined
    ? 'Set DATABASE_URL to your own PostgreSQL.'
    : 'Check DATABASE_URL and that the server runs.';

/** A command for the organisation that is checked. */
export const command = ({ program, organisation }: OrganisationScope, text: string) =>
  `${program} ${text} --organisation ${organisation.login}`;

/** The credentials, as messages name them. */
export const nameOf = ({ github }: Config) => (github.app !== undefined ? 'the App' : github.tokenName);

export const describeVariables = (where: string, variables: readonly string[]): string =>
  variables.length === 0 ? `No variables are set ${where}, so the defaults apply` : `Set ${where}: ${list(variables)}`;

/** This shell: where doctor runs, which may not be where the service runs. */
export const checkEnvironment = ({
  variables,
  envFile,
  misspeltVariables,
  publicUrl,
  github,
  comparisonInterval,
}: Config): Verdicts => [
  ok(`${describeVariables(envFile === undefined ? 'in this shell' : `in this shell or in ${envFile}`, variables)}.`),
  ...misspeltVariables.map(([name, meant]) => warning(`${name} is not read.`, `If you mean ${meant}, rename it.`)),
  isUnencrypted(publicUrl) &&
    warning('PUBLIC_URL is not https: others can read access tokens.', 'Put a TLS proxy in front: docs/deployment.md.'),
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
];

/** How many connections one replica can open. */
const maxReplicaConnections = 12;

export function checkServer(server: ServerInspection, { program, config }: Scope): Verdicts {
  const { version, database, place, user, isReadOnly, usedConnections, maxConnections, refusal, holder } = server;
  const pending = server.pendingMigrations ?? 0;
  const release = `PostgreSQL ${Math.floor(version / 10_000)}.${version % 10_000}`;
  const location =
    config.databaseUrl === undefined ? `embedded in ${config.home}` : `at ${place}, database ${database}`;
  return [
    ok(`${release} ${location}, answers in ${Math.ceil(server.milliseconds)} ms.`),
    isReadOnly &&
      problem('The server does not accept writes: it is a standby, or read-only.', 'Set DATABASE_URL to the primary.'),
    !(isReadOnly || server.mayMigrate) &&
      problem(
        `The user ${user} may not change the schema of ${database}, so the service does not start.`,
        `As a superuser: alter database "${database}" owner to "${user}"; alter schema public owner to "${user}";`,
      ),
    maxConnections - usedConnections < maxReplicaConnections &&
      warning(
        `${usedConnections} of the server's ${maxConnections} connections are in use; a replica needs up to ${maxReplicaConnections}.`,
        'Raise max_connections on the server, or close other connections.',
      ),
    holder !== undefined &&
      warning(
        `${describeHolder(migrationLock, holder)}: until then no other process can migrate the schema.`,
        `If none is migrating now, end it in the database: select pg_terminate_backend(${holder.id})`,
      ),
    refusal !== undefined && problem(...refusal),
    server.pendingMigrations === 0 && refusal === undefined && ok('The schema is up to date.'),
    pending > 0 &&
      refusal === undefined &&
      warning(
        `The schema lacks ${counted(pending, 'migration')} of this release.`,
        `Start the service, which applies them, or run: ${program} migrate`,
      ),
  ];
}

export const checkAbandoned = (databases: readonly AbandonedDatabase[]): Verdicts =>
  databases.map(({ folder, home, serverId }) => {
    const [state, removal] =
      serverId === undefined
        ? ['is left over', `delete the data: rm -r ${folder}`]
        : ['is left over and still runs', `stop it, and run this again: kill -INT ${serverId}`];
    const message = `The database in ${folder} ${state}: its home ${home} is gone.`;
    return warning(message, `If you moved the home, run a command there. Otherwise ${removal}`);
  });

/** @param facts.login the one to check; undefined for all */
export function checkOrganisations(
  { login, organisations }: { login: string | undefined; organisations: readonly Organisation[] },
  { program, config }: Scope,
): Verdicts {
  const removed = organisations.flatMap(({ login: name, removedAt }) =>
    removedAt === null
      ? []
      : warning(
          `${name} is being removed since ${showTime(removedAt)} UTC; a running service finishes that.`,
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
}

export function checkWorkers(workers: number, { program, config }: Scope): Verdicts {
  const task = 'pull requests and scores up to date';
  if (workers > 0)
    return ok(`Background work is done by ${counted(workers, 'process', 'processes')} on this database.`);
  return config.worker
    ? warning(`No process keeps ${task}.`, `Start the service: ${program} serve`)
    : warning(`No process keeps ${task}, and WORKER is false here.`, `Start one beside the service: ${program} worker`);
}

export function checkRules(ruleset: Omit<StoredRuleset, 'source'>, scope: OrganisationScope): Verdicts {
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
  if (invalid === undefined) return ok(`${counted(ruleset.rules.length, 'rule')} in force, version ${rulesetVersion}.`);
  return warning(
    `A rule is not valid in this release, so it does not count: ${invalid.message}`,
    `Fix and apply the rules. To get them: ${command(scope, 'rules export')}`,
  );
}

/** @param facts.halfErased members whose erasure has begun and not finished */
export function checkPeople(
  { members, users, tokens, halfErased }: OrganisationInspection & { halfErased: readonly { login: string }[] },
  scope: OrganisationScope,
): Verdicts {
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
}

export function checkScores(facts: { outdated: number; total: number }, scope: OrganisationScope): Verdicts {
  const { outdated, total } = facts;
  if (total === 0) return warning('No pull requests are stored yet.', `Import them: ${command(scope, 'import')}`);
  if (outdated === 0) return ok(`${counted(total, 'pull request')}, all scored by the rules in force.`);
  const found = `${outdated} of ${total} scores are not up to date with the rules in force.`;
  return scope.workers > 0 ? ok(found) : warning(found, `Run: ${command(scope, 'rescore')}`);
}

/** @param facts.gone how many recent deliveries named a pull request that GitHub never showed */
export function checkDeliveries(
  { sinceLastDelivery, lateDeliveries, gone }: OrganisationInspection & { gone: number },
  scope: OrganisationScope,
): Verdicts {
  const { config, organisation } = scope;
  if (!organisation.webhooksEnabled) {
    return skipped('Disabled here: deliveries are ignored.', `To accept them: ${command(scope, 'webhooks enable')}`);
  }
  const deliveries = (count: number) => counted(count, 'delivery', 'deliveries');
  return [
    sinceLastDelivery !== null &&
      ok(`The last delivery for this organisation came ${duration(sinceLastDelivery)} ago.`),
    sinceLastDelivery === null &&
      config.webhookSecrets.length > 0 &&
      warning(
        'No deliveries have arrived yet, except perhaps a ping.',
        `If something has changed on GitHub since, check that its webhook goes to ${webhookUrl(config, organisation.login)}.`,
      ),
    lateDeliveries > 0 &&
      warning(
        `${deliveries(lateDeliveries)} came more than ten minutes ago and ${lateDeliveries === 1 ? 'is' : 'are'} not applied yet.`,
        `See why: ${command(scope, 'webhooks status')}`,
      ),
    gone > 0 &&
      warning(
        `${deliveries(gone)} in the last ${goneDays} days named a pull request that GitHub never showed.`,
        'Give the credentials access to its repository: an App installed on selected repositories, or a fine-grained token, may lack it. Then redeliver the webhook on GitHub, or import the repository. If the pull request was deleted, there is nothing to do.',
      ),
  ];
}

/** Due work that has not started after this is late. */
const lateSeconds = 120;

/** @param facts.example a failing request: a parked one if there is one */
export function checkBacklog(
  facts: SyncRequestCounts & { example: FailingRequest | undefined },
  scope: OrganisationScope,
): Verdicts {
  const { total, behind, failed, parked, example } = facts;
  const wait = `${counted(total, 'pull request waits', 'pull requests wait')} to be synced`;
  const isLate = facts.overdueSeconds > lateSeconds;
  if (failed === 0 && !isLate) {
    if (total === 0) return ok('No pull request waits to be synced.');
    return ok(behind === 0 ? `${wait}.` : `${wait}, ${behind} of them until GitHub shows what a webhook announced.`);
  }
  const describe = (count: number, verb: string) =>
    `${counted(count, 'pull request')} ${verb} ${count === 1 ? 'is' : 'are'}`;
  const late = `${wait}, the first for ${duration(facts.overdueSeconds)}.`;
  const reason = example === undefined ? '.' : `, such as ${example.name ?? example.nodeId}: ${example.reason}`;
  const retry = `After fixing the cause: ${command(scope, 'webhooks retry')}`;
  const retried = describe(failed - parked, 'could not be synced and');
  return [
    parked > 0 && problem(`${describe(parked, 'kept failing and')} parked${reason}`, retry),
    failed > parked && warning(`${retried} tried again${parked > 0 ? '.' : reason}`, retry),
    isLate &&
      (scope.workers > 0
        ? warning(late, "See the log of the service. If it can't keep up, start more processes.")
        : problem(late, `Nothing is syncing. Start ${scope.program} serve, or worker if WORKER=false.`)),
  ];
}

/** @param facts.example a failing one: a parked one if there is one */
export function checkCheckRuns(
  facts: CheckRunCounts & { example: { name: string; reason: string } | undefined },
  scope: OrganisationScope,
): Verdicts {
  const { waiting, failing, parked, example } = facts;
  if (scope.config.github.app === undefined) {
    return warning(
      'Scores are to be shown on GitHub, which only a GitHub App can do, and there is none in this shell.',
      `Set up an App: ${command(scope, 'github connect')}. Or turn it off: ${command(scope, 'checks disable')}`,
    );
  }
  if (failing + parked === 0) {
    return ok(`Scores are shown on GitHub; ${counted(waiting, 'check run waits', 'check runs wait')} to be published.`);
  }
  const reason = example === undefined ? '.' : `, such as that of ${example.name}: ${example.reason}`;
  const retry = `After fixing the cause: ${command(scope, 'webhooks retry')}`;
  return [
    parked > 0 && problem(`${counted(parked, 'score is', 'scores are')} not shown on GitHub${reason}`, retry),
    failing > 0 &&
      warning(`${counted(failing, 'score')} could not be shown on GitHub yet${parked > 0 ? '.' : reason}`, retry),
  ];
}

function checkFailure({ config, organisation }: OrganisationScope): Verdict | false {
  const failure = lastFailure(organisation);
  if (failure === undefined || failure.isOver) return false;
  const age = (Date.now() - (organisation.comparedAt?.getTime() ?? 0)) / 1000;
  // If none succeeds for an hour, or for two intervals, more than a moment of GitHub's is wrong.
  const verdict = age > Math.max(3_600, 2 * config.comparisonInterval) ? problem : warning;
  return verdict(
    failure.text,
    'It is tried again by itself. What has to be fixed is in the environment of the service.',
  );
}

/** @param facts.sharers how many organisations use the same points */
export function checkComparison(
  { untilComparison, pullRequests, sinceOldestFetch, sharers }: OrganisationInspection & { sharers: number },
  scope: OrganisationScope,
): Verdicts {
  const { config, organisation, program, workers } = scope;
  if (!organisation.webhooksEnabled) return skipped('Repositories are not compared: webhooks are disabled.');
  const failed = checkFailure(scope);
  if (config.comparisonInterval === 0) {
    return [skipped('Repositories are compared only if a webhook asks for it: RECONCILE_INTERVAL is 0.'), failed];
  }
  // The time in which the sweep has fetched all of them again: docs/rules.md promises it.
  const promisedSeconds = Math.max(86_400, (pullRequests * sharers * 3_600) / maxRefetchesPerHour);
  const next =
    untilComparison > 0 ? `next compared with GitHub in ${duration(untilComparison)}` : 'about to be compared';
  return [
    untilComparison > -lateSeconds
      ? ok(`Repositories are ${next}. ${describeComparison(organisation)}`)
      : warning(
          `The comparison with GitHub has been overdue for ${duration(-untilComparison)}.`,
          workers > 0
            ? 'See the log of the service for the reason.'
            : `No process is comparing. Start ${program} serve, or worker.`,
        ),
    failed,
    (sinceOldestFetch ?? 0) >= 2 * promisedSeconds &&
      warning(
        `Some pull requests were last fetched ${duration(sinceOldestFetch ?? 0)} ago: changes without a webhook are not known yet.`,
        'Comparisons catch up while they run and GitHub has points left. See the log of the service.',
      ),
  ];
}
