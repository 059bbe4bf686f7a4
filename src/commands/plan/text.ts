/** A plan as text: for the terminal, and in Markdown for a comment on a pull request. */

import type { PlanDocument, PlannedMove } from '../../reports/plan.ts';
import { type Bucket, bucketLabel } from '../../scoring/plan/distribution.ts';
import { code, markdownTable } from '../../text/markdown.ts';
import { formatInteger } from '../../text/number-formats.ts';
import { bar, type Column, grid, labelled, maxProseWidth, plain, right, truncate } from '../../text/terminal.ts';
import { type ColumnOf, type Part, type PlanTable, partsOf, type Section, tableOf } from './sections.ts';
import { comparedWith } from './wording.ts';

const limits = { members: 12, movers: 5, showsAllEntries: false };

interface Layout {
  /** Lines with labels, and what is said of them. */
  labels(summary: Part['summary']): string[];
  /** Lines with rows under headings. Makes the cells safe to print. */
  table(columns: readonly Column[], rows: readonly (readonly string[])[]): string[];
  /** Before a note that belongs to a table. */
  indent: string;
}

type TextSection = Pick<Section, 'columns' | 'rows' | 'note'>;
type TextPart = Pick<Part, 'summary' | 'scores'> & { sections: readonly TextSection[] };

function write(parts: readonly TextPart[], { labels, table, indent }: Layout): string[] {
  const linesOf = ({ columns, rows }: PlanTable): string[] => {
    if (rows.length === 0) return [];
    const cells = rows.map(row => row.filter((_, index) => !columns[index]?.isBar).map(({ text }) => text));
    const shown = columns.filter(({ isBar }) => !isBar);
    return [...table(shown, cells), ''];
  };
  return parts.flatMap(({ summary, scores, sections }) => [
    ...labels(summary),
    '',
    ...linesOf(scores),
    ...sections.flatMap(section => {
      const lines = linesOf(section);
      return section.note === '' ? lines : [...lines.slice(0, -1), indent + section.note, ''];
    }),
  ]);
}

/** @param apply the command that puts the file in force */
const lastLine = (plan: PlanDocument, apply: string) =>
  plan.changes ? `Nothing was saved. To put it in force: ${apply}` : 'Nothing would change.';

export function planMarkdown(plan: PlanDocument, apply: string): string {
  const lines = write(partsOf(plan, limits), {
    labels: summary => summary.map(([label, text]) => (label === '' ? `- ${text}` : `- **${label}:** ${text}`)),
    table: markdownTable,
    indent: '',
  });
  const title = `### ${code(plan.organisation)}: ${code(plan.file)}, ${comparedWith(plan)}`;
  return [title, '', ...lines, lastLine(plan, code(apply))].join('\n').replace(/\n{3,}/g, '\n\n');
}

/** @param width columns to fill */
export function planText(plan: PlanDocument, width: number, apply: string): string {
  const indent = '  ';
  const parts = partsOf(plan, limits).map(part => {
    const sections = part.sections.map(section =>
      section.name === 'raised' || section.name === 'lowered'
        ? withAddresses(section, plan.movers[section.name], width)
        : section,
    );
    return {
      ...part,
      sections: part.of === 'reviews' ? sections : [histogram(plan, part.isFirst, width), ...sections],
    };
  });
  const lines = write(parts, {
    labels: summary =>
      summary.flatMap(([label, text]) =>
        labelled(`${indent}${label.padEnd(15)}`, text, Math.min(width, maxProseWidth)),
      ),
    table: (columns, rows) => grid(columns, rows, { width, indent }),
    indent,
  });
  const title = `${plan.organisation}: ${plain(plan.file)}, ${comparedWith(plan)}`;
  return [title, '', ...lines, lastLine(plan, apply)].join('\n');
}

function histogram({ histogram: buckets }: PlanDocument, isFirst: boolean, width: number): TextSection {
  const sides = isFirst ? (['after'] as const) : (['before', 'after'] as const);
  const counts = buckets.flatMap(bucket => sides.map(side => bucket[side]));
  const maxCount = Math.max(...counts);
  const labelWidth = Math.max(...buckets.map(bucket => bucketLabel(bucket).length), 'SCORE'.length);
  const countWidth = Math.max(...counts.map(count => formatInteger(count).length), 'BEFORE'.length);
  const room = Math.min(width, maxProseWidth) - labelWidth - 2 * countWidth - 10;
  const barWidth = Math.max(4, Math.floor(room / 2));
  const headings = { before: 'BEFORE', after: isFirst ? 'PULL REQUESTS' : 'AFTER' };
  const columns = sides.flatMap((side): ColumnOf<Bucket>[] => [
    [right(headings[side]), bucket => formatInteger(bucket[side])],
    ['', bucket => bar(bucket[side], maxCount, barWidth).padEnd(barWidth)],
  ]);
  return { ...tableOf(buckets, [[right('SCORE'), bucketLabel], ...columns]), note: '' };
}

/** Below each pull request is its address. */
function withAddresses({ columns, rows, note }: Section, moves: readonly PlannedMove[], width: number): TextSection {
  const room = Math.max(20, width - 30);
  const describe = ({ title, member }: PlannedMove) => {
    const author = ` (${plain(member)})`;
    // Only a narrow terminal cuts the author, too.
    return truncate(truncate(plain(title), Math.max(8, room - author.length)) + author, room);
  };
  const first = columns.findIndex(({ heading }) => heading === 'PULL REQUEST');
  const blank = columns.slice(0, first).map(() => ({ text: '' }));
  return {
    columns: columns.slice(0, first + 1),
    rows: moves.slice(0, rows.length).flatMap((move, index) => [
      [...(rows[index]?.slice(0, first) ?? []), { text: describe(move) }],
      [...blank, { text: move.url }],
    ]),
    note,
  };
}
