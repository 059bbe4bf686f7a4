/** Reads a rules file: checked rules and tests, and every problem with its line. */
import { stringify } from 'yaml';
import { maxRulesetCost } from './cost.ts';
import { checkDefinitions, type Definition, definitionLimits, problemOfName } from './definitions.ts';
import { nearestName, suggestion } from './nearest-name.ts';
import type { RuleTest } from './rule-tests.ts';
import { readTestFacts } from './rule-tests.ts';
import {
  checkRule,
  costOfEntries,
  isRuleAction,
  type RuleDefinition,
  type RuleLogic,
  type RuleProblem,
  type Ruleset,
  ruleLimits,
} from './ruleset.ts';
import { characterCount } from './text.ts';
import type { CheckedDefinitions } from './tree.ts';
import { type FileProblem, readYaml, type YamlNode } from './yaml-reader.ts';

/** Its rules are in the file's order, without those that have problems. */
export interface RulesFile extends Ruleset {
  tests: RuleTest[];
  problems: FileProblem[];
}

type Place = Partial<Pick<FileProblem, 'rule' | 'entry' | 'part'>>;
type Report = (line: number, message: string, place?: Place) => void;
type Entries = ReadonlyMap<string, YamlNode>;

const kindNames = { text: 'a text', list: 'a list', map: 'a map of keys' } as const;

/** The entries of a map, which is empty if the node is not a map. Reports unknown keys. */
function readMap(node: YamlNode, known: readonly string[], place: string, report: Report): Entries {
  if (node.kind !== 'map') {
    report(
      node.line,
      `${place} must be a map with ${known.map(key => `\`${key}\``).join(', ')}, not ${kindNames[node.kind]}`,
    );
    return new Map();
  }
  for (const [key, value] of node.entries) {
    if (known.includes(key)) continue;
    const hint = suggestion(key, known) || `; known are ${known.map(name => `\`${name}\``).join(', ')}`;
    report(value.line, `${place} has an unknown key \`${key.slice(0, 60)}\`${hint}`);
  }
  return node.entries;
}

function readList(node: YamlNode | undefined, place: string, report: Report): readonly YamlNode[] {
  if (node === undefined) return [];
  if (node.kind === 'list') return node.items;
  if (node.kind === 'text' && node.text === '' && !node.isQuoted) return [];
  report(node.line, `${place} must be a list, each item beginning with \`-\`, not ${kindNames[node.kind]}`);
  return [];
}

/** A scalar's text, trimmed; undefined, and reported, if it is missing or not a scalar. */
function readText(entries: Entries, key: string, place: string, line: number, report: Report): string | undefined {
  const node = entries.get(key);
  if (node === undefined) {
    report(line, `${place} has no \`${key}\`; write one`, { part: key });
    return undefined;
  }
  if (node.kind === 'text') return node.text.trim();
  const message = `${place}, ${key}: it must be a text, not ${kindNames[node.kind]}; put it in quotes`;
  report(node.line, message, { part: key });
  return undefined;
}

function readEntry(node: YamlNode, place: string, report: Report): RuleLogic | undefined {
  const entries = readMap(node, ['expression', 'effect'], place, report);
  if (node.kind !== 'map') return undefined;
  const expression = readText(entries, 'expression', place, node.line, report);
  const effectNode = entries.get('effect');
  if (effectNode === undefined) {
    report(node.line, `${place} has no \`effect\`; write one, such as { action: ADD, value: "5" }`, { part: 'effect' });
    return undefined;
  }
  const effect = readMap(effectNode, ['action', 'value'], `${place}, effect`, report);
  if (effectNode.kind !== 'map') return undefined;
  const action = readText(effect, 'action', `${place}, effect`, effectNode.line, report);
  const value = readText(effect, 'value', `${place}, effect`, effectNode.line, report);
  if (action === undefined || expression === undefined || value === undefined) return undefined;
  if (isRuleAction(action)) return { expression, effect: { action, value } };
  const nearest = nearestName(action, ['ADD', 'SUBTRACT']);
  const hint = nearest === undefined ? 'write ADD or SUBTRACT' : `did you mean \`${nearest}\`?`;
  report(effectNode.line, `${place}, action: \`${action.slice(0, 60)}\` is not an action; ${hint}`, { part: 'action' });
  return undefined;
}

const lineOfKey = (node: YamlNode & { kind: 'map' }, key: string) => node.entries.get(key)?.line ?? node.line;

/** The line of the part that a problem is about. */
function lineOfProblem({ entry, part }: RuleProblem, rule: YamlNode & { kind: 'map' }): number {
  if (part === 'when') return lineOfKey(rule, 'when');
  const logic = rule.entries.get('logic');
  const node = logic?.kind === 'list' && entry !== null ? logic.items[entry - 1] : logic;
  if (node?.kind !== 'map') return node?.line ?? rule.line;
  const effect = node.entries.get('effect');
  const found = part === 'value' && effect?.kind === 'map' ? effect.entries.get('value') : node.entries.get(part);
  return found?.line ?? node.line;
}

