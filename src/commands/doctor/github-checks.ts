/** What can be found on GitHub. Each check turns facts into findings. */
import type { Config } from '../../config.ts';
import type { UnconfirmedRepository } from '../../database/inspection.ts';
import type { IdentifiedOrganisation } from '../../database/organisations.ts';
import { type Github, maxRepositories } from '../../github/client.ts';
import type {
  CredentialFacts,
  GithubHook,
  GithubInspection,
  HookDelivery,
  Installation,
} from '../../github/inspection.ts';
import type { GithubOrganisation } from '../../github/organisation.ts';
import { subscribedEvents } from '../../webhooks/events.ts';
import { counted } from '../numbers.ts';
import { duration, list, ok, problem, skipped, type Verdict, type Verdicts, warning } from './findings.ts';
import { command, type OrganisationScope, type Scope, webhookPath, webhookUrl } from './local-checks.ts';

/** What an App, or a fine-grained token, must be allowed to read: as GitHub's API and its pages call it. */
const permissionTitles = new Map([
  ['pull_requests', 'Pull requests'],
  ['issues', 'Issues'],
  ['contents', 'Contents'],
  ['metadata', 'Metadata'],
  ['members', 'Members (of the organisation)'],
]);
export const permissions = [...permissionTitles.keys()];
export const pullRequestPermissions = permissions.filter(name => name !== 'members');
const titlesOf = (names: readonly string[]) => list(names.map(name => permissionTitles.get(name) ?? name));

/** What a message calls the credentials. */
const nameOf = ({ github }: Config) => (github.app === undefined ? 'GITHUB_TOKEN' : 'the App');

/** What to do if the credentials may not read something. */
export const allow =
  (names: readonly string[]) =>
  ({ config }: Scope): string =>
    config.github.app === undefined
      ? `On GitHub, let GITHUB_TOKEN read ${titlesOf(names)}; a classic token needs the scopes repo and read:org.`
      : `On GitHub, give the App the permission to read ${titlesOf(names)}, and accept it in the organisation.`;

/** Calls GitHub about one organisation, within the limits that it sets. */
export type Call = <Reply>(request: () => Promise<Reply>) => Promise<Reply>;

/** @param seconds for which GitHub must not be asked */
export const checkRateLimit = (seconds: number): Verdicts => [
  seconds > 0 &&
    warning(
      `GitHub has asked for patience, for ${duration(seconds)} more: until then nothing is fetched, or asked here.`,
      'Wait; if it happens often, give the service credentials that nothing else uses.',
    ),
];

/** Beyond, GitHub refuses an App's tokens. */
const maxClockDifferenceSeconds = 30;

export function checkReach(facts: { milliseconds: number; clockAhead: number | null }, { config }: Scope): Verdicts {
  const ahead = facts.clockAhead ?? 0;
  const difference = `${duration(Math.abs(ahead))} ${ahead > 0 ? 'behind' : 'ahead of'} GitHub's`;
  return [
    ok(`${config.github.apiUrl} answers in ${Math.ceil(facts.milliseconds)} ms.`),
    Math.abs(ahead) > maxClockDifferenceSeconds &&
      warning(`The clock of this machine is ${difference}.`, 'Set it by the network: NTP, such as chrony.'),
  ];
}

/** Before its end, in which a token should be renewed. */
const renewalSeconds = 14 * 86_400;

/** @param facts.app its name, if the credentials are an App's: its points are those of its installations */
export function checkCredentials(facts: CredentialFacts | { app: string }): Verdicts {
  if ('app' in facts) return ok(`GitHub accepts the App ${facts.app}.`);
  const expiresAt = facts.expiresAt ?? Number.POSITIVE_INFINITY;
  const day = facts.expiresAt && new Date(expiresAt * 1000).toISOString().slice(0, 10);
  const isSoon = expiresAt - Date.now() / 1000 <= renewalSeconds;
  return [
    ok('GitHub accepts GITHUB_TOKEN.'),
    day !== null && !isSoon && ok(`GITHUB_TOKEN can be used until ${day}.`),
    isSoon && warning(`GITHUB_TOKEN ends on ${day}.`, 'Create another one on GitHub before, and set it.'),
    checkPoints(facts),
  ];
}

/** Of the hour's points: with less, an import would come to a halt. */
const minShare = 0.1;

export function checkPoints({ limit }: CredentialFacts): Verdict {
  if (limit === null) return ok('This GitHub has no rate limit.');
  const reset = new Date(limit.resetAt * 1000).toISOString().slice(11, 16);
  const left = `${limit.remaining} of ${limit.limit} points of the rate limit are left, until ${reset} UTC.`;
  return limit.remaining >= limit.limit * minShare
    ? ok(left)
    : warning(`Only ${left}`, 'Wait until then, or give the service credentials that nothing else uses.');
}

export const checkInstallation = (installation: Installation | undefined): Verdicts => [
  installation === undefined &&
    problem('The App is not installed there.', 'Install it: on GitHub, on the page of the App, Install App.'),
  installation?.isSuspended === true &&
    problem("The App's installation is suspended.", 'Unsuspend it in the settings of the organisation.'),
];

