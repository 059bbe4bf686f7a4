import { userInfo } from 'node:os';
import { createInterface } from 'node:readline/promises';
import type { Logger } from 'pino';
import type { Config } from '../config.ts';
import type { Actor } from '../database/audit-log.ts';
import { findOrganisation, type Organisation } from '../database/organisations.ts';
import { createDeps, type Deps } from '../deps.ts';
import { ServiceError } from '../errors.ts';
import { plain } from '../text/terminal.ts';

/** From Ctrl-C, a supervisor, and a terminal that is closed. */
export const endingSignals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** What commands need of their process. Only `main` makes one. */
export interface Context {
  readonly config: Config;
  readonly log: Logger;
  /** How the operator calls this program, such as `node dist/main.js`: for commands that messages suggest. */
  readonly program: string;
  /** Aborted by {@link endingSignals}. Once a command has read it, the first of each no longer ends the process. */
  readonly interrupted: AbortSignal;
  readonly stdout: NodeJS.WritableStream;
  /** Columns of what is printed. */
  readonly columns: number;
  readonly stderr: NodeJS.WritableStream & { isTTY?: boolean; columns?: number };
}

/** Prints one line on standard error. */
export const complain = ({ stderr }: Context, text: string) =>
  stderr.write(`pullscore: ${plain(text.replace(/\s*\n\s*/g, ' '))}\n`);

/** A failure that the operator can fix. */
export class CommandError extends Error {
  /** What to do, a sentence; undefined if there is nothing to do. */
  readonly action: string | undefined;
  /** For programs. */
  readonly code: 'failed' | 'not_found' | 'rules_invalid' | 'usage';
  /** Further keys of the JSON document. */
  readonly details: object;

  constructor(message: string, action?: string, code: CommandError['code'] = 'failed', details = {}) {
    super(message);
    this.action = action;
    this.code = code;
    this.details = details;
  }
}

export class UsageError extends CommandError {
  constructor(message: string, action?: string) {
    super(message, action, 'usage');
  }
}

/**
 * Opens the database and GitHub for a command, and closes them afterwards.
 *
 * @param options `create`: sets up the database if it is empty, and makes the embedded one if there is none; otherwise
 * both are refused. `upgrade`: brings the schema of an earlier release up to date
 */
export const withDeps = <Result>(
  { config, log }: Context,
  work: (deps: Deps) => Promise<Result>,
  { create = false, upgrade = false } = {},
): Promise<Result> =>
  whileOpen(
    config.databaseUrl === undefined,
    signal => createDeps(config, log, { create, upgrade, signal }),
    deps => deps.close(),
    work,
  );

/**
 * Opens something for work, and closes it afterwards.
 *
 * @param usesEmbedded a signal then closes it, too, before it ends the process: the embedded server would go on running
 * @param open its signal ends waits
 */
export async function whileOpen<Opened, Result>(
  usesEmbedded: boolean,
  open: (signal: AbortSignal) => Promise<Opened>,
  close: (opened: Opened) => Promise<void>,
  work: (opened: Opened) => Promise<Result>,
): Promise<Result> {
  const interruption = new AbortController();
  const opening = open(interruption.signal);
  let closing: Promise<void> | undefined;
  const closeOnce = () => {
    closing ??= opening.then(close);
    return closing;
  };
  const end = (signal: NodeJS.Signals) => {
    // By a listener beside this one.
    const isHandled = process.listenerCount(signal) > 1;
    if (isHandled) return;
    interruption.abort();
    const kill = () => {
      stopListening();
      process.kill(process.pid, signal);
    };
    closeOnce().then(kill, kill);
  };
  const stopListening = () => {
    for (const name of endingSignals) process.off(name, end);
  };
  if (usesEmbedded) for (const name of endingSignals) process.on(name, end);
  try {
    return await work(await opening);
  } finally {
    // A signal that comes meanwhile waits until it is closed.
    await closeOnce().finally(stopListening);
  }
}

/**
 * @param options `removed`: also one whose removal has begun
 * @throws CommandError if it is not stored; says how to add it
 */
