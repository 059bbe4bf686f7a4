/** Text laid out for a terminal: columns, bars and lines that end at its edge, whatever the texts hold. */

/** Characters that take two columns, as most terminals have it: East Asian wide ones and pictures. */
const wide =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|\p{Emoji_Presentation}|[\u{20000}-\u{3fffd}]/u;
/** Nothing of its own to see: marks on the character before, joiners, selectors. */
const invisible = /^[\p{Mn}\p{Me}\p{Cf}]+$/u;
const segmenter = new Intl.Segmenter('en', { granularity: 'grapheme' });

/**
 * Control characters, which could move the cursor or colour the screen, and marks that turn the direction of what
 * follows become visible or go.
 */
export const plain = (text: string): string =>
  text.replace(/[\p{Cc}\u2028\u2029]+/gu, ' ').replace(/[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu, '');

const widthOf = (character: string) => (wide.test(character) ? 2 : invisible.test(character) ? 0 : 1);

export function displayWidth(text: string): number {
  // Most texts; to segment one takes a hundred times as long.
  if (/^[\x20-\x7e]*$/.test(text)) return text.length;
  let width = 0;
  for (const { segment } of segmenter.segment(text)) width += widthOf(segment);
  return width;
}

/** Cut, with an ellipsis, to at most so many columns. */
export function truncate(text: string, columns: number): string {
  if (text.length <= columns && displayWidth(text) <= columns) return text;
  let taken = '';
  let width = 0;
  for (const { segment } of segmenter.segment(text)) {
    const next = width + widthOf(segment);
    if (next > columns) return `${trimTo(taken, columns - 1)}…`;
    taken += segment;
    width = next;
  }
  return taken;
}

function trimTo(text: string, columns: number): string {
  const segments = [...segmenter.segment(text)].map(({ segment }) => segment);
  while (segments.length > 0 && displayWidth(segments.join('')) > columns) segments.pop();
  return segments.join('').trimEnd();
}

const eighths = ['', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/** A bar of at most so many columns, in eighths of one; what is not nothing is seen. */
export function bar(value: number, largest: number, columns: number): string {
  if (value <= 0 || largest <= 0) return '';
  const steps = Math.max(1, Math.round((value / largest) * columns * 8));
  return '█'.repeat(steps >> 3) + eighths[steps & 7];
}

export interface Column {
  heading: string;
  align?: 'left' | 'right';
  /** Gives way where the lines would be too long. */
  shrinks?: boolean;
}

const gap = 2;

/** Rows under headings, within so many columns, each line with `indent` before it. */
export function grid(
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
  width: number,
  indent = '  ',
): string[] {
  const widths = columns.map(({ heading }, index) =>
    rows.reduce((widest, row) => Math.max(widest, displayWidth(row[index] ?? '')), displayWidth(heading)),
  );
  const excess = indent.length + widths.reduce((sum, one) => sum + one + gap, -gap) - width;
  const flexible = columns.findIndex(({ shrinks }) => shrinks);
  if (excess > 0 && flexible !== -1) widths[flexible] = Math.max(8, (widths[flexible] ?? 0) - excess);
  const line = (row: readonly string[]) =>
    indent +
    columns
      .map(({ align }, index) => {
        const cell = truncate(row[index] ?? '', widths[index] ?? 0);
        const space = ' '.repeat(Math.max(0, (widths[index] ?? 0) - displayWidth(cell)));
        return align === 'right' ? space + cell : cell + space;
      })
      .join(' '.repeat(gap))
      .trimEnd();
  const headings = columns.map(({ heading }) => heading);
  return [...(headings.every(heading => heading === '') ? [] : [headings]), ...rows].map(line);
}

/** Words after a label, on as many lines as they need, those after the first below each other. */
export function labelled(label: string, text: string, width: number): string[] {
  const lines: string[] = [];
  let line = label;
  for (const word of text.split(' ')) {
    if (displayWidth(line) > label.length && displayWidth(line) + 1 + displayWidth(word) > width) {
      lines.push(line);
      line = ' '.repeat(label.length);
    }
    line += line.length === label.length ? word : ` ${word}`;
  }
  return [...lines, line];
}
