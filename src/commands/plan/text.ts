/** A plan for the terminal. */

import { bucketLabel, counted, decimal, number, percent, signed } from '../numbers.ts';
import { bar, grid, labelled, plain, truncate } from '../terminal.ts';
import {
  isFirst,
  type PlanDocument,
  type PlannedEntry,
  type PlannedMember,
  type PlannedMove,
  type PlannedRule,
} from './document.ts';

/** If standard output is not a terminal. */
const usualColumns = 80;
/** Longer lines are hard to read. */
const mostColumns = 120;

const shown = { members: 12, movers: 5 } as const;

const right = { align: 'right' } as const;

const marks = { added: '+', removed: '-', changed: '~', unchanged: ' ' } as const;

function summary(plan: PlanDocument, width: number): string[] {
  const { rule_changes: changes, pull_requests: pulls, ruleset_version: version } = plan;
  const parts = [
    changes.added > 0 ? `${changes.added} added` : '',
    changes.changed > 0 ? `${changes.changed} changed` : '',
    changes.removed > 0 ? `${changes.removed} removed` : '',
    changes.reordered ? 'in another order' : '',
    changes.unchanged > 0 ? `${changes.unchanged} as before` : '',
  ].filter(part => part !== '');
  const [changing, up, down] = isFirst(plan)
    ? ['get a score', 'above 0', 'below 0']
    : ['change their score', 'up', 'down'];
  const share = `${number(pulls.changed)} of ${number(pulls.total)} ${changing} (${percent(pulls.changed, pulls.total)})`;
  const below = ' '.repeat(17);
  const lines = [
    ...labelled('  Rules          ', parts.join(', ') || 'none', width),
    ...labelled(
      '  Pull requests  ',
      pulls.total === 0
        ? 'none are stored yet'
        : `${share}: ${number(pulls.raised)} ${up}, ${number(pulls.lowered)} ${down}`,
      width,
    ),
  ];
  if (pulls.breakdown_only > 0) {
    const kept = `${number(pulls.breakdown_only)} more keep their score with another breakdown`;
    lines.push(...labelled(below, kept, width));
  }
  if (pulls.outdated > 0) {
    const stored = counted(pulls.outdated, 'stored score is', 'stored scores are');
    const note = `${stored} still to be brought to version ${version}; here they count as that version gives them`;
    lines.push(...labelled(below, note, width));
  }
  return lines;
}

function scores(plan: PlanDocument, width: number): string[] {
  const { before, after } = plan.scores;
  const first = isFirst(plan);
  const row = (name: string, from: number | null, to: number | null) => [
    name,
    ...(first ? [] : [decimal(from)]),
    decimal(to),
    first || from === null || to === null ? '' : signed(to - from, decimal),
  ];
  return grid(
    [
      { heading: 'SCORES' },
      ...(first ? [] : [{ heading: 'BEFORE', ...right }]),
      { heading: first ? '' : 'AFTER', ...right },
      { heading: '', ...right },
    ],
    [
      row('sum', before.sum, after.sum),
      row('mean', before.mean, after.mean),
      row('median', before.median, after.median),
      row('lowest', before.minimum, after.minimum),
      row('highest', before.maximum, after.maximum),
    ],
    width,
  );
}

function histogram(plan: PlanDocument, width: number): string[] {
  const { histogram: buckets } = plan;
  const sides = isFirst(plan) ? (['after'] as const) : (['before', 'after'] as const);
  const counts = buckets.flatMap(bucket => sides.map(side => bucket[side]));
  const largest = Math.max(...counts);
  const labels = Math.max(...buckets.map(bucket => bucketLabel(bucket).length), 'SCORE'.length);
  const figures = Math.max(...counts.map(count => number(count).length), 'BEFORE'.length);
  const room = Math.max(4, Math.floor((width - labels - 2 * figures - 10) / 2));
  const headings = { before: 'BEFORE', after: sides.length === 1 ? 'PULL REQUESTS' : 'AFTER' };
  return grid(
    [
      { heading: 'SCORE', ...right },
      ...sides.flatMap(side => [{ heading: headings[side], ...right }, { heading: '' }]),
    ],
    buckets.map(bucket => [
      bucketLabel(bucket),
      ...sides.flatMap(side => [number(bucket[side]), bar(bucket[side], largest, room).padEnd(room)]),
    ]),
    width,
  );
}

function ruleNote({ after, before, changes }: PlannedRule, total: number): string {
  if (after === null) return 'removed';
  if (!after.enabled) return before?.enabled ? 'switched off' : 'off';
  if (before !== null && !before.valid) return 'no longer valid as it is in force';
  if (changes.includes('enabled')) return 'switched on';
  if (after.pull_requests === 0 && total > 0) return 'never counts';
  return changes.length === 1 && changes[0] === 'description' ? 'description' : '';
}

