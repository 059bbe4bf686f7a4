/** Whether GitHub can be reached, and what the credentials may do there. */
import type { Config } from '../../config.ts';
import { secondsBlocked } from '../../database/github-limits.ts';
import type { IdentifiedOrganisation, Organisation } from '../../database/organisations.ts';
import type { Deps } from '../../deps.ts';
import { type Github, maxRepositories } from '../../github/client.ts';
import type { CredentialFacts, GithubInspection } from '../../github/inspection.ts';
import { credentialOf, keepToLimits } from '../../sync/exchange.ts';
import { counted } from '../numbers.ts';
import {
  check,
  duration,
  type Finding,
  finding,
  list,
  ok,
  problem,
  skipped,
  type Verdict,
  warning,
} from './findings.ts';

export interface GithubAccess {
  config: Config;
  github: Github;
  inspection: GithubInspection;
  /** Undefined where it can't be used: what GitHub's limits say is unknown then. */
  database: Deps['database'] | undefined;
}

/** What an App, or a fine-grained token, must be allowed: all of them to read. */
const permissions = new Map([
  ['pull_requests', 'Pull requests'],
  ['issues', 'Issues'],
  ['contents', 'Contents'],
  ['metadata', 'Metadata'],
  ['members', 'Members (of the organisation)'],
]);

/** Seconds by which clocks may differ: an App's tokens are refused beyond. */
const mostClockDifference = 30;

/** Share of the hour's points below which an import would come to a halt. */
const fewPoints = 0.1;

/** Days before its end in which a token is to be renewed. */
const soon = 14;

export async function lookAtReach({ config, inspection }: GithubAccess): Promise<Finding[]> {
  return check(
    { area: 'github', name: 'reach' },
    async () => {
      const { milliseconds, clockAhead } = await inspection.reach();
      const verdicts = [ok(`${config.github.apiUrl} answers in ${Math.ceil(milliseconds)} ms.`)];
      if (clockAhead !== null && Math.abs(clockAhead) > mostClockDifference) {
        const difference = `${duration(Math.abs(clockAhead))} ${clockAhead > 0 ? 'behind' : 'ahead of'} GitHub's`;
        verdicts.push(
          warning(`The clock of this machine is ${difference}.`, 'Set it by the network: NTP, such as chrony.'),
        );
      }
      return verdicts;
    },
    'Check GITHUB_API_URL, the network and its proxy.',
  );
}

const credentialsPlace = { area: 'github', name: 'credentials' } as const;

/** Empty where there are some. */
export function lookForCredentials({ github }: GithubAccess): Finding[] {
  if (github.configured) return [];
  return [
    finding(
      credentialsPlace,
      problem(
        'There are no credentials: nothing can be fetched.',
        'Set GITHUB_TOKEN, or GITHUB_APP_ID and GITHUB_APP_PRIVATE_KEY; README.md says what they must be allowed.',
      ),
    ),
  ];
}

/** @param organisation gives an App its installation; undefined where there is none yet */
export async function lookAtCredentials(
  access: GithubAccess,
  organisation: Organisation | undefined,
): Promise<Finding[]> {
  const { inspection } = access;
  const missing = lookForCredentials(access);
  if (missing.length > 0) return missing;
  return check(
    credentialsPlace,
    async () => {
      if (!inspection.usesApp) {
        const facts = await ask(access, organisation, () => inspection.readCredentials(organisation ?? { login: '' }));
        return [ok(`GitHub takes ${inspection.credentialNames}.`), ...expiryVerdicts(facts), ...limitVerdicts(facts)];
      }
      return ok(`GitHub takes the App ${await ask(access, organisation, () => inspection.readApp())}.`);
    },
    'Check the credentials.',
  );
}

function expiryVerdicts({ expiresAt }: CredentialFacts): Verdict[] {
  if (expiresAt === null) return [];
  const left = expiresAt - Date.now() / 1000;
  const day = new Date(expiresAt * 1000).toISOString().slice(0, 10);
  if (left > soon * 86_400) return [ok(`GITHUB_TOKEN can be used until ${day}.`)];
  return [warning(`GITHUB_TOKEN ends on ${day}.`, 'Create another one on GitHub before, and set it.')];
}