/** @returns also those that have problems, so that what uses them is checked */
function readDefinitions(node: YamlNode | undefined, report: Report) {
  const definitions: Definition[] = [];
  const entries = node?.kind === 'map' ? node.entries : new Map<string, YamlNode>();
  const isEmpty = node === undefined || (node.kind === 'text' && node.text === '' && !node.isQuoted);
  if (node?.kind !== 'map' && !isEmpty) {
    report(node.line, `\`define\` must be a map of names to expressions, not ${kindNames[node.kind]}`);
  }
  if (node !== undefined && entries.size > definitionLimits.definitions) {
    report(node.line, `The file has ${entries.size} definitions, more than ${definitionLimits.definitions}`);
  }
  for (const [name, value] of [...entries].slice(0, definitionLimits.definitions)) {
    const fail = (message: string) =>
      report(value.line, `Definition ${JSON.stringify(name.slice(0, 80))}: ${message}`, { part: 'define' });
    const problem = problemOfName(name);
    if (problem !== undefined) fail(problem);
    if (value.kind === 'text') definitions.push({ name, expression: value.text.trim() });
    else fail(`it must be an expression, not ${kindNames[value.kind]}; put it in quotes`);
  }
  const { checked, problems } = checkDefinitions(definitions, 'file');
  for (const [name, message] of problems) {
    report(entries.get(name)?.line ?? 1, `Definition ${JSON.stringify(name.slice(0, 80))}: ${message}`, {
      part: 'define',
    });
  }
  return { definitions, checked };
}

/** A rule without problems. */
interface ReadRule {
  rule: RuleDefinition;
  line: number;
  /** 0 if it is disabled. */
  cost: number;
}

function readRule(
  node: YamlNode,
  position: number,
  definitions: CheckedDefinitions,
  taken: Set<string>,
  report: Report,
): ReadRule | undefined {
  let isValid = true;
  const nameNode = node.kind === 'map' ? node.entries.get('name') : undefined;
  const named = nameNode?.kind === 'text' && nameNode.text.trim() !== '' ? nameNode.text.trim() : null;
  const fail: Report = (line, message, place) => {
    isValid = false;
    report(line, message, { rule: named, ...place });
  };
  const numbered = `Rule ${position}`;
  const known = ['name', 'description', 'enabled', 'when', 'logic'];
  if (node.kind !== 'map') {
    readMap(node, known, numbered, fail);
    return undefined;
  }
  const name = readText(node.entries, 'name', numbered, node.line, fail) ?? '';
  const place = name === '' ? numbered : `Rule ${JSON.stringify(name.slice(0, 80))}`;
  if (node.entries.get('name')?.kind === 'text' && name === '')
    fail(lineOfKey(node, 'name'), `${numbered} has an empty name; write one`);
  if (characterCount(name) > ruleLimits.nameCharacters || /\p{Cc}/u.test(name)) {
    fail(
      lineOfKey(node, 'name'),
      `${place} must have a name of one line and at most ${ruleLimits.nameCharacters} characters`,
    );
  }
  if (name !== '' && taken.has(name))
    fail(lineOfKey(node, 'name'), `${place} is in the file twice; give each rule its own name`);
  taken.add(name);
  readMap(node, known, place, fail);
  const description = node.entries.has('description')
    ? (readText(node.entries, 'description', place, node.line, fail) ?? '')
    : '';
  if (characterCount(description) > ruleLimits.descriptionCharacters) {
    fail(
      lineOfKey(node, 'description'),
      `${place} has a description of more than ${ruleLimits.descriptionCharacters} characters; shorten it`,
    );
  }
  const enabled = node.entries.has('enabled') ? readText(node.entries, 'enabled', place, node.line, fail) : 'true';
  if (enabled !== undefined && enabled !== 'true' && enabled !== 'false') {
    fail(lineOfKey(node, 'enabled'), `${place}, enabled: \`${enabled.slice(0, 60)}\` is neither true nor false`);
  }
  const when = node.entries.has('when') ? readText(node.entries, 'when', place, node.line, fail) : undefined;
  const items = readList(node.entries.get('logic'), `${place}, logic`, fail);
  const logic = items.slice(0, ruleLimits.entries + 1).map((item, index) => {
    const failEntry: Report = (line, message, part) => fail(line, message, { entry: index + 1, ...part });
    return readEntry(item, `${place}, entry ${index + 1}`, failEntry);
  });
  const rule = {
    name,
    description,
    is_enabled: enabled !== 'false',
    ...(when === undefined ? {} : { when }),
    logic: logic.filter(entry => entry !== undefined),
  };
  // Problems number entries as the file does, so expressions are checked only if all entries could be read.
  if (!isValid) return undefined;
  const { entries: checked, problems } = checkRule(rule, definitions, 'file');
  for (const problem of problems) fail(lineOfProblem(problem, node), problem.message, problem);
  return isValid ? { rule, line: node.line, cost: rule.is_enabled ? costOfEntries(checked) : 0 } : undefined;
}

