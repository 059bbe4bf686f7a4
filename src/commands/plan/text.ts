/** A plan for the terminal. */

import { decimal, formatInteger, percent, signed } from '../../text/numbers.ts';
import { bar, type Column, grid, labelled, maxProseWidth, plain, right, truncate } from '../../text/terminal.ts';
import { type ComparedWay, descriptions } from '../rules-audit.ts';
import type { PlanDocument, PlannedEntry, PlannedMember, PlannedMove, PlannedShare } from './document.ts';
import {
  bucketLabel,
  comparedWith,
  describeRankChanges,
  describeRuleChanges,
  describeScores,
  isFirst,
  ruleNotes,
} from './wording.ts';

/** How many are shown. */
export const shown = { members: 12, movers: 5 } as const;

/** Narrower terminals have no room for some columns. */
const wideColumns = 80;

const marks = { added: '+', removed: '-', changed: '~', unchanged: ' ' } as const;

export interface Layout {
  width: number;
  /** Whether there is no "before" to show. */
  first: boolean;
  /** Lines with rows under headings. Makes the cells safe to print. */
  table: (columns: readonly (string | Column)[], rows: readonly (readonly string[])[]) => string[];
}

/** Cells that a first plan leaves out. */
const unlessFirst = <Cell>({ first }: Layout, ...cells: Cell[]): Cell[] => (first ? [] : cells);

/** Labels, and what is said of them. */
export function summary(plan: PlanDocument, { first }: Layout): [label: string, text: string][] {
  const { total, changed, raised, lowered } = plan.pull_requests;
  const [changing, up, down] = first ? ['get a score', 'above 0', 'below 0'] : ['change their score', 'up', 'down'];
  const share = `${formatInteger(changed)} of ${formatInteger(total)} ${changing} (${percent(changed, total)})`;
  return [
    ['Rules', describeRuleChanges(plan)],
    [
      'Pull requests',
      total === 0
        ? 'none are stored yet'
        : `${share}: ${formatInteger(raised)} ${up}, ${formatInteger(lowered)} ${down}`,
    ],
    ...describeScores(plan).map((note): [string, string] => ['', note]),
  ];
}

export function scores({ scores: { before, after } }: PlanDocument, layout: Layout): string[] {
  const row = (name: string, from: number | null, to: number | null) => [
    name,
    ...unlessFirst(layout, decimal(from)),
    decimal(to),
    ...unlessFirst(layout, from === null || to === null ? '' : signed(to - from, decimal)),
  ];
  return layout.table(
    [
      'SCORES',
      ...unlessFirst(layout, right('BEFORE')),
      right(layout.first ? '' : 'AFTER'),
      ...unlessFirst(layout, right('')),
    ],
    [
      row('sum', before.sum, after.sum),
      row('mean', before.mean, after.mean),
      row('median', before.median, after.median),
      row('lowest', before.minimum, after.minimum),
      row('highest', before.maximum, after.maximum),
    ],
  );
}

function histogram({ histogram: buckets }: PlanDocument, layout: Layout): string[] {
  const sides = [...unlessFirst(layout, 'before' as const), 'after' as const];
  const counts = buckets.flatMap(bucket => sides.map(side => bucket[side]));
  const maxCount = Math.max(...counts);
  const labelWidth = Math.max(...buckets.map(bucket => bucketLabel(bucket).length), 'SCORE'.length);
  const countWidth = Math.max(...counts.map(count => formatInteger(count).length), 'BEFORE'.length);
  const barWidth = Math.max(
    4,
    Math.floor((Math.min(layout.width, maxProseWidth) - labelWidth - 2 * countWidth - 10) / 2),
  );
  const headings = { before: 'BEFORE', after: layout.first ? 'PULL REQUESTS' : 'AFTER' };
  return layout.table(
    [right('SCORE'), ...sides.flatMap(side => [right(headings[side]), ''])],
    buckets.map(bucket => [
      bucketLabel(bucket),
      ...sides.flatMap(side => [formatInteger(bucket[side]), bar(bucket[side], maxCount, barWidth).padEnd(barWidth)]),
    ]),
  );
}

export function rules(plan: PlanDocument, layout: Layout): string[] {
  const { total } = plan.pull_requests;
  const cells = (count: string, share: string, points: string) =>
    layout.width >= wideColumns ? [count, share, points] : [count, points];
  const counts = (side: PlannedShare | null, isOn = true) =>
    side === null || !isOn
      ? cells('', '', '')
      : cells(formatInteger(side.pull_requests), percent(side.pull_requests, total), signed(side.points));
  const sides = (before: string[], after: string[]) =>
    total === 0 ? [] : [...unlessFirst(layout, ...before), ...after];
  const entryRow = ({ expression, action, value, before, after }: PlannedEntry) => [
    `  ${before === null ? '+' : after === null ? '-' : ' '} ${action === 'ADD' ? 'adds' : 'takes'} ${value} if ${expression}`,
    ...sides(counts(before), counts(after)),
  ];
  const rows = plan.rules.flatMap(rule => {
    const notes = ruleNotes(rule, total).map(({ text }) => text);
    const head = [
      `${marks[rule.status]} ${rule.name}${notes.length === 0 ? '' : ` (${notes.join(', ')})`}`,
      ...sides(counts(rule.before, rule.before?.enabled), counts(rule.after, rule.after?.enabled)),
    ];
    // A single entry that does not change says no more than its rule.
    const showsEntries = rule.entries.length > 1 || rule.entries.some(({ before, after }) => !before !== !after);
    return showsEntries ? [head, ...rule.entries.map(entryRow)] : [head];
  });
  const headings = sides(cells('BEFORE', '', 'POINTS'), cells(layout.first ? 'COUNTS' : 'AFTER', '', 'POINTS'));
  return layout.table([{ heading: 'RULE', shrinks: true }, ...headings.map(right)], rows);
}