export async function requireOrganisation(
  context: Context,
  deps: Deps,
  login: string,
  { removed = false } = {},
): Promise<Organisation> {
  const { executor } = deps.database;
  const organisation = await findOrganisation(executor, login);
  if (organisation === undefined) {
    throw new CommandError(
      `There is no organisation ${login} here.`,
      `Add it: ${context.program} organisation add ${login}`,
      'not_found',
    );
  }
  if (organisation.removedAt !== null && !removed) {
    throw beingRemoved(context, organisation);
  }
  return organisation;
}

export const beingRemoved = (context: Context, { login }: Pick<Organisation, 'login'>): CommandError =>
  new CommandError(
    `${login} is being removed.`,
    `The service finishes that. To do it now: ${context.program} organisation remove ${login} --yes`,
    'not_found',
  );

/** Like {@link withDeps}, for what is stored of one organisation. */
export const withOrganisation = <Result>(
  context: Context,
  login: string,
  work: (deps: Deps, organisation: Organisation) => Promise<Result>,
): Promise<Result> => withDeps(context, async deps => work(deps, await requireOrganisation(context, deps, login)));

/** The name of the user who runs the program, or `user 1000` if that user has none, as in some containers. */
export function operatorName(): string {
  try {
    return userInfo().username;
  } catch {
    return `user ${process.getuid?.() ?? ''}`.trim();
  }
}

export const operator = (): Actor => ({ name: operatorName(), requestId: null });

/**
 * Asks on a terminal, unless `--yes` has answered.
 *
 * @param word what the operator must type to go on
 * @throws UsageError without a terminal, CommandError if something else is typed
 */
export async function confirm(
  context: Context,
  question: string,
  word: string,
  yes = false,
  consequence = "This can't be undone.",
): Promise<void> {
  if (yes) return;
  if (!process.stdin.isTTY) throw new UsageError(`${question} ${consequence}`, 'Add --yes to go on.');
  const terminal = createInterface({ input: process.stdin, output: context.stderr });
  try {
    terminal.setPrompt(`${question} ${consequence} Type ${word} to go on: `);
    terminal.prompt();
    // Unlike `question`, this also ends with Ctrl-C and Ctrl-D, which close the terminal.
    const { value: typed } = await terminal[Symbol.asyncIterator]().next();
    if (typed === undefined) context.stderr.write('\n');
    if (typed?.trim().toLowerCase() !== word.toLowerCase()) throw new CommandError('Nothing was changed.');
  } finally {
    terminal.close();
  }
}

/** @throws UsageError if the text is not an http or https address */
export function requirePhotoUrl(text = ''): void {
  if (text === '' || (/^https?:\/\/[^/\s"'<>][^\s"'<>]*$/i.test(text) && URL.canParse(text))) return;
  throw new UsageError(`"${text}" is not a valid photo URL.`, 'Give one that begins with https://.');
}

/** Checks an argument. @throws UsageError if the check throws `bad_request` */
export function checkUsage<Result>(check: () => Result): Result {
  try {
    return check();
  } catch (error) {
    if (error instanceof ServiceError && error.code === 'bad_request')
      throw new UsageError(error.message, error.action);
    throw error;
  }
}

/** @throws UsageError if the text is not as the pattern says, or above the maximum */
export function parseNumber(text: string, pattern: RegExp, what: string, example: string, max = Infinity): number {
  if (pattern.test(text) && Number.parseFloat(text) <= max) return Number.parseFloat(text);
  throw new UsageError(`"${text}" is not a valid ${what}.`, `Give ${example}.`);
}

export const parseLimit = (text: string): number =>
  parseNumber(text, /^[1-9]\d{0,5}$/, 'limit', 'a number such as 100');

/** `2026-01-31 12:00`, or `-`: in a column whose heading says UTC, or before the word. */
export const showTime = (moment: Date | null): string =>
  moment === null ? '-' : moment.toISOString().slice(0, 16).replace('T', ' ');
