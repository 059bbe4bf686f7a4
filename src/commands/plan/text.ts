/** A plan for the terminal. */

import type { AuditComparison, ComparedWay } from '../../reports/audit.ts';
import type { PlanDocument, PlannedMember, PlannedMove } from '../../reports/plan.ts';
import type { Bucket } from '../../scoring/plan/distribution.ts';
import type { EntryResult, Share, Summary } from '../../scoring/plan/plan.ts';
import { wayDescriptions } from '../../scoring/plan/way-descriptions.ts';
import { fixedPercent, formatInteger, percent, signed, twoDecimals } from '../../text/number-formats.ts';
import {
  bar,
  type Column,
  grid,
  labelled,
  maxProseWidth,
  plain,
  right,
  shrinking,
  truncate,
} from '../../text/terminal.ts';
import {
  bucketLabel,
  comparedWith,
  describeRankChanges,
  describeRuleChanges,
  describeScores,
  enabledSides,
  isFirst,
  noWayFound,
  reviewsOf,
  ruleNotes,
  writers,
} from './wording.ts';

/** How many are shown. */
export const shown = { members: 12, movers: 5 } as const;

/** Narrower terminals have no room for some columns. */
const wideColumns = 80;

const marks = { added: '+', removed: '-', changed: '~', unchanged: ' ' } as const;

/** How a plan is laid out: in Markdown, or for a terminal. */
export interface Layout {
  width: number;
  /** Before lines that belong to a table. */
  indent: string;
  /** Whether there is no "before" to show. */
  first: boolean;
  /** Which of them are counted. */
  of: 'pull requests' | 'reviews';
  /** Lines with labels, and what is said of them. */
  labels: (said: readonly (readonly [label: string, text: string])[]) => string[];
  /** Lines with rows under headings. Makes the cells safe to print. */
  table: (columns: readonly (string | Column)[], rows: readonly (readonly string[])[]) => string[];
  /** Lines with pull requests, headed by the direction in which their scores move. */
  movers: (heading: Column, moves: readonly PlannedMove[]) => string[];
}

/** A column, and what it shows of a row. False is left out. */
type PlanColumn<Row> = readonly [heading: string | Column, cell: (row: Row) => string] | false;

function tableOf<Row>({ table }: Layout, rows: readonly Row[], columns: readonly PlanColumn<Row>[]): string[] {
  const present = columns.filter(column => column !== false);
  return table(
    present.map(([heading]) => heading),
    rows.map(row => present.map(([, cell]) => cell(row))),
  );
}

/** Labels, and what is said of them. */
function summary(plan: PlanDocument, { first, of }: Layout): [label: string, text: string][] {
  const { total, changed, raised, lowered } = plan.pull_requests;
  const isOfReviews = of === 'reviews';
  const [changing, up, down] = first ? ['get a score', 'above 0', 'below 0'] : ['change their score', 'up', 'down'];
  const share = `${formatInteger(changed)} of ${formatInteger(total)} ${changing} (${percent(changed, total)})`;
  return [
    [isOfReviews ? 'Review rules' : 'Rules', describeRuleChanges(plan)],
    [
      isOfReviews ? 'Reviews' : 'Pull requests',
      total === 0
        ? 'none are stored yet'
        : `${share}: ${formatInteger(raised)} ${up}, ${formatInteger(lowered)} ${down}`,
    ],
    ...(isOfReviews ? [] : describeScores(plan)).map((note): [string, string] => ['', note]),
  ];
}

const summaryLabels: Partial<Record<keyof Summary, string>> = { minimum: 'lowest', maximum: 'highest' };

function scores({ scores: { before, after } }: PlanDocument, layout: Layout): string[] {
  const rows = (['sum', 'mean', 'median', 'minimum', 'maximum'] as const).map(key => ({
    label: summaryLabels[key] ?? key,
    from: before[key],
    to: after[key],
    write: writers[key],
  }));
  type Row = (typeof rows)[number];
  const cell = (side: 'from' | 'to') => (row: Row) => (row[side] === null ? '–' : row.write(row[side]));
  return tableOf(layout, rows, [
    ['SCORES', ({ label }) => label],
    !layout.first && [right('BEFORE'), cell('from')],
    [right(layout.first ? 'POINTS' : 'AFTER'), cell('to')],
    !layout.first && [
      right('CHANGE'),
      ({ from, to, write }) => (from === null || to === null ? '' : signed(to - from, write)),
    ],
  ]);
}

