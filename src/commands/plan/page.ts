/**
 * A plan as a web page: one file that loads nothing else and runs no script. Titles, names and expressions are written
 * by other people; `html` escapes them.
 */

import { createHash } from 'node:crypto';
import type { PlanDocument } from '../../reports/plan.ts';
import { bucketLabel } from '../../scoring/plan/distribution.ts';
import { Html, html } from '../../text/html.ts';
import { formatInteger, percent } from '../../text/number-formats.ts';
import { right } from '../../text/terminal.ts';
import { distributionChart, rankChart, shareBar } from './charts.ts';
import { type Part, type PlanTable, partsOf, type Section, tableOf } from './sections.ts';
import { planStyle } from './style.ts';
import { comparedWith, describeRuleChanges, describeScores } from './wording.ts';

const limits = { members: 40, movers: 10, showsAllEntries: true };

const maxRanks = 20;

const styleHash = createHash('sha256').update(planStyle).digest('base64');
const policy = `default-src 'none'; style-src 'sha256-${styleHash}'; base-uri 'none'; form-action 'none'`;

function headline({ pull_requests: { total, changed } }: PlanDocument, isFirst: boolean): string {
  if (total === 0) return 'There are no pull requests yet';
  const changing = isFirst ? 'get a score' : 'change their score';
  return `${formatInteger(changed)} of ${formatInteger(total)} pull requests ${changing}`;
}

function opening(plan: PlanDocument, { isFirst, scores }: Part): Html {
  const { total, changed, raised, lowered } = plan.pull_requests;
  const [up, down, same] = isFirst ? ['above 0', 'below 0', 'at 0'] : ['up', 'down', 'unchanged'];
  const key = (kind: string, count: number, label: string) =>
    html`<li><span class="key ${kind}"></span><b>${formatInteger(count)}</b> ${label} (${percent(count, total)})</li>\n`;
  const figures = scores.rows.map(cells => {
    const [label, before, after, change] = isFirst ? [cells[0], undefined, cells[1]] : cells;
    return html`<div>
<dt>${label?.text ?? ''}</dt>
<dd class="value">${after?.text ?? ''}</dd>
${before !== undefined && html`<dd class="from">from ${before.text}, ${coloured(change?.text ?? '')}</dd>`}
</div>`;
  });
  return html`<header>
<p class="overline">Plan for <bdi>${plan.organisation}</bdi></p>
<h1>${headline(plan, isFirst)}</h1>
<p class="lede">What <strong><bdi>${plan.file}</bdi></strong> would do, ${comparedWith(plan)}. Rules: ${describeRuleChanges(plan)}.</p>
${describeScores(plan).map(note => html`<p class="note caution">${note}</p>`)}
${
  total > 0 &&
  html`${shareBar(raised, lowered, total)}
<ul class="legend">
${[key('up', raised, up), key('down', lowered, down), key('same', total - changed, same)]}</ul>
<dl class="figures">
${figures}
</dl>`
}
</header>`;
}

function distribution({ histogram, scores }: PlanDocument, isFirst: boolean): Html | false {
  if (histogram.length === 0) return false;
  const legend = html`<ul class="legend" aria-hidden="true"><li><span class="key before"></span>before</li><li><span class="key after"></span>after</li></ul>`;
  const numbers = tableOf(histogram, [
    [right('SCORE'), bucketLabel],
    !isFirst && [right('BEFORE'), bucket => formatInteger(bucket.before)],
    [right(isFirst ? 'PULL REQUESTS' : 'AFTER'), bucket => formatInteger(bucket.after)],
  ]);
  return html`<section aria-labelledby="distribution-heading">
<h2 id="distribution-heading">Distribution of scores</h2>
<p class="note" id="distribution-note">How many pull requests have each score.${!isFirst && ' Line: before. Columns: after.'}</p>
${!isFirst && legend}
${scrolled('Chart of scores', distributionChart(histogram, isFirst ? null : scores.before, scores.after))}
<details><summary>Show the numbers</summary>
${table(numbers)}</details>
</section>`;
}

/** More is green, less is red. */
function coloured(text: string): Html {
  const direction = /^[+▲]/.test(text) ? 'up' : /^[−▼]/.test(text) ? 'down' : 'same';
  return html`<span class="${direction}-text">${text}</span>`;
}

const scrolled = (label: string, content: Html) =>
  html`<div class="scroll" tabindex="0" role="region" aria-label="${label}">${content}</div>`;

function table({ columns, rows }: PlanTable): Html {
  const classes = columns.map(({ align, minWidth, isBar }) =>
    [align === 'right' && 'n', minWidth && 'wide', isBar && 'bar'].filter(Boolean).join(' '),
  );
  const heads = columns.map(({ heading }, index) => {
    const text = heading === '' ? html`<span class="unseen">Bar</span>` : heading[0] + heading.slice(1).toLowerCase();
    return html`<th scope="col" class="${classes[index] ?? ''}">${text}</th>`;
  });
  const lines = rows.map(cells => {
    const written = cells.map(({ text, html: given }, index) => {
      const shown = given ?? (columns[index]?.isChange ? coloured(text) : html`<bdi>${text}</bdi>`);
      if (columns[index]?.isHead) return html`<th scope="row">${shown}</th>`;
      return html`<td class="${classes[index] ?? ''}">${shown}</td>`;
    });
    return html`<tr>${written}</tr>\n`;
  });
  return html`<table>\n<thead><tr>${heads}</tr></thead>\n<tbody>\n${lines}</tbody></table>`;
}

function section(own: Section, plan: PlanDocument, { of, isFirst }: Part): Html {
  const id = `${of === 'reviews' ? 'review-' : ''}${own.name}-heading`;
  const { members } = of === 'reviews' ? (plan.reviews ?? plan) : plan;
  const hasMoves = own.name === 'members' && !isFirst && members.some(each => each.rank_before !== each.rank_after);
  return html`<section aria-labelledby="${id}">
<h2 id="${id}">${own.heading}</h2>
${own.intro !== '' && html`<p class="note">${own.intro}</p>`}
${hasMoves && scrolled('Chart of ranks', rankChart(members, maxRanks))}
${own.rows.length > 0 && scrolled(own.heading, table(own))}
${own.note !== '' && html`<p class="note">${own.note}</p>`}
</section>`;
}

const generator = html`<meta name="generator" content="pullscore">`;

/** @param beginning of the file, of at least 1,000 bytes if it has so many */
export const isPlanReport = (beginning: string): boolean => beginning.includes(generator.markup);

/** @param now shown in the footer */
export function planReport(plan: PlanDocument, now: Date): string {
  const time = `${now.toISOString().slice(0, 16)}Z`;
  const parts = partsOf(plan, limits);
  const [ofPullRequests] = parts;
  const sections = parts.flatMap(part => part.sections.map(each => html`${section(each, plan, part)}\n`));
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
${generator}
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>Plan for ${plan.organisation}: ${headline(plan, ofPullRequests.isFirst)}</title>
<style>${new Html(planStyle)}</style>
</head>
<body>
<main>
${opening(plan, ofPullRequests)}
${distribution(plan, ofPullRequests.isFirst)}
${sections}</main>
<footer><p>Made by pullscore on <time datetime="${time}">${time.slice(0, 10)} at ${time.slice(11, 16)} UTC</time>. Nothing was saved${plan.ruleset_version === 0 ? '' : ': the rules in force have not changed'}.</p></footer>
</body>
</html>
`.markup;
}
