import { isUtf8 } from 'node:buffer';
import { runToEnd, type Steps } from '../steps.ts';
import { type Problem, testRules } from './rule-tests.ts';
import { emptyFile, parseRulesFile, type RulesFile } from './rules-file.ts';

export interface CheckedFile extends RulesFile {
  /** Its text. */
  source: string;
  /** Mistakes, or else tests that fail. */
  problems: Problem[];
}

/** Where a file stops being UTF-8, and what to do. */
function describeEncoding(bytes: Buffer, source: string): { line: number; message: string } {
  const isMarked = ['\xff\xfe', '\xfe\xff'].includes(bytes.toString('latin1', 0, 2));
  if (isMarked || bytes.subarray(0, 4).includes(0)) {
    return { line: 1, message: `The file is ${isMarked ? 'UTF-16' : 'UTF-16 or UTF-32'}; save it as UTF-8` };
  }
  // What is not valid was read as U+FFFD, and so has other bytes when it is written again.
  const written = Buffer.from(source);
  const offset = bytes.findIndex((byte, index) => byte !== written[index]);
  const lines = bytes.toString('utf8', 0, offset).split('\n');
  const code = bytes[offset]?.toString(16).toUpperCase() ?? '';
  const after = lines.at(-1)?.trimStart() ?? '';
  const place = after === '' ? '' : ` after \`${[...after].slice(-40).join('')}\``;
  return {
    line: lines.length,
    message: `The file is not UTF-8: the byte 0x${code}${place} is not valid; save it as UTF-8`,
  };
}

/**
 * Checks a rules file, and runs its tests. Yields before each test.
 *
 * @param options `onStep`: called again and again meanwhile
 */
export function* checkInSteps(bytes: Buffer, { onStep }: { onStep?: () => void } = {}): Steps<CheckedFile> {
  const source = bytes.toString('utf8');
  if (!isUtf8(bytes) || bytes.subarray(0, 4).includes(0)) {
    const problem = { ...describeEncoding(bytes, source), rule: null, entry: null, part: null };
    return { ...emptyFile, problems: [problem], source };
  }
  const file = parseRulesFile(source, onStep);
  const failures = yield* testRules(file, file.tests, onStep);
  return { ...file, problems: [...file.problems, ...failures], source };
}

/** Like {@link checkInSteps}, at once. */
export const checkRulesFile = (...given: Parameters<typeof checkInSteps>): CheckedFile =>
  runToEnd(checkInSteps(...given));
