/**
 * A plan as a web page: one file that loads nothing else and runs no script. Titles, names and expressions are written
 * by other people; `html` escapes them.
 */

import { createHash } from 'node:crypto';
import type { ComparedWay } from '../../reports/audit.ts';
import type { PlanDocument, PlannedMember, PlannedMove, PlannedRule } from '../../reports/plan.ts';
import type { EntryResult, Share } from '../../scoring/plan/plan.ts';
import { wayDescriptions } from '../../scoring/plan/way-descriptions.ts';
import { Html, html, nothing, webAddress } from '../../text/html.ts';
import { counted, decimal, fixedPercent, formatInteger, percent, signed } from '../../text/number-formats.ts';
import { differenceBar, distributionChart, pairBars, rankChart, shareBar } from './charts.ts';
import { planStyle } from './style.ts';
import { auditMarks, medianOf, rankChange, waysThatGain } from './text.ts';
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
const shown = { members: 40, movers: 10, ranks: 20 } as const;

const styleHash = createHash('sha256').update(planStyle).digest('base64');
const policy = `default-src 'none'; style-src 'sha256-${styleHash}'; base-uri 'none'; form-action 'none'`;

const direction = (difference: number) => (difference > 0 ? 'up' : difference < 0 ? 'down' : 'same');

const difference = (value: number, write = formatInteger) =>
  html`<span class="${direction(value)}-text">${signed(value, write)}</span>`;

const fromTo = (before: Html | string, after: Html | string) =>
  html`<span class="was">${before}</span><span class="arrow" aria-label="to">→</span>${after}`;

const column = (heading: string) => html`<th scope="col" class="n">${heading}</th>`;

function headline(plan: PlanDocument): string {
  const { total, changed } = plan.pull_requests;
  if (total === 0) return 'There are no pull requests yet';
  const [one, several] = isFirst(plan) ? ['gets a score', 'get a score'] : ['changes its score', 'change their score'];
  if (changed === 0) return isFirst(plan) ? 'No pull request gets a score' : 'No score changes';
  if (changed === total)
    return total === 1 ? `The one pull request ${one}` : `All ${formatInteger(total)} pull requests ${several}`;
  return `${formatInteger(changed)} of ${formatInteger(total)} pull requests ${changed === 1 ? one : several}`;
}

function opening(plan: PlanDocument): Html {
  const { total, changed, raised, lowered } = plan.pull_requests;
  const first = isFirst(plan);
  const [up, down, same] = first ? ['above 0', 'below 0', 'at 0'] : ['up', 'down', 'unchanged'];
  const from = (before: number, after: number, write: (value: number) => string, withShare: boolean) =>
    before === after
      ? 'unchanged'
      : html`from ${write(before)}, ${difference(after - before, write)}${withShare && before > 0 ? ` (${signed(Math.round(((after - before) / before) * 1_000) / 10, decimal)}%)` : ''}`;
  const figure = (label: string, name: keyof PlanDocument['scores']['after']) => {
    const [before, after] = [plan.scores.before[name], plan.scores.after[name]];
    return html`<div>
<dt>${label}</dt>
<dd class="value">${after === null ? '–' : writers[name](after)}</dd>
${!first && before !== null && after !== null && html`<dd class="from">${from(before, after, writers[name], name === 'sum')}</dd>`}
</div>`;
  };
  return html`<header>
<p class="overline">Plan for <bdi>${plan.organisation}</bdi></p>
<h1>${headline(plan)}</h1>
<p class="lede">What <strong><bdi>${plan.file}</bdi></strong> would do, ${comparedWith(plan)}. Rules: ${describeRuleChanges(plan)}.</p>
${describeScores(plan).map(note => html`<p class="note caution">${note}</p>`)}
${
  total > 0 &&
  html`${shareBar(raised, lowered, total)}
<ul class="legend">
<li><span class="key up"></span><b>${formatInteger(raised)}</b> ${up} (${percent(raised, total)})</li>
<li><span class="key down"></span><b>${formatInteger(lowered)}</b> ${down} (${percent(lowered, total)})</li>
<li><span class="key same"></span><b>${formatInteger(total - changed)}</b> ${same} (${percent(total - changed, total)})</li>
</ul>
<dl class="figures">
${figure('Sum of all scores', 'sum')}
${figure('Mean score', 'mean')}
${figure('Median score', 'median')}
${figure('Highest score', 'maximum')}
${figure('Lowest score', 'minimum')}
</dl>`
}
</header>`;
}

