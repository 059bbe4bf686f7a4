/** Ours to theirs, and the absolute figures behind it. */
interface Figures {
  ratio: number;
  detail: string;
}

type Row = [target: number, what: string, against: string, figures: Figures];

export const atLeast = (...row: Row) => printRow('at least', row[3].ratio >= row[0], row);

export const atMost = (...row: Row) => printRow('at most', row[3].ratio <= row[0], row);

/** Against a figure of its own, and not of others. */
export const within = (max: number, unit: string, what: string, value: number, detail: string) =>
  atMost(1, what, `${max} ${unit}`, { ratio: value / max, detail });

function printRow(comparison: string, isReached: boolean, [target, what, against, { ratio, detail }]: Row): void {
  const shownRatio = `${ratio.toFixed(2)} (${comparison} ${Number(target.toFixed(4))})`;
  print(`${isReached ? 'reached' : 'MISSED '}  ${shownRatio}  ${what}, against ${against}: ${detail}`);
}

export const print = (line: string) => void process.stdout.write(`  ${line}\n`);

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[middle - 1] ?? Number.NaN)) / 2;
}

/** The least value that so large a share of them does not exceed. */
export const percentile = (values: readonly number[], share: number): number =>
  [...values].sort((a, b) => a - b)[Math.ceil(values.length * share) - 1] ?? Number.NaN;

/** @returns seconds */
export async function timed(work: () => Promise<unknown>): Promise<number> {
  const begin = performance.now();
  await work();
  return (performance.now() - begin) / 1000;
}

export const compared = (own: number, theirs: number, unit: string, digits = 0): Figures => ({
  ratio: own / theirs,
  detail: `${own.toFixed(digits)} to ${theirs.toFixed(digits)} ${unit}`,
});

/** How much longer ours take, by the medians of seconds. */
export const timeAgainst = (own: readonly number[], theirs: readonly number[]): Figures =>
  compared(median(own), median(theirs), 's', 1);

/** How much faster ours are, by the medians of seconds. */
export function speedAgainst(own: readonly number[], theirs: readonly number[]): Figures {
  const { ratio, detail } = timeAgainst(own, theirs);
  return { ratio: 1 / ratio, detail };
}

/** Measures all in each round, so that the drift of the machine's speed is everyone's. */
export async function takeTurns<Name extends string, Item, Result>(
  rounds: number,
  items: Record<Name, Item>,
  measure: (item: Item, round: number) => Promise<Result>,
): Promise<Record<Name, Result[]>> {
  const names = Object.keys(items) as Name[];
  const results = Object.fromEntries(names.map(name => [name, [] as Result[]])) as Record<Name, Result[]>;
  for (let round = 1; round <= rounds; round += 1) {
    for (const name of names) results[name].push(await measure(items[name], round));
  }
  return results;
}
