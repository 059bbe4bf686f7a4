import type { Facts } from '../src/scoring/facts.ts';
import { characterCount } from '../src/scoring/language/text.ts';
import type { RuleAction, RuleDefinition } from '../src/scoring/rule.ts';

const rule = (name: string, expression: string, value: string, action: RuleAction = 'ADD'): RuleDefinition => ({
  name,
  description: '',
  is_enabled: true,
  logic: [{ expression, effect: { action, value } }],
});

/** Twenty rules of the kinds that organisations have; about six of them count for a pull request. */
export const twentyRules: readonly RuleDefinition[] = [
  rule('Merged', 'merged', '10'),
  rule('Small', 'merged && size <= 200', '5'),
  rule('Large', 'size > 800', 'min(20, per(size - 800, 100))', 'SUBTRACT'),
  rule('Huge', 'additions + deletions > 1100', '10', 'SUBTRACT'),
  rule('Few files', 'state == "merged" && changed_files <= 10', '3'),
  rule('Additions', 'additions > 0', 'min(50, floor((additions + deletions) / 20))'),
  rule('Clean-up', 'deletions > additions', '4'),
  rule('Fix or feature', 'contains(title, "fix") || starts_with(title, "feat")', '2'),
  rule('Commits', 'commits > 5', 'state == "merged" ? commits * 2 : 0'),
  rule('One commit', 'commits == 1', '1'),
  rule('Approved', 'approvals > 0', '3 * min(2, approvals)'),
  rule('Unreviewed', 'merged && approvals == 0', '5', 'SUBTRACT'),
  rule('Changes requested', 'changes_requested > 0', '2', 'SUBTRACT'),
  rule('Discussed', 'comments > 3 && comments < 10', '1'),
  rule('Linked', 'linked_issues > 0', '2'),
  rule('Explained', 'length(body) >= 100', '2'),
  rule('Quick', 'hours_to_merge <= 24', '4'),
  rule('Answered soon', 'hours_to_first_review < 4', '2'),
  rule('Bot', 'author_is_bot', '8', 'SUBTRACT'),
  rule('Release', 'base != "main"', '3'),
];

