/** Numbers and times in the browser's language. Days are UTC, as the interface counts them. */
export const formatNumber = new Intl.NumberFormat(undefined, { maximumFractionDigits: 2 }).format;
/** With its sign. */
export const formatChange = new Intl.NumberFormat(undefined, { signDisplay: 'exceptZero' }).format;
export const formatShare = new Intl.NumberFormat(undefined, { style: 'percent', maximumFractionDigits: 1 }).format;

const days = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeZone: 'UTC' });
/** @param day such as 2026-11-26 */
export const formatDay = (day: string): string => (isDay(day) ? days.format(new Date(day)) : day);

const times = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short', timeZone: 'UTC' });
/** @param seconds since 1970 */
export const formatTime = (seconds: number): string => `${times.format(seconds * 1000)} UTC`;

export const isDay = (text: string): boolean => /^\d{4}-\d\d-\d\d$/.test(text) && !Number.isNaN(Date.parse(text));

export const toDay = (time: number): string => new Date(time).toISOString().slice(0, 10);

/** Undefined for anything but a page of the web, such as `javascript:`. */
export function webAddress(text: string): string | undefined {
  const url = URL.parse(text);
  return url?.protocol === 'https:' || url?.protocol === 'http:' ? url.href : undefined;
}
