/** Checks of what GitHub shows. Each is a function from facts to findings. */
import { type Config, secretsTried, webhookPath, webhookUrl } from '../../config.ts';
import type { IdentifiedOrganisation } from '../../database/organisations.ts';
import { webAddress } from '../../github/app-manifest.ts';
import { type Github, maxPageSize } from '../../github/client.ts';
import type { GithubInstallation } from '../../github/credentials.ts';
import type { GithubOrganisation } from '../../github/organisation.ts';
import { permissionTitles, readPermissions } from '../../github/permissions.ts';
import type { CredentialFacts, GithubHook, GithubInspection, HookDelivery } from '../../github/rest.ts';
import { counted, duration } from '../../text/numbers.ts';
import { subscribedEvents } from '../../webhooks/events.ts';
import { list, ok, problem, skipped, type Verdict, type Verdicts, warning } from './findings.ts';
import type { UnconfirmedRepository } from './inspection.ts';
import { command, nameOf, type OrganisationScope, type Scope } from './local-checks.ts';

export const pullRequestPermissions = readPermissions.filter(name => name !== 'members');
const titlesOf = (names: readonly string[]) => list(names.map(name => permissionTitles.get(name) ?? name));

/** How to give the credentials permission to read these. */
export const allow =
  (names: readonly string[]) =>
  ({ config }: Scope): string =>
    config.github.app === undefined
      ? `On GitHub, let ${nameOf(config)} read ${titlesOf(names)}; a classic token needs the scopes repo and read:org.`
      : `On GitHub, give the App the permission to read ${titlesOf(names)}, and accept it in the organisation.`;

/** Calls GitHub for one organisation, within its limits. */
export type Call = <Reply>(request: (github: Github) => Promise<Reply>) => Promise<Reply>;

/** @param seconds for which GitHub must not be called */
export const checkRateLimit = (seconds: number): Verdicts => [
  seconds > 0 &&
    warning(
      `GitHub's rate limit blocks requests for another ${duration(seconds)}: until then nothing is fetched or checked.`,
      'Wait. If this happens often, give the service credentials that nothing else uses.',
    ),
];

export function checkReach(facts: { milliseconds: number; clockAhead: number | null }, { config }: Scope): Verdicts {
  const ahead = facts.clockAhead ?? 0;
  const difference = `${duration(Math.abs(ahead))} ${ahead > 0 ? 'behind' : 'ahead of'} GitHub's`;
  const { apiUrl, proxy } = config.github;
  const through = proxy === undefined ? '' : `, through the proxy ${proxy.place} (${proxy.name})`;
  return [
    ok(`${apiUrl} answers in ${Math.ceil(facts.milliseconds)} ms${through}.`),
    // GitHub refuses an App's tokens if the clocks differ more.
    Math.abs(ahead) > 30 &&
      warning(`The clock of this machine is ${difference}.`, 'Synchronise it with NTP, such as chrony.'),
  ];
}

/** @param facts.app the name of the App; its points belong to its installations and are checked there */
export function checkCredentials(facts: CredentialFacts | { app: string }, { config }: Scope): Verdicts {
  if ('app' in facts) return ok(`GitHub accepts the App ${facts.app}.`);
  const expiresAt = facts.expiresAt ?? Number.POSITIVE_INFINITY;
  const day = facts.expiresAt && new Date(expiresAt * 1000).toISOString().slice(0, 10);
  const isSoon = expiresAt - Date.now() / 1000 <= 14 * 86_400;
  const name = nameOf(config);
  return [
    ok(`GitHub accepts ${name}.`),
    day !== null && !isSoon && ok(`${name} is valid until ${day}.`),
    isSoon && warning(`${name} expires on ${day}.`, 'Create a new one on GitHub before then, and set it.'),
    checkPoints(facts),
  ];
}

export function checkPoints({ limit }: CredentialFacts): Verdict {
  if (limit === null) return ok('This GitHub has no rate limit.');
  const reset = new Date(limit.resetAt * 1000).toISOString().slice(11, 16);
  const left = `${limit.remaining} of ${limit.limit} points of the rate limit are left, until ${reset} UTC.`;
  // An import stops below a tenth of the hour's points.
  return limit.remaining >= limit.limit / 10
    ? ok(left)
    : warning(`Only ${left}`, 'Wait, or give the service credentials that nothing else uses.');
}

