/** What a plan says, in sections of rows and columns. `text.ts` and `page.ts` only lay them out. */

import type { ComparedWay } from '../../reports/audit.ts';
import type { PlanDocument, PlannedMember, PlannedMove, PlannedRule } from '../../reports/plan.ts';
import type { EntryResult, Share, Summary } from '../../scoring/plan/plan.ts';
import { wayDescriptions } from '../../scoring/plan/way-descriptions.ts';
import { type Html, html } from '../../text/html.ts';
import { counted, fixedPercent, formatInteger, percent, signed, twoDecimals } from '../../text/number-formats.ts';
import { type Column, right, shrinking } from '../../text/terminal.ts';
import { webAddress } from '../../text/web-address.ts';
import { differenceBar, pairBars } from './charts.ts';
import { describeRuleChanges, describeScores, isFirst, reviewsOf, ruleNotes } from './wording.ts';

export interface Limits {
  members: number;
  movers: number;
  /** Whether a rule's only entry is shown, which says no more than the rule if it does not change. */
  showsAllEntries: boolean;
}

export interface PlanColumn extends Column {
  /** Whether it says what the row is about. */
  isHead?: boolean;
  /** Whether its numbers say what is more and what is less: the page colours them. */
  isChange?: boolean;
  /** Whether it holds bars, which only the page shows. */
  isBar?: boolean;
}

/** `html`: what the page shows if it is not the text. */
interface Cell {
  text: string;
  html?: Html | undefined;
}

export interface PlanTable {
  columns: readonly PlanColumn[];
  rows: readonly (readonly Cell[])[];
}

/** What is said of pull requests, or of reviews. */
export interface Part {
  of: 'pull requests' | 'reviews';
  isFirst: boolean;
  /** Labels, and what is said of them. */
  summary: readonly (readonly [label: string, text: string])[];
  /** Without rows if there are no pull requests. */
  scores: PlanTable;
  sections: readonly Section[];
}

export interface Section extends PlanTable {
  name: 'rules' | 'members' | 'raised' | 'lowered' | 'audit';
  /** On the page. The text has the head of the first column instead. */
  heading: string;
  /** On the page, before the table. */
  intro: string;
  /** After the table; empty if there is nothing to say. */
  note: string;
}

/** A column, what it shows of a row, and what the page shows if that is more. False is left out. */
export type ColumnOf<Row> =
  | readonly [column: string | PlanColumn, cell: (row: Row) => string, html?: (row: Row) => Html]
  | false;

export function tableOf<Row>(rows: readonly Row[], columns: readonly ColumnOf<Row>[]): PlanTable {
  const present = columns.filter(column => column !== false);
  return {
    columns: present.map(([column]) => (typeof column === 'string' ? { heading: column } : column)),
    rows: rows.map(row => present.map(([, cell, html]) => ({ text: cell(row), html: html?.(row) }))),
  };
}

const head = (column: Column): PlanColumn => ({ ...column, isHead: true });
const change = (column: Column): PlanColumn => ({ ...column, isChange: true });
const wide = (column: Column): PlanColumn => ({ ...column, minWidth: 80 });
const barColumn = <Row>(bar: (row: Row) => Html): ColumnOf<Row> => [{ heading: '', isBar: true }, () => '', bar];

const more = (count: number) => (count > 0 ? `… and ${formatInteger(count)} more.` : '');

/** Two parts if either side has rules for reviews. */
export function partsOf(plan: PlanDocument, limits: Limits): [Part, ...Part[]] {
  const reviews = reviewsOf(plan);
  return [partOf(plan, 'pull requests', limits), ...(reviews ? [partOf(reviews, 'reviews', limits)] : [])];
}

function partOf(plan: PlanDocument, of: Part['of'], limits: Limits): Part {
  const part = { of, isFirst: isFirst(plan) };
  const sections = [
    rules(plan, part, limits),
    members(plan, part, limits),
    movers(plan, 'raised', part, limits),
    movers(plan, 'lowered', part, limits),
    audit(plan, part),
  ];
  return {
    ...part,
    summary: summary(plan, part),
    scores: scores(plan, part),
    sections: sections.filter(({ rows, note }) => rows.length > 0 || note !== ''),
  };
}

type PartKind = Pick<Part, 'of' | 'isFirst'>;

function summary(plan: PlanDocument, { of, isFirst }: PartKind): Part['summary'] {
  const { total, changed, raised, lowered } = plan.pull_requests;
  const [changing, up, down] = isFirst ? ['get a score', 'above 0', 'below 0'] : ['change their score', 'up', 'down'];
  const share = `${formatInteger(changed)} of ${formatInteger(total)} ${changing} (${percent(changed, total)})`;
  const counts = `${share}: ${formatInteger(raised)} ${up}, ${formatInteger(lowered)} ${down}`;
  const isOfReviews = of === 'reviews';
  return [
    [isOfReviews ? 'Review rules' : 'Rules', describeRuleChanges(plan)],
    [isOfReviews ? 'Reviews' : 'Pull requests', total === 0 ? 'none are stored yet' : counts],
    ...(isOfReviews ? [] : describeScores(plan)).map(note => ['', note] as const),
  ];
}

