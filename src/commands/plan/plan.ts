import { constants } from 'node:fs';
import { access, readFile, stat, writeFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { Option } from 'commander';
import { createFactsReader } from '../../database/facts.ts';
import { listMembers } from '../../database/members.ts';
import { getOrganisation, type Organisation } from '../../database/organisations.ts';
import { describePullRequests } from '../../database/pull-requests.ts';
import { countOutdated } from '../../database/rescoring.ts';
import { getRuleset } from '../../database/rules.ts';
import { readFacts, readSnapshot } from '../../database/snapshot.ts';
import type { Deps } from '../../deps.ts';
import { createPlan } from '../../scoring/plan/plan.ts';
import { compareRules } from '../../scoring/plan/rule-changes.ts';
import type { Ruleset } from '../../scoring/ruleset.ts';
import { shellWord } from '../../text/terminal.ts';
import type { PullscoreCommand } from '../command.ts';
import { CommandError, type Context } from '../context.ts';
import { addAll } from '../progress.ts';
import { compareAudits } from '../rules-audit.ts';
import { loadRules } from '../rules-file.ts';
import { type PlanDocument, planDocument } from './document.ts';
import { planMarkdown } from './markdown.ts';
import { isPlanReport, planReport } from './report.ts';
import { planText } from './text.ts';

/** The exit code of `--detailed-exitcode` if the file would change something. 2 is wrong usage. */
const changesExitCode = 3;

/** Scores all stored pull requests by the rules in force and by these, in one snapshot. Writes nothing. */
async function makePlan(
  context: Context,
  { database }: Deps,
  organisation: Organisation,
  file: string,
  ruleset: Ruleset,
  withAudit: boolean,
): Promise<PlanDocument> {
  return readSnapshot(database, async executor => {
    const { id, login, rulesetVersion: version } = await getOrganisation(executor, organisation.id);
    // Not the stored scores: they may still be those of an earlier version.
    const inForce = await getRuleset(executor, id, version);
    const { outdated, total } = await countOutdated(executor, id);
    const plan = createPlan(inForce, ruleset);
    await addAll(context, readFacts(executor, id, createFactsReader(plan.facts)), total, pullRequest =>
      plan.add(pullRequest.id, pullRequest.memberId, pullRequest.facts),
    );
    const result = plan.result();
    const movers = [...result.movers.raised, ...result.movers.lowered].map(mover => mover.id);
    return planDocument(result, compareRules(inForce, ruleset), {
      organisation: login,
      file,
      version,
      outdated,
      pullRequests: await describePullRequests(executor, id, movers),
      audit: withAudit ? await compareAudits(context, executor, id, inForce, ruleset) : null,
      members: new Map((await listMembers(executor, id, true)).map(({ id, login, name }) => [id, { login, name }])),
    });
  });
}

const unwritable = (path: string, { code }: Pick<NodeJS.ErrnoException, 'code'>, action: string) =>
  new CommandError(`${path} can't be written (${code}).`, action);

/** Fails before the plan is made, not after minutes of work. @param force whether any file may be replaced */
async function checkReportPath(path: string, file: string, force: boolean): Promise<void> {
  if (resolve(path) === resolve(file)) {
    throw new CommandError('The report would overwrite the rules.', 'Name another file.');
  }
  await access(dirname(resolve(path)), constants.W_OK).catch(error => {
    throw unwritable(path, error, 'Name a file in a folder that exists.');
  });
  const found = await stat(path).catch(() => undefined);
  if (found?.isDirectory()) throw unwritable(path, { code: 'EISDIR' }, 'Name a file in it.');
  // A pipe has nothing to lose.
  if (force || !found?.isFile() || isPlanReport(await readFile(path, 'utf8'))) return;
  throw new CommandError(`${path} exists, and is not a report.`, 'Name another file, or add --force to replace it.');
}

interface PlanOptions {
  audit?: boolean;
  detailedExitcode?: boolean;
  force?: boolean;
  format: 'text' | 'markdown';
  report?: string;
}

export function planCommand(group: PullscoreCommand, context: Context): void {
  group
    .command('plan')
    .description('show what a rules file would change; saves nothing')
    .argument('<file>', 'a rules file; - for standard input')
    .addOption(
      new Option('--format <format>', 'text for a terminal, markdown for a comment on a pull request')
        .choices(['text', 'markdown'])
        .default('text'),
    )
    .option('--audit', 'also search both for ways to game them, as `rules audit` does, and compare these')
    .option('--report <file.html>', 'also write the plan as a web page')
    .option('--force', 'replace whatever is in the file of --report')
    .option('--detailed-exitcode', 'exit with 3 if the file would change rules or scores, with 0 if not')
    .addHelpText(
      'after',
      `
Scores every stored pull request by the rules in force and by the file, and compares the scores. Makes no requests to
GitHub.`,
    )
    .examples('rules plan rules.example.yaml --organisation acme --report plan.html')
    .answerFrom<PlanOptions, PlanDocument>(
      async ({ audit = false, report, force = false, format, detailedExitcode, server }, file) => {
        const { name, ruleset } = await loadRules(context, file);
        if (report !== undefined) await checkReportPath(report, file, force);
        return {
          read: (deps, organisation) => makePlan(context, deps, organisation, name, ruleset, audit),
          request: { method: 'POST', path: `rules/plan${audit ? '?audit=true' : ''}`, rules: ruleset.source },
          async show(document) {
            const plan = { ...document, file: name };
            if (report !== undefined) {
              await writeFile(report, planReport(plan, new Date())).catch(error => {
                throw unwritable(report, error, 'Name another file.');
              });
            }
            const place =
              server === undefined
                ? `--organisation ${plan.organisation}`
                : `--server ${shellWord(server)} --if-version ${plan.ruleset_version}`;
            const apply = `${context.program} rules apply ${shellWord(file)} ${place}`;
            const text = format === 'markdown' ? planMarkdown(plan, apply) : planText(plan, context.columns, apply);
            return {
              json: plan,
              text: report === undefined ? text : `${text}\n\nThe report is in ${report}.`,
              exitCode: plan.changes && detailedExitcode ? changesExitCode : undefined,
            };
          },
        };
      },
    );
}
