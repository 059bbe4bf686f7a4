/** Writes an explanation for people to read. */
import type { ExplainedPart } from '../scoring/evaluate.ts';
import type { ExplainedEntry, ExplainedRule, Explanation } from '../scoring/explain.ts';
import type { Value } from '../scoring/functions.ts';
import { plain, truncate } from './terminal.ts';

const longest = 80;
const shownItems = 5;
/** If there are more facts than these, each gets a line. */
const factsInLine = 3;

/** One line without control characters: anybody can write a title or a label. */
export const brief = (text: string, columns = longest): string =>
  truncate(plain(text).replace(/\s+/g, ' ').trim(), columns);

function showText(text: string): string {
  const count = [...text].length;
  return count > longest ? `${JSON.stringify(brief(text))} (${count} characters)` : JSON.stringify(brief(text));
}

function showValue(value: Value | null): string {
  if (value === null) return 'absent';
  if (typeof value === 'string') return showText(value);
  // Sums of fractions carry digits that mean nothing.
  if (typeof value === 'number') return Number.isFinite(value) ? String(Number(value.toPrecision(12))) : 'infinite';
  if (typeof value === 'boolean') return String(value);
  const items = value.slice(0, shownItems).map(item => JSON.stringify(brief(item)));
  return `[${items.join(', ')}]${value.length > shownItems ? ` and ${value.length - shownItems} more` : ''}`;
}

const inBrackets = (note: string) => (note === '' ? '' : ` (${brief(note, 200)})`);

/** @param told facts whose note stands above already; this one's is added */
function showFact({ source, value, note }: ExplainedPart, told: Set<string>): string {
  const shown = told.has(source) ? '' : inBrackets(note);
  told.add(source);
  return `${source} ${value === null ? 'is absent' : `= ${showValue(value)}`}${shown}`;
}

/** A line for the part, and below it, further in, one for each part of it that one line can't hold. */
function showPart(part: ExplainedPart, indent: string, told: Set<string>): string[] {
  if (part.kind === 'fact') return [indent + showFact(part, told)];
  if (part.kind === 'constant') return [indent + brief(part.source)];
  const line = `${indent}${brief(part.source, 120)} → ${showValue(part.value)}${inBrackets(part.note)}`;
  const parts = part.parts.filter(({ chosen }) => chosen);
  const facts = [...new Map(parts.map(inner => [inner.source, inner])).values()];
  if (parts.length === 0) return [line];
  if (facts.length <= factsInLine && parts.every(({ kind }) => kind === 'fact')) {
    return [`${line}   where ${facts.map(fact => showFact(fact, told)).join(', ')}`];
  }
  return [line, ...parts.flatMap(inner => showPart(inner, `${indent}  `, told))];
}

const margin = ' '.repeat(9);

/** Numbers stand one below the other, eight columns wide or as wide as they are. */
const inMargin = (text: string, rest: string) => `${text.padStart(7)}  ${rest}`.trimEnd();

function showEntry({ name, entries }: ExplainedRule, entry: ExplainedEntry): string[] {
  const place = entries.length === 1 ? brief(name) : `${brief(name)}, entry ${entry.entry}`;
  const parts = [entry.condition, entry.amount].filter(part => part !== null);
  // A value that is a plain number stands in front already.
  const shown = parts.filter(part => part === entry.condition || part.kind !== 'constant');
  const told = new Set<string>();
  const lines = shown.flatMap(part => showPart(part, margin, told));
  if (entry.outcome !== 'counted') return [inMargin('·', `${place}: ${brief(entry.reason, 300)}`), ...lines];
  const sum = entry.action === 'ADD' ? entry.effect : -entry.effect;
  const rounded = entry.reason.includes('rounded') ? `: ${entry.reason}` : '';
  return [inMargin(sum > 0 ? `+${sum}` : String(sum), `${place}${rounded}`), ...lines];
}

function showRule(rule: ExplainedRule): string[][] {
  if (!rule.enabled) return [[inMargin('·', `${brief(rule.name)}: the rule is disabled`)]];
  if (rule.problems.length > 0) {
    const heading = inMargin('·', `${brief(rule.name)}: the rule is no longer valid and does not count`);
    return [[heading, ...rule.problems.map(problem => margin + brief(problem, 300))]];
  }
  return rule.entries.map(entry => showEntry(rule, entry));
}

/** Each entry with its parts, then the sum. */
export function showExplanation({ rules, sum, score }: Explanation): string {
  if (rules.length === 0) return 'There are no rules, so nothing counts.';
  const total =
    sum === score
      ? inMargin(String(score), 'in all')
      : inMargin(String(score), `in all: the sum ${sum}, limited to 32 bits`);
  return [...rules.flatMap(showRule), [inMargin('───────', ''), total]].map(lines => lines.join('\n')).join('\n\n');
}
