import type { Command } from 'commander';
import type { Logger } from 'pino';
import type { Config } from '../config.ts';
import { findOrganisation, type Organisation } from '../database/organisations.ts';
import { createDeps, type Deps } from '../deps.ts';
import { noCredentials } from '../github/credentials.ts';
import { grid, plain } from './terminal.ts';

/** What `main`, which alone knows the process, gives to commands. */
export interface Context {
  readonly config: Config;
  readonly log: Logger;
  /** How the operator calls this program, for the commands that messages suggest. */
  readonly program: string;
  /** Aborted by Ctrl-C and SIGTERM; from when it is first read on, these no longer end the process by themselves. */
  readonly interrupted: AbortSignal;
  readonly stdout: NodeJS.WritableStream;
  readonly stderr: NodeJS.WritableStream & { isTTY?: boolean };
}

/** What a command answers: one document for programs, or lines for people. */
export interface Answer {
  json: unknown;
  text: string;
  /** What went wrong all the same: printed last, on standard error; the command fails. */
  failure?: string | undefined;
}

/** A failure that the operator can do something about; the message says what. */
export class CommandError extends Error {}

/** An argument or option that is not valid. Reported before anything is opened. */
export class UsageError extends CommandError {}

/** Prints what `run` answers, as JSON if `--json` asks for it. */
export function answering<Options extends object>(
  context: Context,
  run: (options: Options, ...operands: string[]) => Promise<Answer>,
) {
  return async (...args: unknown[]): Promise<void> => {
    const command = args.at(-1) as Command;
    const options = command.opts<Options & { json?: boolean }>();
    const { json, text, failure } = await run(options, ...command.processedArgs);
    context.stdout.write(options.json ? `${JSON.stringify(json, null, 2)}\n` : text === '' ? '' : `${text}\n`);
    if (failure !== undefined) throw new CommandError(failure);
  };
}

/** Opens what the command needs and closes it whatever happens. */
export async function withDeps<Result>(context: Context, work: (deps: Deps) => Promise<Result>): Promise<Result> {
  const deps = await createDeps(context.config, context.log);
  try {
    return await work(deps);
  } finally {
    await deps.close();
  }
}

/** @throws CommandError that says how to add it */
export async function requireOrganisation(context: Context, deps: Deps, login: string): Promise<Organisation> {
  const organisation = await findOrganisation(deps.database.executor, login);
  if (organisation === undefined) {
    throw new CommandError(
      `There is no organisation ${login} here. Add it: ${context.program} organisation add ${login}`,
    );
  }
  return organisation;
}

/** @throws ServiceError that names the variables to set */
export function requireGithub(deps: Deps): void {
  if (deps.github.configured) return;
  throw noCredentials();
}

/** Rows under headings, in columns as wide as they need; a hint if there are no rows. */
export function table(headings: readonly string[], rows: readonly (readonly string[])[], empty: string): string {
  if (rows.length === 0) return empty;
  const columns = headings.map(heading => ({ heading }));
  const cells = rows.map(row => row.map(plain));
  return grid(columns, cells, Number.POSITIVE_INFINITY, '').join('\n');
}

/** `2026-01-31 12:00` in UTC. */
export const showTime = (moment: Date | null): string =>
  moment === null ? '-' : moment.toISOString().slice(0, 16).replace('T', ' ');

/** Unix seconds, as everywhere in JSON. */
export const seconds = (moment: Date | null): number | null =>
  moment === null ? null : Math.floor(moment.getTime() / 1000);