const rankChange = ({ rank_before: before, rank_after: after }: PlannedMember): string =>
  before === after ? '' : before > after ? `▲ ${formatInteger(before - after)}` : `▼ ${formatInteger(after - before)}`;

export function members(plan: PlanDocument, layout: Layout): string[] {
  const isWide = layout.width >= wideColumns;
  const lines = layout.table(
    [
      right('RANK'),
      ...unlessFirst(layout, ''),
      { heading: 'MEMBER', shrinks: true },
      ...(isWide ? [right('PULL REQUESTS')] : []),
      ...unlessFirst(layout, right('BEFORE')),
      right(layout.first ? 'TOTAL' : 'AFTER'),
      ...unlessFirst(layout, right('')),
    ],
    plan.members
      .slice(0, shown.members)
      .map(member => [
        formatInteger(member.rank_after),
        ...unlessFirst(layout, rankChange(member)),
        member.name || member.login,
        ...(isWide ? [formatInteger(member.pull_requests)] : []),
        ...unlessFirst(layout, formatInteger(member.before)),
        formatInteger(member.after),
        ...unlessFirst(layout, signed(member.after - member.before)),
      ]),
  );
  const rest = plan.members.length - shown.members;
  const notes = [
    ...(rest > 0 ? [`… and ${formatInteger(rest)} more.`] : []),
    ...unlessFirst(layout, describeRankChanges(plan)),
  ];
  return notes.length === 0 ? lines : [...lines, `  ${notes.join(' ')}`];
}

const auditMarks = { new: '+ new', worse: '+ worse', same: '', better: '- less', gone: '- gone', none: '' } as const;

/** How the rules can be gamed; no lines if nobody asked. */
export function audit({ audit: found, pull_requests: { total } }: PlanDocument, layout: Layout): string[] {
  if (found === null || total === 0) return [];
  const gaining = found.ways.filter(({ status }) => status !== 'none');
  if (gaining.length === 0) return ['No way to game them was found.', ''];
  const gain = ({ share, median_gain: median }: ComparedWay['after']) =>
    share === 0 ? [percent(0, 1), ''] : [percent(share, 1), signed(median, decimal)];
  const headings = ['WAYS TO GAME THEM', ...unlessFirst(layout, '')];
  return [
    ...layout.table(
      [
        ...headings,
        ...unlessFirst(layout, 'BEFORE', 'MEDIAN').map(right),
        right(layout.first ? 'GAIN ON' : 'AFTER'),
        right('MEDIAN'),
        'PAID BY',
      ],
      gaining.map(({ way, status, before, after }) => [
        descriptions[way],
        ...unlessFirst(layout, auditMarks[status], ...gain(before)),
        ...gain(after),
        after.rules[0]?.name ?? '',
      ]),
    ),
    '',
  ];
}

function movers(title: string, moves: readonly PlannedMove[], count: number, layout: Layout): string[] {
  if (moves.length === 0) return [];
  const change = ({ from, to }: PlannedMove) =>
    layout.first ? [formatInteger(to)] : [signed(to - from), `${formatInteger(from)} → ${formatInteger(to)}`];
  const room = Math.max(20, layout.width - 30);
  const describe = ({ title, member }: PlannedMove) => {
    const author = ` (${plain(member)})`;
    // Only a narrow terminal cuts the author, too.
    return truncate(truncate(plain(title), Math.max(8, room - author.length)) + author, room);
  };
  const none = ['', ...unlessFirst(layout, '')];
  const lines = grid(
    [right(title), ...none],
    moves.slice(0, shown.movers).flatMap(move => [
      [...change(move), describe(move)],
      [...none, move.url],
    ]),
    { indent: '  ' },
  );
  const rest = count - shown.movers;
  return rest > 0 ? [...lines, `  … and ${formatInteger(rest)} more.`, ''] : [...lines, ''];
}

/**
 * @param width columns to fill
 * @param apply the command that puts the file in force
 */
export function planText(plan: PlanDocument, width: number, apply: string): string {
  const layout: Layout = {
    width,
    first: isFirst(plan),
    table: (columns, rows) => grid(columns, rows, { width, indent: '  ' }),
  };
  const { total, raised, lowered } = plan.pull_requests;
  const proseWidth = Math.min(width, maxProseWidth);
  const lines = [
    `${plan.organisation}: ${plain(plan.file)}, ${comparedWith(plan)}`,
    '',
    ...summary(plan, layout).flatMap(([label, text]) => labelled(`  ${label.padEnd(15)}`, text, proseWidth)),
    '',
  ];
  if (total > 0) lines.push(...scores(plan, layout), '', ...histogram(plan, layout), '');
  if (plan.rules.length > 0) lines.push(...rules(plan, layout), '');
  if (plan.members.length > 0) lines.push(...members(plan, layout), '');
  lines.push(
    ...movers(layout.first ? 'ABOVE 0' : 'UP', plan.movers.raised, raised, layout),
    ...movers(layout.first ? 'BELOW 0' : 'DOWN', plan.movers.lowered, lowered, layout),
    ...audit(plan, layout),
    plan.changes ? `Nothing was saved. To put it in force: ${apply}` : 'Nothing would change.',
  );
  return lines.join('\n');
}
