/** What the operator still has to set up, with commands. */

import { listOrganisations, type Organisation } from '../database/organisations.ts';
import type { Deps } from '../deps.ts';
import { shellWord } from '../text/terminal.ts';
import type { Context } from './context.ts';
import { findSetup } from './doctor/inspection.ts';

export interface NextStep {
  what: string;
  command: string;
}

type Steps = (NextStep | false)[];

/** Of the service, and of the first organisation that lacks something. */
export async function nextSteps({ program, config }: Context, { github, database }: Deps): Promise<NextStep[]> {
  const organisations = (await listOrganisations(database.executor)).filter(({ removedAt }) => removedAt === null);
  const isCheckout = program.startsWith('node ');
  const connect = isCheckout && !github.configured;
  const steps: Steps = [
    connect && {
      what: 'create a GitHub App, whose credentials go to .env, and restart the service (or set GITHUB_TOKEN there, and GITHUB_WEBHOOK_SECRET)',
      command: `${program} github connect --organisation ${organisations[0]?.login ?? 'LOGIN'}`,
    },
    !(github.configured || isCheckout) && {
      what: 'set GitHub credentials: a token (a classic one with the scopes repo and read:org), or GITHUB_APP_ID and GITHUB_APP_PRIVATE_KEY; then restart the service',
      command: setting('GITHUB_TOKEN'),
    },
    config.webhookSecrets.length === 0 &&
      !connect && {
        what: "set the secret of the organisation's webhook, and restart the service",
        command: isCheckout ? 'GITHUB_WEBHOOK_SECRET=…   (in .env)' : setting('GITHUB_WEBHOOK_SECRET'),
      },
  ];
  if (organisations.length === 0) {
    const nothing = { email: null, hasToken: false, hasMembers: false, hasPullRequests: false };
    steps.push({ what: 'add the organisation', command: `${program} organisation add LOGIN` });
    steps.push(...stepsOf(program, { login: 'LOGIN', rulesetVersion: 0 }, nothing));
  }
  for (const organisation of organisations) {
    const lacking = stepsOf(program, organisation, await findSetup(database.executor, organisation.id));
    steps.push(...lacking);
    if (lacking.some(Boolean)) break;
  }
  return steps.filter(step => step !== false);
}

function stepsOf(
  program: string,
  { login, rulesetVersion }: Pick<Organisation, 'login' | 'rulesetVersion'>,
  { email, hasToken, hasMembers, hasPullRequests }: Awaited<ReturnType<typeof findSetup>>,
): Steps {
  const organisation = `--organisation ${login}`;
  return [
    email === null && {
      what: 'add a user',
      command: `${program} user add ${organisation} --name NAME --email EMAIL`,
    },
    !hasToken && {
      what: 'create an access token',
      command: `${program} token create --user ${shellWord(email ?? 'EMAIL')} --scopes read,sync ${organisation}`,
    },
    rulesetVersion === 0 && {
      what: 'apply rules, such as those of rules.example.yaml',
      command: `${program} rules apply rules.example.yaml ${organisation}`,
    },
    !(hasMembers && hasPullRequests) && {
      what: 'import members and pull requests',
      command: `${program} members sync ${organisation} && ${program} import ${organisation}`,
    },
  ];
}

/** A container has only the variables that are passed to it; a checkout reads `.env` by itself. */
const setting = (variable: string) => `${variable}=…   (with docker compose: in .env, then docker compose up -d)`;

export const describeSteps = (steps: readonly NextStep[]): string =>
  steps.length === 0
    ? ''
    : `\nWhat to do next:\n${steps.map(({ what, command }) => `  - ${what}:\n      ${command}\n`).join('')}`;
