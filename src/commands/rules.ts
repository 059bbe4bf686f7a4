import { createReadStream } from 'node:fs';
import type { Command } from 'commander';
import { recordAuditEvent } from '../database/audit.ts';
import { applyRuleset, findRulesetSource, getRuleset } from '../database/rules.ts';
import type { Explanation } from '../scoring/explain.ts';
import { runRuleTests } from '../scoring/rule-tests.ts';
import { defineKey, formatRulesFile, parseRulesFile, type RulesFile } from '../scoring/rules-file.ts';
import type { Ruleset } from '../scoring/ruleset.ts';
import type { FileProblem } from '../scoring/yaml-reader.ts';
import {
  answering,
  answeringFor,
  CommandError,
  type Context,
  operator,
  requireOrganisation,
  systemUser,
  UsageError,
  withDeps,
} from './context.ts';
import { representRules } from './explain.ts';
import { showCounted, showExplanation } from './explanation-text.ts';
import { counted } from './numbers.ts';
import { planCommand } from './plan/plan.ts';
import { auditCommand } from './rules-audit.ts';
import { requireRuleset, rulesetHistoryCommands } from './ruleset-history.ts';
import { plain, shellWord } from './terminal.ts';

/** More than 200 rules of maximum size need. */
const maxFileBytes = 2_000_000;

/** Names standard input: a program in a container does not see the operator's files. */
const standardInput = '-';

const nameOf = (path: string): string => (path === standardInput ? 'standard input' : path);

