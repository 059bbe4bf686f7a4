import type { Database } from '../../database/client.ts';
import { findLimits } from '../../database/github-rate-limits.ts';
import type { IdentifiedOrganisation, Organisation } from '../../database/organisations.ts';
import { type Github, maxPageSize } from '../../github/github.ts';
import { permissionTitles, readPermissions } from '../../github/permissions.ts';
import type { CredentialFacts, GithubInspection } from '../../github/rest.ts';
import { separateIgnored } from '../../sync/ignore-repositories.ts';
import { credentialOf } from '../../sync/share-github-points.ts';
import { counted, duration, formatInteger } from '../../text/number-formats.ts';
import { defineCheck, list, ok, problem, type Verdict, warning } from './findings.ts';
import { findUnconfirmedRepositories } from './inspection.ts';
import { command, logs, nameOf, type OrganisationScope, type Scope } from './scope.ts';

const app = 'See the settings of the App on GitHub.';

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

export interface Access extends Scope {
  github: Github;
  inspection: GithubInspection;
}

type RemoteScope = Access & OrganisationScope & { database: Database; call: Call };

/** `current`: the organisation as GitHub names it now. */
export type CurrentScope = RemoteScope & { current: IdentifiedOrganisation };

/** @param seconds for which GitHub must not be called */
export const rateLimit = defineCheck('github', 'patience', logs, {
  ask: async ({ config, database, chosen }: Scope & { database: Database; chosen: Organisation }) =>
    (await findLimits(database.executor, credentialOf(config, chosen), chosen.id)).secondsBlocked,
  judge: seconds => [
    seconds > 0 &&
      warning(
        `GitHub's rate limit blocks requests for another ${duration(seconds)}: until then nothing is fetched or checked.`,
        'Wait. If this happens often, give the service credentials that nothing else uses.',
      ),
  ],
});

export const reach = defineCheck('github', 'reach', 'Check GITHUB_API_URL, the network and its proxy.', {
  ask: ({ inspection }: Access) => inspection.reach(),
  judge(facts, { config }) {
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
  },
});

/** @param facts.app the name of the App; its points belong to its installations and are checked there */
export const credentials = defineCheck('github', 'credentials', 'Check the credentials.', {
  ask: ({
    config,
    inspection,
    first,
    within,
  }: Access & { first: Organisation | undefined; within: Call }): Promise<CredentialFacts | { app: string }> =>
    within(async () =>
      config.github.app === undefined
        ? inspection.readCredentials(first ?? { login: '' })
        : { app: await inspection.readApp() },
    ),
  judge(facts, { config }) {
    if ('app' in facts) return ok(`GitHub accepts the App ${facts.app}.`);
    const expiresAt = facts.expiresAt ?? Number.POSITIVE_INFINITY;
    const day = facts.expiresAt && new Date(expiresAt * 1000).toISOString().slice(0, 10);
    const isSoon = expiresAt - Date.now() / 1000 <= 14 * 86_400;
    const name = nameOf(config);
    return [
      ok(`GitHub accepts ${name}.`),
      day !== null && !isSoon && ok(`${name} is valid until ${day}.`),
      isSoon && warning(`${name} expires on ${day}.`, 'Create a new one on GitHub before then, and set it.'),
      describePoints(facts),
    ];
  },
});

export const points = defineCheck('github', 'limit', app, {
  ask: ({ call, inspection, organisation }: RemoteScope) => call(() => inspection.readCredentials(organisation)),
  judge: describePoints,
});

function describePoints({ limit }: CredentialFacts): Verdict {
  if (limit === null) return ok('This GitHub has no rate limit.');
  const reset = new Date(limit.resetAt * 1000).toISOString().slice(11, 16);
  const left = `${formatInteger(limit.remaining)} of ${counted(limit.limit, 'point')} of the rate limit are left, until ${reset} UTC.`;
  // An import stops below a tenth of the hour's points.
  return limit.remaining >= limit.limit / 10
    ? ok(left)
    : warning(`Only ${left}`, 'Wait, or give the service credentials that nothing else uses.');
}

export const installation = defineCheck('github', 'installation', app, {
  ask: ({ call, inspection, organisation }: RemoteScope) => call(() => inspection.findInstallation(organisation)),
  judge: installation => [
    installation === undefined &&
      problem('The App is not installed.', 'On GitHub, open the page of the App and choose Install App.'),
    Boolean(installation?.suspended_at) &&
      problem("The App's installation is suspended.", 'Unsuspend it in the settings of the organisation on GitHub.'),
  ],
});

