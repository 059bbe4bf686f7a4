import { storable } from '../scoring/text.ts';

/**
 * Reading GitHub's JSON without trusting it: each function takes the value at a dotted path and either returns it in
 * our own terms or throws a {@link Misfit} that names the path.
 */

export class Misfit extends Error {}

const largestCount = 2 ** 31 - 1;
const endOfYear9999 = 253_402_300_800;

function at(value: unknown, path: string): unknown {
  let current = value;
  for (const name of path.split('.')) {
    if (typeof current !== 'object' || current === null || !Object.hasOwn(current, name)) return undefined;
    current = (current as Record<string, unknown>)[name];
  }
  return current;
}

function misfit(path: string, found: unknown, wanted: string): Misfit {
  const shown = typeof found === 'object' && found !== null ? typeof found : JSON.stringify(found);
  return new Misfit(`${path} is ${String(shown).slice(0, 60)}, not ${wanted}`);
}

const isAbsent = (value: unknown) => value === null || value === undefined;

export function text(value: unknown, path: string): string {
  const found = at(value, path);
  if (typeof found !== 'string') throw misfit(path, found, 'text');
  return storable(found);
}

export const optionalText = (value: unknown, path: string) => (isAbsent(at(value, path)) ? null : text(value, path));

export function flag(value: unknown, path: string): boolean {
  const found = at(value, path);
  if (typeof found !== 'boolean') throw misfit(path, found, 'true or false');
  return found;
}

/** A whole number that fits PostgreSQL's `integer`. */
export function count(value: unknown, path: string): number {
  const found = at(value, path);
  if (typeof found !== 'number' || !Number.isInteger(found) || found < 0 || found > largestCount) {
    throw misfit(path, found, 'a count');
  }
  return found;
}

/** GitHub's numeric id: a number, or digits where it may pass 32 bits (GraphQL's `BigInt`). */
export function id(value: unknown, path: string): number {
  const found = at(value, path);
  const number = typeof found === 'string' && /^[0-9]{1,16}$/.test(found) ? Number(found) : found;
  if (typeof number !== 'number' || !Number.isSafeInteger(number) || number <= 0) throw misfit(path, found, 'an id');
  return number;
}

export const optionalId = (value: unknown, path: string) => (isAbsent(at(value, path)) ? null : id(value, path));

/** A time as Unix seconds. */
export function time(value: unknown, path: string): number {
  const found = at(value, path);
  const form = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/;
  const seconds = typeof found === 'string' && form.test(found) ? Math.floor(Date.parse(found) / 1000) : Number.NaN;
  if (!(seconds >= 0 && seconds < endOfYear9999)) throw misfit(path, found, 'a time');
  return seconds;
}

export const optionalTime = (value: unknown, path: string) => (isAbsent(at(value, path)) ? null : time(value, path));

/** An address that may be shown as a link: `http` or `https`, nothing that runs. */
export function link(value: unknown, path: string): string {
  const found = at(value, path);
  if (typeof found !== 'string' || !/^https?:\/\/[^\s\p{Cc}]+$/u.test(found))
    throw misfit(path, found, 'a web address');
  return storable(found);
}

export function oneOf<Name extends string>(value: unknown, path: string, names: readonly Name[]): Name {
  const found = at(value, path);
  const name = names.find(each => each === found);
  if (name === undefined) throw misfit(path, found, `one of ${names.join(', ')}`);
  return name;
}

/** The entries of a list, absent ones too; an absent list is empty, as GitHub's connections may be. */
export function entries(value: unknown, path: string): unknown[] {
  const found = at(value, path);
  if (isAbsent(found)) return [];
  if (!Array.isArray(found)) throw misfit(path, found, 'a list');
  return found;
}

/** {@link entries} without the absent ones. */
export const list = (value: unknown, path: string) => entries(value, path).filter(entry => !isAbsent(entry));

export function present(value: unknown, path: string): boolean {
  return !isAbsent(at(value, path));
}
