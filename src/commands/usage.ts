/** What all commands have in common: help, `--json`, required options, and errors of usage. */
import { type Command, type CommanderError, Option } from 'commander';
import { type Context, UsageError } from './context.ts';

/** `help rules plan`. Commander's own command knows one word only. */
export function helpCommand(program: Command, context: Context): void {
  program
    .helpCommand(false)
    .command('help')
    .description('show the help of a command')
    .argument('[command...]')
    .addHelpText('after', `\nExample:\n  ${context.program} help rules plan`)
    .action((words: string[]) => {
      let found = program;
      for (const word of words) {
        const next = found.commands.find(command => command.name() === word);
        if (next === undefined) return found.error(`unknown command '${word}'`, { code: 'commander.unknownCommand' });
        found = next;
      }
      found.outputHelp();
    });
}

/** Call it when all commands and their options are there. */
export function finishCommands(command: Command, context: Context): void {
  command.exitOverride(error => {
    throw usageErrorOf(command, error, context);
  });
  for (const child of command.commands) finishCommands(child, context);
  if (command.commands.length > 0) return;
  command.option('--json', 'answer as one JSON document');
  finishRequiredOptions(command);
  if (command.options.some(({ long }) => long === '--organisation')) {
    command
      .addOption(new Option('--organization <login>').hideHelp())
      .on('option:organization', (login: string) => command.setOptionValue('organisation', login));
  }
}

/** Commander would name a missing option before an unknown one, which may be the same with a slip. */
function finishRequiredOptions(command: Command): void {
  const required = command.options.filter(({ mandatory }) => mandatory);
  for (const option of required) {
    option.mandatory = false;
    option.description += ' (required)';
  }
  command.hook('preAction', () => {
    const missing = required.find(option => command.getOptionValue(option.attributeName()) === undefined);
    if (missing !== undefined) command.error(`required option '${missing.flags}' not specified`);
  });
}

const pathOf = (command: Command): string[] =>
  command.parent === null ? [] : [...pathOf(command.parent), command.name()];

/** What Commander throws for help and for the version stays as it is. */
function usageErrorOf(command: Command, error: CommanderError, { program }: Context): Error {
  if (/^commander\.(?:help|version)/.test(error.code)) return error;
  const message = error.message.replace(/^error: /, '').replace(/\s*\n\s*/g, ' ');
  return new UsageError(
    `${message[0]?.toUpperCase()}${message.slice(1).replace(/[^.]$/, '$&.')}`,
    `See: ${[program, ...pathOf(command)].join(' ')} --help`,
  );
}
