const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const fine = new Intl.NumberFormat('en', { maximumFractionDigits: 2, signDisplay: 'negative' });
const fixed = new Intl.NumberFormat('en', {
  minimumFractionDigits: 2,
  maximumFractionDigits: 2,
  signDisplay: 'negative',
});

const withMinus = (text: string) => text.replace('-', '−');

/** `1,204` */
export const formatInteger = (value: number): string => withMinus(whole.format(value));

/** `1,204.25` */
export const decimal = (value: number): string => withMinus(fine.format(value));

/** `1,204.50`, for a column of such numbers */
export const twoDecimals = (value: number): string => withMinus(fixed.format(value));

/** `1204.0028`, as rules write numbers: four decimals, unless only smaller ones differ from zero */
export const asInRules = (value: number): string => String(Number(value.toFixed(4)) || value);

/** `+12`, `−5`, `±0` */
export function signed(value: number, write: (value: number) => string = formatInteger): string {
  const text = write(Math.abs(value));
  if (Number(text) === 0) return `±${text}`;
  return `${value < 0 ? '−' : '+'}${text}`;
}

/** `12.5%`, `−12.5%`; `0%` and `100%` only if it is none or all; `–` of a total of 0 */
export function percent(part: number, total: number): string {
  if (total === 0) return '–';
  if (part < 0) return `−${percent(-part, total)}`;
  const share = (part / total) * 100;
  if (part > 0 && share < 0.1) return '<0.1%';
  if (part < total && share > 99.9) return '>99.9%';
  return `${share >= 99.95 || share === 0 || share % 1 === 0 ? share.toFixed(0) : share.toFixed(1)}%`;
}

/** `12.5%`, `50.0%`, `−2.0%`, for a column of such shares; `–` of a total of 0 */
export function fixedPercent(part: number, total: number): string {
  const text = percent(part, total);
  return /^[−\d]+%$/.test(text) ? text.replace('%', '.0%') : text;
}

/** `1 rule`, `2 rules` */
export const counted = (count: number, one: string, several = `${one}s`): string =>
  `${formatInteger(count)} ${count === 1 ? one : several}`;

const units: [unit: string, seconds: number][] = [
  ['days', 86_400],
  ['h', 3_600],
  ['min', 60],
];

/** `45 s`, `12 min`, `5 h`, `3 days`: in the largest unit of which there are at least two */
export function duration(seconds: number): string {
  const [unit, length] = units.find(([, size]) => seconds >= 2 * size) ?? ['s', 1];
  return `${formatInteger(Math.max(1, Math.round(seconds / length)))} ${unit}`;
}
