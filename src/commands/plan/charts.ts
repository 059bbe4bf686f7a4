/** The charts of a plan's page: SVG without styles, so that they follow the page's colours. */

import type { PlannedMember } from '../../reports/plan.ts';
import { type Bucket, bucketLabel, roundStep } from '../../scoring/plan/distribution.ts';
import type { Summary } from '../../scoring/plan/plan.ts';
import { type Html, html } from '../../text/html.ts';
import { decimal, formatInteger } from '../../text/number-formats.ts';
import { plain, truncate } from '../../text/terminal.ts';

/** Two decimals: enough for an attribute. */
const at = (value: number): string => String(Math.round(value * 100) / 100);

/** Up to five round steps, from 0 to the maximum or above. */
function ticks(max: number): number[] {
  const step = roundStep(max / 5);
  return Array.from({ length: Math.ceil(max / step) + 1 }, (_, index) => index * step);
}

const chart = { width: 960, height: 330, left: 84, right: 12, top: 34, bottom: 46 } as const;

/** The horizontal position of a score, within the width of its bucket. An open bucket's is in the middle. */
function positionOf(score: number, buckets: readonly Bucket[], bucketWidth: number): number {
  const index = buckets.findIndex(({ to }) => to === null || score < to);
  const bucket = buckets[index];
  if (bucket === undefined) return buckets.length * bucketWidth;
  const inside =
    bucket.from === null || bucket.to === null ? 0.5 : (score - bucket.from + 0.5) / (bucket.to - bucket.from);
  return (index + Math.min(1, inside)) * bucketWidth;
}

/** @param before null if only "after" is shown */
function medianMarks(before: number | null, after: number, x: (score: number) => number): Html {
  const mark = (value: number, label: string, side: 'before' | 'after', anchor: 'end' | 'middle' | 'start') => {
    const offset = anchor === 'end' ? -6 : anchor === 'start' ? 6 : 0;
    const line = x(value);
    return html`<line class="median ${side}" x1="${at(line)}" x2="${at(line)}" y1="22" y2="${chart.height - chart.bottom}"/>
<text class="label ${side}" x="${at(Math.min(Math.max(line + offset, 80), chart.width - 80))}" y="14" text-anchor="${anchor}">${label}</text>`;
  };
  if (before === null || before === after) return mark(after, `median ${decimal(after)}`, 'after', 'middle');
  const [first, second] = before < after ? (['end', 'start'] as const) : (['start', 'end'] as const);
  return html`${mark(before, `median before ${decimal(before)}`, 'before', first)}
${mark(after, `median after ${decimal(after)}`, 'after', second)}`;
}

/**
 * How many pull requests have each score: columns for after, a stepped line for before.
 *
 * @param before null if only "after" is shown
 */
export function distributionChart(buckets: readonly Bucket[], before: Summary | null, after: Summary): Html {
  const inner = { width: chart.width - chart.left - chart.right, height: chart.height - chart.top - chart.bottom };
  // A few buckets stay narrow, in the middle.
  const columnWidth = Math.min(inner.width / buckets.length, 96);
  const start = chart.left + (inner.width - columnWidth * buckets.length) / 2;
  const levels = ticks(Math.max(...buckets.map(bucket => Math.max(bucket.after, before === null ? 0 : bucket.before))));
  const maxLevel = levels.at(-1) ?? 1;
  const x = (index: number) => start + index * columnWidth;
  const y = (count: number) => chart.top + inner.height * (1 - count / maxLevel);
  const ground = chart.top + inner.height;
  const inset = Math.min(4, columnWidth * 0.12);

  const levelLines = levels.map(
    level => html`<line class="grid" x1="${chart.left}" x2="${chart.width - chart.right}" y1="${at(y(level))}" y2="${at(y(level))}"/>
<text class="tick" x="${chart.left - 10}" y="${at(y(level) + 4)}" text-anchor="end">${formatInteger(level)}</text>`,
  );
  const columns = buckets.map(
    (bucket, index) =>
      html`<rect class="after" x="${at(x(index) + inset)}" y="${at(y(bucket.after))}" width="${at(columnWidth - 2 * inset)}" height="${at(ground - y(bucket.after))}" rx="1.5"/>`,
  );
  const outline = buckets.map((bucket, index) => `V${at(y(bucket.before))}H${at(x(index + 1))}`).join('');
  // On top, so that the tooltip shows anywhere in a column.
  const targets = buckets.map(
    (bucket, index) =>
      html`<rect class="target" x="${at(x(index))}" y="${chart.top}" width="${at(columnWidth)}" height="${inner.height}"><title>Score ${bucketLabel(bucket)}: ${before === null ? '' : `${formatInteger(bucket.before)} before, `}${formatInteger(bucket.after)}${before === null ? '' : ' after'}</title></rect>`,
  );
  // Only as many labels as fit.
  const maxLength = Math.max(...buckets.map(bucket => bucketLabel(bucket).length));
  const every = Math.ceil((maxLength * 7.2 + 10) / columnWidth);
  const labels = buckets.map(
    (bucket, index) =>
      (index % every === 0 || bucket.from === null || (bucket.to === null && (buckets.length - 1) % every === 0)) &&
      html`<text class="tick" x="${at(x(index) + columnWidth / 2)}" y="${ground + 18}" text-anchor="middle">${bucketLabel(bucket)}</text>`,
  );
  const position = (score: number) => start + positionOf(score, buckets, columnWidth);
  return html`<svg class="distribution" viewBox="0 0 ${chart.width} ${chart.height}" role="img" aria-labelledby="distribution-heading distribution-note">
${levelLines}
${columns}
${before !== null && html`<path class="outline" d="M${at(start)} ${at(ground)}${outline}V${at(ground)}"/>`}
${after.median !== null && medianMarks(before?.median ?? null, after.median, position)}
${labels}
<text class="tick" x="${at(chart.left + inner.width / 2)}" y="${chart.height - 6}" text-anchor="middle">score</text>
${targets}
</svg>`;
}

