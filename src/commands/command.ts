/** What all commands have in common: answers, help, `--json`, required options, and errors of usage. */
import { Command, CommanderError, Option } from 'commander';
import type { Executor } from '../database/client.ts';
import type { Organisation } from '../database/organisations.ts';
import type { Deps } from '../deps.ts';
import { type ErrorCode, ServiceError } from '../errors.ts';
import { ciCommands, terminalControls } from '../text/terminal.ts';
import { type Context, complain, UsageError, withDeps, withOrganisation } from './context.ts';
import { type RunningService, requireAddress, runningService } from './running-service.ts';

/** The result of a command: one document for programs, lines for people. */
export interface Answer {
  json: unknown;
  text: string;
  /** The text is printed as it is, without a line break after it. */
  isExact?: boolean;
  /** Printed after the text, on standard error: what does not belong in captured text. */
  note?: string | undefined;
  /** Printed last, on standard error. The command then exits with 1, although it has an answer. */
  failure?: string | undefined;
  /** Instead of 0, for a command that succeeded. */
  exitCode?: number | undefined;
}

type Work<Given extends unknown[]> = (...given: Given) => Promise<Answer>;
type Prepare<Options, Given extends unknown[]> = (
  options: Options,
  ...operands: string[]
) => Work<Given> | Promise<Work<Given>>;

type Shown = Partial<Answer> & Pick<Answer, 'text'>;

/** Where a command finds its document: in the database, or, with `--server`, in a running service. */
interface Source<Document> {
  read(deps: Deps, organisation: Organisation): Promise<Document>;
  ask(service: RunningService): Promise<Document>;
  /** What to do about errors that say only what is wrong. */
  actions?: Actions;
  /**
   * @param executor undefined if a service gave the document
   * @returns the answer; its JSON is the document, unless it has another one
   */
  show(document: Document, executor?: Executor): Shown | Promise<Shown>;
}

type Actions = Partial<Record<ErrorCode, string>>;

/** Adds what to do, for a person at this command line, to errors of both doors that do not say it. */
export async function withActions<Result>(actions: Actions, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof ServiceError) || error.action !== undefined) throw error;
    const { code, message, cause } = error;
    throw new ServiceError(code, message, { action: actions[code], cause });
  }
}

/** JSON that neither a terminal nor a CI service executes: what they would is escaped, which means the same. */
export const jsonDocument = (value: unknown): string =>
  `${JSON.stringify(value, null, 2)
    .replace(ciCommands, '#\\u0023')
    .replace(terminalControls, character => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`)}\n`;

export class PullscoreCommand extends Command {
  readonly context: Context;

  constructor(context: Context, name?: string) {
    super(name);
    this.context = context;
  }

  /** Makes `command('list')` return a command of this class, too. */
  override createCommand(name?: string): PullscoreCommand {
    return new PullscoreCommand(this.context, name);
  }

  /** Commander calls it for each wrong usage. It would print the message and end the process. */
  override error(message: string): never {
    const text = message.replace(/^error: /, '').replace(/\s*\n\s*/g, ' ');
    throw new UsageError(
      `${text[0]?.toUpperCase()}${text.slice(1).replace(/[^.]$/, '$&.')}`,
      `See: ${[this.context.program, ...pathOf(this)].join(' ')} --help`,
    );
  }

  /** The end of the help: command lines without the program's name. */
  examples(...lines: readonly string[]): this {
    const commands = lines.map(line => `\n  ${this.context.program} ${line}`).join('');
    return this.addHelpText('after', `\nExample${lines.length === 1 ? '' : 's'}:${commands}`);
  }

  /** Makes a function the command's action. Prints its answer, as JSON with `--json`. */
  answer<Options extends object>(run: (options: Options, ...operands: string[]) => Promise<Answer>): this {
    return this.action(async () => {
      const options = this.opts<Options & { json?: boolean }>();
      const { json, text, isExact = false, note, failure, exitCode } = await run(options, ...this.processedArgs);
      this.context.stdout.write(options.json ? jsonDocument(json) : `${text}${isExact ? '' : '\n'}`);
      if (note !== undefined && !options.json) this.context.stderr.write(`${note}\n`);
      if (failure !== undefined) complain(this.context, failure);
      const code = failure === undefined ? exitCode : 1;
      if (code !== undefined) throw new CommanderError(code, 'pullscore.answered', 'The answer is printed.');
    });
  }

  /**
   * Like `answer`, for a command that works on what is stored.
   *
   * @param prepare checks options and operands before the database is opened, and returns the work
   */
  answerWith<Options extends object>(prepare: Prepare<Options, [deps: Deps]>): this {
    return this.answer<Options>(async (options, ...operands) =>
      withDeps(this.context, await prepare(options, ...operands)),
    );
  }

  /** Like `answerWith`, for what is stored of one organisation. Adds the option that names it. */
  answerFor<Options extends object>(prepare: Prepare<Options, [deps: Deps, organisation: Organisation]>): this {
    this.requiredOption('--organisation <login>', "the organisation's login");
    return this.answer<Options & { organisation: string }>(async (options, ...operands) =>
      withOrganisation(this.context, options.organisation, await prepare(options, ...operands)),
    );
  }

  /**
   * Like `answerFor`, for a command whose document a running service gives, too: with `--server`, and a token that tells
   * the organisation.
   */
  answerFrom<Options extends object, Document>(
    prepare: (options: Options & FromServer, ...operands: string[]) => Promise<Source<Document>>,
  ): this {
    this.option('--organisation <login>', "the organisation's login; needed without --server").option(
      '--server <url>',
      'ask this service, with the token in PULLSCORE_TOKEN, instead of the database',
    );
    return this.answer<Options & FromServer>(async (options, ...operands) => {
      const { organisation, server } = options;
      if (organisation === undefined && server === undefined) {
        this.error("required option '--organisation <login>' or '--server <url>' not specified");
      }
      refuseBoth(options);
      if (server !== undefined) requireAddress(server);
      const { read, ask, actions = {}, show } = await prepare(options, ...operands);
      return withActions(actions, async () => {
        if (server !== undefined) {
          const document = await ask(runningService(this.context, server));
          return { json: document, ...(await show(document)) };
        }
        return withOrganisation(this.context, organisation ?? '', async (deps, found) => {
          const document = await read(deps, found);
          return { json: document, ...(await show(document, deps.database.executor)) };
        });
      });
    });
  }
}

/** At most one of them is given. */
export interface FromServer {
  organisation?: string;
  server?: string;
}

/** @throws UsageError */
export function refuseBoth({ organisation, server }: FromServer): void {
  if (organisation === undefined || server === undefined) return;
  throw new UsageError('Give either --organisation or --server.', 'The token tells the organisation.');
}

/** Call it after all commands and their options are defined. */
export function finishCommands(command: Command): void {
  command.commands.forEach(finishCommands);
  if (command.commands.length > 0) return;
  if (!command.options.some(({ long }) => long === '--json')) command.option('--json', 'answer as one JSON document');
  for (const option of command.options) if (option.mandatory) option.description += ' (required)';
  if (command.options.some(({ long }) => long === '--organisation')) {
    command
      .addOption(new Option('--organization <login>').hideHelp())
      .on('option:organization', (login: string) => command.setOptionValue('organisation', login));
  }
}

const pathOf = (command: Command): string[] =>
  command.parent === null ? [] : [...pathOf(command.parent), command.name()];
