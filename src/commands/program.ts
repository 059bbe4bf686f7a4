import { createRequire } from 'node:module';
import { Command, CommanderError } from 'commander';
import { ConfigError } from '../config.ts';
import { isDatabaseUnavailable } from '../database/failures.ts';
import { ServiceError } from '../errors.ts';
import { auditLogCommand } from './audit-log.ts';
import { CommandError, type Context, UsageError } from './context.ts';
import { doctorCommand } from './doctor/doctor.ts';
import { explainCommand } from './explain.ts';
import { importCommands } from './import.ts';
import { memberCommands } from './members.ts';
import { migrateCommand } from './migrate.ts';
import { organisationCommands } from './organisation.ts';
import { rescoreCommands } from './rescore.ts';
import { ruleCommands } from './rules.ts';
import { serveCommands } from './serve.ts';
import { plain } from './terminal.ts';
import { tokenCommands } from './token.ts';
import { userCommands } from './user.ts';
import { webhookCommands } from './webhooks.ts';

/** The exit code of a failure. */
export const failure = 1;
const usageFailure = 2;

const { version } = createRequire(import.meta.url)('../../package.json') as { version: string };

/** `--help` and errors of usage need no valid configuration and no database. */
export function buildProgram(context: Context): Command {
  const program = new Command('pullscore')
    .description("Scores an organisation's pull requests by its own rules and serves the scores over HTTP.")
    .version(version)
    .exitOverride()
    .configureOutput({ writeOut: text => context.stdout.write(text), writeErr: text => context.stderr.write(text) })
    // `rules apply` has its own --version.
    .enablePositionalOptions()
    .showHelpAfterError(`(${context.program} --help lists the commands)`);
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
  explainCommand(program, context);
  auditLogCommand(program, context);
  doctorCommand(program, context);
  for (const command of leaves(program)) command.option('--json', 'answer as one JSON document');
  return program;
}

const leaves = (command: Command): Command[] =>
  command.commands.length === 0 ? [command] : command.commands.flatMap(leaves);

/** The message of a failure that the operator can fix; undefined for a bug. */
function messageOf(error: unknown): string | undefined {
  if (error instanceof ServiceError) return error.text;
  if (error instanceof CommandError || error instanceof ConfigError) return error.message;
  if (isDatabaseUnavailable(error)) {
    const reason = error instanceof Error ? (error.cause instanceof Error ? error.cause : error).message : '';
    return `The database is not available: ${reason || 'no connection'}. Check DATABASE_URL and that the server runs.`;
  }
  return undefined;
}

/**
 * Runs a command, such as `rules apply FILE`. Writes failures to the context's standard error.
 *
 * @returns the exit code
 */
export async function runProgram(context: Context, operands: readonly string[]): Promise<number> {
  try {
    await buildProgram(context).parseAsync(operands, { from: 'user' });
    return 0;
  } catch (error) {
    // Commander ends wrong usage with 1.
    if (error instanceof CommanderError) return error.exitCode === 1 ? usageFailure : error.exitCode;
    const message = messageOf(error);
    if (message === undefined) context.log.fatal({ err: error }, 'unexpected error');
    const line = (message ?? 'unexpected error; see above').replace(/\s*\n\s*/g, ' ');
    context.stderr.write(`pullscore: ${plain(line)}\n`);
    return error instanceof UsageError ? usageFailure : failure;
  }
}
