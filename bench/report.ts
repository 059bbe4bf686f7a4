export interface Row {
  what: string;
  against: string;
  /** Ours to theirs, so that the target is reached as `comparison` says. */
  ratio: number;
  target: number;
  comparison: 'at least' | 'at most';
  /** The absolute figures behind it. */
  detail: string;
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[middle - 1] ?? Number.NaN)) / 2;
}

export function printRows(rows: readonly Row[]): void {
  for (const { what, against, ratio, target, comparison, detail } of rows) {
    const reached = comparison === 'at least' ? ratio >= target : ratio <= target;
    process.stdout.write(
      `  ${reached ? 'reached' : 'MISSED '}  ${ratio.toFixed(2)} (${comparison} ${Number(target.toFixed(4))})  ${what}, against ${against}: ${detail}\n`,
    );
  }
}
