import { fromString, fromUUID, toUUID, typeidUnboxed } from 'typeid-js';

/** Public ids are TypeIDs: a prefix for the kind and a UUIDv7, which the database stores as `uuid`. */
export type IdPrefix = 'mem' | 'org' | 'pr' | 'repo' | 'rul' | 'tok' | 'usr';

/** A new UUIDv7: later ones sort after earlier ones. */
export const newId = (): string => toUUID(typeidUnboxed('id'));

export const formatId = (prefix: IdPrefix, uuid: string): string => fromUUID(uuid, prefix);

/** A regular expression, as JSON Schema takes it, of the ids of a kind. */
export const idPattern = (prefix: IdPrefix): string => `^${prefix}_[0-7][0-9a-hjkmnp-tv-z]{25}$`;

/** The UUID in a public id, or undefined where the text is no id of that kind. */
export function parseId(prefix: IdPrefix, text: string): string | undefined {
  try {
    return toUUID(fromString(text, prefix));
  } catch {
    return undefined;
  }
}
