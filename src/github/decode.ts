import { FormatRegistry, type Static, type TSchema, Type } from '@sinclair/typebox';
import { type TypeCheck, TypeCompiler } from '@sinclair/typebox/compiler';
import type { ValueError } from '@sinclair/typebox/errors';
import { storable } from '../text/storable.ts';
import { maxUnixSeconds } from '../text/times.ts';

/*
 * Checks GitHub's JSON by schemas. These do not convert: readers convert ids and times, because TypeBox's own
 * conversion (`Transform`) takes ten times as long as both.
 */

/** A reply that GitHub does not document. The message says where, what it contains, and what was expected. */
export class UnexpectedReply extends Error {}

const isId = (number: number) => number > 0 && Number.isSafeInteger(number);

FormatRegistry.Set('github-id', digits => /^[0-9]{1,16}$/.test(digits) && isId(Number(digits)));
FormatRegistry.Set('github-time', time => {
  const form = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/;
  return form.test(time) && !Number.isNaN(Date.parse(time));
});

const Count = Type.Integer({ minimum: 0, maximum: 2 ** 31 - 1, title: 'a count' });
const Nullable = <Schema extends TSchema>(schema: Schema) => Type.Optional(Type.Union([schema, Type.Null()]));
const List = <Schema extends TSchema>(entry: Schema) => Type.Array(Type.Union([entry, Type.Null()]));

/** Schemas for the parts of GitHub's replies. */
export const Reply = {
  Text: Type.String({ title: 'text' }),
  Flag: Type.Boolean({ title: 'true or false' }),
  /** A whole number that fits PostgreSQL's `integer`. */
  Count,
  Total: Type.Object({ totalCount: Count }),
  /** GitHub's numeric id, to be read with `Number`: digits if it may exceed 32 bits (GraphQL's `BigInt`). */
  Id: Type.Union(
    [Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }), Type.String({ format: 'github-id' })],
    { title: 'an id' },
  ),
  UnixSeconds: Type.Integer({ minimum: 0, maximum: maxUnixSeconds, title: 'a Unix time' }),
  /** To be read with {@link unixSeconds}. */
  Time: Type.String({ format: 'github-time', title: 'a time' }),
  /** An address that is safe as a link: `http` or `https`, not a script. */
  Link: Type.RegExp(/^https?:\/\/[^\s\p{Cc}]+$/u, { title: 'a web address' }),
  /** Anything: an odd address must not lose a person. To be read with {@link linkOrNone}. */
  OptionalLink: Type.Optional(Type.Unknown()),
  /** SHA-1 or SHA-256. */
  CommitSha: Type.RegExp(/^(?:[0-9a-f]{40}|[0-9a-f]{64})$/, { title: 'a commit' }),
  OneOf: <Name extends string>(...names: Name[]) =>
    Type.Union(
      names.map(name => Type.Literal(name)),
      { title: `one of ${names.join(', ')}` },
    ),
  /** Null or absent means the same. */
  Nullable,
  /** The entries of a page. GitHub may leave some out, but not the list: a whole page would be lost unnoticed. */
  List,
  /** A connection's entries, to be read with {@link present}: GitHub may leave out some or all of them. */
  Entries: <Schema extends TSchema>(entry: Schema) => Nullable(List(entry)),
};

/** A list without its absent entries; an absent list is empty. */
export const present = <Entry>(entries: readonly (Entry | null)[] | null | undefined): Entry[] =>
  (entries ?? []).filter(entry => entry !== null);

/**
 * Imported pull requests may have any time: one before 1970 counts as its beginning.
 *
 * @param time checked as {@link Reply.Time}
 */
export const unixSeconds = (time: string) => Math.min(Math.max(Math.floor(Date.parse(time) / 1000), 0), maxUnixSeconds);

/** Empty if it is not an address that is safe as a link. */
export const linkOrNone = (value: unknown): string => (matches(Reply.Link, value) ? value : '');

export const optionalUnixSeconds = (time: string | null | undefined) => (time ? unixSeconds(time) : null);

/** Makes every text storable in PostgreSQL; what is not comes only as an escape. @throws SyntaxError */
export const parseReply = (json: string): unknown =>
  /\\u(0000|d[89a-f])/i.test(json)
    ? JSON.parse(json, (_, value) => (typeof value === 'string' ? storable(value) : value))
    : JSON.parse(json);

const checks = new WeakMap<TSchema, TypeCheck<TSchema>>();

/** Compiled when it is first used. */
function checkOf(schema: TSchema): TypeCheck<TSchema> {
  let check = checks.get(schema);
  if (check === undefined) {
    check = TypeCompiler.Compile(schema);
    checks.set(schema, check);
  }
  return check;
}

/** Whether the value has what the schema asks for; it may have more. The schema must be a constant. */
export const matches = <Schema extends TSchema>(schema: Schema, value: unknown): value is Static<Schema> =>
  checkOf(schema).Check(value);

/** Returns the value itself, typed, if it {@link matches} the schema. @throws UnexpectedReply */
export function decode<Schema extends TSchema>(schema: Schema, value: unknown): Static<Schema> {
  if (matches(schema, value)) return value;
  throw new UnexpectedReply(describe(checkOf(schema).Errors(value).First()));
}

function describe(error: ValueError | undefined): string {
  // If a value may be null, its first choice says what is wrong.
  const choice = error?.schema.title === undefined ? error?.errors[0]?.First() : undefined;
  if (choice !== undefined) return describe(choice);
  const { path = '', value, schema } = error ?? {};
  const found = Array.isArray(value) ? 'list' : typeof value === 'object' && value ? 'object' : JSON.stringify(value);
  const wanted = schema?.title ?? (schema?.type === 'array' ? 'a list' : 'an object');
  return `${path.slice(1).replaceAll('/', '.') || 'it'} is ${String(found).slice(0, 60)}, not ${wanted}`;
}
