/** How comparisons with GitHub went, as `doctor` and `webhooks status` tell it. */
import type { Organisation } from '../database/organisations.ts';
import { showTime } from './context.ts';

export const describeComparison = ({ comparedAt }: Organisation): string =>
  comparedAt === null ? 'Not compared with GitHub yet.' : `Last compared with GitHub: ${showTime(comparedAt)} UTC.`;

/** The last failure, of all or part of a comparison; `isOver`: a later comparison had none. */
export function lastFailure({ comparedAt, comparisonFailedAt, comparisonFailure }: Organisation) {
  if (comparisonFailedAt === null) return undefined;
  return {
    isOver: comparedAt !== null && comparisonFailedAt < comparedAt,
    text: `The comparison with GitHub failed, ${showTime(comparisonFailedAt)} UTC: ${comparisonFailure}`,
  };
}
