/** Findings as a person reads them. */
import { counted } from '../numbers.ts';
import { labelled } from '../terminal.ts';
import { areas, type Finding } from './findings.ts';

const marks = { ok: '✓', warning: '!', problem: '✗', skipped: '·' } as const;

/** Where standard output is no terminal. */
const usualColumns = 100;
/** Longer lines are hard to read. */
const mostColumns = 120;

/** @param columns the terminal's; undefined where there is none */
export function showFindings(findings: readonly Finding[], columns: number | undefined): string {
  const width = Math.min(columns || usualColumns, mostColumns);
  const lines: string[] = [];
  for (const [area, title] of Object.entries(areas)) {
    const own = findings.filter(each => each.area === area);
    if (own.length === 0) continue;
    // What is to be done about several stands below the last of them.
    const shown = own.map((each, index) => (each.action === own[index + 1]?.action ? { ...each, action: null } : each));
    lines.push(title, ...shown.flatMap(each => showFinding(each, width)), '');
  }
  return [...lines, summary(findings)].join('\n');
}

function showFinding({ status, organisation, message, action }: Finding, width: number): string[] {
  const about = organisation === undefined ? message : `${organisation}: ${message}`;
  const lines = labelled(`  ${marks[status]} `, about, width);
  return action === null ? lines : [...lines, ...labelled('    → ', action, width)];
}

function summary(findings: readonly Finding[]): string {
  const count = (status: Finding['status']) => findings.filter(each => each.status === status).length;
  const [problems, warnings] = [count('problem'), count('warning')];
  if (problems + warnings === 0) return 'All is well.';
  const both = [problems > 0 ? counted(problems, 'problem') : '', warnings > 0 ? counted(warnings, 'warning') : ''];
  return `${both.filter(part => part !== '').join(' and ')}.`;
}
