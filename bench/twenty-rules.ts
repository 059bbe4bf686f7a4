import type { Facts } from '../src/scoring/facts.ts';
import { characterCount } from '../src/scoring/language/text-operations.ts';
import type { RuleAction } from '../src/scoring/rule.ts';
import { entry, rule } from '../test/scoring/support.ts';

/** A rule in our language, and its condition and value as one would write them in JavaScript. */
type Pair = [name: string, expression: string, value: string, condition: string, by: string, action?: RuleAction];

const pairs: readonly Pair[] = [
  ['Merged', 'merged', '10', 'merged', '10'],
  ['Small', 'merged && size <= 200', '5', 'merged && size <= 200', '5'],
  [
    'Large',
    'size > 800',
    'min(20, per(size - 800, 100))',
    'size > 800',
    'Math.min(20, Math.trunc((size - 800) / 100))',
    'SUBTRACT',
  ],
  ['Huge', 'additions + deletions > 1100', '10', 'additions + deletions > 1100', '10', 'SUBTRACT'],
  ['Few files', 'state == "merged" && changed_files <= 10', '3', 'merged && facts.changed_files <= 10', '3'],
  [
    'Additions',
    'additions > 0',
    'min(50, floor((additions + deletions) / 20))',
    'additions > 0',
    'Math.min(50, Math.floor((additions + deletions) / 20))',
  ],
  ['Clean-up', 'deletions > additions', '4', 'deletions > additions', '4'],
  [
    'Fix or feature',
    'contains(title, "fix") || starts_with(title, "feat")',
    '2',
    'title.includes("fix") || title.startsWith("feat")',
    '2',
  ],
  ['Commits', 'commits > 5', 'state == "merged" ? commits * 2 : 0', 'commits > 5', 'merged ? commits * 2 : 0'],
  ['One commit', 'commits == 1', '1', 'commits === 1', '1'],
  ['Approved', 'approvals > 0', '3 * min(2, approvals)', 'approvals > 0', '3 * Math.min(2, approvals)'],
  ['Unreviewed', 'merged && approvals == 0', '5', 'merged && approvals === 0', '5', 'SUBTRACT'],
  ['Changes requested', 'changes_requested > 0', '2', 'facts.changes_requested > 0', '2', 'SUBTRACT'],
  ['Discussed', 'comments > 3 && comments < 10', '1', 'comments > 3 && comments < 10', '1'],
  ['Linked', 'linked_issues > 0', '2', 'facts.linked_issues > 0', '2'],
  // Both count characters in the same way: that is not what is compared.
  ['Explained', 'length(body) >= 100', '2', 'characterCount(facts.body) >= 100', '2'],
  ['Quick', 'hours_to_merge <= 24', '4', 'facts.hours_to_merge !== null && facts.hours_to_merge <= 24', '4'],
  [
    'Answered soon',
    'hours_to_first_review < 4',
    '2',
    'facts.hours_to_first_review !== null && facts.hours_to_first_review < 4',
    '2',
  ],
  ['Bot', 'author_is_bot', '8', 'facts.author_is_bot', '8', 'SUBTRACT'],
  ['Release', 'base != "main"', '3', 'facts.base !== "main"', '3'],
];

/** Twenty rules of the kinds that organisations have; about six of them count for a pull request. */
export const twentyRules = pairs.map(([name, expression, value, , , action]) =>
  rule(name, entry(expression, value, action)),
);

/** The statement for one rule: texts that are known are written out, and only a value that can be 0 is looked at. */
function statementOf([name, expression, , condition, by, action = 'ADD']: Pair): string {
  const isFixed = /^\d+$/.test(by);
  const [before = '', after = ''] = JSON.stringify({ name, action, effect: 0, expression }).split(/(?<="effect":)0/);
  const text = (start: string) =>
    isFixed
      ? JSON.stringify(start + before + by + after)
      : `${JSON.stringify(start + before)} + value + ${JSON.stringify(after)}`;
  const add = (value: string) =>
    `score ${action === 'ADD' ? '+' : '-'}= ${value}; out += out === '' ? ${text('[')} : ${text(',')};`;
  return `if (${condition}) { ${isFixed ? add(by) : `const value = ${by}; if (value !== 0) { ${add('value')} }`} }`;
}

const names = 'additions, deletions, size, commits, approvals, comments, title';

/** What one would write by hand for these rules in particular. */
export const handWrittenScore = new Function(
  'characterCount',
  `return facts => {
    const { ${names} } = facts;
    const merged = facts.state === 'merged';
    let score = 0;
    let out = '';
    ${pairs.map(statementOf).join('\n')}
    return { score, breakdown: out === '' ? '[]' : out + ']' };
  }`,
)(characterCount) as (facts: Facts) => { score: number; breakdown: string };
