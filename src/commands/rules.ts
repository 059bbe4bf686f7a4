import { getRuleset } from '../database/rules.ts';
import { type AppliedDocument, applyRules, type RulesDocument, readRules } from '../reports/rules.ts';
import { defineKey, parseRulesFile } from '../scoring/file/rules-file.ts';
import type { Ruleset } from '../scoring/ruleset.ts';
import { counted } from '../text/number-formats.ts';
import { plain } from '../text/terminal.ts';
import type { PullscoreCommand } from './command.ts';
import { CommandError, type Context, confirm, operator, operatorName, UsageError } from './context.ts';
import { showExplanation } from './explain/text.ts';
import { planCommand } from './plan/plan.ts';
import { describeRescoring } from './rescore.ts';
import { auditCommand } from './rules-audit.ts';
import { countRules, invalid, loadRules, readRules as readFile, showWarnings, textOf } from './rules-file.ts';
import { parseVersion, requireVersion, rulesetHistoryCommands } from './ruleset-history.ts';

export function ruleCommands(program: PullscoreCommand, context: Context): void {
  const group = program.command('rules').description('the rules that score pull requests');
  rulesetHistoryCommands(group, context);

  group
    .command('check')
    .description('check a rules file and run its tests; needs no database')
    .argument('<file>', 'a rules file; - for standard input')
    .option('--strict', 'fail if there are warnings, too')
    .option(
      '--all',
      'explain a test that fails with all entries, not just those that counted or may have been expected to',
    )
    .examples('rules check rules.example.yaml')
    .answer<{ json?: boolean; strict?: boolean; all?: boolean }>(async ({ json, strict, all }, path) => {
      const { name, file, problems: mistakes, warnings } = await readFile(path);
      const problems = strict ? [...mistakes, ...warnings] : mistakes;
      const [first] = problems;
      if (!strict) showWarnings(context, warnings);
      for (const problem of problems) {
        if (problems.length > 1) context.stderr.write(`${plain(textOf(problem))}\n`);
        if (problem.explanation !== undefined && !json) {
          const { explanation, relevant } = problem;
          context.stderr.write(`${showExplanation(explanation, all ? undefined : relevant)}\n\n`);
        }
      }
      if (problems.length > 1) {
        throw invalid(problems, `${name} has ${problems.length} problems.`, 'Fix them and check it again.');
      }
      if (first !== undefined) throw invalid(problems, textOf(first));
      const { definitions, rules, reviews, tests } = file;
      const defined = definitions.length === 0 ? '' : `${counted(definitions.length, 'definition')}, `;
      const tested = tests.length === 0 ? 'no tests' : `${counted(tests.length, 'test')} passed`;
      const warned = warnings.length === 0 ? '' : ` It has ${counted(warnings.length, 'warning')}.`;
      return {
        json: { valid: true, rules: rules.length, reviews: reviews.length, tests: tests.length, warnings },
        text:
          rules.length + reviews.length === 0
            ? `${name} is valid, but has no rules: every score would be 0.${warned}`
            : `${name} is valid: ${defined}${countRules(rules.length, reviews.length)}; ${tested}.${warned}`,
      };
    });

  planCommand(group, context);
  auditCommand(group, context);

  group
    .command('apply')
    .description('apply a rules file, or restore an earlier version; the service then updates every score')
    .argument('[file]', 'a rules file; - for standard input')
    .option('--version <number>', 'instead of a file: a version that `rules history` lists')
    .option('--by <name>', 'name to record in the history (default: the user who runs the command)')
    .option('--yes', 'do not ask if the list of rules is empty')
    .option('--if-version <number>', 'only if this version is in force: the one that a plan was made against')
    .examples('rules apply rules.example.yaml --organisation acme', 'rules apply --version 3 --organisation acme')
    .answerFrom<ApplyOptions, AppliedDocument>(async (options, path) => {
      const { version: wanted, yes, ifVersion, server } = options;
      if ((path === undefined) === (wanted === undefined)) {
        throw new UsageError('Give either a rules file or --version.');
      }
      if (wanted !== undefined && server !== undefined) {
        throw new UsageError('--version needs the database.', 'Export that version, and apply the file.');
      }
      if (options.by !== undefined && server !== undefined) {
        throw new UsageError('--by needs the database.', "A service records the token's user.");
      }
      const expected = ifVersion === undefined ? undefined : parseVersion(ifVersion);
      const given = path === undefined ? undefined : await loadRules(context, path);
      showWarnings(context, given?.warnings ?? []);
      const confirmEmpty = async ({ rules }: Pick<Ruleset, 'rules'>, name: string) => {
        if (rules.length > 0) return;
        const consequence = 'Every score of a pull request becomes 0.';
        await confirm(context, `Apply no rules for pull requests to ${name}?`, name, yes, consequence);
      };
      if (server !== undefined && given !== undefined) await confirmEmpty(given.ruleset, new URL(server).host);
      return {
        read: async (deps, organisation) => {
          const { database } = deps;
          const version = wanted === undefined ? 0 : requireVersion(context, organisation, wanted, 1);
          const ruleset = given?.ruleset ?? (await getRuleset(database.executor, organisation.id, version));
          await confirmEmpty(ruleset, organisation.login);
          const { by = operatorName() } = options;
          return applyRules(database, organisation.id, ruleset, { actor: operator(), appliedBy: by, expected });
        },
        ask: service =>
          service.ask({
            method: 'PUT',
            path: 'rules/file',
            rules: given?.ruleset.source ?? '',
            headers: { 'if-match': expected === undefined ? '*' : `"${expected}"` },
          }),
        actions: { precondition_failed: 'Plan the file again.' },
        async show({ organisation, version, changed, rules, reviews = 0, outdated, ...applied }, executor) {
          const rescoring = outdated === 0 ? '' : ` ${await describeRescoring(context, executor, organisation)}`;
          const unchanged = applied.source_changed
            ? `Version ${version} is in force, with the same rules: only comments and tests have changed.`
            : `Nothing to do: version ${version}, in force, is this file.`;
          return {
            text: changed ? `Version ${version} is in force: ${countRules(rules, reviews)}.${rescoring}` : unchanged,
          };
        },
      };
    });

  group
    .command('export')
    .description("print the organisation's rules as the file that was applied, with its comments and tests")
    .option('--version <number>', 'a version that `rules history` lists (default: the one in force)')
    .addHelpText(
      'after',
      '\nPrints the file byte for byte. Write it to a file: the log of a CI service takes some texts for commands.',
    )
    .examples('rules export --organisation acme > rules.yaml')
    .answerFrom<{ version?: string; json?: boolean }, RulesDocument>(async ({ version: wanted, server, json }) => {
      if (wanted !== undefined && server !== undefined) throw new UsageError('--version needs the database.');
      return {
        read: ({ database }, organisation) =>
          readRules(
            database,
            organisation.id,
            wanted === undefined ? undefined : requireVersion(context, organisation, wanted, 1),
          ),
        async ask(service) {
          const { source, version } = await service.readRulesFile();
          const { definitions, rules, reviews, problems } = parseRulesFile(source);
          if (json && problems.length > 0) {
            throw new CommandError("This release can't read the rules in force.", 'Export them without --json.');
          }
          return { ...defineKey(definitions), rules, reviews, source, version };
        },
        show({ source }) {
          return { text: source, isExact: true };
        },
      };
    });
}

interface ApplyOptions {
  version?: string;
  by?: string;
  yes?: boolean;
  ifVersion?: string;
}
