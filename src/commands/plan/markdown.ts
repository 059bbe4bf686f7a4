/** A plan in Markdown, for a comment on a pull request. */
import { formatInteger, signed } from '../numbers.ts';
import { type Column, plain, truncate } from '../terminal.ts';
import type { PlanDocument, PlannedMove } from './document.ts';
import { audit, type Layout, members, rules, scores, shown, summary } from './text.ts';
import { comparedWith, isFirst } from './wording.ts';

/** A comment on GitHub has at most 65,536 characters. */
const maxTextWidth = 200;
const maxRows = 100;

/** On one line, without markup, and without links, mentions and references, which GitHub makes of other texts. */
function code(text: string): string {
  const line = truncate(plain(text).replace(/\s/g, ' '), maxTextWidth);
  const maxRun = Math.max(0, ...[...line.matchAll(/`+/g)].map(([run]) => run.length));
  const fence = '`'.repeat(maxRun + 1);
  return maxRun > 0 ? `${fence} ${line} ${fence}` : `${fence}${line}${fence}`;
}

/** In a table, also in code. After a backslash it would end the cell all the same, so a space comes between. */
const escapePipe = (found: string): string => (found === '|' ? '\\|' : '\\ \\|');

function table(columns: readonly (string | Column)[], rows: readonly (readonly string[])[]): string[] {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  const headings = columns.map(column => (typeof column === 'string' ? column : column.heading));
  const isNumber = columns.map(column => typeof column !== 'string' && column.align === 'right');
  const cellOf = (text: string, index: number) =>
    isNumber[index] || text.trim() === '' ? text : code(text).replace(/\\?\|/g, escapePipe);
  const rest = rows.length - maxRows;
  return [
    '',
    line(headings),
    line(isNumber.map(alignsRight => (alignsRight ? '--:' : '---'))),
    ...rows.slice(0, maxRows).map(cells => line(cells.map(cellOf))),
    '',
    ...(rest > 0 ? [`… and ${formatInteger(rest)} more.`, ''] : []),
  ];
}

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
