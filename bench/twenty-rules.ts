import type { Facts } from '../src/scoring/facts.ts';
import { characterCount } from '../src/scoring/language/text-operations.ts';
import type { RuleDefinition } from '../src/scoring/rule.ts';
import { entry, rule } from '../test/scoring/support.ts';

/** Twenty rules of the kinds that organisations have; about six of them count for a pull request. */
export const twentyRules = [
  rule('Merged', entry('merged', '10')),
  rule('Small', entry('merged && size <= 200', '5')),
  rule('Large', entry('size > 800', 'min(20, per(size - 800, 100))', 'SUBTRACT')),
  rule('Huge', entry('additions + deletions > 1100', '10', 'SUBTRACT')),
  rule('Few files', entry('state == "merged" && changed_files <= 10', '3')),
  rule('Additions', entry('additions > 0', 'min(50, floor((additions + deletions) / 20))')),
  rule('Clean-up', entry('deletions > additions', '4')),
  rule('Fix or feature', entry('contains(title, "fix") || starts_with(title, "feat")', '2')),
  rule('Commits', entry('commits > 5', 'state == "merged" ? commits * 2 : 0')),
  rule('One commit', entry('commits == 1', '1')),
  rule('Approved', entry('approvals > 0', '3 * min(2, approvals)')),
  rule('Unreviewed', entry('merged && approvals == 0', '5', 'SUBTRACT')),
  rule('Changes requested', entry('changes_requested > 0', '2', 'SUBTRACT')),
  rule('Discussed', entry('comments > 3 && comments < 10', '1')),
  rule('Linked', entry('linked_issues > 0', '2')),
  rule('Explained', entry('length(body) >= 100', '2')),
  rule('Quick', entry('hours_to_merge <= 24', '4')),
  rule('Answered soon', entry('hours_to_first_review < 4', '2')),
  rule('Bot', entry('author_is_bot', '8', 'SUBTRACT')),
  rule('Release', entry('base != "main"', '3')),
];

/** Conditions and values as one would write them in JavaScript, if that differs. */
const byHand: Readonly<Record<string, string>> = {
  'min(20, per(size - 800, 100))': 'Math.min(20, Math.trunc((size - 800) / 100))',
  'state == "merged" && changed_files <= 10': 'merged && facts.changed_files <= 10',
  'min(50, floor((additions + deletions) / 20))': 'Math.min(50, Math.floor((additions + deletions) / 20))',
  'contains(title, "fix") || starts_with(title, "feat")': 'title.includes("fix") || title.startsWith("feat")',
  'state == "merged" ? commits * 2 : 0': 'merged ? commits * 2 : 0',
  'commits == 1': 'commits === 1',
  '3 * min(2, approvals)': '3 * Math.min(2, approvals)',
  'merged && approvals == 0': 'merged && approvals === 0',
  'changes_requested > 0': 'facts.changes_requested > 0',
  'linked_issues > 0': 'facts.linked_issues > 0',
  // Both count characters in the same way: that is not what is compared.
  'length(body) >= 100': 'characterCount(facts.body) >= 100',
  'hours_to_merge <= 24': 'facts.hours_to_merge !== null && facts.hours_to_merge <= 24',
  'hours_to_first_review < 4': 'facts.hours_to_first_review !== null && facts.hours_to_first_review < 4',
  author_is_bot: 'facts.author_is_bot',
  'base != "main"': 'facts.base !== "main"',
};
const inJavaScript = (text: string): string => byHand[text] ?? text;

/** The statement for one rule: texts that are known are written out, and only a value that can be 0 is looked at. */
function statementOf({ name, logic: [only] }: RuleDefinition): string {
  const {
    expression,
    effect: { action, value: by },
  } = only as RuleDefinition['logic'][number];
  const isFixed = /^\d+$/.test(by);
  const [before = '', after = ''] = JSON.stringify({ name, action, effect: 0, expression }).split(/(?<="effect":)0/);
  const text = (start: string) =>
    isFixed
      ? JSON.stringify(start + before + by + after)
      : `${JSON.stringify(start + before)} + value + ${JSON.stringify(after)}`;
  const add = (value: string) =>
    `score ${action === 'ADD' ? '+' : '-'}= ${value}; out += out === '' ? ${text('[')} : ${text(',')};`;
  const body = isFixed ? add(by) : `const value = ${inJavaScript(by)}; if (value !== 0) { ${add('value')} }`;
  return `if (${inJavaScript(expression)}) { ${body} }`;
}

/** What one would write by hand for these rules in particular. */
export const handWrittenScore = new Function(
  'characterCount',
  `return facts => {
    const { additions, deletions, size, commits, approvals, comments, title } = facts;
    const merged = facts.state === 'merged';
    let score = 0;
    let out = '';
    ${twentyRules.map(statementOf).join('\n')}
    return { score, breakdown: out === '' ? '[]' : out + ']' };
  }`,
)(characterCount) as (facts: Facts) => { score: number; breakdown: string };
