/** Text laid out for a terminal: columns, bars and lines that end at its edge, whatever the texts hold. */
import { createRequire } from 'node:module';

/** Loads a module when it is first needed: the pattern of all emoji takes an eighth of a process's start. */
const load = createRequire(import.meta.url);

/** GitHub Actions and Azure Pipelines execute `##[…]` and `##vso[…]` anywhere in a line of their logs. */
export const ciCommands = /##(?=\[|vso\[)/gi;

/** They change the direction of the text after them. */
const directionMarks = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** What JSON leaves as it is, and what moves the cursor, colours the screen or changes the direction of a text. */
export const terminalControls = new RegExp(`[\\x7f-\\x9f\\u2028\\u2029]|${directionMarks.source}`, 'g');

/**
 * Makes other people's texts safe to print. Control characters, which could move the cursor or colour the screen, become
 * spaces; marks that change the direction of the text after them are removed. What a CI service would execute gets a
 * space: see {@link ciCommands}; GitHub Actions also reads `::` at the start of a line.
 */
export const plain = (text: string): string =>
  text
    .replace(/[\p{Cc}\u2028\u2029]+/gu, ' ')
    .replace(directionMarks, '')
    .replace(ciCommands, '## ')
    .replace(/^(\s*:):/, '$1 :');

/** A text as one word of a command that is printed to be copied. */
export const shellWord = (text: string): string =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;

/** One safe line of at most this many columns. */
export const brief = (text: string, columns = 80): string => truncate(plain(text).replace(/\s+/g, ' ').trim(), columns);

/** Max columns of sentences and bars: longer lines are hard to read. */
export const maxProseWidth = 120;

/** Columns that a text takes. Only what is not ASCII needs the library. */
function widthOf(text: string): number {
  if (/^[ -~]*$/.test(text)) return text.length;
  return (load('string-width') as typeof import('string-width')).default(text);
}

/** Columns to fill: the terminal's, or else those that the variable COLUMNS names, or 80. At least 20. */
export function lineWidth({ columns }: { columns?: number | undefined }, variable = ''): number {
  return Math.max(columns || Math.floor(Number(variable)) || 80, 20);
}

/** Cuts a text to at most this many columns, with an ellipsis, and never within a character. */
export function truncate(text: string, columns: number): string {
  if (text.length <= columns && widthOf(text) <= columns) return text;
  let start = '';
  let width = 0;
  for (const { segment } of new Intl.Segmenter().segment(text)) {
    width += widthOf(segment);
    if (width > columns) return `${start.trimEnd()}…`;
    // One column is for the ellipsis.
    if (width < columns) start += segment;
  }
  return text;
}

const eighths = ['', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/** A bar of at most this many columns, in eighths of a column. Every positive value has at least one eighth. */
export function bar(value: number, max: number, columns: number): string {
  if (value <= 0 || max <= 0) return '';
  const steps = Math.max(1, Math.round((value / max) * columns * 8));
  return '█'.repeat(steps >> 3) + eighths[steps & 7];
}

export interface Column {
  heading: string;
  align?: 'right';
  shrinks?: boolean;
  /** Left out if lines are shorter. */
  minWidth?: number;
}

export const right = (heading: string): Column => ({ heading, align: 'right' });

/** A column that gets narrower if the lines would be too long. */
export const shrinking = (heading: string): Column => ({ heading, shrinks: true });

const gap = '  ';
const minShrunkWidth = 8;

/** Lines with rows under headings, at most `width` columns long if a column shrinks. Makes the cells safe to print. */
export function grid(
  headings: readonly (string | Column)[],
  rows: readonly (readonly string[])[],
  { width = Number.POSITIVE_INFINITY, indent = '' } = {},
): string[] {
  const all = headings.map(column => (typeof column === 'string' ? { heading: column } : column) as Column);
  const isShown = all.map(({ minWidth = 0 }) => width >= minWidth);
  const columns = all.filter((_, index) => isShown[index]);
  const lines = [all.map(({ heading }) => heading), ...rows].map(row =>
    row
      .filter((_, index) => isShown[index])
      .map(cell => {
        const text = plain(cell);
        return { text, width: widthOf(text) };
      }),
  );
  const widths = columns.map((_, index) => lines.reduce((max, line) => Math.max(max, line[index]?.width ?? 0), 0));
  let length = indent.length + widths.reduce((sum, one) => sum + one, gap.length * (widths.length - 1));
  while (length > width) {
    // The widest goes first.
    const shrinkable = widths.map((one, index) => (columns[index]?.shrinks && one > minShrunkWidth ? one : 0));
    const max = Math.max(...shrinkable);
    if (max === 0) break;
    const others = shrinkable.filter(one => one < max);
    const next = Math.max(minShrunkWidth, max - (length - width), ...others);
    widths[shrinkable.indexOf(max)] = next < max ? next : max - 1;
    length -= next < max ? max - next : 1;
  }
  const cells = (line: (typeof lines)[number]) =>
    line.map((cell, index) => {
      const max = widths[index] ?? 0;
      const text = cell.width > max ? truncate(cell.text, max) : cell.text;
      const space = ' '.repeat(max - (text === cell.text ? cell.width : widthOf(text)));
      return columns[index]?.align === 'right' ? space + text : text + space;
    });
  return lines.map(line => (indent + cells(line).join(gap)).trimEnd());
}

/** Rows under headings, in columns as wide as they need; a hint if there are no rows. */
export const table = (
  headings: readonly (string | Column)[],
  rows: readonly (readonly string[])[],
  empty: string,
  options: { width?: number } = {},
) => (rows.length === 0 ? empty : grid(headings, rows, options).join('\n'));

/** Text after a label, wrapped at this width, with the lines after the first indented. */
export const labelled = (label: string, text: string, width: number): string[] =>
  (load('wrap-ansi') as typeof import('wrap-ansi'))
    .default(text, width - label.length)
    .split('\n')
    // A word that begins a line now may be a command there.
    .map((line, index) => (index === 0 ? label : ' '.repeat(label.length)) + plain(line));
