/** Reads the rules file that an operator names, and reports what is wrong with it. */

import { createReadStream } from 'node:fs';
import { maxFileBytes } from '../reports/rules-file.ts';
import { checkRulesFile } from '../scoring/file/check-rules-file.ts';
import type { Problem as FoundProblem } from '../scoring/file/rule-tests.ts';
import { counted } from '../text/number-formats.ts';
import { plain, shellWord } from '../text/terminal.ts';
import { CommandError, type Context } from './context.ts';

/** Names standard input: a program in a container does not see the operator's files. */
const standardInput = '-';

async function readBytes(path: string, name: string): Promise<Buffer> {
  if (path === '')
    throw new CommandError("The file's name is empty.", 'Name a rules file, such as rules.example.yaml.');
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    const source: AsyncIterable<Buffer> = path === standardInput ? process.stdin : createReadStream(path);
    for await (const chunk of source) {
      size += chunk.length;
      if (size > maxFileBytes) break;
      chunks.push(chunk);
    }
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const reason = { ENOENT: 'there is no such file', EISDIR: 'it is a folder' }[code ?? ''] ?? code;
    throw new CommandError(`${name} can't be read: ${reason}.`, 'Name a rules file, such as rules.example.yaml.');
  }
  if (size > maxFileBytes) {
    throw new CommandError(`${name} is larger than ${maxFileBytes / 1e6} MB: it can't be a rules file.`);
  }
  return Buffer.concat(chunks);
}

type Problem = FoundProblem & { file: string };

export const textOf = ({ file, line, message }: Problem): string => `${file}:${line}: ${message}`;

export const invalid = (problems: readonly Problem[], message: string, action?: string) =>
  new CommandError(message, action, 'rules_invalid', {
    problems: problems.map(({ explanation, relevant, ...problem }) => ({
      ...problem,
      explanation: explanation?.rules,
    })),
  });

/** `2 rules, 1 rule for reviews` */
export const countRules = (rules: number, reviews: number): string =>
  [counted(rules, 'rule'), ...(reviews > 0 ? [counted(reviews, 'rule for reviews', 'rules for reviews')] : [])].join(
    ', ',
  );

/** Shows what is valid and probably not meant. */
export function showWarnings({ stderr }: Context, warnings: readonly Problem[]): void {
  for (const { file, line, message } of warnings) stderr.write(`${plain(`${file}:${line}: warning: ${message}`)}\n`);
}

/** @returns also its name for messages */
export async function readRules(path: string) {
  const name = path === standardInput ? 'standard input' : path;
  const file = checkRulesFile(await readBytes(path, name));
  const inFile = (found: readonly FoundProblem[]): Problem[] => found.map(each => ({ file: name, ...each }));
  return { name, file, problems: inFile(file.problems), warnings: inFile(file.warnings) };
}

/** @throws CommandError with the first problem, and how to see the others; warnings are left to the caller */
export async function loadRules({ program }: Context, path: string) {
  const { name, file, problems, warnings } = await readRules(path);
  const [first] = problems;
  if (first === undefined) return { name, ruleset: file, warnings };
  const check = `${program} rules check ${shellWord(path)}`;
  const sentence = textOf(first).replace(/[^.?]$/, '$&.');
  if (problems.length > 1) throw invalid(problems, sentence, `To see all ${problems.length} problems: ${check}`);
  if (first.explanation === undefined) throw invalid(problems, textOf(first));
  throw invalid(problems, sentence, `To see how the score was calculated: ${check}`);
}