/** Means have two decimals, and so do medians, which may be halves. */
const figures: readonly (readonly [label: string, key: keyof Summary, write: (value: number) => string])[] = [
  ['sum', 'sum', formatInteger],
  ['mean', 'mean', twoDecimals],
  ['median', 'median', twoDecimals],
  ['lowest', 'minimum', formatInteger],
  ['highest', 'maximum', formatInteger],
];

function scores({ scores: { before, after }, pull_requests: { total } }: PlanDocument, { isFirst }: PartKind) {
  type Row = (typeof figures)[number];
  const cell =
    (side: Summary) =>
    ([, key, write]: Row) =>
      side[key] === null ? '–' : write(side[key]);
  return tableOf(total === 0 ? [] : figures, [
    ['SCORES', ([label]) => label],
    !isFirst && [right('BEFORE'), cell(before)],
    [right(isFirst ? 'POINTS' : 'AFTER'), cell(after)],
    !isFirst && [change(right('CHANGE')), ([, key, write]) => signed((after[key] ?? 0) - (before[key] ?? 0), write)],
  ]);
}

const marks = { added: '+', removed: '-', changed: '~', unchanged: ' ' } as const;

interface RuleRow extends Pick<EntryResult, 'before' | 'after'> {
  text: string;
  html: Html;
}

function ruleRow(rule: PlannedRule, total: number): RuleRow {
  const { name, status, before, after } = rule;
  const notes = ruleNotes(rule, total);
  const badge = (kind: string, text: string) => html` <span class="badge ${kind}">${text}</span>`;
  const isNew = status === 'added' || status === 'removed';
  return {
    text: `${marks[status]} ${name}${notes.length === 0 ? '' : ` (${notes.map(({ text }) => text).join(', ')})`}`,
    html: html`<bdi>${name}</bdi>${isNew && badge(status, status === 'added' ? 'new' : status)}${notes.map(({ kind, text }) => badge(kind, text))}`,
    // Null where the rule is off.
    before: before?.enabled ? before : null,
    after: after?.enabled ? after : null,
  };
}

function entryRow({ expression, action, value, before, after }: EntryResult): RuleRow {
  const mark = before === null ? '+' : after === null ? '-' : ' ';
  const verb = action === 'ADD' ? 'adds' : 'takes';
  return {
    text: `  ${mark} ${verb} ${value} if ${expression}`,
    html: html`<div class="entry${after === null && ' removed'}">${mark} ${verb} <code><bdi>${value}</bdi></code> if <code><bdi>${expression}</bdi></code></div>`,
    before,
    after,
  };
}

function rules(plan: PlanDocument, { of, isFirst }: PartKind, { showsAllEntries }: Limits): Section {
  const { total } = plan.pull_requests;
  const rows = plan.rules.flatMap(rule => {
    const showsEntries =
      showsAllEntries || rule.entries.length > 1 || rule.entries.some(({ before, after }) => !before !== !after);
    return [ruleRow(rule, total), ...(showsEntries ? rule.entries.map(entryRow) : [])];
  });
  const counts = (side: 'before' | 'after', heading: string): ColumnOf<RuleRow>[] => {
    const cell = (write: (share: Share) => string) => (row: RuleRow) => (row[side] === null ? '' : write(row[side]));
    return [
      [right(heading), cell(share => formatInteger(share.pull_requests))],
      [wide(right('SHARE')), cell(share => fixedPercent(share.pull_requests, total))],
      [right('POINTS'), cell(share => signed(share.points))],
    ];
  };
  const bars = barColumn<RuleRow>(({ before, after }) =>
    pairBars(before?.pull_requests ?? 0, after?.pull_requests ?? 0, total),
  );
  const key = isFirst ? '' : ' Thin bar: before. Thick bar: after.';
  return {
    name: 'rules',
    heading: `How often each rule${of === 'reviews' ? ' for reviews' : ''} counts`,
    intro:
      total === 0
        ? ''
        : `How many of ${counted(total, of.slice(0, -1))} each rule counts for, and the points it gives in all.${key}`,
    ...tableOf(rows, [
      [head(shrinking('RULE')), ({ text }) => text, ({ html }) => html],
      ...(total === 0 ? [] : [bars]),
      ...(total === 0 || isFirst ? [] : counts('before', 'BEFORE')),
      ...(total === 0 ? [] : counts('after', isFirst ? 'COUNTS' : 'AFTER')),
    ]),
    note: '',
  };
}