function limitVerdicts({ limit }: CredentialFacts): Verdict[] {
  if (limit === null) return [ok('This GitHub has no rate limit.')];
  const left = `${limit.remaining} of ${limit.limit} points of the rate limit are left`;
  const reset = `until ${new Date(limit.resetAt * 1000).toISOString().slice(11, 16)} UTC`;
  if (limit.remaining >= limit.limit * fewPoints) return [ok(`${left}, ${reset}.`)];
  return [
    warning(`Only ${left}, ${reset}.`, 'Wait until then, or give the service credentials that nothing else uses.'),
  ];
}

/** Asks no earlier than GitHub wants, and remembers for all replicas when it wants patience. */
export const ask = <Reply>(
  { config, database, github }: GithubAccess,
  organisation: Organisation | undefined,
  call: () => Promise<Reply>,
): Promise<Reply> =>
  database === undefined || organisation === undefined
    ? call()
    : keepToLimits({ config, database, github }, organisation, call);

/** Of which organisations GitHub may be asked now. */
export async function lookAtPatience(
  access: GithubAccess,
  organisations: readonly Organisation[],
): Promise<{ findings: Finding[]; free: Organisation[] }> {
  const { config, database } = access;
  const findings: Finding[] = [];
  const free: Organisation[] = [];
  const seen = new Map<string, boolean>();
  for (const organisation of organisations) {
    const credential = credentialOf(config, organisation);
    if (database !== undefined && !seen.has(credential)) {
      const place = { area: 'github', name: 'patience' } as const;
      const found = await check(
        access.inspection.usesApp ? { ...place, organisation: organisation.login } : place,
        async () => {
          const seconds = await secondsBlocked(database, credential);
          if (seconds === 0) return [];
          return warning(
            `GitHub has asked for patience, for ${duration(seconds)} more: nothing is fetched until then, and nothing asked here.`,
            'Wait; where it happens often, give the service credentials that nothing else uses.',
          );
        },
        'See the log of the database.',
      );
      findings.push(...found);
      seen.set(credential, found.length === 0);
    }
    if (seen.get(credential) !== false) free.push(organisation);
  }
  return { findings, free };
}

/** `shown` is the organisation as GitHub shows it to the credentials; undefined where it does not. */
export async function lookAtRights(
  access: GithubAccess,
  program: string,
  organisation: Organisation,
): Promise<{ findings: Finding[]; shown: IdentifiedOrganisation | undefined }> {
  const { github, inspection } = access;
  const { login } = organisation;
  const about = (name: string) => ({ area: 'github' as const, name, organisation: login });
  const { findings, isInstalled, missing } = inspection.usesApp
    ? await lookAtInstallation(access, organisation)
    : { findings: [], isInstalled: true, missing: [] };
  if (!isInstalled) return { findings, shown: undefined };

  const seen: { organisation?: IdentifiedOrganisation } = {};
  const looked = await check(
    about('organisation'),
    async () => {
      const profile = await ask(access, organisation, () => github.findOrganisation(organisation));
      if (profile === undefined) {
        return problem(
          `GitHub does not show it to ${inspection.credentialNames}.`,
          'Check the login and that the credentials belong to it; a token must be authorised for an organisation with SSO.',
        );
      }
      if (organisation.githubId !== null && profile.githubId !== organisation.githubId) {
        return problem(
          'The login belongs to another organisation on GitHub now.',
          'Change a pull request of the one that is tracked here: when it is fetched, the new login is learned.',
        );
      }
      const { githubId, nodeId, login: present } = profile;
      seen.organisation = { ...organisation, githubId, nodeId, login: present };
      const found = ok(`GitHub shows it, with ${counted(profile.repositories, 'repository', 'repositories')}.`);
      if (present === login) return found;
      const renamed = warning(
        `It was renamed: on GitHub it is ${present}.`,
        `The next comparison with GitHub takes that over. To do it now: ${program} members sync --organisation ${login}`,
      );
      return [found, renamed];
    },
    remedyOf(inspection, [...permissions.keys()]),
  );
  findings.push(...looked);
  const { organisation: shown } = seen;
  if (shown === undefined) {
    findings.push(finding(about('rights'), skipped('Members and pull requests are not looked at.')));
    return { findings, shown };
  }
  /** What the App may not read has been told already. */
  const checkReading = async (name: string, needed: readonly string[], look: () => Promise<Verdict>) =>
    needed.some(permission => missing.includes(permission))
      ? []
      : check(about(name), look, remedyOf(inspection, needed));
  const read = await Promise.all([
    checkReading('members', ['members'], async () => {
      const page = await ask(access, organisation, () => github.pageMembers(shown, null));
      if (!page.isPublicOnly) return ok(`Its members can be read: ${page.totalCount}.`);
      return warning(
        `GitHub shows only its public members: ${page.totalCount}. Nobody is marked as having left.`,
        'Set GITHUB_TOKEN to the token of a member, or use an App.',
      );
    }),
    checkReading('pull_requests', ['pull_requests', 'issues', 'contents', 'metadata'], () =>
      tryPullRequests(access, shown),
    ),
  ]);
  return { findings: [...findings, ...read.flat()], shown };
}

