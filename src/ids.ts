import { fromString, toUUID, typeidUnboxed } from 'typeid-js';

/** Public ids are TypeIDs: a prefix for the kind and a UUIDv7, which the database stores as `uuid`. */
export type IdPrefix = 'mem' | 'org' | 'pr' | 'repo' | 'rul' | 'tok' | 'usr';

/** A new UUIDv7: later ones sort after earlier ones. */
export const newId = (): string => toUUID(typeidUnboxed('id'));

const alphabet = '0123456789abcdefghjkmnpqrstvwxyz';
const pairs = Array.from({ length: 1024 }, (_, bits) => alphabet.charAt(bits >> 5) + alphabet.charAt(bits & 31));

/**
 * The public id of a UUID as PostgreSQL writes it: two zero bits and its 128 bits, as 26 base32 digits. A page of pull
 * requests has 30 ids, and `typeid-js` takes ten times as long for each.
 */
export function formatId(prefix: IdPrefix, uuid: string): string {
  let id = `${prefix}_`;
  let bits = 0;
  let bitCount = 2;
  for (let index = 0; index < uuid.length; index += 1) {
    const code = uuid.charCodeAt(index);
    if (code === 45) continue;
    bits = (bits << 4) | (code < 58 ? code - 48 : code - 87);
    bitCount += 4;
    if (bitCount < 10) continue;
    bitCount -= 10;
    id += pairs[(bits >> bitCount) & 1023];
    bits &= (1 << bitCount) - 1;
  }
  return id;
}

/** The UUID in a public id, or undefined if the text is not an id of that kind. */
export function parseId(prefix: IdPrefix, text: string): string | undefined {
  try {
    return toUUID(fromString(text, prefix));
  } catch {
    return undefined;
  }
}