export const checkInstallation = (installation: GithubInstallation | undefined): Verdicts => [
  installation === undefined &&
    problem('The App is not installed.', 'On GitHub, open the page of the App and choose Install App.'),
  Boolean(installation?.suspended_at) &&
    problem("The App's installation is suspended.", 'Unsuspend it in the settings of the organisation on GitHub.'),
];

/** @param facts `missing`: permissions to read; `lacksChecks`: scores are to be shown on GitHub, and can't be */
export const checkPermissions = (
  { missing, lacksChecks }: { missing: readonly string[]; lacksChecks: boolean },
  scope: Scope,
): Verdicts => [
  missing.length === 0 && !lacksChecks && ok('The App is installed and has all permissions that it needs.'),
  missing.length > 0 && problem(`The App is installed, but may not read ${titlesOf(missing)}.`, allow(missing)(scope)),
  lacksChecks &&
    problem(
      'The App is installed, but may not write checks: scores are not shown on GitHub.',
      'On GitHub, give the App the permission Checks (read and write), and accept it in the organisation. Then run checks enable again.',
    ),
];

export function checkProfile(profile: GithubOrganisation | undefined, scope: OrganisationScope): Verdicts {
  const { config, organisation } = scope;
  if (profile === undefined) {
    return problem(
      `GitHub does not show the organisation to ${nameOf(config)}.`,
      'Check the login, and that the credentials belong to the organisation. If it uses SSO, authorise the token for it.',
    );
  }
  if (organisation.githubId !== null && profile.githubId !== organisation.githubId) {
    return problem(
      'On GitHub, this login now belongs to another organisation.',
      'Change a pull request of the tracked organisation: when it is fetched, pullscore learns the new login.',
    );
  }
  return [
    ok(`GitHub shows the organisation, with ${counted(profile.repositories, 'repository', 'repositories')}.`),
    profile.login !== organisation.login &&
      warning(
        `It was renamed: on GitHub it is ${profile.login}.`,
        `The next comparison with GitHub updates the login. To do it now: ${command(scope, 'members sync')}`,
      ),
  ];
}

export const checkMembers = (page: { isPublicOnly: boolean; totalCount: number }): Verdicts =>
  page.isPublicOnly
    ? warning(
        `GitHub shows only ${counted(page.totalCount, 'public member')}, so nobody is marked as having left.`,
        'Use the token of a member that may read Members (a classic one: the scope read:org), or an App that may.',
      )
    : ok(`GitHub shows ${counted(page.totalCount, 'member')}.`);

/** Reads the latest pull request as the service does, with all of its facts. */
export async function tryPullRequests(call: Call, organisation: IdentifiedOrganisation) {
  const { items, totalCount } = await call(github =>
    github.pageRepositories(organisation, { after: null, pageSize: maxPageSize }),
  );
  const [latest] = items
    .filter(({ pullRequests }) => pullRequests > 0)
    .sort((a, b) => (b.pullRequestsUpdatedAt ?? 0) - (a.pullRequestsUpdatedAt ?? 0));
  if (latest === undefined) return { repositories: totalCount, latest };
  const page = await call(github =>
    github.listPullRequests(organisation, latest.nodeId, { order: 'updated', after: null, pageSize: 1 }),
  );
  const nodeIds = page?.items.map(({ nodeId }) => nodeId) ?? [];
  if (nodeIds.length > 0) {
    const [result] = (await call(github => github.fetchPullRequests(organisation, nodeIds))).values();
    if (result?.status === 'failed') throw result.error;
  }
  return { repositories: totalCount, latest };
}

export function checkPullRequests(facts: Awaited<ReturnType<typeof tryPullRequests>>): Verdicts {
  const { latest, repositories } = facts;
  if (latest !== undefined) return ok(`GitHub shows pull requests, such as those of ${latest.owner}/${latest.name}.`);
  if (repositories > 0) return ok('GitHub shows the repositories. None has a pull request yet.');
  return warning('GitHub shows no repositories.', 'Give the credentials access to the repositories to score.');
}

