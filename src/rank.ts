/** Ranks by total, highest first; equal totals share the highest of their ranks. */
export function rank(totals: readonly number[]): number[] {
  const order = [...totals].sort((a, b) => b - a);
  const ranks = new Map<number, number>();
  for (const [index, total] of order.entries()) if (!ranks.has(total)) ranks.set(total, index + 1);
  return totals.map(total => ranks.get(total) ?? 0);
}