function distribution(plan: PlanDocument): Html {
  const { histogram, scores } = plan;
  if (histogram.length === 0) return nothing;
  const first = isFirst(plan);
  const legend = html`<ul class="legend" aria-hidden="true"><li><span class="key before"></span>before</li><li><span class="key after"></span>after</li></ul>`;
  return html`<section aria-labelledby="distribution-heading">
<h2 id="distribution-heading">Distribution of scores</h2>
<p class="note" id="distribution-note">How many pull requests have each score.${!first && ' Line: before. Columns: after.'}</p>
${!first && legend}
<div class="scroll" tabindex="0" role="region" aria-label="Chart of scores">${distributionChart(histogram, first ? null : scores.before, scores.after)}</div>
<details><summary>Show the numbers</summary>
<table><thead><tr>${column('Score')}${first ? column('Pull requests') : [column('Before'), column('After')]}</tr></thead><tbody>
${histogram.map(bucket => html`<tr><th scope="row" class="n">${bucketLabel(bucket)}</th>${!first && html`<td class="n">${formatInteger(bucket.before)}</td>`}<td class="n">${formatInteger(bucket.after)}</td></tr>\n`)}
</tbody></table></details>
</section>`;
}

function badges(rule: PlannedRule, total: number) {
  const badge = (kind: string, text: string) => html` <span class="badge ${kind}">${text}</span>`;
  return [
    rule.status === 'added' && badge('added', 'new'),
    rule.status === 'removed' && badge('removed', 'removed'),
    ruleNotes(rule, total).map(({ kind, text }) => badge(kind, text)),
  ];
}

/** The bars, counts and points of a rule or an entry; no cells if there are no pull requests. */
function shareCells({ before, after }: Pick<EntryResult, 'before' | 'after'>, total: number): Html {
  if (total === 0) return nothing;
  const count = (side: Share | null) => (side === null ? '–' : formatInteger(side.pull_requests));
  const points = (side: Share | null) => (side === null ? '–' : signed(side.points));
  const change = (one: string, other: string) => (one === other || before === null ? other : fromTo(one, other));
  return html`<td class="bar">${pairBars(before?.pull_requests ?? 0, after?.pull_requests ?? 0, total)}</td>
<td class="n">${change(count(before), count(after))}</td>
<td class="n">${after === null ? '–' : fixedPercent(after.pull_requests, total)}</td>
<td class="n">${change(points(before), points(after))}</td>`;
}

function entryRow(entry: EntryResult, isLast: boolean, total: number): Html {
  const { before, after, action, expression, value } = entry;
  const sign = (mark: string, text: string) =>
    html`<span class="sign">${mark}<span class="unseen"> ${text}: </span></span>`;
  return html`<tr class="entry${after === null && ' removed'}${isLast && ' last-entry'}"><th scope="row">${before === null && sign('+', 'new')}${after === null && sign('−', 'removed')}<code><bdi>${expression}</bdi></code> <span class="was">${action === 'ADD' ? 'adds' : 'takes'}</span> <code><bdi>${value}</bdi></code></th>
${shareCells(entry, total)}</tr>
`;
}

function ruleRows(rule: PlannedRule, total: number): Html {
  return html`<tr${rule.entries.length > 0 && new Html(' class="has-entries"')}><th scope="row"><bdi>${rule.name}</bdi>${badges(rule, total)}</th>
${shareCells(enabledSides(rule), total)}</tr>
${rule.entries.map((entry, index) => entryRow(entry, index === rule.entries.length - 1, total))}`;
}

/** How a page speaks of pull requests, or of reviews. */
interface Words {
  /** Of the ids of headings. */
  prefix: string;
  one: string;
  counts: string;
  rules: string;
  members: string;
  sum: string;
  audit: string;
}

const ofPullRequests: Words = {
  prefix: '',
  one: 'pull request',
  counts: 'Pull requests',
  rules: 'How often each rule counts',
  members: 'Totals by member',
  sum: 'The sum of the scores of their pull requests.',
  audit: 'Ways to game these rules',
};

const ofReviews: Words = {
  prefix: 'review-',
  one: 'review',
  counts: 'Reviews',
  rules: 'How often each rule for reviews counts',
  members: 'Totals of reviews by member',
  sum: 'The sum of the scores of their reviews.',
  audit: 'Ways to game the rules for reviews',
};