/** How many lost repositories are named. */
export const maxNamed = 3;

/** Finds stored repositories that GitHub no longer shows in the organisation. */
export async function findLostRepositories(
  call: Call,
  organisation: IdentifiedOrganisation,
  stored: readonly UnconfirmedRepository[],
): Promise<UnconfirmedRepository[]> {
  if (stored.length === 0) return [];
  const nodeIds = stored.map(({ nodeId }) => nodeId);
  const owners = await call(github => github.findRepositoryOwners(organisation, nodeIds));
  return stored.filter(({ nodeId }) => owners.has(nodeId) && owners.get(nodeId) !== organisation.githubId);
}

export function checkRepositories(lost: readonly UnconfirmedRepository[], { config }: Scope): Verdicts {
  if (lost.length === 0) return ok('GitHub shows the repositories of all stored pull requests.');
  const names = list([...lost.map(({ name }) => name), ...(lost.length === maxNamed ? ['perhaps more'] : [])]);
  const count = lost.reduce((sum, { pullRequests }) => sum + pullRequests, 0);
  const stay = counted(count, 'stored pull request stays', 'stored pull requests stay');
  const holder = config.github.app === undefined ? nameOf(config) : "the App's installation";
  return warning(
    `GitHub no longer shows ${names}: ${stay} as last fetched.`,
    `On GitHub, check the repository access of ${holder}. If the repository was deleted or transferred, there is nothing to do.`,
  );
}

/** @param organisation with its current login */
export async function readHook(
  call: Call,
  inspection: GithubInspection,
  config: Config,
  organisation: IdentifiedOrganisation,
) {
  const hooks = await call(() => inspection.findHooks(organisation));
  const own = hooks.shown.filter(each => goesHere(config, organisation.login, each));
  const hook = own.find(({ active }) => active) ?? own[0];
  const deliveries = hook === undefined ? [] : await call(() => inspection.listDeliveries(organisation, hook));
  // For the organisation's owners.
  const settings = `${webAddress(config.github.apiUrl)}/organizations/${organisation.login}/settings/hooks`;
  return { settings, hooks, hook, deliveries };
}

/** Compares addresses, or only paths without PUBLIC_URL. */
function goesHere(config: Config, login: string, { url }: GithubHook): boolean {
  if (url === null || !URL.canParse(url)) return false;
  // This shell may not have the secrets of the service, so both addresses are right, unless these show otherwise.
  const isCommonRight = config.webhookSecrets.length === 0 || secretsTried(config).length > 0;
  const paths = [`${webhookPath}/${login}`, ...(isCommonRight ? [webhookPath] : [])].map(path => path.toLowerCase());
  const address = new URL(url).href.toLowerCase();
  return paths.some(path =>
    config.publicUrl === undefined
      ? address.endsWith(path)
      : address === new URL(config.publicUrl + path).href.toLowerCase(),
  );
}