function histogram({ histogram: buckets }: PlanDocument, layout: Layout): string[] {
  const sides = layout.first ? (['after'] as const) : (['before', 'after'] as const);
  const counts = buckets.flatMap(bucket => sides.map(side => bucket[side]));
  const maxCount = Math.max(...counts);
  const labelWidth = Math.max(...buckets.map(bucket => bucketLabel(bucket).length), 'SCORE'.length);
  const countWidth = Math.max(...counts.map(count => formatInteger(count).length), 'BEFORE'.length);
  const room = Math.min(layout.width, maxProseWidth) - labelWidth - 2 * countWidth - 10;
  const barWidth = Math.max(4, Math.floor(room / 2));
  const headings = { before: 'BEFORE', after: layout.first ? 'PULL REQUESTS' : 'AFTER' };
  return tableOf(layout, buckets, [
    [right('SCORE'), bucketLabel],
    ...sides.flatMap((side): PlanColumn<Bucket>[] => [
      [right(headings[side]), bucket => formatInteger(bucket[side])],
      ['', bucket => bar(bucket[side], maxCount, barWidth).padEnd(barWidth)],
    ]),
  ]);
}

type RuleRow = { label: string } & Pick<EntryResult, 'before' | 'after'>;

function entryRow({ expression, action, value, before, after }: EntryResult): RuleRow {
  const mark = before === null ? '+' : after === null ? '-' : ' ';
  return { label: `  ${mark} ${action === 'ADD' ? 'adds' : 'takes'} ${value} if ${expression}`, before, after };
}

function rules(plan: PlanDocument, layout: Layout): string[] {
  const { total } = plan.pull_requests;
  const rows = plan.rules.flatMap(rule => {
    const notes = ruleNotes(rule, total).map(({ text }) => text);
    const label = `${marks[rule.status]} ${rule.name}${notes.length === 0 ? '' : ` (${notes.join(', ')})`}`;
    const head: RuleRow = { label, ...enabledSides(rule) };
    // A single entry that does not change says no more than its rule.
    const showsEntries = rule.entries.length > 1 || rule.entries.some(({ before, after }) => !before !== !after);
    return showsEntries ? [head, ...rule.entries.map(entryRow)] : [head];
  });
  const counts = (side: 'before' | 'after', heading: string): PlanColumn<RuleRow>[] => {
    const cell = (write: (share: Share) => string) => (row: RuleRow) => (row[side] === null ? '' : write(row[side]));
    return [
      [right(heading), cell(share => formatInteger(share.pull_requests))],
      layout.width >= wideColumns && [right('SHARE'), cell(share => fixedPercent(share.pull_requests, total))],
      [right('POINTS'), cell(share => signed(share.points))],
    ];
  };
  return tableOf(layout, rows, [
    [shrinking('RULE'), ({ label }) => label],
    ...(total === 0 || layout.first ? [] : counts('before', 'BEFORE')),
    ...(total === 0 ? [] : counts('after', layout.first ? 'COUNTS' : 'AFTER')),
  ]);
}

export const rankChange = ({ rank_before: before, rank_after: after }: PlannedMember): string =>
  before === after ? '' : before > after ? `▲ ${formatInteger(before - after)}` : `▼ ${formatInteger(after - before)}`;

function members(plan: PlanDocument, layout: Layout): string[] {
  const { first, width } = layout;
  const lines = tableOf(layout, plan.members.slice(0, shown.members), [
    [right('RANK'), member => formatInteger(member.rank_after)],
    !first && ['MOVE', rankChange],
    [shrinking('MEMBER'), ({ name, login }) => name || login],
    width >= wideColumns && [right(layout.of.toUpperCase()), member => formatInteger(member.pull_requests)],
    !first && [right('BEFORE'), ({ before }) => formatInteger(before)],
    [right(first ? 'TOTAL' : 'AFTER'), ({ after }) => formatInteger(after)],
    !first && [right('CHANGE'), ({ before, after }) => signed(after - before)],
  ]);
  const rest = plan.members.length - shown.members;
  const notes = [
    ...(rest > 0 ? [`… and ${formatInteger(rest)} more.`] : []),
    ...(first ? [] : [describeRankChanges(plan)]),
  ];
  return notes.length === 0 ? lines : [...lines, `  ${notes.join(' ')}`];
}

export const auditMarks = {
  new: '+ new',
  worse: '+ worse',
  same: '',
  better: '- less',
  gone: '- gone',
  none: '',
} as const;

export const waysThatGain = ({ ways }: AuditComparison): ComparedWay[] =>
  ways.filter(({ status }) => status !== 'none');

export const medianOf = ({ share, median_gain: gain }: ComparedWay['after']): string =>
  share === 0 ? '' : signed(gain, twoDecimals);