const remedyOf = ({ usesApp, credentialNames }: GithubInspection, needed: readonly string[]): string => {
  const names = needed.map(name => permissions.get(name) ?? name);
  return usesApp
    ? `On GitHub, give the App the permission to read ${list(names)}, and accept it in the organisation.`
    : `On GitHub, let ${credentialNames} read ${list(names)}; a classic token needs the scopes repo and read:org.`;
};

async function lookAtInstallation(access: GithubAccess, organisation: Organisation) {
  const { inspection } = access;
  const { login } = organisation;
  const place = { area: 'github', name: 'installation', organisation: login } as const;
  const remedy = 'Look at the App on GitHub.';
  let isInstalled = false;
  let missing: string[] = [];
  const findings = await check(
    place,
    async () => {
      const installation = await ask(access, organisation, () => inspection.findInstallation(organisation));
      if (installation === undefined) {
        return problem(
          'The App is not installed there.',
          'Install it: on GitHub, on the page of the App, Install App.',
        );
      }
      if (installation.isSuspended) {
        return problem("The App's installation is suspended.", 'Unsuspend it in the settings of the organisation.');
      }
      isInstalled = true;
      missing = [...permissions.keys()].filter(name => !installation.permissions.has(name));
      if (missing.length === 0) return ok('The App is installed, with all the permissions that it needs.');
      const names = missing.map(name => permissions.get(name) ?? name);
      return problem(`The App is installed, but may not read ${list(names)}.`, remedyOf(inspection, missing));
    },
    remedy,
  );
  if (!isInstalled) return { findings, isInstalled, missing };
  const limits = await check(
    { ...place, name: 'limit' },
    async () => limitVerdicts(await ask(access, organisation, () => inspection.readCredentials(organisation))),
    remedy,
  );
  return { findings: [...findings, ...limits], isInstalled, missing };
}

/** Reads one as the service does, with all of its facts. */
async function tryPullRequests(access: GithubAccess, organisation: IdentifiedOrganisation): Promise<Verdict> {
  const { github } = access;
  const { items, totalCount } = await ask(access, organisation, () =>
    github.pageRepositories(organisation, { after: null, pageSize: maxRepositories }),
  );
  const [latest] = items
    .filter(({ pullRequests }) => pullRequests > 0)
    .sort((a, b) => (b.pullRequestsUpdatedAt ?? 0) - (a.pullRequestsUpdatedAt ?? 0));
  if (latest === undefined) {
    return totalCount === 0
      ? warning(
          'GitHub shows no repository of it.',
          'Give the credentials access to the repositories that are to count.',
        )
      : ok('Its repositories can be read; none has a pull request yet.');
  }
  const page = await ask(access, organisation, () =>
    github.pagePullRequests(organisation, latest.nodeId, { order: 'updated', after: null, pageSize: 1 }),
  );
  const [failed] = page?.failed ?? [];
  if (failed !== undefined) throw failed.error;
  return ok(`Its pull requests can be read, as in ${latest.owner}/${latest.name}.`);
}
