import { formatInteger } from './number-formats.ts';
import { type Column, plain, truncate } from './terminal.ts';

const maxTextWidth = 200;
const maxRows = 100;

/** Ideographic and Braille blanks are among them. */
const visible = /[^\s\p{C}\p{Default_Ignorable_Code_Point}\u2800]/u;

/** On one line, without markup, and without links, mentions and references, which GitHub makes of other texts. */
export function code(text: string): string {
  // Two backticks with nothing between them begin a code span, which ends somewhere in what follows.
  const line = visible.test(text) ? truncate(plain(text).replace(/\s/g, ' '), maxTextWidth) : '(invisible)';
  const maxRun = Math.max(0, ...[...line.matchAll(/`+/g)].map(([run]) => run.length));
  const fence = '`'.repeat(maxRun + 1);
  return maxRun > 0 ? `${fence} ${line} ${fence}` : `${fence}${line}${fence}`;
}

/** In a table, also in code. After a backslash it would end the cell all the same, so a space comes between. */
const escapePipe = (found: string): string => (found === '|' ? '\\|' : '\\ \\|');

/** Lines of a table. Columns aligned right hold numbers; what is in the others is shown as {@link code}. */
export function markdownTable(columns: readonly (string | Column)[], rows: readonly (readonly string[])[]): string[] {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  const headings = columns.map(column => (typeof column === 'string' ? column : column.heading));
  const isNumber = columns.map(column => typeof column !== 'string' && column.align === 'right');
  const cellOf = (text: string, index: number) =>
    isNumber[index] || text.trim() === '' ? text.trim() : code(text).replace(/\\?\|/g, escapePipe);
  const rest = rows.length - maxRows;
  return [
    '',
    line(headings),
    line(isNumber.map(alignsRight => (alignsRight ? '--:' : '---'))),
    ...rows.slice(0, maxRows).map(cells => line(cells.map(cellOf))),
    '',
    ...(rest > 0 ? [`… and ${formatInteger(rest)} more.`, ''] : []),
  ];
}
