/** How comparisons with GitHub went, as `doctor` and `webhooks status` tell it. */
import type { Organisation } from '../database/organisations.ts';
import { showTime } from './context.ts';

export const describeComparison = ({ reconciledAt }: Organisation): string =>
  reconciledAt === null ? 'Not compared with GitHub yet.' : `Last compared with GitHub: ${showTime(reconciledAt)}.`;

/** The last failure, of all or part of a comparison; `isOver`: a later comparison had none. */
export function lastFailure({ reconciledAt, reconcileFailedAt, reconcileFailure }: Organisation) {
  if (reconcileFailedAt === null) return undefined;
  return {
    isOver: reconciledAt !== null && reconcileFailedAt < reconciledAt,
    text: `The comparison with GitHub failed, ${showTime(reconcileFailedAt)}: ${reconcileFailure}`,
  };
}