/** How the rules can be gamed; no lines without `--audit`. */
function audit({ audit: found, pull_requests: { total } }: PlanDocument, layout: Layout): string[] {
  if (found === null || total === 0) return [];
  const gaining = waysThatGain(found);
  if (gaining.length === 0) return [noWayFound, ''];
  const lines = tableOf(layout, gaining, [
    ['WAYS TO GAME THEM', ({ way }) => wayDescriptions[way]],
    !layout.first && ['CHANGE', ({ status }) => auditMarks[status]],
    !layout.first && [right('BEFORE'), ({ before }) => fixedPercent(before.share, 1)],
    !layout.first && [right('MEDIAN'), ({ before }) => medianOf(before)],
    [right(layout.first ? 'GAIN ON' : 'AFTER'), ({ after }) => fixedPercent(after.share, 1)],
    [right('MEDIAN'), ({ after }) => medianOf(after)],
    ['PAID BY', ({ after }) => after.rules[0]?.name ?? ''],
  ]);
  return [...lines, ''];
}

/** How far a score moves, in one cell if there is no "before" and else in two. */
export const moveCells = ({ from, to }: PlannedMove, { first }: Layout): string[] =>
  first ? [formatInteger(to)] : [signed(to - from), `${formatInteger(from)} → ${formatInteger(to)}`];

function movers(heading: string, moves: readonly PlannedMove[], count: number, layout: Layout): string[] {
  if (moves.length === 0) return [];
  const lines = layout.movers(right(heading), moves.slice(0, shown.movers));
  const rest = count - shown.movers;
  return rest > 0 ? [...lines, `${layout.indent}… and ${formatInteger(rest)} more.`, ''] : [...lines, ''];
}

const rulesAndMembers = (plan: PlanDocument, layout: Layout): string[] => [
  ...(plan.rules.length > 0 ? [...rules(plan, layout), ''] : []),
  ...(plan.members.length > 0 ? [...members(plan, layout), ''] : []),
];

/** No lines if neither side has rules for them. */
function reviews(plan: PlanDocument, layout: Layout): string[] {
  const ofReviews = reviewsOf(plan);
  if (ofReviews === undefined) return [];
  const own: Layout = { ...layout, first: isFirst(ofReviews), of: 'reviews' };
  return [...opening(ofReviews, own), ...rulesAndMembers(ofReviews, own), ...audit(ofReviews, own)];
}

/** What would change in all. */
export const opening = (plan: PlanDocument, layout: Layout): string[] => [
  ...layout.labels(summary(plan, layout)),
  '',
  ...(plan.pull_requests.total > 0 ? [...scores(plan, layout), ''] : []),
];

/** What follows the scores. @param apply the command that puts the file in force */
export function details(plan: PlanDocument, layout: Layout, apply: string): string[] {
  const { raised, lowered } = plan.pull_requests;
  return [
    ...rulesAndMembers(plan, layout),
    ...movers(layout.first ? 'ABOVE 0' : 'UP', plan.movers.raised, raised, layout),
    ...movers(layout.first ? 'BELOW 0' : 'DOWN', plan.movers.lowered, lowered, layout),
    ...audit(plan, layout),
    ...reviews(plan, layout),
    plan.changes ? `Nothing was saved. To put it in force: ${apply}` : 'Nothing would change.',
  ];
}

/**
 * @param width columns to fill
 * @param apply the command that puts the file in force
 */
export function planText(plan: PlanDocument, width: number, apply: string): string {
  const indent = '  ';
  const layout: Layout = {
    width,
    indent,
    first: isFirst(plan),
    of: 'pull requests',
    labels: said =>
      said.flatMap(([label, text]) => labelled(`${indent}${label.padEnd(15)}`, text, Math.min(width, maxProseWidth))),
    table: (columns, rows) => grid(columns, rows, { width, indent }),
    movers: (heading, moves) => movesWithAddresses(heading, moves, layout),
  };
  return [
    `${plan.organisation}: ${plain(plan.file)}, ${comparedWith(plan)}`,
    '',
    ...opening(plan, layout),
    ...(plan.pull_requests.total > 0 ? [...histogram(plan, layout), ''] : []),
    ...details(plan, layout, apply),
  ].join('\n');
}

/** Below each pull request is its address. */
function movesWithAddresses(heading: Column, moves: readonly PlannedMove[], layout: Layout): string[] {
  const room = Math.max(20, layout.width - 30);
  const describe = ({ title, member }: PlannedMove) => {
    const author = ` (${plain(member)})`;
    // Only a narrow terminal cuts the author, too.
    return truncate(truncate(plain(title), Math.max(8, room - author.length)) + author, room);
  };
  const scores = layout.first ? [] : ['SCORE'];
  const rows = moves.flatMap(move => [
    [...moveCells(move, layout), describe(move)],
    ['', ...scores.map(() => ''), move.url],
  ]);
  return layout.table([heading, ...scores, 'PULL REQUEST'], rows);
}
