/** A plan in Markdown, for a comment on a pull request. */
import { number, signed } from '../numbers.ts';
import { brief, type Column, plain } from '../terminal.ts';
import type { PlanDocument, PlannedMove } from './document.ts';
import { type Layout, members, rules, scores, shown, summary } from './text.ts';
import { comparedWith, isFirst } from './wording.ts';

/** Of a text, in columns: a comment on GitHub has at most 65,536 characters. */
const maxTextWidth = 200;

/**
 * Text that shows as it is, on one line: no markup, and no `@`, `#` or address that would notify people or show up on
 * other pull requests. An empty comment keeps GitHub from making a link of them.
 */
const asText = (text: string): string =>
  brief(text, maxTextWidth)
    .replace(/[\\`*_[\]<>|~&]/g, '\\$&')
    .replace(/[@#]|(?<=:)\/\//g, '$&<!-- -->');

const code = (text: string): string => {
  const line = plain(text).replace(/\s+/g, ' ').trim();
  const fence = '`'.repeat(Math.max(0, ...[...line.matchAll(/`+/g)].map(([run]) => run.length)) + 1);
  return `${fence} ${line} ${fence}`;
};

function table(columns: readonly (string | Column)[], rows: readonly (readonly string[])[]): string[] {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  const headings = columns.map(column => (typeof column === 'string' ? column : column.heading));
  const rulers = columns.map(column => (typeof column !== 'string' && column.align === 'right' ? '--:' : '---'));
  return ['', line(headings), line(rulers), ...rows.map(cells => line(cells.map(asText))), ''];
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
    .map(({ from, to, repository, number: of, title, member }) => [
      ...(first ? [number(to)] : [signed(to - from), `${number(from)} → ${number(to)}`]),
      `${repository}#${of}`,
      title,
      member,
    ]);
  const rest = count - shown.movers;
  return [...table(columns, rows), ...(rest > 0 ? [`… and ${number(rest)} more.`] : [])];
}

/** @param apply the command that puts the file in force */
export function planMarkdown(plan: PlanDocument, apply: string): string {
  const layout: Layout = { width: Number.POSITIVE_INFINITY, first: isFirst(plan), table };
  const { total, raised, lowered } = plan.pull_requests;
  return [
    `### ${asText(plan.organisation)}: ${asText(plan.file)}, ${comparedWith(plan)}`,
    '',
    ...summary(plan, layout).map(([label, text]) => (label === '' ? `- ${text}` : `- **${label}:** ${text}`)),
    ...(total > 0 ? scores(plan, layout) : []),
    ...(plan.rules.length > 0 ? rules(plan, layout) : []),
    ...(plan.members.length > 0 ? members(plan, layout) : []),
    ...movers(layout.first ? 'ABOVE 0' : 'UP', plan.movers.raised, raised, layout),
    ...movers(layout.first ? 'BELOW 0' : 'DOWN', plan.movers.lowered, lowered, layout),
    '',
    plan.changes ? `Nothing was saved. To put it in force: ${code(apply)}` : 'Nothing would change.',
  ]
    .join('\n')
    .replace(/\n{3,}/g, '\n\n');
}
