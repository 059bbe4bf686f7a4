/** The end of the year 9999, UTC: longer years need another form in ISO 8601, which PostgreSQL does not read. */
export const maxUnixSeconds = Date.UTC(9999, 11, 31, 23, 59, 59) / 1000;

/** The first second, UTC, of a day written as 2026-01-31, as a Unix time; undefined if it is not a valid day. */
export const startOfDay = (text: string): number | undefined =>
  /^\d{4}-\d{2}-\d{2}$/.test(text) ? readTime(`${text}T00:00:00Z`) : undefined;

/** A time, UTC, written as 2026-01-31T12:30:00Z, as a Unix time; undefined if it is not valid. */
export function readTime(text: string): number | undefined {
  if (!/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$/.test(text)) return undefined;
  const time = new Date(text);
  // 2026-02-30 would be read as the 2nd of March.
  const isSame = !Number.isNaN(time.getTime()) && time.toISOString().startsWith(text.slice(0, -1));
  return isSame ? time.getTime() / 1000 : undefined;
}

export const unixSeconds = (moment: Date | null): number | null =>
  moment === null ? null : Math.floor(moment.getTime() / 1000);