/** What one would write by hand for these rules in particular; characters are counted as ours are, which is no part of it. */
export function handWrittenScore(facts: Facts): { score: number; breakdown: string } {
  const additions = facts.additions;
  const deletions = facts.deletions;
  const size = facts.size;
  const commits = facts.commits;
  const approvals = facts.approvals;
  const comments = facts.comments;
  const title = facts.title;
  let score = 0;
  let out = '';
  const merged = facts.state === 'merged';
  if (merged) {
    score += 10;
    out +=
      out === ''
        ? '[{"name":"Merged","action":"ADD","effect":10,"expression":"merged"}'
        : ',{"name":"Merged","action":"ADD","effect":10,"expression":"merged"}';
  }
  if (merged && size <= 200) {
    score += 5;
    out +=
      out === ''
        ? '[{"name":"Small","action":"ADD","effect":5,"expression":"merged && size <= 200"}'
        : ',{"name":"Small","action":"ADD","effect":5,"expression":"merged && size <= 200"}';
  }
  if (size > 800) {
    const value = Math.min(20, Math.trunc((size - 800) / 100));
    if (value !== 0) {
      score -= value;
      out +=
        out === ''
          ? `[{"name":"Large","action":"SUBTRACT","effect":${value},"expression":"size > 800"}`
          : `,{"name":"Large","action":"SUBTRACT","effect":${value},"expression":"size > 800"}`;
    }
  }
  if (additions + deletions > 1100) {
    score -= 10;
    out +=
      out === ''
        ? '[{"name":"Huge","action":"SUBTRACT","effect":10,"expression":"additions + deletions > 1100"}'
        : ',{"name":"Huge","action":"SUBTRACT","effect":10,"expression":"additions + deletions > 1100"}';
  }
  if (merged && facts.changed_files <= 10) {
    score += 3;
    out +=
      out === ''
        ? '[{"name":"Few files","action":"ADD","effect":3,"expression":"state == \\"merged\\" && changed_files <= 10"}'
        : ',{"name":"Few files","action":"ADD","effect":3,"expression":"state == \\"merged\\" && changed_files <= 10"}';
  }
  if (additions > 0) {
    const value = Math.min(50, Math.floor((additions + deletions) / 20));
    if (value !== 0) {
      score += value;
      out +=
        out === ''
          ? `[{"name":"Additions","action":"ADD","effect":${value},"expression":"additions > 0"}`
          : `,{"name":"Additions","action":"ADD","effect":${value},"expression":"additions > 0"}`;
    }
  }
  if (deletions > additions) {
    score += 4;
    out +=
      out === ''
        ? '[{"name":"Clean-up","action":"ADD","effect":4,"expression":"deletions > additions"}'
        : ',{"name":"Clean-up","action":"ADD","effect":4,"expression":"deletions > additions"}';
  }
  if (title.includes('fix') || title.startsWith('feat')) {
    score += 2;
    out +=
      out === ''
        ? '[{"name":"Fix or feature","action":"ADD","effect":2,"expression":"contains(title, \\"fix\\") || starts_with(title, \\"feat\\")"}'
        : ',{"name":"Fix or feature","action":"ADD","effect":2,"expression":"contains(title, \\"fix\\") || starts_with(title, \\"feat\\")"}';
  }
  if (commits > 5) {
    const value = merged ? commits * 2 : 0;
    if (value !== 0) {
      score += value;
      out +=
        out === ''
          ? `[{"name":"Commits","action":"ADD","effect":${value},"expression":"commits > 5"}`
          : `,{"name":"Commits","action":"ADD","effect":${value},"expression":"commits > 5"}`;
    }
  }
  if (commits === 1) {
    score += 1;
    out +=
      out === ''
        ? '[{"name":"One commit","action":"ADD","effect":1,"expression":"commits == 1"}'
        : ',{"name":"One commit","action":"ADD","effect":1,"expression":"commits == 1"}';
  }
  if (approvals > 0) {
    const value = 3 * Math.min(2, approvals);
    score += value;
    out +=
      out === ''
        ? `[{"name":"Approved","action":"ADD","effect":${value},"expression":"approvals > 0"}`
        : `,{"name":"Approved","action":"ADD","effect":${value},"expression":"approvals > 0"}`;
  }
  if (merged && approvals === 0) {
    score -= 5;
    out +=
      out === ''
        ? '[{"name":"Unreviewed","action":"SUBTRACT","effect":5,"expression":"merged && approvals == 0"}'
        : ',{"name":"Unreviewed","action":"SUBTRACT","effect":5,"expression":"merged && approvals == 0"}';
  }
  if (facts.changes_requested > 0) {
    score -= 2;
    out +=
      out === ''
        ? '[{"name":"Changes requested","action":"SUBTRACT","effect":2,"expression":"changes_requested > 0"}'
        : ',{"name":"Changes requested","action":"SUBTRACT","effect":2,"expression":"changes_requested > 0"}';
  }
  if (comments > 3 && comments < 10) {
    score += 1;
    out +=
      out === ''
        ? '[{"name":"Discussed","action":"ADD","effect":1,"expression":"comments > 3 && comments < 10"}'
        : ',{"name":"Discussed","action":"ADD","effect":1,"expression":"comments > 3 && comments < 10"}';
  }
  if (facts.linked_issues > 0) {
    score += 2;
    out +=
      out === ''
        ? '[{"name":"Linked","action":"ADD","effect":2,"expression":"linked_issues > 0"}'
        : ',{"name":"Linked","action":"ADD","effect":2,"expression":"linked_issues > 0"}';
  }
  if (characterCount(facts.body) >= 100) {
    score += 2;
    out +=
      out === ''
        ? '[{"name":"Explained","action":"ADD","effect":2,"expression":"length(body) >= 100"}'
        : ',{"name":"Explained","action":"ADD","effect":2,"expression":"length(body) >= 100"}';
  }
  if (facts.hours_to_merge !== null && facts.hours_to_merge <= 24) {
    score += 4;
    out +=
      out === ''
        ? '[{"name":"Quick","action":"ADD","effect":4,"expression":"hours_to_merge <= 24"}'
        : ',{"name":"Quick","action":"ADD","effect":4,"expression":"hours_to_merge <= 24"}';
  }
  if (facts.hours_to_first_review !== null && facts.hours_to_first_review < 4) {
    score += 2;
    out +=
      out === ''
        ? '[{"name":"Answered soon","action":"ADD","effect":2,"expression":"hours_to_first_review < 4"}'
        : ',{"name":"Answered soon","action":"ADD","effect":2,"expression":"hours_to_first_review < 4"}';
  }
  if (facts.author_is_bot) {
    score -= 8;
    out +=
      out === ''
        ? '[{"name":"Bot","action":"SUBTRACT","effect":8,"expression":"author_is_bot"}'
        : ',{"name":"Bot","action":"SUBTRACT","effect":8,"expression":"author_is_bot"}';
  }
  if (facts.base !== 'main') {
    score += 3;
    out +=
      out === ''
        ? '[{"name":"Release","action":"ADD","effect":3,"expression":"base != \\"main\\""}'
        : ',{"name":"Release","action":"ADD","effect":3,"expression":"base != \\"main\\""}';
  }
  return { score, breakdown: out === '' ? '[]' : `${out}]` };
}