/** Rules that are cheap one by one can be too expensive together. */
function checkCost(rules: readonly ReadRule[], report: Report): void {
  const total = rules.reduce((sum, { cost }) => sum + cost, 0);
  const [costliest] = [...rules].sort((one, two) => two.cost - one.cost);
  if (costliest === undefined || total <= maxRulesetCost) return;
  const percent = (cost: number) => Math.ceil((100 * cost) / maxRulesetCost);
  report(
    costliest.line,
    `The rules together take too long to score one pull request: ${percent(total)} % of the limit, rule ${JSON.stringify(costliest.rule.name.slice(0, 80))} alone ${percent(costliest.cost)} %; use fewer or smaller patterns and globs, or read \`title\` in place of \`body\``,
  );
}

function readTest(node: YamlNode, position: number, report: Report): RuleTest | undefined {
  let isValid = true;
  const fail: Report = (line, message) => {
    isValid = false;
    report(line, message);
  };
  const entries = readMap(node, ['name', 'pull_request', 'score'], `Test ${position}`, fail);
  if (node.kind !== 'map') return undefined;
  const name = readText(entries, 'name', `Test ${position}`, node.line, fail) ?? '';
  const place = name === '' ? `Test ${position}` : `Test ${JSON.stringify(name.slice(0, 80))}`;
  const score = readText(entries, 'score', place, node.line, fail);
  if (score !== undefined && !/^[-+]?\d{1,10}$/.test(score)) {
    fail(lineOfKey(node, 'score'), `${place}, score: \`${score.slice(0, 60)}\` is not a whole number`);
  }
  const given = entries.get('pull_request');
  if (given === undefined) fail(node.line, `${place} has no \`pull_request\`; write the facts that matter, or {}`);
  const facts = given === undefined ? undefined : readTestFacts(given, `${place}, pull_request`, fail);
  return isValid && facts !== undefined ? { line: node.line, name, facts, score: Number(score) } : undefined;
}

/** Parses and checks a rules file. If there are no problems, `runRuleTests` runs its tests. */
export function parseRulesFile(text: string): RulesFile {
  const problems: FileProblem[] = [];
  const report: Report = (line, message, { rule = null, entry = null, part = null } = {}) =>
    problems.push({ line, message, rule, entry, part });
  const root = readYaml(text);
  if ('message' in root) return { definitions: [], rules: [], tests: [], problems: [root] };
  const entries = readMap(root, ['define', 'rules', 'tests'], 'The file', report);
  if (root.kind === 'map' && !entries.has('rules')) {
    report(root.line, 'The file has no `rules`; write them, or `rules: []` for none');
  }
  const { definitions, checked } = readDefinitions(entries.get('define'), report);
  const ruleNodes = readList(entries.get('rules'), '`rules`', report);
  const extra = ruleNodes[ruleLimits.rules];
  if (extra !== undefined) report(extra.line, `The file has ${ruleNodes.length} rules, more than ${ruleLimits.rules}`);
  const taken = new Set<string>();
  const rules = ruleNodes
    .slice(0, ruleLimits.rules)
    .map((node, index) => readRule(node, index + 1, checked, taken, report))
    .filter(rule => rule !== undefined);
  checkCost(rules, report);
  const tests = readList(entries.get('tests'), '`tests`', report)
    .map((node, index) => readTest(node, index + 1, report))
    .filter(test => test !== undefined);
  problems.sort((one, two) => one.line - two.line);
  return { definitions, rules: rules.map(({ rule }) => rule), tests, problems };
}

/** Definitions as a rules file has them, in their order; without any, it has no `define`. */
export const defineKey = (definitions: readonly Definition[]): { define?: Record<string, string> } =>
  definitions.length === 0
    ? {}
    : { define: Object.fromEntries(definitions.map(({ name, expression }) => [name, expression])) };

/** The text of a rules file without tests. The same rules give the same text, whatever the order of their keys. */
export const formatRulesFile = ({ definitions, rules }: Ruleset): string =>
  stringify(
    {
      ...defineKey(definitions),
      rules: rules.map(({ name, description, is_enabled: enabled, when, logic }) => ({
        name,
        ...(description === '' ? {} : { description }),
        ...(enabled ? {} : { enabled }),
        ...(when === undefined ? {} : { when }),
        logic: logic.map(({ expression, effect: { action, value } }) => ({ expression, effect: { action, value } })),
      })),
    },
    { lineWidth: 0 },
  );
