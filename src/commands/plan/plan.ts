import { createReadStream } from 'node:fs';
import { appendFile, realpath, rm, stat, writeFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { Option } from 'commander';
import { type PlanDocument, readPlan } from '../../reports/plan.ts';
import { shellWord } from '../../text/terminal.ts';
import type { PullscoreCommand } from '../command.ts';
import { CommandError, type Context } from '../context.ts';
import { withProgress } from '../progress.ts';
import { loadRules } from '../rules-file.ts';
import { isPlanReport, planReport } from './page.ts';
import { planMarkdown, planText } from './text.ts';

/** The exit code of `--detailed-exitcode` if the file would change something. 2 is wrong usage. */
const changesExitCode = 3;

const unwritable = (path: string, { code }: NodeJS.ErrnoException) =>
  new CommandError(`${path} can't be written (${code}).`, 'Name another file, in a folder that exists.');

/** Fails before the plan is made, not after minutes of work. @param force whether any file may be replaced */
async function checkReportPath(path: string, file: string, force: boolean): Promise<void> {
  if (resolve(path) === resolve(file)) {
    throw new CommandError('The report would overwrite the rules.', 'Name another file.');
  }
  const found = await stat(path).catch(() => undefined);
  // A pipe has no contents that could be lost.
  if (found !== undefined && !found.isFile() && !found.isDirectory()) return;
  try {
    await appendFile(path, '');
    if (found === undefined) return await rm(await realpath(path));
    if (force || isPlanReport(await text(createReadStream(path, { end: 1_000 })))) return;
  } catch (error) {
    throw unwritable(path, error as NodeJS.ErrnoException);
  }
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
          read: (deps, { id }) =>
            withProgress(context, 'pull requests', options =>
              readPlan(deps, id, { name, ruleset }, { ...options, withAudit: audit }),
            ),
          ask: service => service.ask({ method: 'POST', path: `rules/plan?audit=${audit}`, rules: ruleset.source }),
          async show(document) {
            const plan = { ...document, file: name };
            if (report !== undefined) {
              await writeFile(report, planReport(plan, new Date())).catch(error => {
                throw unwritable(report, error);
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
