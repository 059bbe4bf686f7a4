import { recordAuditEvent } from '../database/audit-log.ts';
import { requestComparison } from '../database/comparisons.ts';
import { lockOrganisation, type Organisation, updateOrganisation } from '../database/organisations.ts';
import { listIgnoredRepositories } from '../database/repositories.ts';
import type { Deps } from '../deps.ts';
import { settlingSeconds } from '../sync/decide-next-try.ts';
import { maxGlobs, parseGlob } from '../sync/ignore-repositories.ts';
import { shrinking, table } from '../text/terminal.ts';
import type { Answer, PullscoreCommand } from './command.ts';
import { CommandError, type Context, checkUsage, operator, requireOrganisation, UsageError } from './context.ts';

interface SettingsOptions {
  ignore?: string[];
  unignore?: string[];
  ignoreArchived?: boolean;
  ignoreForks?: boolean;
}

export const representIgnoredRepositories = (
  repositories: readonly { name: string; ignoredBecause: string | null }[],
) => repositories.map(({ name, ignoredBecause }) => ({ repository: name, reason: ignoredBecause }));

export const representIgnored = ({ ignoredGlobs, ignoresArchived, ignoresForks }: Organisation) => ({
  globs: ignoredGlobs,
  archived: ignoresArchived,
  forks: ignoresForks,
});

/** `archived ones, forks, sandbox-*`; empty if none is ignored. */
export const describeIgnored = ({ ignoredGlobs, ignoresArchived, ignoresForks }: Organisation): string =>
  [...(ignoresArchived ? ['archived ones'] : []), ...(ignoresForks ? ['forks'] : []), ...ignoredGlobs].join(', ');

const collect = (value: string, values: string[] = []) => [...values, value];

export function settingsCommand(group: PullscoreCommand, context: Context): void {
  group
    .command('settings')
    .description('show or change which repositories are ignored: neither fetched nor counted')
    .argument('<login>')
    .option('--ignore <glob>', 'ignore repositories whose name matches, such as "sandbox-*"; can be repeated', collect)
    .option('--unignore <glob>', 'take back an --ignore; can be repeated', collect)
    .option('--ignore-archived', 'ignore archived repositories')
    .option('--no-ignore-archived', 'track archived repositories (the default)')
    .option('--ignore-forks', 'ignore forks')
    .option('--no-ignore-forks', 'track forks (the default)')
    .examples('organisation settings acme', 'organisation settings acme --ignore "sandbox-*" --ignore-archived')
    .answerWith<SettingsOptions>((options, login) => async deps => {
      const organisation = await requireOrganisation(context, deps, login);
      const changed = await deps.database.transaction(async executor => {
        // A save under way would keep a pull request by the settings before, or set one aside.
        const current = await lockOrganisation(executor, organisation.id, 'exclusive');
        const settings = settingsOf(current, options);
        const next = { ...current, ...settings };
        if (JSON.stringify(representIgnored(next)) === JSON.stringify(representIgnored(current))) return undefined;
        await updateOrganisation(executor, current.id, settings);
        await requestComparison(executor, current.id, settlingSeconds);
        const subject = `ignores ${describeIgnored(next) || 'nothing'}`;
        await recordAuditEvent(executor, current.id, operator(), 'organisation.settings', subject);
        return next;
      });
      return show(context, deps, changed ?? organisation, changed !== undefined);
    });
}

/** @throws UsageError if a glob is not valid, CommandError if there is none to take back, or there are too many */
function settingsOf(
  { login, ignoredGlobs, ignoresArchived, ignoresForks }: Organisation,
  { ignore = [], unignore = [], ignoreArchived = ignoresArchived, ignoreForks = ignoresForks }: SettingsOptions,
) {
  const parse = (text: string) => checkUsage(() => parseGlob(login, text));
  const removed = unignore.map(parse);
  const unknown = removed.find(glob => !ignoredGlobs.includes(glob));
  if (unknown !== undefined) {
    throw new CommandError(
      `${login} does not ignore "${unknown}".`,
      ignoredGlobs.length === 0 ? 'It ignores no names.' : `It ignores ${ignoredGlobs.join(', ')}.`,
    );
  }
  const added = ignore.map(parse);
  const globs = [...new Set([...ignoredGlobs, ...added])].filter(
    each => added.includes(each) || !removed.includes(each),
  );
  if (globs.length > maxGlobs) throw new UsageError(`There can be at most ${maxGlobs} globs.`, 'Join some: {a,b}-*');
  return { ignoredGlobs: globs, ignoresArchived: ignoreArchived, ignoresForks: ignoreForks };
}

async function show(context: Context, deps: Deps, organisation: Organisation, isChanged: boolean): Promise<Answer> {
  const { id, login, webhooksEnabled } = organisation;
  const repositories = await listIgnoredRepositories(deps.database.executor, id);
  const setting = describeIgnored(organisation);
  const next = webhooksEnabled
    ? 'This applies from the next comparison with GitHub, which is due now.'
    : 'Webhooks are disabled, so there are no comparisons: this applies from the next import.';
  const lines = [
    setting === '' ? `${login} tracks all repositories.` : `${login} ignores these repositories: ${setting}.`,
    ...(isChanged
      ? [next, `What is tracked again comes back. To fetch the rest: ${context.program} import --organisation ${login}`]
      : []),
  ];
  const rows = repositories.map(({ name, ignoredBecause }) => [name, `because ${ignoredBecause}`]);
  if (!isChanged && rows.length > 0) {
    lines.push('', table(['IGNORED', shrinking('WHY')], rows, '', { width: context.columns }));
  }
  return {
    json: {
      organisation: login,
      ignore: representIgnored(organisation),
      // As of the last comparison or import.
      ignored_repositories: representIgnoredRepositories(repositories),
    },
    text: lines.join('\n'),
  };
}