const rankChange = ({ rank_before: before, rank_after: after }: PlannedMember): string =>
  before === after ? '' : before > after ? `▲ ${formatInteger(before - after)}` : `▼ ${formatInteger(after - before)}`;

function members({ members: all }: PlanDocument, { of, isFirst }: PartKind, limits: Limits): Section {
  const listed = all.slice(0, limits.members);
  const moved = all.filter(({ rank_before: before, rank_after: after }) => before !== after).length;
  const moves = moved === 0 ? 'Nobody changes rank.' : `${counted(moved, 'member changes', 'members change')} rank.`;
  const maxDifference = Math.max(...listed.map(({ before, after }) => Math.abs(after - before)));
  return {
    name: 'members',
    heading: `Totals${of === 'reviews' ? ' of reviews' : ''} by member`,
    intro: `The sum of the scores of their ${of}.`,
    ...tableOf<PlannedMember>(listed, [
      [right('RANK'), member => formatInteger(member.rank_after)],
      !isFirst && [change({ heading: 'MOVE' }), rankChange],
      [
        head(shrinking('MEMBER')),
        ({ name, login }) => name || login,
        ({ name, login }) =>
          html`<bdi>${name || login}</bdi>${!['', login].includes(name) && html` <bdi class="login">${login}</bdi>`}`,
      ],
      [wide(right(of.toUpperCase())), member => formatInteger(member.pull_requests)],
      !isFirst && [right('BEFORE'), ({ before }) => formatInteger(before)],
      [right(isFirst ? 'TOTAL' : 'AFTER'), ({ after }) => formatInteger(after)],
      barColumn(({ before, after }) => differenceBar(after - before, maxDifference)),
      !isFirst && [change(right('CHANGE')), ({ before, after }) => signed(after - before)],
    ]),
    note: all.length === 0 ? '' : [more(all.length - listed.length), isFirst ? '' : moves].filter(Boolean).join(' '),
  };
}

function movers(plan: PlanDocument, name: 'raised' | 'lowered', { isFirst }: PartKind, limits: Limits): Section {
  const listed = plan.movers[name].slice(0, limits.movers);
  const [up, down] = isFirst ? ['Above 0', 'Below 0'] : ['Up', 'Down'];
  const direction = name === 'raised' ? up : down;
  return {
    name,
    heading: `${isFirst ? 'Largest scores' : 'Largest changes'}: ${direction.toLowerCase()}`,
    intro: '',
    ...tableOf<PlannedMove>(listed, [
      [change(right(direction.toUpperCase())), ({ from, to }) => (isFirst ? formatInteger(to) : signed(to - from))],
      !isFirst && ['SCORE', ({ from, to }) => `${formatInteger(from)} → ${formatInteger(to)}`],
      ['PULL REQUEST', ({ repository, number }) => `${repository}#${number}`],
      [
        head({ heading: 'TITLE' }),
        ({ title }) => title,
        ({ title, url }) => {
          const text = title.trim() === '' ? '(no title)' : title;
          const address = webAddress(url);
          return html`<bdi>${address === undefined ? text : html`<a href="${address}" rel="noopener noreferrer">${text}</a>`}</bdi>`;
        },
      ],
      ['MEMBER', ({ member }) => member],
    ]),
    note: listed.length === 0 ? '' : more(plan.pull_requests[name] - listed.length),
  };
}

const auditMarks = { new: '+ new', worse: '+ worse', same: '', better: '- less', gone: '- gone', none: '' } as const;

/** How the rules can be gamed; empty without `--audit`. */
function audit({ audit: found, pull_requests: { total } }: PlanDocument, { of, isFirst }: PartKind): Section {
  const isAudited = found !== null && total > 0;
  const gaining = isAudited ? found.ways.filter(({ status }) => status !== 'none') : [];
  const figures = (side: 'before' | 'after', heading: string): ColumnOf<ComparedWay>[] => [
    [right(heading), way => fixedPercent(way[side].share, 1)],
    [right('MEDIAN'), way => (way[side].share === 0 ? '' : signed(way[side].median_gain, twoDecimals))],
  ];
  return {
    name: 'audit',
    heading: `Ways to game ${of === 'reviews' ? 'the rules for reviews' : 'these rules'}`,
    intro:
      gaining.length === 0
        ? ''
        : 'The share of the pull requests that gain points by a small, cheap change, and the median of what they gain.',
    ...tableOf(gaining, [
      [head({ heading: 'WAYS TO GAME THEM' }), ({ way }) => wayDescriptions[way]],
      !isFirst && ['CHANGE', ({ status }) => auditMarks[status]],
      ...(isFirst ? [] : figures('before', 'BEFORE')),
      ...figures('after', isFirst ? 'GAIN ON' : 'AFTER'),
      ['PAID BY', ({ after }) => after.rules[0]?.name ?? ''],
    ]),
    note: isAudited && gaining.length === 0 ? 'Found no way to game these rules.' : '',
  };
}
