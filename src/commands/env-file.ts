/** Writes secrets to a file such as `.env`, which this program and docker compose read. */
import { randomUUID } from 'node:crypto';
import { lstatSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { parseEnv } from 'node:util';
import { CommandError } from './context.ts';

/** A value in quotes may have several lines. */
const assignment = (name: string) =>
  new RegExp(`^[ \\t]*(?:export[ \\t]+)?${name}[ \\t]*=[ \\t]*(?:(["'\`])[^]*?\\1.*|.*)$`, 'gm');

/** The text of a `.env`, without a byte order mark, which would be a part of the first name. */
export const readEnvText = (path: string): string => readFileSync(path, 'utf8').replace(/^\uFEFF/, '');

/** The file's text; empty if it is not there yet. @throws CommandError if it can't be replaced */
export function readEnvFile(path: string): string {
  try {
    const found = lstatSync(path, { throwIfNoEntry: false });
    if (found !== undefined && !found.isFile()) {
      throw new CommandError(`${path} is not a regular file.`, 'Name another one with --output.');
    }
    // Proves that a file can be written next to it, before there is something to lose.
    const trial = `${path}.${randomUUID()}`;
    writeFileSync(trial, '', { flag: 'wx', mode: 0o600 });
    rmSync(trial);
    const text = found === undefined ? '' : readEnvText(path);
    // The first line that is not a comment shows whether another program would lose something.
    if (/^(?:\s*#.*\n?)*\s*(?:(?:export[ \t]+)?\w+[ \t]*=|$)/.test(text)) return text;
    throw new CommandError(`${path} contains something other than variables.`, 'Name another file with --output.');
  } catch (error) {
    if (error instanceof CommandError) throw error;
    throw new CommandError(
      `${path} can't be written: ${(error as NodeJS.ErrnoException).code}.`,
      'Name another file with --output.',
    );
  }
}

/** The value that the text gives the variable; undefined if it is empty. */
export const valueIn = (text: string, name: string): string | undefined => parseEnv(text)[name] || undefined;

/** The text with these values, each on one line. Others stay as they are. */
export function withValues(text: string, values: Readonly<Record<string, string>>): string {
  let changed = text;
  const added: string[] = [];
  for (const [name, value] of Object.entries(values)) {
    // A `.env` has no escapes: the quotes must be of a kind that the value does not contain.
    const quote = ["'", '"', '`'].find(each => !value.includes(each)) ?? '';
    const line = `${name}=${quote}${value}${quote}`;
    if (assignment(name).test(changed)) changed = changed.replace(assignment(name), () => line);
    else if (value !== '') added.push(line);
  }
  const end = changed === '' || changed.endsWith('\n') ? '' : '\n';
  return added.length === 0 ? changed : `${changed}${end}${added.join('\n')}\n`;
}

/** Replaces the file whole, readable by its owner only. */
export function writeEnvFile(path: string, text: string): void {
  const fresh = `${path}.${randomUUID()}`;
  try {
    writeFileSync(fresh, text, { flag: 'wx', mode: 0o600, flush: true });
    renameSync(fresh, path);
  } catch (error) {
    rmSync(fresh, { force: true });
    throw error;
  }
}
