import { CommanderError } from 'commander';
import { ConfigError } from '../config.ts';
import { driverError, isDatabaseUnavailable } from '../database/driver-errors.ts';
import { ServiceError } from '../errors.ts';
import { version } from '../package.ts';
import { auditLogCommand } from './audit-log.ts';
import { checkCommands } from './checks.ts';
import { finishCommands, jsonDocument, PullscoreCommand } from './command.ts';
import { CommandError, type Context, complain, UsageError } from './context.ts';
import { doctorCommand } from './doctor/doctor.ts';
import { explainCommand } from './explain/explain.ts';
import { githubCommands } from './github-connect.ts';
import { importCommands } from './import.ts';
import { memberCommands } from './members.ts';
import { migrateCommand } from './migrate.ts';
import { organisationCommands } from './organisation.ts';
import { rescoreCommands } from './rescore.ts';
import { ruleCommands } from './rules.ts';
import { serveCommands } from './serve.ts';
import { standingsCommand } from './standings.ts';
import { tokenCommands } from './token.ts';
import { userCommands } from './user.ts';
import { webhookCommands } from './webhooks.ts';

export const failure = 1;
const usageFailure = 2;

/** `--help` and errors of usage need no valid configuration and no database. */
export function buildProgram(context: Context): PullscoreCommand {
  const program = new PullscoreCommand(context, 'pullscore')
    .description("Scores an organisation's pull requests by its own rules and serves the scores over HTTP.")
    .version(version)
    .configureOutput({
      writeOut: text => context.stdout.write(text),
      writeErr: text => context.stderr.write(text),
    })
    // Help and the version are then errors, too, and don't end the process.
    .exitOverride()
    // `rules apply` has its own --version.
    .enablePositionalOptions();
  serveCommands(program, context);
  migrateCommand(program, context);
  organisationCommands(program, context);
  userCommands(program, context);
  tokenCommands(program, context);
  ruleCommands(program, context);
  memberCommands(program, context);
  importCommands(program, context);
  rescoreCommands(program, context);
  webhookCommands(program, context);
  checkCommands(program, context);
  githubCommands(program, context);
  explainCommand(program, context);
  standingsCommand(program, context);
  auditLogCommand(program, context);
  doctorCommand(program, context);
  finishCommands(program);
  return program;
}

interface Failure {
  code: string;
  message: string;
  action?: string | undefined;
  /** Further keys of the JSON document. */
  details?: object;
}

/** Logs the error if it is a bug. Any other can be fixed by the operator. */
function failureOf(context: Context, error: unknown): Failure {
  if (error instanceof ServiceError || error instanceof CommandError) return error;
  if (error instanceof ConfigError) return { code: 'configuration', message: error.message };
  if (isDatabaseUnavailable(error)) {
    const reason = driverError(error)?.message;
    return {
      code: 'database_unavailable',
      message: `The database is not available: ${reason || 'no connection'}.`,
      action: 'Check DATABASE_URL and that the server runs.',
    };
  }
  context.log.fatal({ err: error }, 'unexpected error');
  return { code: 'internal', message: 'Unexpected error.', action: 'See the log on standard error.' };
}

/**
 * Runs a command, such as `rules apply FILE`. A failure is one line on the context's standard error; with `--json` it
 * is also a document on standard output, unless the command has printed its answer.
 *
 * @returns the exit code
 */
export async function runProgram(context: Context, operands: readonly string[]): Promise<number> {
  try {
    await buildProgram(context).parseAsync(operands, { from: 'user' });
    return 0;
  } catch (error) {
    if (error instanceof CommanderError) {
      // Help that nobody asked for is shown if a command is missing.
      return error.code === 'commander.help' && error.exitCode === 1 ? usageFailure : error.exitCode;
    }
    const failed = failureOf(context, error);
    const { code, message, details } = failed;
    // Only here is it known how the program is called.
    const action = failed.action?.replace('pullscore migrate', `${context.program} migrate`);
    if (operands.includes('--json')) {
      context.stdout.write(jsonDocument({ error: { code, message, action: action ?? null }, ...details }));
    }
    complain(context, action === undefined ? message : `${message} ${action}`);
    return error instanceof UsageError ? usageFailure : failure;
  }
}
