/** A YAML document as a plain tree: every scalar is the text as written, and every node has its line. */

export interface FileProblem {
  /** Counted from 1. */
  line: number;
  /** A sentence, without the line. */
  message: string;
  /** The rule's name; null if the problem concerns no rule, or its name can't be read. */
  rule: string | null;
  /** The rule's entry, from 1; null if the problem concerns none, or all. */
  entry: number | null;
  /** The key whose value is wrong; null if it is the whole entry, rule, test or file. */
  part: string | null;
}

export interface YamlText {
  kind: 'text';
  text: string;
  style: 'PLAIN' | 'QUOTE_SINGLE' | 'QUOTE_DOUBLE' | 'BLOCK_FOLDED' | 'BLOCK_LITERAL';
  /** What ended the text although more follows, and the text as it was probably meant. */
  truncated?: { by: 'comma' | 'comment'; whole: string };
}

export type YamlNode = { line: number } & (
  | YamlText
  | { kind: 'list'; items: readonly YamlNode[] }
  | { kind: 'map'; entries: ReadonlyMap<string, YamlNode>; keyLines: ReadonlyMap<string, number> }
);

export const blank = (line: number): YamlNode => ({ kind: 'text', text: '', style: 'PLAIN', line });

/** Whether the value is empty or YAML's null. */
export const isBlank = (node: YamlNode): boolean =>
  node.kind === 'text' && node.style === 'PLAIN' && /^(?:~|null|Null|NULL)?$/.test(node.text);
