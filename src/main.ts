#!/usr/bin/env node
import { createRequire } from 'node:module';
import { Command, CommanderError } from 'commander';
import { CommandError, type Context, UsageError } from './commands/context.ts';
import { doctorCommand } from './commands/doctor/doctor.ts';
import { explainCommand } from './commands/explain.ts';
import { importCommands } from './commands/import.ts';
import { memberCommands } from './commands/members.ts';
import { migrateCommand } from './commands/migrate.ts';
import { organisationCommands } from './commands/organisation.ts';
import { rescoreCommands } from './commands/rescore.ts';
import { ruleCommands } from './commands/rules.ts';
import { serveCommands } from './commands/serve.ts';
import { tokenCommands } from './commands/token.ts';
import { userCommands } from './commands/user.ts';
import { webhookCommands } from './commands/webhooks.ts';
import { ConfigError, loadConfig } from './config.ts';
import { isDatabaseUnavailable } from './database/failures.ts';
import { createLog } from './deps.ts';
import { ServiceError } from './errors.ts';

const failure = 1;
const wrongUsage = 2;

const { version } = createRequire(import.meta.url)('../package.json') as { version: string };

/** Wrong usage ends before anything is opened; `--help` works also where the configuration is wrong. */
function buildProgram(context: Context): Command {
  const program = new Command('pullscore')
    .description("Scores an organisation's pull requests by its own rules and serves the scores over HTTP.")
    .version(version)
    .exitOverride()
    // `rules apply` has a --version of its own.
    .enablePositionalOptions()
    .showHelpAfterError(`(${context.program} --help tells what there is)`);
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
  doctorCommand(program, context);
  for (const command of leaves(program)) command.option('--json', 'answer as one JSON document');
  return program;
}

const leaves = (command: Command): Command[] =>
  command.commands.length === 0 ? [command] : command.commands.flatMap(leaves);

/** The message of a failure that is somebody's to mend, in one line; undefined for a defect. */
function explain(error: unknown): string | undefined {
  if (error instanceof CommandError || error instanceof ConfigError || error instanceof ServiceError) {
    return error.message;
  }
  if (isDatabaseUnavailable(error)) {
    const reason = error instanceof Error ? (error.cause instanceof Error ? error.cause : error).message : '';
    return `The database can't be used: ${reason || 'no connection'}. Check DATABASE_URL and that the server runs.`;
  }
  return undefined;
}

/** A reader that has seen enough, as `head` has, is no failure; an answer that could not be written whole is one. */
function watchOutput({ stdout, stderr }: Pick<NodeJS.Process, 'stdout' | 'stderr'>): void {
  // Nobody is left to be told.
  stderr.on('error', () => undefined);
  stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') return;
    process.exitCode = failure;
    stderr.write(`pullscore: The answer can't be written (${error.code}): see where standard output goes.\n`);
  });
}

async function main(): Promise<void> {
  watchOutput(process);
  let interruption: AbortController | undefined;
  let config: Context['config'] | undefined;
  let log: Context['log'] | undefined;
  const context: Context = {
    get config() {
      config ??= loadConfig(process.env);
      return config;
    },
    get log() {
      log ??= createLog(this.config);
      return log;
    },
    // Within a checkout the program is on nobody's PATH.
    program: process.env.npm_execpath === undefined ? 'pullscore' : 'npx pullscore',
    // Only commands that ask for it end in their own way; the others end at once, as programs do.
    get interrupted() {
      if (interruption === undefined) {
        const controller = new AbortController();
        interruption = controller;
        const interrupt = () => controller.abort();
        process.once('SIGINT', interrupt).once('SIGTERM', interrupt);
      }
      return interruption.signal;
    },
    stdout: process.stdout,
    stderr: process.stderr,
  };

  try {
    await buildProgram(context).parseAsync(process.argv);
  } catch (error) {
    if (error instanceof CommanderError) {
      process.exitCode = error.exitCode === 0 ? 0 : wrongUsage;
      return;
    }
    const message = explain(error);
    if (message === undefined) context.log.fatal({ err: error }, 'an unexpected error');
    process.stderr.write(`pullscore: ${(message ?? 'an unexpected error; see above').replace(/\s*\n\s*/g, ' ')}\n`);
    process.exitCode = error instanceof UsageError ? wrongUsage : failure;
  }
}

await main();
