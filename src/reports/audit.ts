/** How rules can be gamed: stored pull requests are changed in cheap ways and scored again. Nothing is saved. */
import { getOrganisation } from '../database/organisations.ts';
import { countPullRequests, findPullRequestReferences } from '../database/pull-requests.ts';
import type { Deps } from '../deps.ts';
import { formatId } from '../ids.ts';
import type { ResultOf } from '../scorer/jobs.ts';
import { maxAudited } from '../scorer/plan.ts';
import type { AuditedWay } from '../scoring/plan/audit.ts';
import type { Ruleset } from '../scoring/ruleset.ts';
import type { ReportOptions } from './standings.ts';

/** A share equal to another may exceed it by this much. */
export const rounding = 1e-9;

export type AuditDocument = Awaited<ReturnType<typeof readAudit>>;

export async function readAudit(
  { database, scorer }: Pick<Deps, 'database' | 'scorer'>,
  organisationId: string,
  { definitions, rules, reviews }: Ruleset,
  { signal, onProgress }: ReportOptions = {},
) {
  const { executor } = database;
  const total = Math.min(await countPullRequests(executor, organisationId), maxAudited);
  const {
    stored,
    pullRequests,
    ways,
    reviews: ofReviews,
  } = await scorer.run(
    'audit',
    { organisationId, ruleset: { definitions, rules, reviews } },
    { signal, onProgress: done => onProgress?.(done, total) },
  );
  const examples = [...ways, ...(ofReviews?.ways ?? [])].flatMap(({ example }) => example?.id ?? []);
  const details = await findPullRequestReferences(executor, organisationId, examples);
  const represent = ({ example, ...way }: AuditedWay) => ({
    ...way,
    example:
      example === undefined
        ? null
        : { ...example, id: formatId('pr', example.id), url: details.get(example.id)?.url ?? '' },
  });
  return {
    organisation: (await getOrganisation(executor, organisationId)).login,
    // Those that were audited.
    pull_requests: pullRequests,
    stored_pull_requests: stored,
    ways: ways.map(represent),
    // Null if no rules are for them.
    reviews: ofReviews && { ways: ofReviews.ways.map(represent) },
  };
}

export type AuditComparison = ReturnType<typeof compareAudits>;
export type ComparedWay = AuditComparison['ways'][number];

/** How rules can be gamed, those in force against others. The ways that gain most by the others come first. */
export const compareAudits = ({ stored, before, after }: NonNullable<ResultOf<'plan'>['audits']>) => ({
  pull_requests: after.pullRequests,
  stored_pull_requests: stored,
  ways: after.ways.map(latter => {
    const former = before.ways.find(({ way }) => way === latter.way) ?? latter;
    return { way: latter.way, status: statusOf(former, latter), before: figuresOf(former), after: figuresOf(latter) };
  }),
});

const figuresOf = ({ way: _, example: __, ...figures }: AuditedWay) => figures;

/** By the share of the pull requests that gain; if that is the same, by the median gain. */
function statusOf(before: AuditedWay, after: AuditedWay): 'none' | 'new' | 'gone' | 'worse' | 'better' | 'same' {
  if (after.share === 0) return before.share === 0 ? 'none' : 'gone';
  if (before.share === 0) return 'new';
  const change = after.share - before.share || after.median_gain - before.median_gain;
  if (Math.abs(change) < rounding) return 'same';
  return change > 0 ? 'worse' : 'better';
}
