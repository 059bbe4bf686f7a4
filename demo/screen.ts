import { styleText } from 'node:util';

type Format = Parameters<typeof styleText>[0];

const { stdout } = process;
const coloured = stdout.isTTY === true && !process.env.NO_COLOR && process.env.TERM !== 'dumb';
const margin = '   ';

export const paint = (format: Format, text: string): string => (coloured ? styleText(format, text) : text);

export function print(text = ''): void {
  stdout.write(text === '' ? '\n' : `${text.replace(/^/gm, margin)}\n`);
}

let sections = 0;

export function printSection(title: string): void {
  sections += 1;
  stdout.write(`\n${paint('bold', `${sections}  ${title}`)}\n\n`);
}

export const printNote = (text: string): boolean => stdout.write(`\n${text}\n`);

/** Prints a command as a user would type it. */
export function printCommand(parts: readonly string[]): void {
  const typed = parts.map(part => (/^[\w@./:=,-]+$/.test(part) ? part : `"${part}"`)).join(' ');
  print(`${paint('dim', '$')} ${paint('cyan', typed)}`);
}

/** Prints rows under headings; numbers are aligned to the right. */
export function printTable(headings: readonly string[], rows: readonly (readonly (string | number)[])[]): void {
  const widths = headings.map((heading, column) =>
    Math.max(heading.length, ...rows.map(row => String(row[column]).length)),
  );
  const format = (row: readonly (string | number)[]) =>
    row
      .map((cell, column) => {
        const width = widths[column] ?? 0;
        return typeof rows[0]?.[column] === 'number' ? String(cell).padStart(width) : String(cell).padEnd(width);
      })
      .join('   ');
  print(paint('dim', format(headings)));
  for (const row of rows) print(format(row));
}

/** Exactly `width` characters, with an ellipsis if something is cut off. */
export const column = (text: string, width: number): string =>
  text.length > width ? `${text.slice(0, width - 1)}…` : text.padEnd(width);

/** Characters left on a line besides `taken`. */
export const widthBeside = (taken: number): number => (stdout.columns ?? 120) - margin.length - taken;
