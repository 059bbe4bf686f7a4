/** Reads the keys of a rules file, and reports those that are unknown, missing or not of the right form. */

import { suggestion } from '../language/nearest-name.ts';
import { excerpt } from '../language/text-operations.ts';
import { problemOfTruncation } from './quoting.ts';
import { type FileProblem, isBlank, type YamlNode } from './yaml-node.ts';

type Place = Partial<Pick<FileProblem, 'rule' | 'entry' | 'part'>>;
export type Report = (line: number, message: string, place?: Place) => void;

export const kindNames = { text: 'a text', list: 'a list', map: 'a map of keys' } as const;

/** Reads the values of a map; undefined, and reported, if the node is not a map. Reports unknown keys. */
export function readMap(node: YamlNode, known: readonly string[], place: string, report: Report) {
  const list = known.map(key => `\`${key}\``).join(', ');
  if (node.kind !== 'map') {
    return void report(node.line, `${place} must be a map with ${list}, not ${kindNames[node.kind]}`);
  }
  const { entries, keyLines } = node;
  for (const key of entries.keys()) {
    if (known.includes(key)) continue;
    const unspaced = known.find(name => key.startsWith(`${name}:`));
    const hint =
      unspaced === undefined
        ? suggestion(key, known) || `; the known keys are ${list}`
        : `; write a space after \`${unspaced}:\``;
    report(keyLines.get(key) ?? node.line, `${place} has an unknown key ${excerpt(key)}${hint}`);
  }
  const nodeOf = (key: string) => entries.get(key);
  const lineOf = (key: string) => nodeOf(key)?.line ?? node.line;

  /** A scalar's text, trimmed, empty for null; undefined, and reported, if it is missing, truncated or not a scalar. */
  function readText(key: string, shownPlace = place): string | undefined {
    const value = nodeOf(key);
    const fail = (problem: string) => void report(lineOf(key), `${shownPlace}${problem}`, { part: key });
    if (value === undefined) return fail(` has no \`${key}\`; add one`);
    if (value.kind !== 'text') {
      return fail(`, ${key}: it must be a single value, not ${kindNames[value.kind]}; put it in quotes`);
    }
    const problem = problemOfTruncation(key, value);
    if (problem !== undefined) return fail(`, ${key}: ${problem}`);
    return isBlank(value) ? '' : value.text.trim();
  }

  /** The name of a rule or a test; empty, and reported, if it has none. */
  function readName(): string {
    const name = readText('name');
    if (name === '') report(lineOf('name'), `${place} has an empty name; write one`, { part: 'name' });
    return name ?? '';
  }

  return { nodeOf, lineOf, readText, readName };
}

export function readList(node: YamlNode | undefined, place: string, report: Report): readonly YamlNode[] {
  if (node === undefined) return [];
  if (node.kind === 'list') return node.items;
  if (isBlank(node)) return [];
  report(node.line, `${place} must be a list, each item beginning with \`-\`, not ${kindNames[node.kind]}`);
  return [];
}

/** The expected score of a test; 0, and reported, if it is not valid. */
export function readScore(map: NonNullable<ReturnType<typeof readMap>>, place: string, report: Report): number {
  const score = map.readText('score', place);
  if (score !== undefined && /^[-+]?\d{1,10}$/.test(score)) return Number(score);
  if (score !== undefined) {
    report(map.lineOf('score'), `${place}, score: ${shownText(score)} is not a whole number`, { part: 'score' });
  }
  return 0;
}

/** A text that `readText` gave, for messages that it is not valid. */
export const shownText = (text: string) => (text === '' ? 'an empty value' : excerpt(text));
