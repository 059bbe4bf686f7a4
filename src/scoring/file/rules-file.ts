/** Reads a rules file: checked rules and tests, and every problem with its line. */

import { stringify } from 'yaml';
import { judge, measureRules } from '../admission.ts';
import { checkDefinitions, type Definition, definitionLimits, problemOfName } from '../language/definitions.ts';
import { suggestion } from '../language/nearest-name.ts';
import { characterCount, nameInQuotes } from '../language/text-operations.ts';
import type { CheckedDefinitions } from '../language/tree.ts';
import { isRuleAction, type RuleDefinition, type RuleLogic } from '../rule.ts';
import { checkRule, problemOfSize, type RuleKind, type RuleProblem, type Ruleset, ruleLimits } from '../ruleset.ts';
import { kindNames, type Report, readList, readMap, shownText } from './keys.ts';
import { lintRules, type ValidRule } from './lint.ts';
import { adviseOn, problemOfTruncation } from './quoting.ts';
import { type RuleTest, readTest } from './rule-tests.ts';
import { type FileProblem, isBlank, type YamlNode } from './yaml-node.ts';
import { readYaml } from './yaml-reader.ts';

/** What the file contains, in its order. If it has problems, only these are given. */
export interface RulesFile extends Ruleset {
  tests: RuleTest[];
  problems: FileProblem[];
  /** What is valid and probably not meant. */
  warnings: FileProblem[];
}

export const emptyFile: RulesFile = { definitions: [], rules: [], reviews: [], tests: [], problems: [], warnings: [] };

/** What can be read of an entry. In place of the rest stands what has no mistakes, so that they are looked for in all of it. */
function readEntry(node: YamlNode, place: string, report: Report): RuleLogic {
  const entry = readMap(node, ['expression', 'effect'], place, report);
  const expression = entry?.readText('expression') ?? 'true';
  const effectNode = entry?.nodeOf('effect');
  if (entry !== undefined && effectNode === undefined) {
    report(node.line, `${place} has no \`effect\`; add one, such as { action: ADD, value: "5" }`, { part: 'effect' });
  }
  const effect = effectNode && readMap(effectNode, ['action', 'value'], `${place}, effect`, report);
  const action = effect?.readText('action') ?? 'ADD';
  const value = effect?.readText('value') ?? '0';
  if (isRuleAction(action)) return { expression, effect: { action, value } };
  const hint = suggestion(action, ['ADD', 'SUBTRACT']) || '; write ADD or SUBTRACT';
  report(effectNode?.line ?? node.line, `${place}, action: ${shownText(action)} is not an action${hint}`, {
    part: 'action',
  });
  return { expression, effect: { action: 'ADD', value } };
}

/** The part that a problem is about. */
function nodeOfProblem({ entry, part }: RuleProblem, rule: YamlNode & { kind: 'map' }): YamlNode {
  if (part === 'when') return rule.entries.get('when') ?? rule;
  const logic = rule.entries.get('logic');
  const node = logic?.kind === 'list' && entry !== null ? logic.items[entry - 1] : logic;
  if (node?.kind !== 'map') return node ?? rule;
  const effect = node.entries.get('effect');
  return (part === 'value' && effect?.kind === 'map' ? effect.entries.get('value') : node.entries.get(part)) ?? node;
}

/** @returns the expression, or why it is none */
function readDefinition(node: YamlNode): { expression: string } | { problem: string } {
  if (node.kind === 'text') {
    return { expression: (node.truncated?.by === 'comma' ? node.truncated.whole : node.text).trim() };
  }
  if (node.kind === 'map')
    return { problem: 'it must be an expression such as `size > 0`, or a list of texts, not a map of keys' };
  const texts = node.items.flatMap(item => (item.kind === 'text' && !isBlank(item) ? JSON.stringify(item.text) : []));
  if (texts.length < node.items.length) return { problem: 'each item of its list must be a text' };
  return { expression: `[${texts.join(', ')}]` };
}