export const checkPermissions = (missing: readonly string[], scope: Scope): Verdicts =>
  missing.length === 0
    ? ok('The App is installed, with all the permissions that it needs.')
    : problem(`The App is installed, but may not read ${titlesOf(missing)}.`, allow(missing)(scope));

export function checkProfile(profile: GithubOrganisation | undefined, scope: OrganisationScope): Verdicts {
  const { config, organisation } = scope;
  if (profile === undefined) {
    return problem(
      `GitHub does not show it to ${nameOf(config)}.`,
      'Check the login and that the credentials belong to it; a token must be authorised for an organisation with SSO.',
    );
  }
  if (organisation.githubId !== null && profile.githubId !== organisation.githubId) {
    return problem(
      'The login belongs to another organisation on GitHub now.',
      'Change a pull request of the one that is tracked here: when it is fetched, the new login is learned.',
    );
  }
  return [
    ok(`GitHub shows it, with ${counted(profile.repositories, 'repository', 'repositories')}.`),
    profile.login !== organisation.login &&
      warning(
        `It was renamed: on GitHub it is ${profile.login}.`,
        `The next comparison with GitHub takes that over. To do it now: ${command(scope, 'members sync')}`,
      ),
  ];
}

export const checkMembers = (page: { isPublicOnly: boolean; totalCount: number }): Verdicts =>
  page.isPublicOnly
    ? warning(
        `GitHub shows only its public members: ${page.totalCount}. Nobody is marked as having left.`,
        'Set GITHUB_TOKEN to the token of a member, or use an App.',
      )
    : ok(`Its members can be read: ${page.totalCount}.`);

/** Reads the latest pull request as the service does, with all of its facts. */
export async function tryPullRequests(call: Call, github: Github, organisation: IdentifiedOrganisation) {
  const { items, totalCount } = await call(() =>
    github.pageRepositories(organisation, { after: null, pageSize: maxRepositories }),
  );
  const [latest] = items
    .filter(({ pullRequests }) => pullRequests > 0)
    .sort((a, b) => (b.pullRequestsUpdatedAt ?? 0) - (a.pullRequestsUpdatedAt ?? 0));
  if (latest === undefined) return { repositories: totalCount, latest };
  const page = await call(() =>
    github.pagePullRequests(organisation, latest.nodeId, { order: 'updated', after: null, pageSize: 1 }),
  );
  const [failed] = page?.failed ?? [];
  if (failed !== undefined) throw failed.error;
  return { repositories: totalCount, latest };
}

export function checkPullRequests(facts: Awaited<ReturnType<typeof tryPullRequests>>): Verdicts {
  const { latest, repositories } = facts;
  if (latest !== undefined) return ok(`Its pull requests can be read, as in ${latest.owner}/${latest.name}.`);
  if (repositories > 0) return ok('Its repositories can be read; none has a pull request yet.');
  return warning('GitHub shows no repository of it.', 'Give the credentials access to those that are to count.');
}

/** Of lost repositories. */
export const maxNamed = 3;

/**
 * Asks for the stored ones that a comparison saw longest ago, until GitHub shows one: those that comparisons still list
 * come after all that they no longer do.
 */
export async function findLostRepositories(
  call: Call,
  github: Github,
  organisation: IdentifiedOrganisation,
  stored: readonly UnconfirmedRepository[],
): Promise<UnconfirmedRepository[]> {
  const lost: UnconfirmedRepository[] = [];
  for (const { githubId, name, pullRequests } of stored) {
    const { repository } = await call(() => github.findRepository(organisation, name.slice(name.indexOf('/') + 1)));
    if (repository?.githubId === githubId && repository.owner === organisation.login) break;
    lost.push({ githubId, name, pullRequests });
  }
  return lost;
}

/** @param lost repositories with stored pull requests that GitHub no longer shows, at most {@link maxNamed} of them */
export function checkRepositories(lost: readonly UnconfirmedRepository[], { config }: Scope): Verdicts {
  if (lost.length === 0) return ok('GitHub shows the repositories of the stored pull requests.');
  const names = list([...lost.map(({ name }) => name), ...(lost.length === maxNamed ? ['perhaps more'] : [])]);
  const count = lost.reduce((sum, { pullRequests }) => sum + pullRequests, 0);
  const stay = counted(count, 'stored pull request stays', 'stored pull requests stay');
  const holder = config.github.app === undefined ? 'GITHUB_TOKEN' : "the App's installation";
  return warning(
    `GitHub no longer shows ${names} here: ${stay} as last fetched.`,
    `On GitHub, see the repository access of ${holder}. If the repository was deleted or transferred, there is nothing to do.`,
  );
}

/** Where an owner of the organisation finds its webhooks. */
function settingsUrl({ github }: Config, login: string): string {
  const { protocol, host } = new URL(github.apiUrl);
  return `${protocol}//${host.replace(/^api\./, '')}/organizations/${login}/settings/hooks`;
}

