/** How commands write numbers, on the terminal and on a page. */
import type { Bucket } from '../scoring/distribution.ts';

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const fine = new Intl.NumberFormat('en', { maximumFractionDigits: 2 });

const withMinus = (text: string) => text.replace('-', '−');

/** `1,204` */
export const number = (value: number): string => withMinus(whole.format(value));

/** With up to two decimals; a dash for null. */
export const decimal = (value: number | null): string => (value === null ? '–' : withMinus(fine.format(value)));

/** `+12`, `−5`, `±0` */
export function signed(value: number, write: (value: number) => string = number): string {
  const text = write(Math.abs(value));
  if (text === '0') return '±0';
  return `${value < 0 ? '−' : '+'}${text}`;
}

/** A share as a person would say it: 0 and 100 percent only if it is none or all. */
export function percent(part: number, total: number): string {
  if (total === 0) return '–';
  const share = (part / total) * 100;
  if (part > 0 && share < 0.1) return '<0.1%';
  if (part < total && share > 99.9) return '>99.9%';
  return `${share >= 99.95 || share === 0 || share % 1 === 0 ? share.toFixed(0) : share.toFixed(1)}%`;
}

export function bucketLabel({ from, to }: Bucket): string {
  if (from === null) return `< ${number(to ?? 0)}`;
  if (to === null) return `≥ ${number(from)}`;
  return to - from === 1 ? number(from) : `${number(from)} to ${number(to - 1)}`;
}

/** `1 rule`, `2 rules` */
export const counted = (count: number, one: string, several = `${one}s`): string =>
  `${number(count)} ${count === 1 ? one : several}`;
