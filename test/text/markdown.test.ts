import { expect, test } from 'vitest';
import { code, markdownTable } from '../../src/text/markdown.ts';

test.each(['', ' ', '\u200f', '\u200b\u2060', '\u00ad', '\u2800', '\ufe0f', '\n'])(
  'a text of invisible characters only, %j, does not become an empty code span, which would take in what follows',
  text => {
    expect(code(text)).toBe('`(invisible)`');
    expect(code(`a${text}`)).toMatch(/^`a.*`$/u);
  },
);

test('a cell of line breaks only does not break its row', () => {
  expect(markdownTable(['A', 'B'], [['\n', 'b']])).toContain('|  | `b` |');
});
