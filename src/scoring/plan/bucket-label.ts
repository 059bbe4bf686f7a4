import { formatInteger } from '../../text/number-formats.ts';
import type { Bucket } from './distribution.ts';

/** `< 0`, `5`, `10 to 19`, `≥ 100`, in commands and on the page. */
export function bucketLabel({ from, to }: Pick<Bucket, 'from' | 'to'>, write = formatInteger): string {
  if (from === null) return `< ${write(to ?? 0)}`;
  if (to === null) return `≥ ${write(from)}`;
  return to - from === 1 ? write(from) : `${write(from)} to ${write(to - 1)}`;
}
