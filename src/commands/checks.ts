import { recordAuditEvent } from '../database/audit-log.ts';
import { setChecksEnabled } from '../database/check-runs.ts';
import type { Organisation } from '../database/organisations.ts';
import type { Deps } from '../deps.ts';
import { mayWriteChecks } from '../github/permissions.ts';
import { createInspection } from '../github/rest.ts';
import { keepToLimits } from '../sync/share-github-points.ts';
import type { PullscoreCommand } from './command.ts';
import { CommandError, type Context, operator } from './context.ts';

export function checkCommands(program: PullscoreCommand, context: Context): void {
  const group = program.command('checks').description('the scores on the pull requests themselves, on GitHub');

  const setting = (name: 'disable' | 'enable', description: string, text: (login: string) => string) =>
    group
      .command(name)
      .description(description)
      .examples(`checks ${name} --organisation acme`)
      .answerFor(() => async (deps, organisation) => {
        if (name === 'enable') await requirePermission(deps, organisation);
        const { id, login } = organisation;
        await deps.database.transaction(async executor => {
          await setChecksEnabled(executor, id, name === 'enable');
          await recordAuditEvent(executor, id, operator(), `checks.${name}`, login);
        });
        return { json: { organisation: login, checks_enabled: name === 'enable' }, text: text(login) };
      });
  setting(
    'enable',
    'show the score of each open pull request as a neutral check run, to everybody who can read the repository',
    login =>
      `Scores of ${login} are shown on GitHub, to everybody who can read the repository: see docs/privacy.md. To see what waits or fails: ${context.program} webhooks status --organisation ${login}`,
  );
  setting(
    'disable',
    'show scores on GitHub no longer (the default)',
    login => `Scores of ${login} are no longer shown on GitHub. GitHub keeps the check runs that are there.`,
  );
}

/** @throws CommandError without an App, or if it lacks the permission: then each try would fail */
async function requirePermission(deps: Deps, organisation: Organisation): Promise<void> {
  const { config } = deps;
  if (config.github.app === undefined) {
    throw new CommandError(
      'Only a GitHub App can write checks, and no App is configured here.',
      'Create one with github connect, or set GITHUB_APP_ID and GITHUB_APP_PRIVATE_KEY.',
    );
  }
  const inspection = createInspection(config.github);
  const installation = await keepToLimits(deps, organisation, () => inspection.findInstallation(organisation));
  if (installation !== undefined && mayWriteChecks(installation)) return;
  const reason = installation === undefined ? 'is not installed' : 'may not write checks';
  throw new CommandError(
    `The GitHub App ${reason} on ${organisation.login}.`,
    installation === undefined
      ? 'On GitHub, open the page of the App and choose Install App.'
      : 'On GitHub, give the App the permission Checks (read and write), and accept it in the organisation.',
  );
}
