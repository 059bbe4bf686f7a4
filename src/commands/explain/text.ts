/** An explanation as text. */

import type { ExplainedEntry, ExplainedRule, ExplainedRules } from '../../scoring/explain/explain.ts';
import type { ExplainedPart } from '../../scoring/explain/parts.ts';
import { placeOf, points } from '../../scoring/file/rule-tests.ts';
import { asInRules, counted, formatInteger } from '../../text/number-formats.ts';
import { brief } from '../../text/terminal.ts';

const maxTextWidth = 80;
const maxItems = 5;
/** With more facts than these, each has its own line. */
const maxFactsInLine = 3;

function showValue({ value, infinite, characters }: ExplainedPart): string {
  if (value === null) return infinite ? 'infinite' : 'absent';
  if (typeof value === 'string') {
    const quoted = JSON.stringify(brief(value, maxTextWidth));
    const count = characters ?? [...value].length;
    return count > maxTextWidth ? `${quoted} (${counted(count, 'character')})` : quoted;
  }
  if (typeof value === 'number') return Number.isFinite(value) ? asInRules(value) : 'infinite';
  if (typeof value === 'boolean') return String(value);
  const items = value.slice(0, maxItems).map(item => JSON.stringify(brief(item)));
  return `[${items.join(', ')}]${value.length > maxItems ? ` and ${value.length - maxItems} more` : ''}`;
}

/** The value shows by itself that JSON has no infinite number, or only the beginning of a text. */
const inBrackets = ({ note }: ExplainedPart) =>
  ['', 'infinite', 'shortened'].includes(note) ? '' : ` (${brief(note, 200)})`;

/** @param noted facts whose note was shown already; gets this one */
function showFact(fact: ExplainedPart, noted: Set<string>): string {
  const { source, value } = fact;
  const shown = noted.has(source) ? '' : inBrackets(fact);
  noted.add(source);
  return `${source} ${value === null ? 'is absent' : `= ${showValue(fact)}`}${shown}`;
}

/** A line for the part. If its own parts don't fit in there, they follow in lines of their own, further indented. */
function showPart(part: ExplainedPart, indent: string, noted: Set<string>): string[] {
  if (part.kind === 'fact') return [indent + showFact(part, noted)];
  if (part.kind === 'constant') return [indent + brief(part.source)];
  const line = `${indent}${brief(part.source, 120)} → ${showValue(part)}${inBrackets(part)}`;
  const parts = part.parts.filter(({ chosen }) => chosen);
  const facts = [...new Map(parts.map(inner => [inner.source, inner])).values()];
  if (parts.length === 0) return [line];
  if (facts.length <= maxFactsInLine && parts.every(({ kind }) => kind === 'fact')) {
    return [`${line}   where ${facts.map(fact => showFact(fact, noted)).join(', ')}`];
  }
  return [line, ...parts.flatMap(inner => showPart(inner, `${indent}  `, noted))];
}

const margin = ' '.repeat(9);

/** Aligns the numbers of all lines. */
const inMargin = (text: string, rest: string) => `${text.padStart(7)}  ${rest}`.trimEnd();

function showEntry(rule: ExplainedRule, entry: ExplainedEntry): string[] {
  const place = placeOf(rule, entry);
  const parts = [entry.condition, entry.amount].filter(part => part !== null);
  // A value that is a plain number is the amount in the margin.
  const shown = parts.filter(part => part === entry.condition || part.kind !== 'constant');
  const noted = new Set<string>();
  const lines = shown.flatMap(part => showPart(part, margin, noted));
  if (entry.outcome !== 'counted') return [inMargin('·', `${place}: ${brief(entry.reason, 300)}`), ...lines];
  const rounded = entry.reason.includes('rounded') ? `: ${entry.reason}` : '';
  return [inMargin(points(entry), `${place}${rounded}`), ...lines];
}

function showRule(rule: ExplainedRule, isShown: (entry: ExplainedEntry) => boolean): string[][] {
  const shown = rule.entries.filter(isShown);
  if (rule.entries.length > 0 && shown.length === 0) return [];
  if (!rule.enabled) return [[inMargin('·', `${brief(rule.name)}: the rule is disabled`)]];
  if (rule.problems.length > 0) {
    const heading = inMargin('·', `${brief(rule.name)}: the rule is no longer valid, so it does not count`);
    return [[heading, ...rule.problems.map(problem => margin + brief(problem, 300))]];
  }
  return shown.map(entry => showEntry(rule, entry));
}

/** The entries with their parts, then the total. @param places of the entries to show, from 0; all if it is left out */
export function showExplanation({ rules, sum, score }: ExplainedRules, places?: readonly number[]): string {
  if (rules.length === 0) return 'There are no rules.';
  const total = inMargin(
    formatInteger(score),
    sum === score ? 'total' : `total: the sum ${formatInteger(sum)}, limited to 32 bits`,
  );
  const entries = rules.flatMap(rule => rule.entries);
  const relevant = new Set(places?.map(place => entries[place]) ?? entries);
  const shown = rules.flatMap(rule => showRule(rule, entry => relevant.has(entry)));
  const hidden = entries.length - relevant.size;
  const others =
    hidden === 0 ? [] : [[`${counted(hidden, 'more entry', 'more entries')} did not count. To show all: --all`]];
  return [...shown, [inMargin('───────', ''), total], ...others].map(lines => lines.join('\n')).join('\n\n');
}
