import { fromString, toUUID, typeidUnboxed } from 'typeid-js';

/** Public ids are TypeIDs: a prefix for the kind and a UUIDv7, which the database stores as `uuid`. */
export type IdPrefix = 'mem' | 'org' | 'pr' | 'repo' | 'rul' | 'tok' | 'usr';

/** A new UUIDv7: later ones sort after earlier ones. */
export const newId = (): string => toUUID(typeidUnboxed('id'));

const alphabet = '0123456789abcdefghjkmnpqrstvwxyz';
const pairs = Array.from({ length: 1024 }, (_, bits) => alphabet.charAt(bits >> 5) + alphabet.charAt(bits & 31));

/**
 * The public id of a UUID as PostgreSQL writes it: 128 bits as 26 digits of five, two zero bits before them. A page of
 * pull requests has 30 of them, and `typeid-js` takes ten times as long for each.
 */
export function formatId(prefix: IdPrefix, uuid: string): string {
  let id = `${prefix}_`;
  let bits = 0;
  let held = 2;
  for (let index = 0; index < uuid.length; index += 1) {
    const code = uuid.charCodeAt(index);
    if (code === 45) continue;
    bits = (bits << 4) | (code < 58 ? code - 48 : code - 87);
    held += 4;
    if (held < 10) continue;
    held -= 10;
    id += pairs[(bits >> held) & 1023];
    bits &= (1 << held) - 1;
  }
  return id;
}

/** The UUID in a public id, or undefined where the text is no id of that kind. */
export function parseId(prefix: IdPrefix, text: string): string | undefined {
  try {
    return toUUID(fromString(text, prefix));
  } catch {
    return undefined;
  }
}
