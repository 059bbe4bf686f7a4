import { FormatRegistry, type Static, type TSchema, Type } from '@sinclair/typebox';
import type { TypeCheck } from '@sinclair/typebox/compiler';
import type { ValueError } from '@sinclair/typebox/errors';
import { storable } from '../scoring/text.ts';

/*
 * GitHub's JSON without trusting it. The schemas only check; ids and times are converted by those who read them, because
 * TypeBox's own conversion (`Transform`) takes ten times as long as checking and converting like this.
 */

/** A reply that is not what GitHub documents. The message says where, what is there, and what should be. */
export class UnexpectedReply extends Error {}

const maxUnixSeconds = Date.UTC(9999, 11, 31, 23, 59, 59) / 1000;
const isId = (number: number) => number > 0 && Number.isSafeInteger(number);

FormatRegistry.Set('github-id', digits => /^[0-9]{1,16}$/.test(digits) && isId(Number(digits)));
FormatRegistry.Set('github-time', time => {
  const form = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/;
  const seconds = form.test(time) ? unixSeconds(time) : Number.NaN;
  return seconds >= 0 && seconds <= maxUnixSeconds;
});

const Count = Type.Integer({ minimum: 0, maximum: 2 ** 31 - 1, title: 'a count' });
const Nullable = <Schema extends TSchema>(schema: Schema) => Type.Optional(Type.Union([schema, Type.Null()]));

/** Schemas of what GitHub's replies are made of. */
export const Reply = {
  Text: Type.String({ title: 'text' }),
  Flag: Type.Boolean({ title: 'true or false' }),
  /** A whole number that fits PostgreSQL's `integer`. */
  Count,
  Total: Type.Object({ totalCount: Count }),
  /** GitHub's numeric id, for `Number`: digits if it may be over 32 bits (GraphQL's `BigInt`). */
  Id: Type.Union(
    [Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }), Type.String({ format: 'github-id' })],
    { title: 'an id' },
  ),
  /** For {@link unixSeconds}. */
  Time: Type.String({ format: 'github-time', title: 'a time' }),
  /** An address that may be shown as a link: `http` or `https`, nothing that runs. */
  Link: Type.RegExp(/^https?:\/\/[^\s\p{Cc}]+$/u, { title: 'a web address' }),
  OneOf: <Name extends string>(...names: Name[]) =>
    Type.Union(
      names.map(name => Type.Literal(name)),
      { title: `one of ${names.join(', ')}` },
    ),
  /** Null or absent means the same. */
  Nullable,
  /** A connection's entries, for {@link present}: GitHub may leave out some or all of them. */
  Entries: <Schema extends TSchema>(entry: Schema) => Nullable(Type.Array(Type.Union([entry, Type.Null()]))),
};

/** A list without its absent entries; an absent list is empty. */
export const present = <Entry>(entries: readonly (Entry | null)[] | null | undefined): Entry[] =>
  (entries ?? []).filter(entry => entry !== null);

/** @param time checked as {@link Reply.Time} */
export const unixSeconds = (time: string) => Math.floor(Date.parse(time) / 1000);

export const optionalUnixSeconds = (time: string | null | undefined) => (time ? unixSeconds(time) : null);

/** Every text in it is one that PostgreSQL can store: what it can't hold comes as an escape only. @throws SyntaxError */
export const parseReply = (json: string): unknown =>
  /\\u(0000|d[89a-f])/i.test(json)
    ? JSON.parse(json, (_, value) => (typeof value === 'string' ? storable(value) : value))
    : JSON.parse(json);

/** The value itself, now typed; properties beside the schema's are still in it. @throws UnexpectedReply */
export function decode<Schema extends TSchema>(check: TypeCheck<Schema>, value: unknown): Static<Schema> {
  if (check.Check(value)) return value;
  throw new UnexpectedReply(describe(check.Errors(value).First()));
}

function describe(error: ValueError | undefined): string {
  // Of what may be null, the first choice says what is wrong.
  const choice = error?.schema.title === undefined ? error?.errors[0]?.First() : undefined;
  if (choice !== undefined) return describe(choice);
  const { path = '', value, schema } = error ?? {};
  const found = Array.isArray(value) ? 'list' : typeof value === 'object' && value ? 'object' : JSON.stringify(value);
  const wanted = schema?.title ?? (schema?.type === 'array' ? 'a list' : 'an object');
  return `${path.slice(1).replaceAll('/', '.') || 'it'} is ${String(found).slice(0, 60)}, not ${wanted}`;
}
