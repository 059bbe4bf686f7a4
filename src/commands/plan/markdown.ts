/** A plan in Markdown, for a comment on a pull request. */

import type { PlanDocument } from '../../reports/plan.ts';
import { code, markdownTable as table } from '../../text/markdown.ts';
import { details, type Layout, moveCells, opening } from './text.ts';
import { comparedWith, isFirst } from './wording.ts';

/** @param apply the command that puts the file in force */
export function planMarkdown(plan: PlanDocument, apply: string): string {
  const layout: Layout = {
    width: Number.POSITIVE_INFINITY,
    indent: '',
    first: isFirst(plan),
    of: 'pull requests',
    labels: said => said.map(([label, text]) => (label === '' ? `- ${text}` : `- **${label}:** ${text}`)),
    table,
    movers(heading, moves) {
      const columns = [heading, ...(layout.first ? [] : ['SCORE']), 'PULL REQUEST', 'TITLE', 'MEMBER'];
      const rows = moves.map(move => [
        ...moveCells(move, layout),
        `${move.repository}#${move.number}`,
        move.title,
        move.member,
      ]);
      return table(columns, rows);
    },
  };
  return [
    `### ${code(plan.organisation)}: ${code(plan.file)}, ${comparedWith(plan)}`,
    '',
    ...opening(plan, layout),
    ...details(plan, layout, code(apply)),
  ]
    .join('\n')
    .replace(/\n{3,}/g, '\n\n');
}
