/** HTML templates that escape every value except `Html`. */
import { plain } from './terminal.ts';

export class Html {
  readonly markup: string;

  constructor(markup: string) {
    this.markup = markup;
  }
}

/** False is left out. */
type Piece = Html | string | number | false | readonly Piece[];

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** Safe within an element and within a quoted attribute. */
const escapeText = (text: string) => plain(text).replace(/[&<>"']/g, character => entities[character] ?? '');

function write(piece: Piece): string {
  if (piece instanceof Html) return piece.markup;
  if (piece === false) return '';
  return typeof piece === 'string' || typeof piece === 'number' ? escapeText(String(piece)) : piece.map(write).join('');
}

export const html = (strings: TemplateStringsArray, ...pieces: readonly Piece[]): Html =>
  new Html(strings.reduce((out, text, index) => out + write(pieces[index - 1] ?? '') + text));