function rules(plan: PlanDocument, width: number): string[] {
  const { total } = plan.pull_requests;
  const first = isFirst(plan);
  // A narrow terminal has no room for the shares.
  const isWide = width >= usualColumns;
  const cells = (count: string, share: string, points: string) => (isWide ? [count, share, points] : [count, points]);
  const counts = (side: { pull_requests: number; points: number } | null, isOn = true) =>
    side === null || !isOn
      ? cells('', '', '')
      : cells(number(side.pull_requests), percent(side.pull_requests, total), signed(side.points));
  const sides = (before: string[], after: string[]) => (total === 0 ? [] : first ? after : [...before, ...after]);
  const entryRow = ({ expression, action, value, before, after }: PlannedEntry) => [
    `  ${before === null ? '+' : after === null ? '-' : ' '} ${action === 'ADD' ? 'adds' : 'takes'} ${plain(value)} if ${plain(expression)}`,
    ...sides(counts(before), counts(after)),
  ];
  const rows = plan.rules.flatMap(rule => {
    const note = ruleNote(rule, total);
    const head = [
      `${marks[rule.status]} ${plain(rule.name)}${note === '' ? '' : ` (${note})`}`,
      ...sides(counts(rule.before, rule.before?.enabled), counts(rule.after, rule.after?.enabled)),
    ];
    // A single entry that stays as it is says no more than its rule.
    const isTelling = rule.entries.length > 1 || rule.entries.some(({ before, after }) => !before !== !after);
    return isTelling ? [head, ...rule.entries.map(entryRow)] : [head];
  });
  const headings = sides(cells('BEFORE', '', 'POINTS'), cells(first ? 'COUNTS' : 'AFTER', '', 'POINTS'));
  return grid([{ heading: 'RULE', shrinks: true }, ...headings.map(heading => ({ heading, ...right }))], rows, width);
}

const rankMove = ({ rank_before: before, rank_after: after }: PlannedMember): string =>
  before === after ? '' : before > after ? `▲ ${number(before - after)}` : `▼ ${number(after - before)}`;

function members(plan: PlanDocument, width: number): string[] {
  const { members: all } = plan;
  const first = isFirst(plan);
  const isWide = width >= usualColumns;
  const lines = grid(
    [
      { heading: 'RANK', ...right },
      ...(first ? [] : [{ heading: '' }]),
      { heading: 'MEMBER', shrinks: true },
      ...(isWide ? [{ heading: 'PULL REQUESTS', ...right }] : []),
      ...(first ? [] : [{ heading: 'BEFORE', ...right }]),
      { heading: first ? 'TOTAL' : 'AFTER', ...right },
      ...(first ? [] : [{ heading: '', ...right }]),
    ],
    all
      .slice(0, shown.members)
      .map(member => [
        number(member.rank_after),
        ...(first ? [] : [rankMove(member)]),
        plain(member.name || member.login),
        ...(isWide ? [number(member.pull_requests)] : []),
        ...(first ? [] : [number(member.before)]),
        number(member.after),
        ...(first ? [] : [signed(member.after - member.before)]),
      ]),
    width,
  );
  const moved = all.filter(({ rank_before: before, rank_after: after }) => before !== after).length;
  const rankNote = moved === 0 ? 'Nobody changes rank.' : `${counted(moved, 'member changes', 'members change')} rank.`;
  const rest = all.length - shown.members;
  const notes = [...(rest > 0 ? [`… and ${number(rest)} more.`] : []), ...(first ? [] : [rankNote])];
  return notes.length === 0 ? lines : [...lines, `  ${notes.join(' ')}`];
}

/** @param first whether they moved from nowhere, so that only where they are is shown */
function movers(
  title: string,
  moves: readonly PlannedMove[],
  count: number,
  { first, width }: { first: boolean; width: number },
): string[] {
  if (moves.length === 0) return [];
  const change = ({ from, to }: PlannedMove) =>
    first ? [number(to)] : [signed(to - from), `${number(from)} → ${number(to)}`];
  const none = first ? [''] : ['', ''];
  const lines = grid(
    [{ heading: title, ...right }, ...none.map(heading => ({ heading }))],
    moves.slice(0, shown.movers).flatMap(move => [
      [...change(move), truncate(`${plain(move.title)} (${plain(move.member)})`, Math.max(20, width - 30))],
      [...none, plain(move.url)],
    ]),
    Number.POSITIVE_INFINITY,
  );
  const rest = count - shown.movers;
  return rest > 0 ? [...lines, `  … and ${number(rest)} more.`, ''] : [...lines, ''];
}

/**
 * @param columns the terminal's; undefined if there is none
 * @param apply the command that puts the file in force
 */
export function planText(plan: PlanDocument, columns: number | undefined, apply: string): string {
  const width = Math.min(columns || usualColumns, mostColumns);
  const against =
    plan.ruleset_version === 0
      ? 'compared with no rules: none are in force yet'
      : `compared with version ${plan.ruleset_version}, which is in force`;
  const lines = [`${plan.organisation}: ${plain(plan.file)}, ${against}`, '', ...summary(plan, width), ''];
  if (plan.pull_requests.total > 0) {
    lines.push(...scores(plan, width), '', ...histogram(plan, width), '');
  }
  if (plan.rules.length > 0) lines.push(...rules(plan, width), '');
  if (plan.members.length > 0) lines.push(...members(plan, width), '');
  const { raised, lowered } = plan.pull_requests;
  const first = isFirst(plan);
  lines.push(
    ...movers(first ? 'ABOVE 0' : 'UP', plan.movers.raised, raised, { first, width }),
    ...movers(first ? 'BELOW 0' : 'DOWN', plan.movers.lowered, lowered, { first, width }),
  );
  lines.push(plan.changes ? `Nothing was saved. To put it in force: ${apply}` : 'Nothing would change.');
  return lines.join('\n');
}