function reviews(plan: PlanDocument): Html {
  const own = reviewsOf(plan);
  return own === undefined
    ? nothing
    : html`${rules(own, ofReviews)}
${members(own, ofReviews)}
${audit(own, ofReviews)}`;
}

function rules(plan: PlanDocument, words: Words): Html {
  const { rules: all } = plan;
  const { total } = plan.pull_requests;
  if (all.length === 0) return nothing;
  const heading = `${words.prefix}rules-heading`;
  const key = isFirst(plan) ? '' : ' Thin bar: before. Thick bar: after.';
  const note =
    total > 0
      ? `How many of ${counted(total, words.one)} each rule counts for, and the points it gives in all.${key}`
      : 'Once pull requests are imported, this shows how often each rule counts.';
  const shares = html`<th scope="col" class="bar"><span class="unseen">Share</span></th><th scope="col" class="n">${words.counts}</th><th scope="col" class="n">Share</th><th scope="col" class="n">Points</th>`;
  return html`<section aria-labelledby="${heading}">
<h2 id="${heading}">${total > 0 ? words.rules : 'The rules'}</h2>
<p class="note">${note}</p>
<div${total > 0 && html` class="scroll" tabindex="0" role="region" aria-labelledby="${heading}"`}><table>
<thead><tr><th scope="col">Rule and its entries</th>${total > 0 && shares}</tr></thead>
<tbody>
${all.map(rule => ruleRows(rule, total))}
</tbody></table></div>
</section>`;
}

function rankCell(member: PlannedMember): Html {
  const moved = member.rank_before - member.rank_after;
  if (moved === 0) return html`<span class="same-text" aria-label="same rank">·</span>`;
  const kind = direction(moved);
  return html`<span class="${kind}-text" aria-label="${kind} ${Math.abs(moved)}">${rankChange(member)}</span>`;
}

function memberRow(member: PlannedMember, maxDifference: number, first: boolean): Html {
  const { name, login, before, after } = member;
  const isSame = name === '' || name === login;
  const totals = html`<td class="n was">${formatInteger(before)}</td><td class="n">${formatInteger(after)}</td>`;
  return html`<tr><td class="n">${formatInteger(member.rank_after)}</td>${!first && html`<td class="rank">${rankCell(member)}</td>`}
<th scope="row"><bdi>${name || login}</bdi>${!isSame && html` <bdi class="login">${login}</bdi>`}</th>
<td class="n">${formatInteger(member.pull_requests)}</td>${!first && totals}
<td class="bar">${differenceBar(after - before, maxDifference)}</td><td class="n">${first ? formatInteger(after) : difference(after - before)}</td></tr>
`;
}

function members(plan: PlanDocument, words: Words): Html {
  const { members: all } = plan;
  if (all.length === 0) return nothing;
  const first = isFirst(plan);
  const listed = all.slice(0, shown.members);
  const maxDifference = Math.max(...listed.map(({ before, after }) => Math.abs(after - before)));
  const hasMoves = all.some(({ rank_before: before, rank_after: after }) => before !== after);
  const rankColumn = html`<th scope="col"><span class="unseen">Change of rank</span></th>`;
  const limits =
    all.length > listed.length &&
    html` The table shows the top ${formatInteger(listed.length)} of ${formatInteger(all.length)}; <code>--json</code> has all.`;
  const ranked = all.map(member => ({ ...member, name: member.name || member.login }));
  const heading = `${words.prefix}members-heading`;
  return html`<section aria-labelledby="${heading}">
<h2 id="${heading}">${words.members}</h2>
<p class="note">${first ? words.sum : describeRankChanges(plan)}${limits}</p>
${hasMoves && !first && html`<div class="scroll" tabindex="0" role="region" aria-label="Chart of ranks">${rankChart(ranked, shown.ranks)}</div>`}
<div class="scroll" tabindex="0" role="region" aria-labelledby="${heading}"><table${first && new Html(' class="totals"')}>
<thead><tr>${column('Rank')}${!first && rankColumn}<th scope="col">Member</th>${column(words.counts)}${!first && [column('Before'), column('After')]}<th scope="col" class="bar"><span class="unseen">Bar</span></th>${column(first ? 'Total' : 'Difference')}</tr></thead>
<tbody>
${listed.map(member => memberRow(member, maxDifference, first))}
</tbody></table></div>
</section>`;
}

