/** Reads the keys of a rules file, and reports those that are unknown, missing or not of the right form. */

import { suggestion } from '../language/nearest-name.ts';
import { problemOfCut } from './quoting.ts';
import { type FileProblem, isBlank, joinCutValues, type YamlNode } from './yaml-node.ts';

type Place = Partial<Pick<FileProblem, 'rule' | 'entry' | 'part'>>;
export type Report = (line: number, message: string, place?: Place) => void;
export type Entries = ReadonlyMap<string, YamlNode>;

export const kindNames = { text: 'a text', list: 'a list', map: 'a map of keys' } as const;

/** The entries of a map, which is empty if the node is not a map. Reports unknown keys. */
export function readMap(node: YamlNode, known: readonly string[], place: string, report: Report): Entries {
  if (node.kind !== 'map') {
    report(
      node.line,
      `${place} must be a map with ${known.map(key => `\`${key}\``).join(', ')}, not ${kindNames[node.kind]}`,
    );
    return new Map();
  }
  const entries = joinCutValues(node.entries, key => known.includes(key));
  for (const [key, value] of entries) {
    if (known.includes(key)) continue;
    const unspaced = known.find(name => key.startsWith(`${name}:`));
    const hint =
      unspaced === undefined
        ? suggestion(key, known) || `; the known keys are ${known.map(name => `\`${name}\``).join(', ')}`
        : `; write a space after \`${unspaced}:\``;
    report(value.line, `${place} has an unknown key \`${key.slice(0, 60)}\`${hint}`);
  }
  return entries;
}

export function readList(node: YamlNode | undefined, place: string, report: Report): readonly YamlNode[] {
  if (node === undefined) return [];
  if (node.kind === 'list') return node.items;
  if (isBlank(node)) return [];
  report(node.line, `${place} must be a list, each item beginning with \`-\`, not ${kindNames[node.kind]}`);
  return [];
}

/** A scalar's text, trimmed, empty for null; undefined, and reported, if it is missing, cut or not a scalar. */
export function readText(
  entries: Entries,
  key: string,
  place: string,
  line: number,
  report: Report,
): string | undefined {
  const node = entries.get(key);
  if (node === undefined) {
    report(line, `${place} has no \`${key}\`; add one`, { part: key });
    return undefined;
  }
  const fail = (problem: string) => void report(node.line, `${place}, ${key}: ${problem}`, { part: key });
  if (node.kind !== 'text') return fail(`it must be a single value, not ${kindNames[node.kind]}; put it in quotes`);
  const problem = problemOfCut(key, node);
  if (problem !== undefined) return fail(problem);
  return isBlank(node) ? '' : node.text.trim();
}

/** A text that {@link readText} gave, for messages that it is not valid. */
export const shownText = (text: string) => (text === '' ? 'an empty value' : `\`${text.slice(0, 60)}\``);

/** The name of a rule or a test; empty, and reported, if it has none. */
export function readName(entries: Entries, place: string, line: number, report: Report): string {
  const name = readText(entries, 'name', place, line, report);
  if (name === '') {
    report(entries.get('name')?.line ?? line, `${place} has an empty name; write one`, { part: 'name' });
  }
  return name ?? '';
}