/** The shares of pull requests that go up, go down and stay. */
export function shareBar(up: number, down: number, total: number): Html {
  const width = 960;
  // Even one pull request is visible.
  const length = (count: number) => (count === 0 ? 0 : Math.max(3, (count / total) * width));
  const [rise, fall] = [length(up), length(down)];
  return html`<svg class="shares" viewBox="0 0 ${width} 14" preserveAspectRatio="none" aria-hidden="true">
<rect class="same" width="${width}" height="14"/>
<rect class="up" width="${at(rise)}" height="14"/>
<rect class="down" x="${at(rise)}" width="${at(fall)}" height="14"/>
</svg>`;
}

/** A thin bar for before, and a thick one for after. */
export function pairBars(before: number, after: number, max: number): Html {
  const length = (value: number) => (value <= 0 || max <= 0 ? 0 : Math.max(1, (value / max) * 160));
  return html`<svg class="pair" viewBox="0 0 160 14" aria-hidden="true">
<rect class="track" width="160" height="14" rx="2"/>
<rect class="before" y="2" width="${at(length(before))}" height="3"/>
<rect class="after" y="6" width="${at(length(after))}" height="6"/>
</svg>`;
}

/** A bar from the middle, to the right for more and to the left for less. */
export function differenceBar(value: number, max: number): Html {
  const half = 60;
  const length = value === 0 || max <= 0 ? 0 : Math.max(1.5, (Math.abs(value) / max) * half);
  const kind = value > 0 ? 'up' : 'down';
  return html`<svg class="difference" viewBox="0 0 ${2 * half} 14" aria-hidden="true">
<rect class="${kind}" x="${at(value > 0 ? half : half - length)}" y="3" width="${at(length)}" height="8"/>
<line class="axis" x1="${half}" x2="${half}" y1="0" y2="14"/>
</svg>`;
}

const slope = { width: 960, row: 25, top: 30, left: 330, right: 630, names: 26 } as const;

/**
 * The ranks before, on the left, joined to the ranks after, on the right. The line of a member who is listed on one
 * side only comes from below the chart, or goes there.
 *
 * @param members in the order of their totals after
 * @param rows how many ranks each side shows
 */
export function rankChart(members: readonly PlannedMember[], rows: number): Html {
  const former = [...members].sort((one, two) => one.rank_before - two.rank_before || one.rank_after - two.rank_after);
  const placesBefore = new Map(former.map((member, index) => [member, index]));
  const count = Math.min(rows, members.length);
  const height = slope.top + count * slope.row + (members.length > count ? slope.row / 2 : 4);
  // A place that is not shown lies below the lower edge, which clips it.
  const y = (place: number) => (place < count ? slope.top + (place + 0.5) * slope.row : height + slope.row);
  const label = (member: PlannedMember, place: number, side: 'before' | 'after') => {
    if (place >= count) return false;
    const isLeft = side === 'before';
    const [total, rank] = [member[side], isLeft ? member.rank_before : member.rank_after];
    const places = isLeft
      ? { rank: 14, total: slope.left - 14, name: 52 }
      : { rank: 946, total: slope.right + 14, name: 908 };
    const line = at(y(place) + 4.5);
    return html`<text class="tick" x="${places.rank}" y="${line}" text-anchor="${isLeft ? 'start' : 'end'}">${formatInteger(rank)}</text>
<text class="member" x="${places.name}" y="${line}" text-anchor="${isLeft ? 'start' : 'end'}">${truncate(plain(member.name || member.login), slope.names)}</text>
<text class="tick" x="${places.total}" y="${line}" text-anchor="${isLeft ? 'end' : 'start'}">${formatInteger(total)}</text>`;
  };
  const lines = members.map((member, after) => {
    const before = placesBefore.get(member) ?? after;
    if (before >= count && after >= count) return false;
    const moved = member.rank_before - member.rank_after;
    const kind = moved > 0 ? 'up' : moved < 0 ? 'down' : 'same';
    const middle = (slope.left + slope.right) / 2;
    const [from, to] = [at(y(before)), at(y(after))];
    const ends = html`${before < count && html`<circle class="${kind}" cx="${slope.left}" cy="${from}" r="3.5"/>`}${after < count && html`<circle class="${kind}" cx="${slope.right}" cy="${to}" r="3.5"/>`}`;
    return html`<g><title>${member.name || member.login}: rank ${formatInteger(member.rank_before)} before, ${formatInteger(member.rank_after)} after</title><path class="${kind}" d="M${slope.left} ${from}C${middle} ${from} ${middle} ${to} ${slope.right} ${to}"/>${ends}</g>
${label(member, before, 'before')}${label(member, after, 'after')}
`;
  });
  return html`<svg class="ranks" viewBox="0 0 ${slope.width} ${at(height)}" role="img" aria-label="Ranks before and after; the table below shows the same">
<text class="heading" x="${slope.left}" y="16" text-anchor="end">before</text>
<text class="heading" x="${slope.right}" y="16">after</text>
${lines}</svg>`;
}