/** @returns also those that have problems, so that what uses them is checked */
function readDefinitions(node: YamlNode | undefined, report: Report, onStep: (() => void) | undefined) {
  const definitions: Definition[] = [];
  const entries: ReadonlyMap<string, YamlNode> = node?.kind === 'map' ? node.entries : new Map();
  if (node !== undefined && node.kind !== 'map' && !isBlank(node)) {
    report(node.line, `\`define\` must be a map of names to expressions, not ${kindNames[node.kind]}`);
  }
  if (node !== undefined && entries.size > definitionLimits.definitions) {
    report(node.line, `The file has ${entries.size} definitions, more than ${definitionLimits.definitions}`);
  }
  const fail = (name: string, message: string) => {
    const found = entries.get(name);
    const place = `Definition ${nameInQuotes(name)}`;
    report(found?.line ?? 1, `${place}: ${message}${adviseOn(found, message)}`, { part: 'define' });
  };
  for (const [name, value] of [...entries].slice(0, definitionLimits.definitions)) {
    const problem = problemOfName(name) ?? problemOfTruncation(name, value);
    if (problem !== undefined) fail(name, problem);
    const read = readDefinition(value);
    if ('problem' in read) fail(name, read.problem);
    else definitions.push({ name, ...read });
  }
  const { checked, problems } = checkDefinitions(definitions, onStep);
  for (const [name, message] of problems) fail(name, message);
  return { definitions, checked, entries };
}

interface ReadRule {
  of: RuleKind;
  rule: RuleDefinition;
  node: YamlNode & { kind: 'map' };
  /** How messages call it. */
  place: string;
}

function readRule(
  node: YamlNode,
  of: RuleKind,
  position: number,
  taken: Set<string>,
  report: Report,
): ReadRule | undefined {
  let isValid = true;
  const nameNode = node.kind === 'map' ? node.entries.get('name') : undefined;
  const named = (nameNode?.kind === 'text' && !isBlank(nameNode) && nameNode.text.trim()) || null;
  const fail: Report = (line, message, place) => {
    isValid = false;
    report(line, message, { rule: named, ...place });
  };
  const place =
    named === null ? `${of === 'rules' ? 'Rule' : 'Rule of reviews'} ${position}` : `Rule ${nameInQuotes(named)}`;
  const map = readMap(node, ['name', 'description', 'enabled', 'when', 'logic'], place, fail);
  if (map === undefined || node.kind !== 'map') return undefined;
  const { nodeOf, lineOf, readText } = map;
  const readOptional = (key: string) => (nodeOf(key) === undefined ? undefined : readText(key));
  const name = map.readName();
  if (characterCount(name) > ruleLimits.nameCharacters || /\p{Cc}/u.test(name)) {
    fail(lineOf('name'), `${place} must have a name of one line and at most ${ruleLimits.nameCharacters} characters`);
  }
  if (name !== '' && taken.has(name))
    fail(lineOf('name'), `${place} is in the file twice; give each rule its own name`);
  taken.add(name);
  const description = readOptional('description') ?? '';
  if (characterCount(description) > ruleLimits.descriptionCharacters) {
    fail(
      lineOf('description'),
      `${place} has a description of more than ${ruleLimits.descriptionCharacters} characters; shorten it`,
    );
  }
  const enabled = readOptional('enabled');
  if (enabled !== undefined && enabled !== 'true' && enabled !== 'false') {
    fail(lineOf('enabled'), `${place}, enabled: ${shownText(enabled)} is neither true nor false`);
  }
  const when = readOptional('when');
  const items = readList(nodeOf('logic'), `${place}, logic`, fail);
  const logic = items.map((item, index) => {
    const failEntry: Report = (line, message, part) => fail(line, message, { entry: index + 1, ...part });
    return readEntry(item, `${place}, entry ${index + 1}`, failEntry);
  });
  // What is not a list has been reported.
  if (logic.length === 0 && !isValid) return undefined;
  const rule = {
    name,
    description,
    is_enabled: enabled !== 'false',
    ...(when === undefined ? {} : { when }),
    logic,
  };
  return { of, rule, node, place };
}

function checkExpressions(
  read: ReadRule,
  definitions: CheckedDefinitions,
  report: Report,
  onStep: (() => void) | undefined,
): ReadRule & ValidRule {
  const { of, rule, node, place } = read;
  const { entries, problems } = checkRule(rule, definitions, of, onStep);
  for (const problem of problems) {
    const found = nodeOfProblem(problem, node);
    const message = rule.name === '' ? problem.message.replace('Rule ""', () => place) : problem.message;
    report(found.line, message + adviseOn(found, message), { ...problem, rule: rule.name || null });
  }
  return { ...read, entries };
}

/** Of a file, before the rest is not checked. */
const maxProblems = 100;

const reportTo =
  (problems: FileProblem[]): Report =>
  (line, message, { rule = null, entry = null, part = null } = {}) =>
    problems.push({ line, message, rule, entry, part });

const byLine = (a: FileProblem, b: FileProblem) => a.line - b.line;

/**
 * Parses and checks a rules file. If there are no problems, `testRules` runs its tests.
 *
 * @param onStep called again and again meanwhile: a file at its limits takes a while
 */