export function checkHook(facts: Awaited<ReturnType<typeof readHook>>, scope: OrganisationScope): Verdicts {
  const { settings, hooks, hook, deliveries } = facts;
  const { config } = scope;
  const here = webhookUrl(config, scope.organisation.login);
  const setUp = `${here}, content type application/json, the secret of GITHUB_WEBHOOK_SECRET, and the events ${list([...subscribedEvents.values()])}.`;
  if (hook === undefined && hooks.mayHideMore) {
    const scopeHint = config.github.app ? '' : ' (classic token: the scope admin:org_hook)';
    return skipped(
      `${nameOf(config)} can't see the webhook on GitHub. The service works without that.`,
      `Check it at ${settings}: ${setUp} To let doctor check it, grant ${nameOf(config)} the organisation permission Webhooks${scopeHint}.`,
    );
  }
  if (hook === undefined) {
    const other = hooks.shown.find(({ url }) => url?.includes(webhookPath));
    return other === undefined
      ? problem(`No webhook on GitHub goes to ${here}.`, `Add one at ${settings}/new: ${setUp}`)
      : problem(
          `No webhook on GitHub goes to ${here}; one goes to ${other.url}.`,
          `Fix its address at ${settings}, or PUBLIC_URL here.`,
        );
  }
  const page = hook.id === null ? 'the settings of the App' : `${settings}/${hook.id}`;
  const note = config.publicUrl === undefined ? ' (check the address: PUBLIC_URL is not set)' : '';
  // PUBLIC_URL has the right port. An address without a port is that of a proxy.
  const port = config.publicUrl === undefined && hook.url !== null ? new URL(hook.url).port : '';
  const faults = [
    ...checkSettings(hook, page),
    port !== '' &&
      port !== String(config.port) &&
      warning(
        `GitHub delivers to ${hook.url}, and PORT is ${config.port} here.`,
        `If a proxy passes deliveries on from port ${port}, set PUBLIC_URL to its address. Otherwise fix the address at ${page}.`,
      ),
  ];
  return [
    ...(faults.some(Boolean) ? faults : [ok(`GitHub delivers to ${hook.url}${note}.`)]),
    checkAnswers(deliveries, page, scope),
  ];
}

function checkSettings({ active, contentType, hasSecret, events }: GithubHook, page: string) {
  const missing = [...subscribedEvents.keys()].filter(event => !events.includes('*') && !events.includes(event));
  const titles = list(missing.map(event => subscribedEvents.get(event) ?? event));
  const verdict = missing.includes('pull_request') ? problem : warning;
  const type = contentType ?? 'not set';
  const refused = 'pullscore refuses its deliveries';
  return [
    !active && problem('The webhook on GitHub is not active.', `Set it to Active at ${page}.`),
    contentType !== 'json' &&
      problem(`The webhook's content type is ${type}: ${refused}.`, `Choose application/json at ${page}.`),
    !hasSecret &&
      problem(
        `The webhook on GitHub has no secret: ${refused}.`,
        `Set it to the value of GITHUB_WEBHOOK_SECRET at ${page}.`,
      ),
    missing.length > 0 &&
      verdict(`The webhook on GitHub does not send ${list(missing)}.`, `Choose ${titles} at ${page}.`),
  ];
}

/** How the service, or the proxy in front of it, answered. */
function checkAnswers(deliveries: readonly HookDelivery[], page: string, { program }: Scope): Verdict {
  const failed = deliveries.filter(({ statusCode }) => statusCode < 200 || statusCode >= 300);
  const [newest] = failed;
  if (deliveries.length === 0) return ok('GitHub has made no deliveries in the last few days.');
  if (newest === undefined) return ok(`GitHub's last ${counted(deliveries.length, 'delivery', 'deliveries')} arrived.`);
  const ago = duration(Date.now() / 1000 - newest.deliveredAt);
  const answer = `${newest.event}, ${ago} ago: ${newest.statusCode}, ${newest.status}`;
  if (newest !== deliveries[0]) {
    return warning(
      `${failed.length} of GitHub's last ${deliveries.length} deliveries failed, but not the latest (${answer}).`,
      `Redeliver them at ${page}, or wait: the comparison with GitHub finds what changed.`,
    );
  }
  const reach = `Make sure that GitHub can reach PUBLIC_URL: check DNS, firewall, certificate and proxy, and that ${program} serve runs.`;
  const actions: Record<number, string> = {
    401: 'Set the same secret for the webhook on GitHub and in GITHUB_WEBHOOK_SECRET of the service.',
    404: 'Something other than pullscore answered: check the proxy in front of it.',
    413: 'Let the proxy in front of pullscore accept bodies of up to 5 MB.',
    415: 'Choose the content type application/json for the webhook.',
    502: reach,
    503: 'Check that GITHUB_WEBHOOK_SECRET is set for the service, and see its log.',
    504: reach,
  };
  const action = actions[newest.statusCode] ?? `See the answer at ${page}, tab Recent Deliveries.`;
  return problem(`GitHub's latest delivery failed (${answer}).`, action);
}