/** @param organisation with its present login */
export async function readHook(
  call: Call,
  inspection: GithubInspection,
  config: Config,
  organisation: IdentifiedOrganisation,
) {
  const hooks = await call(() => inspection.findHooks(organisation));
  const here = hooks.shown.filter(each => goesHere(config, each));
  const hook = here.find(({ active }) => active) ?? here[0];
  const deliveries = hook === undefined ? [] : await call(() => inspection.listDeliveries(organisation, hook));
  return { settings: settingsUrl(config, organisation.login), hooks, hook, deliveries };
}

/** Without PUBLIC_URL, by its path. */
function goesHere(config: Config, { url }: GithubHook): boolean {
  if (url === null || !URL.canParse(url)) return false;
  const { href, pathname } = new URL(url);
  return config.publicUrl === undefined ? pathname.endsWith(webhookPath) : href === new URL(webhookUrl(config)).href;
}

export function checkHook(facts: Awaited<ReturnType<typeof readHook>>, scope: OrganisationScope): Verdicts {
  const { settings, hooks, hook, deliveries } = facts;
  const { config } = scope;
  const here = webhookUrl(config);
  const setUp = `${here}, content type application/json, the secret of GITHUB_WEBHOOK_SECRET, and the events ${list([...subscribedEvents.values()])}.`;
  if (hook === undefined && hooks.mayHideMore) {
    const permission = config.github.app
      ? 'the permission to read Webhooks of the organisation would show it'
      : 'admin:org_hook of a classic token would show it, or Webhooks of the organisation of a fine-grained one';
    const message = `The webhook on GitHub is hidden from ${nameOf(config)}, which need not see it: ${permission}.`;
    return skipped(message, `See for yourself at ${settings}: ${setUp}`);
  }
  if (hook === undefined) {
    const other = hooks.shown.find(({ url }) => url?.includes(webhookPath));
    return other === undefined
      ? problem(`No webhook on GitHub goes to ${here}.`, `Add one at ${settings}/new: ${setUp}`)
      : problem(
          `No webhook on GitHub goes to ${here}; there is one to ${other.url}.`,
          `Correct its address at ${settings}, or PUBLIC_URL here.`,
        );
  }
  const page = hook.id === null ? 'the settings of the App' : `${settings}/${hook.id}`;
  const note = config.publicUrl === undefined ? ' (PUBLIC_URL is not set: compare it)' : '';
  const faults = checkSettings(hook, page);
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
  const refused = 'its deliveries are refused';
  return [
    !active && problem('The webhook on GitHub is not active.', `Tick Active at ${page}.`),
    contentType !== 'json' &&
      problem(`The webhook's content type is ${type}: ${refused}.`, `Choose application/json at ${page}.`),
    !hasSecret &&
      problem(`The webhook on GitHub has no secret: ${refused}.`, `Give it that of GITHUB_WEBHOOK_SECRET at ${page}.`),
    missing.length > 0 &&
      verdict(`The webhook on GitHub does not send ${list(missing)}.`, `Choose ${titles} at ${page}.`),
  ];
}

/** How the service, or what is in front of it, answered. */
function checkAnswers(deliveries: readonly HookDelivery[], page: string, { program }: Scope): Verdict {
  const failed = deliveries.filter(({ statusCode }) => statusCode < 200 || statusCode >= 300);
  const [newest] = failed;
  if (deliveries.length === 0) return ok('GitHub has delivered nothing within the last days.');
  if (newest === undefined) return ok(`GitHub's last ${counted(deliveries.length, 'delivery', 'deliveries')} came in.`);
  const ago = duration(Math.max(0, Date.now() / 1000 - newest.deliveredAt));
  const answer = `${newest.event}, ${ago} ago: ${newest.statusCode}, ${newest.status}`;
  if (newest !== deliveries[0]) {
    return warning(
      `${failed.length} of GitHub's last ${deliveries.length} deliveries failed, but not the latest (${answer}).`,
      `Redeliver them at ${page}, or let the comparison with GitHub find what they told.`,
    );
  }
  const reach = `Let GitHub reach PUBLIC_URL: names, firewall, certificate, proxy. Is the service running (${program} serve)?`;
  const actions: Record<number, string> = {
    401: 'Give the webhook on GitHub and GITHUB_WEBHOOK_SECRET, where the service runs, the same secret.',
    404: 'The address is not answered by pullscore: check the proxy in front of it.',
    413: 'Let the proxy in front of pullscore take bodies of up to 25 MB.',
    415: 'Choose the content type application/json for the webhook.',
    502: reach,
    503: 'See that GITHUB_WEBHOOK_SECRET is set where the service runs, and what its log says.',
    504: reach,
  };
  const action = actions[newest.statusCode] ?? `See what was answered at ${page}, tab Recent Deliveries.`;
  return problem(`GitHub's latest delivery failed (${answer}).`, action);
}