/** @param facts `missing`: permissions to read; `lacksChecks`: scores are to be shown on GitHub, and can't be */
export const permissions = defineCheck('github', 'installation', app, {
  ask: async ({ missing, lacksChecks }: RemoteScope & { missing: readonly string[]; lacksChecks: boolean }) => ({
    missing,
    lacksChecks,
  }),
  judge: ({ missing, lacksChecks }, scope) => [
    missing.length === 0 && !lacksChecks && ok('The App is installed and has all permissions that it needs.'),
    missing.length > 0 &&
      problem(`The App is installed, but may not read ${titlesOf(missing)}.`, allow(missing)(scope)),
    lacksChecks &&
      problem(
        'The App is installed, but may not write checks: scores are not shown on GitHub.',
        'On GitHub, give the App the permission Checks (read and write), and accept it in the organisation. Then run checks enable again.',
      ),
  ],
});

export const profile = defineCheck('github', 'organisation', allow(readPermissions), {
  ask: ({ call, organisation }: RemoteScope) => call(github => github.findOrganisation(organisation)),
  judge(profile, scope) {
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
  },
});

export const members = defineCheck('github', 'members', allow(['members']), {
  ask: ({ call, current }: CurrentScope) => call(github => github.pageMembers(current, null)),
  judge: page =>
    page.isPublicOnly
      ? warning(
          `GitHub shows only ${counted(page.totalCount, 'public member')}, so nobody is marked as having left.`,
          'Use the token of a member that may read Members (a classic one: the scope read:org), or an App that may.',
        )
      : ok(`GitHub shows ${counted(page.totalCount, 'member')}.`),
});

export const pullRequests = defineCheck('github', 'pull_requests', allow(pullRequestPermissions), {
  /** Reads the latest pull request as the service does, with all of its facts. */
  async ask({ call, current }: CurrentScope) {
    const { items, totalCount: repositories } = await call(github =>
      github.pageRepositories(current, { after: null, pageSize: maxPageSize }),
    );
    const [latest] = separateIgnored(current, items)
      .tracked.filter(({ pullRequests }) => pullRequests > 0)
      .sort((a, b) => (b.pullRequestsUpdatedAt ?? 0) - (a.pullRequestsUpdatedAt ?? 0));
    if (latest === undefined) return { repositories, latest };
    const page = await call(github =>
      github.listPullRequests(current, latest.nodeId, { order: 'updated', after: null, pageSize: 1 }),
    );
    const nodeIds = page?.items.map(({ nodeId }) => nodeId) ?? [];
    if (nodeIds.length > 0) {
      const [result] = (await call(github => github.fetchPullRequests(current, nodeIds))).values();
      if (result?.status === 'failed') throw result.error;
    }
    return { repositories, latest };
  },
  judge({ latest, repositories }) {
    if (latest !== undefined) return ok(`GitHub shows pull requests, such as those of ${latest.name}.`);
    if (repositories > 0) return ok('GitHub shows the repositories. None that is tracked has a pull request yet.');
    return warning('GitHub shows no repositories.', 'Give the credentials access to the repositories to score.');
  },
});

const maxNamed = 3;

export const repositories = defineCheck('github', 'repositories', 'Check the permissions of the credentials.', {
  ask: async ({ call, current, database }: CurrentScope) => {
    const stored = await findUnconfirmedRepositories(database.executor, current.id, maxNamed);
    if (stored.length === 0) return [];
    const nodeIds = stored.map(({ nodeId }) => nodeId);
    const lost = await call(github => github.findLostRepositories(current, nodeIds));
    return stored.filter(({ nodeId }) => lost.has(nodeId));
  },
  judge(lost, { config }) {
    if (lost.length === 0) return ok('GitHub shows the repositories of all stored pull requests.');
    const names = list([...lost.map(({ name }) => name), ...(lost.length === maxNamed ? ['perhaps more'] : [])]);
    const count = lost.reduce((sum, { pullRequests }) => sum + pullRequests, 0);
    const stay = counted(count, 'stored pull request stays', 'stored pull requests stay');
    const holder = config.github.app === undefined ? nameOf(config) : "the App's installation";
    return warning(
      `GitHub no longer shows ${names}: ${stay} as last fetched.`,
      `On GitHub, check the repository access of ${holder}. If the repository was deleted or transferred, there is nothing to do.`,
    );
  },
});
