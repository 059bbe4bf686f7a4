/** Numbers and times in the browser's language. Days are UTC, as the interface counts them. */
export const formatNumber = new Intl.NumberFormat(undefined, { maximumFractionDigits: 2 }).format;
/** With its sign. */
export const formatChange = new Intl.NumberFormat(undefined, { signDisplay: 'exceptZero' }).format;
export const formatShare = new Intl.NumberFormat(undefined, { style: 'percent', maximumFractionDigits: 1 }).format;

const counted = (count: number, noun: string) => `${formatNumber(count)} ${noun}${count === 1 ? '' : 's'}`;

/** How much points are for. */
export const countsOf = ({ pull_requests: count, reviews }: { pull_requests: number; reviews: number }): string =>
  counted(count, 'pull request') + (reviews > 0 ? ` and ${counted(reviews, 'review')}` : '');

const days = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeZone: 'UTC' });
/** @param day a day such as 2026-11-26; null if the period has no limit on this side */
export const formatDay = (day: string | null): string => (day === null ? '…' : days.format(new Date(day)));

const times = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short', timeZone: 'UTC' });
/** @param seconds since 1970, or null if it has not been */
export const formatTime = (seconds: number | null): string =>
  seconds === null ? '–' : `${times.format(seconds * 1000)} UTC`;

export const toDay = (time: number): string => new Date(time).toISOString().slice(0, 10);

export const verbs = { ADD: 'adds', SUBTRACT: 'subtracts' };