function moverList(heading: string, moves: readonly PlannedMove[], count: number, first: boolean): Html {
  if (moves.length === 0) return nothing;
  const listed = moves.slice(0, shown.movers);
  const rest = count - listed.length;
  return html`<div><h3>${heading}</h3>
<ol class="movers">
${listed.map(({ title, url, repository, number, member, from, to }) => {
  const address = webAddress(url);
  const text = title.trim() === '' ? '(no title)' : title;
  const change = !first && html`${formatInteger(from)} <span aria-label="to">→</span> ${formatInteger(to)} · `;
  return html`<li><span class="delta ${direction(to - from)}-text">${first ? formatInteger(to) : signed(to - from)}</span>
<span class="title"><bdi>${address === undefined ? text : html`<a href="${address}" rel="noopener noreferrer">${text}</a>`}</bdi></span>
<span class="meta">${change}<bdi>${repository}</bdi>#${String(number)} · <bdi>${member}</bdi></span></li>
`;
})}</ol>
${rest > 0 && html`<p class="note">and ${formatInteger(rest)} more</p>`}
</div>`;
}

function movers(plan: PlanDocument): Html {
  const { raised, lowered } = plan.movers;
  if (raised.length + lowered.length === 0) return nothing;
  const first = isFirst(plan);
  const [heading, up, down] = first
    ? ['Highest and lowest scores', 'Above 0', 'Below 0']
    : ['Largest changes', 'Up', 'Down'];
  return html`<section aria-labelledby="movers-heading">
<h2 id="movers-heading">${heading}</h2>
<div class="columns">
${moverList(up, raised, plan.pull_requests.raised, first)}
${moverList(down, lowered, plan.pull_requests.lowered, first)}
</div>
</section>`;
}

function audit(plan: PlanDocument, words: Words): Html {
  const { audit: found } = plan;
  if (found === null || plan.pull_requests.total === 0) return nothing;
  const first = isFirst(plan);
  const gaining = waysThatGain(found);
  const side = ({ share, ...rest }: ComparedWay['after']) =>
    html`<td class="n">${fixedPercent(share, 1)}</td><td class="n">${medianOf({ share, ...rest })}</td>`;
  const heading = `${words.prefix}audit-heading`;
  return html`<section aria-labelledby="${heading}">
<h2 id="${heading}">${words.audit}</h2>
${
  gaining.length === 0
    ? html`<p class="note">${noWayFound}</p>`
    : html`<p class="note">The share of the pull requests that gain points by a small, cheap change, and the median of what they gain.</p>
<div class="scroll" tabindex="0" role="region" aria-labelledby="${heading}"><table>
<thead><tr><th scope="col">Change</th>${!first && html`<th scope="col"><span class="unseen">Better or worse</span></th>${column('Before')}${column('Median')}`}${column(first ? 'Gain on' : 'After')}${column('Median')}<th scope="col">Paid by</th></tr></thead>
<tbody>
${gaining.map(
  ({
    way,
    status,
    before,
    after,
  }) => html`<tr><th scope="row">${wayDescriptions[way]}</th>${!first && html`<td>${auditMarks[status]}</td>${side(before)}`}${side(after)}<td><bdi>${after.rules[0]?.name ?? ''}</bdi></td></tr>
`,
)}
</tbody></table></div>`
}
</section>`;
}

const generator = html`<meta name="generator" content="pullscore">`;

export const isPlanReport = (page: string): boolean => page.includes(generator.markup);

/** @param now shown in the footer */
export function planReport(plan: PlanDocument, now: Date): string {
  const time = `${now.toISOString().slice(0, 16)}Z`;
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
${generator}
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>Plan for ${plan.organisation}: ${headline(plan)}</title>
<style>${new Html(planStyle)}</style>
</head>
<body>
<main>
${opening(plan)}
${distribution(plan)}
${rules(plan, ofPullRequests)}
${members(plan, ofPullRequests)}
${movers(plan)}
${audit(plan, ofPullRequests)}
${reviews(plan)}
</main>
<footer><p>Made by pullscore on <time datetime="${time}">${time.slice(0, 10)} at ${time.slice(11, 16)} UTC</time>. Nothing was saved${plan.ruleset_version === 0 ? '' : ': the rules in force have not changed'}.</p></footer>
</body>
</html>
`.markup;
}