export function parseRulesFile(text: string, onStep?: () => void): RulesFile {
  const problems: FileProblem[] = [];
  const warnings: FileProblem[] = [];
  const report = reportTo(problems);
  const root = readYaml(text, report, onStep);
  const file = root && readMap(root, ['define', 'rules', 'reviews', 'tests'], 'The file', report);
  if (file === undefined) return { ...emptyFile, problems };
  const rulesNode = file.nodeOf('rules');
  if (rulesNode === undefined) {
    report(file.lineOf('rules'), 'The file has no `rules`; add them, or `rules: []` for none');
  } else if (isBlank(rulesNode)) {
    report(rulesNode.line, '`rules` has no value; list the rules below it, or write `rules: []` for none');
  }
  const { definitions, checked, entries: defined } = readDefinitions(file.nodeOf('define'), report, onStep);
  const taken = new Set<string>();
  let isOversize = false;
  const read = (['rules', 'reviews'] as const).flatMap(of => {
    const nodes = readList(file.nodeOf(of), `\`${of}\``, report);
    const extra = nodes[ruleLimits.rules];
    if (extra !== undefined) report(extra.line, `\`${of}\` has ${nodes.length} rules, more than ${ruleLimits.rules}`);
    const list = nodes
      .slice(0, ruleLimits.rules)
      .map((node, index) => readRule(node, of, index + 1, taken, report))
      .filter(rule => rule !== undefined);
    const oversize = problemOfSize(
      list.map(({ rule }) => rule),
      of,
    );
    if (oversize !== undefined) {
      isOversize = true;
      const largest = list.find(({ rule }) => rule.name === oversize.rule);
      report(largest?.node.line ?? 1, oversize.message, oversize);
    }
    return list;
  });
  // To check more than a service may hold could take minutes, and so could naming the nearest names of thousands.
  const rules: ReturnType<typeof checkExpressions>[] = [];
  for (const rule of isOversize ? [] : read) {
    if (problems.length >= maxProblems) {
      report(rule.node.line, 'The check ends here; fix the other problems first');
      break;
    }
    rules.push(checkExpressions(rule, checked, report, onStep));
  }
  const takenByTests = new Set<string>();
  const tests = readList(file.nodeOf('tests'), '`tests`', report)
    .map((node, index) => {
      onStep?.();
      return readTest(node, index + 1, takenByTests, report);
    })
    .filter(test => test !== undefined);
  const reportRule = (to: Report, problem: RuleProblem) => {
    const node = rules.find(({ rule }) => rule.name === problem.rule)?.node;
    to(node === undefined ? 1 : nodeOfProblem(problem, node).line, problem.message, problem);
  };
  const warn = reportTo(warnings);
  if (problems.length === 0) {
    // Rules that are fast one by one can be slow together.
    const enabled = rules.filter(({ rule }) => rule.is_enabled).flatMap(({ entries }) => entries);
    const judgement = judge(measureRules(enabled, onStep));
    if (judgement !== undefined) reportRule(judgement.isRefused ? report : warn, judgement);
  }
  if (problems.length > 0) return { ...emptyFile, problems: problems.sort(byLine) };
  for (const warning of lintRules(checked, rules, onStep)) {
    if ('rule' in warning) reportRule(warn, warning);
    else warn(defined.get(warning.definition)?.line ?? 1, warning.message, { part: 'define' });
  }
  warnings.sort(byLine);
  const rulesOf = (wanted: RuleKind) => rules.flatMap(({ of, rule }) => (of === wanted ? [rule] : []));
  return { definitions, rules: rulesOf('rules'), reviews: rulesOf('reviews'), tests, problems, warnings };
}

/** Definitions as a rules file has them, in their order; without any, it has no `define`. */
export const defineKey = (definitions: readonly Definition[]): { define?: Record<string, string> } =>
  definitions.length === 0
    ? {}
    : { define: Object.fromEntries(definitions.map(({ name, expression }) => [name, expression])) };

/** The text of a rules file without tests. The same rules give the same text, whatever the order of their keys. */
export const formatRulesFile = ({ definitions, rules, reviews }: Ruleset): string =>
  stringify(
    {
      ...defineKey(definitions),
      rules: rules.map(formatRule),
      ...(reviews.length === 0 ? {} : { reviews: reviews.map(formatRule) }),
    },
    { lineWidth: 0 },
  );

const formatRule = ({ name, description, is_enabled: enabled, when, logic }: RuleDefinition) => ({
  name,
  ...(description === '' ? {} : { description }),
  ...(enabled ? {} : { enabled }),
  ...(when === undefined ? {} : { when }),
  logic: logic.map(({ expression, effect: { action, value } }) => ({ expression, effect: { action, value } })),
});
