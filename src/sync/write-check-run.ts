/** What a check run on GitHub says about a score: its title, and its summary in Markdown. */
import type { Shown } from '../database/check-runs.ts';
import { maxSummaryBytes } from '../github/check-runs.ts';
import type { WaitingEntry } from '../scoring/explain/explain.ts';
import { code, markdownTable } from '../text/markdown.ts';
import { counted, formatInteger, signed } from '../text/number-formats.ts';
import { right } from '../text/terminal.ts';

/** Of those who get points. */
const maxShownReviewers = 20;

/** Entries that do not count yet; each may have several conditions. */
export const maxShownEntries = 50;

/** @param formerScore before the last change; null if it has not changed */
export function checkRunTitle(score: number, formerScore: number | null): string {
  const change = formerScore === null ? '' : ` (${signed(score - formerScore)})`;
  return `Score ${formatInteger(score)}${change}`;
}

/**
 * Names of rules and parts of expressions are shown as code: nothing in them becomes a link, a mention or markup.
 * A score keeps the version that gave it: another one alone makes no new check run.
 *
 * @param waiting the entries that do not count yet, and how many there are
 */
export function checkRunSummary(
  { score, scoreBreakdown, reviewScores, state, rulesetVersion }: Shown['pullRequest'],
  waiting: { entries: readonly WaitingEntry[]; count: number },
): string {
  const isOpen = state === 'open' || state === 'draft';
  const missing = isOpen ? waiting.entries.map(describeMissing) : [];
  const rest = waiting.count - waiting.entries.length;
  const lines = [
    ...showRules(scoreBreakdown, score),
    ...showReviews(reviewScores),
    ...(missing.length > 0 ? ['', '**What would still change it**', ''] : []),
    ...missing,
    ...(isOpen && rest > 0 ? [`- … and ${counted(rest, 'more entry', 'more entries')}`] : []),
    '',
    isOpen
      ? `By version ${rulesetVersion} of the organisation's rules. This check never fails.`
      : `By version ${rulesetVersion} of the organisation's rules. The pull request is ${state}: this is its last check.`,
  ];
  return withinLimit(lines);
}

/** The rules that count, in the order of the breakdown. */
function showRules(breakdown: string, score: number): string[] {
  const entries = JSON.parse(breakdown) as { name: string; action: 'ADD' | 'SUBTRACT'; effect: number }[];
  const points = new Map<string, number>();
  for (const { name, action, effect } of entries) {
    points.set(name, (points.get(name) ?? 0) + (action === 'ADD' ? effect : -effect));
  }
  if (points.size === 0) return ['No rule counts.'];
  const rows = [...points].map(([name, sum]) => [name, signed(sum)]);
  return [...markdownTable(['Rule', right('Points')], rows), `**Score ${formatInteger(score)}**`];
}

/** The points of each known member for their review. */
function showReviews(reviewScores: string | null): string[] {
  const reviews = JSON.parse(reviewScores ?? '[]') as { reviewer: string | null; score: number }[];
  const paid = reviews.flatMap(({ reviewer, score }) =>
    reviewer === null || score === 0 ? [] : [`${code(reviewer)} ${signed(score)}`],
  );
  if (paid.length === 0) return [];
  const rest = paid.length - maxShownReviewers;
  const others = rest > 0 ? [`and ${counted(rest, 'other', 'others')}`] : [];
  return ['', `For reviews: ${[...paid.slice(0, maxShownReviewers), ...others].join(', ')}`];
}

function describeMissing({ rule, entry, isOnly, potential, missing }: WaitingEntry): string {
  const place = isOnly ? code(rule) : `${code(rule)}, entry ${entry}`;
  const effect = potential === 0 ? 'may count' : signed(potential);
  return `- ${place}: ${effect} once ${missing.map(code).join(' and ')}`;
}

/** Leaves out the last lines of what is too long for GitHub. */
function withinLimit(lines: readonly string[]): string {
  let bytes = 0;
  const kept = lines.filter(line => {
    bytes += Buffer.byteLength(line) + 1;
    return bytes < maxSummaryBytes;
  });
  return [...kept, ...(kept.length < lines.length ? ['', '…'] : [])].join('\n').trim();
}