async function readText(path: string): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    const source: AsyncIterable<Buffer> = path === standardInput ? process.stdin : createReadStream(path);
    for await (const chunk of source) {
      size += chunk.length;
      if (size > maxFileBytes) {
        throw new CommandError(`${nameOf(path)} is larger than ${maxFileBytes / 1e6} MB: it can't be a rules file.`);
      }
      chunks.push(chunk);
    }
  } catch (error) {
    if (error instanceof CommandError) throw error;
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error';
    throw new CommandError(
      `${nameOf(path)} can't be read (${code}).`,
      'Name a rules file, such as rules.example.yaml.',
    );
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** The first tests that fail have an explanation of their score. */
type Problem = FileProblem & { file: string; explanation?: Explanation };

/** Mistakes, or else tests that fail. */
function findProblems(path: string, file: RulesFile): Problem[] {
  const name = nameOf(path);
  if (file.problems.length > 0) return file.problems.map(problem => ({ file: name, ...problem }));
  return runRuleTests(file, file.tests).flatMap(({ test, actual, passed, explanation }) => {
    if (passed) return [];
    const counted = explanation === undefined ? '' : ` (${showCounted(explanation)})`;
    const message = `test ${JSON.stringify(test.name)} expected ${test.score}, but the score is ${actual}${counted}; correct the rules or the test`;
    const problem = { file: name, line: test.line, message, rule: null, entry: null, part: null };
    return explanation === undefined ? problem : { ...problem, explanation };
  });
}

const textOf = ({ file, line, message }: Problem): string => `${file}:${line}: ${message}`;

const invalid = (problems: readonly Problem[], message: string, action?: string) =>
  new CommandError(message, action, 'rules_invalid', {
    problems: problems.map(({ explanation, ...problem }) =>
      explanation === undefined ? problem : { ...problem, explanation: representRules(explanation) },
    ),
  });

/** A rules file without problems. */
interface LoadedRules {
  /** For messages. */
  name: string;
  ruleset: Ruleset;
  /** Its text. */
  source: string;
}

/** @throws CommandError with the first problem, and how to see the others */
export async function loadRules({ program }: Context, path: string): Promise<LoadedRules> {
  const source = await readText(path);
  const file = parseRulesFile(source);
  const problems = findProblems(path, file);
  const [first] = problems;
  if (first === undefined) return { name: nameOf(path), ruleset: file, source };
  const check = `${program} rules check ${shellWord(path)}`;
  const { length } = problems;
  if (length > 1) throw invalid(problems, sentenceOf(first), `To see all ${length} problems: ${check}`);
  if (first.explanation === undefined) throw invalid(problems, textOf(first));
  throw invalid(problems, sentenceOf(first), `To see how the score came about: ${check}`);
}

const sentenceOf = (problem: Problem) => textOf(problem).replace(/[^.?]$/, '$&.');

export function ruleCommands(program: Command, context: Context): void {
  const group = program.command('rules').description('the rules that score pull requests');
  rulesetHistoryCommands(group, context);

  group
    .command('check')
    .description('check a rules file and run its tests; needs no database')
    .argument('<file>', 'a rules file; - for standard input')
    .addHelpText('after', `\nExample:\n  ${context.program} rules check rules.example.yaml`)
    .action(
      answering<{ json?: boolean }>(context, async ({ json = false }, path = '') => {
        const file = parseRulesFile(await readText(path));
        const problems = findProblems(path, file);
        const [first] = problems;
        for (const problem of problems) {
          if (problems.length > 1) context.stderr.write(`${plain(textOf(problem))}\n`);
          if (problem.explanation !== undefined && !json) {
            context.stderr.write(`${showExplanation(problem.explanation)}\n\n`);
          }
        }
        if (problems.length > 1) {
          throw invalid(problems, `${nameOf(path)} has ${problems.length} problems.`, 'Fix them and check it again.');
        }
        if (first !== undefined) throw invalid(problems, textOf(first));
        const { definitions, rules, tests } = file;
        const defined = definitions.length === 0 ? '' : `${counted(definitions.length, 'definition')}, `;
        return {
          json: { valid: true, rules: rules.length, tests: tests.length },
          text: `${nameOf(path)} is valid: ${defined}${counted(rules.length, 'rule')}; ${counted(tests.length, 'test')} passed.`,
        };
      }),
    );

  planCommand(group, context, loadRules);
  auditCommand(group, context, loadRules);

  group
    .command('apply')
    .description('put a rules file, or an earlier version, in force; the service then updates every score')
    .argument('[file]', 'a rules file; - for standard input')
    .requiredOption('--organisation <login>', "the organisation's login")
    .option('--version <number>', 'instead of a file: a version that `rules history` lists')
    .option('--by <name>', 'who applies them, for the history (default: the user who runs the command)')
    .addHelpText(
      'after',
      `\nExamples:\n  ${context.program} rules apply rules.example.yaml --organisation acme\n  ${context.program} rules apply --version 3 --organisation acme`,
    )
    .action(
      answering<{ organisation: string; version?: string; by?: string }>(context, async (options, path) => {
        const { organisation: login, version: wanted, by = systemUser() } = options;
        if ((path === undefined) === (wanted === undefined)) {
          throw new UsageError('Give either a rules file or --version.');
        }
        const given = path === undefined ? undefined : await loadRules(context, path);
        return withDeps(context, async deps => {
          const organisation = await requireOrganisation(context, deps, login);
          const { id, login: name } = organisation;
          const ruleset = given?.ruleset ?? (await requireRuleset(context, deps, organisation, wanted ?? ''));
          const { version, changed, sourceChanged } = await deps.database.transaction(async executor => {
            const source = given?.source ?? (await findRulesetSource(executor, id, Number(wanted)));
            const applied = await applyRuleset(executor, id, ruleset, by.slice(0, 200), source);
            if (applied.changed || applied.sourceChanged) {
              const subject = `version ${applied.version}${applied.changed ? '' : ', comments and tests'}`;
              await recordAuditEvent(executor, id, operator(), 'rules.apply', subject);
            }
            return applied;
          });
          const unchanged = sourceChanged
            ? `Version ${version}, in force, has the same rules. Their comments and tests are now those of the file.`
            : `Nothing to do: version ${version}, in force, has the same rules.`;
          return {
            json: { organisation: name, version, changed, rules: ruleset.rules.length },
            text: changed
              ? `Version ${version} is in force: ${counted(ruleset.rules.length, 'rule')}. The service updates the scores. To watch: ${context.program} rescore --organisation ${name}`
              : unchanged,
          };
        });
      }),
    );

  group
    .command('export')
    .description("print the organisation's rules as the file that was applied, with its comments and tests")
    .requiredOption('--organisation <login>', "the organisation's login")
    .addHelpText('after', `\nExample:\n  ${context.program} rules export --organisation acme > rules.yaml`)
    .action(
      answeringFor(context, async ({ database: { executor } }, { id, rulesetVersion }) => {
        const ruleset = await getRuleset(executor, id, rulesetVersion);
        const source = await findRulesetSource(executor, id, rulesetVersion);
        if (rulesetVersion > 0 && source === null) {
          context.stderr.write(
            `Version ${rulesetVersion} was stored without its file, so comments and tests are missing here. To store them, apply your file again.\n`,
          );
        }
        const written =
          rulesetVersion === 0 ? '# No rules have been applied yet.\nrules: []' : formatRulesFile(ruleset).trimEnd();
        return {
          json: { ...defineKey(ruleset.definitions), rules: ruleset.rules, source },
          text: source?.replace(/\n$/, '') ?? written,
        };
      }),
    );
}
