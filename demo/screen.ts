import { styleText } from 'node:util';
import { truncate } from '../src/text/terminal.ts';

const { stdout } = process;
const margin = '   ';

export function print(text = ''): void {
  stdout.write(text === '' ? '\n' : `${text.replace(/^/gm, margin)}\n`);
}

let sections = 0;

export function printSection(title: string): void {
  sections += 1;
  stdout.write(`\n${styleText('bold', `${sections}  ${title}`)}\n\n`);
}

export const printNote = (text: string): boolean => stdout.write(`\n${text}\n`);

/** Prints a command as a user would type it. */
export function printCommand(parts: readonly string[]): void {
  const typed = parts.map(part => (/^[\w@./:=,-]+$/.test(part) ? part : `"${part}"`)).join(' ');
  print(`${styleText('dim', '$')} ${styleText('cyan', typed)}`);
}

/** Exactly this many columns: cut with an ellipsis, or padded. */
export const cell = (text: string, width: number): string => truncate(text, width).padEnd(width);

/** How many columns of a line are free. */
export const freeColumns = (used: number): number => (stdout.columns ?? 120) - margin.length - used;
