/** A plan in Markdown, for a comment on a pull request. */
import { code, markdownTable as table } from '../../text/markdown.ts';
import { formatInteger, signed } from '../../text/numbers.ts';
import type { PlanDocument, PlannedMove } from './document.ts';
import { audit, type Layout, members, rules, scores, shown, summary } from './text.ts';
import { comparedWith, isFirst } from './wording.ts';

function movers(title: string, moves: readonly PlannedMove[], count: number, { first }: Layout): string[] {
  if (moves.length === 0) return [];
  const columns = [
    { heading: title, align: 'right' as const },
    ...(first ? [] : ['']),
    'PULL REQUEST',
    'TITLE',
    'MEMBER',
  ];
  const rows = moves
    .slice(0, shown.movers)
    .map(({ from, to, repository, number, title, member }) => [
      ...(first ? [formatInteger(to)] : [signed(to - from), `${formatInteger(from)} → ${formatInteger(to)}`]),
      `${repository}#${number}`,
      title,
      member,
    ]);
  const rest = count - shown.movers;
  return [...table(columns, rows), ...(rest > 0 ? [`… and ${formatInteger(rest)} more.`] : [])];
}

/** @param apply the command that puts the file in force */
export function planMarkdown(plan: PlanDocument, apply: string): string {
  const layout: Layout = { width: Number.POSITIVE_INFINITY, first: isFirst(plan), table };
  const { total, raised, lowered } = plan.pull_requests;
  return [
    `### ${code(plan.organisation)}: ${code(plan.file)}, ${comparedWith(plan)}`,
    '',
    ...summary(plan, layout).map(([label, text]) => (label === '' ? `- ${text}` : `- **${label}:** ${text}`)),
    ...(total > 0 ? scores(plan, layout) : []),
    ...(plan.rules.length > 0 ? rules(plan, layout) : []),
    ...(plan.members.length > 0 ? members(plan, layout) : []),
    ...movers(layout.first ? 'ABOVE 0' : 'UP', plan.movers.raised, raised, layout),
    ...movers(layout.first ? 'BELOW 0' : 'DOWN', plan.movers.lowered, lowered, layout),
    ...audit(plan, layout),
    '',
    plan.changes ? `Nothing was saved. To put it in force: ${code(apply)}` : 'Nothing would change.',
  ]
    .join('\n')
    .replace(/\n{3,}/g, '\n\n');
}
