import fc from 'fast-check';

/** Code points between those of pairs. */
const surrogates = { from: 0xd800, count: 0x800 };

/**
 * A character of Unicode, for `fc.string`. fast-check's own unit `binary` first makes a map of all million of them, once a
 * worker: that takes seconds, and slows the collection of garbage in all tests after it.
 */
export const anyCharacter = fc.nat(0x10ffff - surrogates.count).map(
  index => String.fromCodePoint(index < surrogates.from ? index : index + surrogates.count),
  text => indexOf(String(text)),
);

/** @throws if the text is not one character */
function indexOf(text: string): number {
  const codePoint = text.codePointAt(0) ?? Number.NaN;
  const isPair = codePoint >= surrogates.from && codePoint < surrogates.from + surrogates.count;
  if (isPair || text !== String.fromCodePoint(codePoint)) throw new Error('not a character');
  return codePoint < surrogates.from ? codePoint : codePoint - surrogates.count;
}
