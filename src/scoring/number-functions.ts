/** The functions that compute with numbers. An absent number is NaN. */
import type { ListedFunction } from './functions.ts';

/** Rounds to the nearest integer, halves away from zero; `Math.round` would turn −0.5 into −0. */
export function roundHalfAway(value: number): number {
  return value < 0 ? -Math.round(-value) : Math.round(value);
}

/** By signature. */
const implementations: Record<string, (...numbers: number[]) => number> = {
  'min(a, b, …)': Math.min,
  'max(a, b, …)': Math.max,
  'abs(x)': Math.abs,
  'round(x)': roundHalfAway,
  'floor(x)': Math.floor,
  'ceil(x)': Math.ceil,
  'clamp(x, low, high)': (x, low, high) => Math.min(Math.max(x, low), high),
  'per(n, unit)': (n, unit) => Math.trunc(n / unit),
  'sqrt(x)': Math.sqrt,
  'log(x)': x => (x > 0 ? Math.log(x) : Number.NaN),
  'exp(x)': Math.exp,
};

export const numberFunctions = Object.entries(implementations).map(([signature, implementation]): ListedFunction => {
  const [, ...parameters] = signature.match(/\w+/g) ?? [];
  return { signature, parameters: parameters.map(() => 'number'), result: 'number', implementation };
});
