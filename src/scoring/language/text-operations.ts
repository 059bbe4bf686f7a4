/** Text as the rule language sees it: characters are code points, and every operation is linear. */

const surrogatePair = /[\uD800-\uDBFF][\uDC00-\uDFFF]/g;

/** A regular expression, because V8 compiles it separately for one-byte strings, which have no pairs and so cost nothing. */
export function characterCount(text: string): number {
  let count = text.length;
  surrogatePair.lastIndex = 0;
  while (surrogatePair.test(text)) count--;
  return count;
}

/** V8's own search is quadratic at worst: for longer parts of longer texts, Knuth-Morris-Pratt replaces it. */
const plainSearch = { part: 16, text: 2_048 } as const;

export function containsText(text: string, part: string): boolean {
  if (part.length <= plainSearch.part || text.length < plainSearch.text) return text.includes(part);
  if (part.length > text.length) return false;
  const fallback = new Int32Array(part.length);
  for (let index = 1, matched = 0; index < part.length; index++) {
    while (matched > 0 && part.charCodeAt(index) !== part.charCodeAt(matched)) matched = fallback[matched - 1] ?? 0;
    if (part.charCodeAt(index) === part.charCodeAt(matched)) matched++;
    fallback[index] = matched;
  }
  for (let index = 0, matched = 0; index < text.length; index++) {
    while (matched > 0 && text.charCodeAt(index) !== part.charCodeAt(matched)) matched = fallback[matched - 1] ?? 0;
    if (text.charCodeAt(index) === part.charCodeAt(matched)) matched++;
    if (matched === part.length) return true;
  }
  return false;
}

/** Compares by code points; negative if `left` comes first. */
export function compareText(left: string, right: string): number {
  const shared = Math.min(left.length, right.length);
  for (let index = 0; index < shared; index++) {
    const difference = (left.codePointAt(index) ?? 0) - (right.codePointAt(index) ?? 0);
    if (difference !== 0) return difference;
  }
  return left.length - right.length;
}

/** A name as messages show it: in quotes, a long one only its beginning. */
export const nameInQuotes = (name: string): string =>
  JSON.stringify(name.length > 80 ? `${[...name.slice(0, 120)].slice(0, 60).join('')}…` : name);

/** A part of a text as error messages show it: one short line in backquotes. */
export function excerpt(text: string, start = 0, end = text.length): string {
  const part = text
    .slice(start, Math.min(end, start + 60))
    // Half a character, if the end of the text is not yet reached.
    .replace(end > start + 60 ? /[\uD800-\uDBFF]$/ : '', '')
    .replace(/\s+/g, ' ')
    .replace(/[\p{Cc}\p{Cf}\p{Surrogate}]/gu, '\uFFFD');
  const shown = [...part];
  return shown.length > 40 || end > start + 60 ? `\`${shown.slice(0, 39).join('')}…\`` : `\`${part}\``;
}
