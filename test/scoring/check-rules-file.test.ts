import { expect, test } from 'vitest';
import { checkRulesFile } from '../../src/scoring/file/check-rules-file.ts';

const file = (name: string) => `# Regeln
rules:
- name: ${name}
  logic:
  - { expression: merged, effect: { action: ADD, value: 1 } }
tests:
- { name: t, pull_request: { merged: true }, score: 2 }
`;

test('a rules file is checked with its tests', () => {
  expect(checkRulesFile(Buffer.from(file('Café \u{FFFD}')))).toMatchObject({
    rules: [{ name: 'Café \u{FFFD}' }],
    source: file('Café \u{FFFD}'),
    problems: [{ line: 7, message: expect.stringContaining('test "t" expected 2, but the score is 1 (+1 Café') }],
  });
  expect(checkRulesFile(Buffer.from(`\u{FEFF}${file('Café')}`)).problems).toHaveLength(1);
});

test.each([
  ['latin1', Buffer.from(file('Café'), 'latin1'), 3, 'not UTF-8: the byte 0xE9 after `- name: Caf` is not valid'],
  [
    'latin1 after the mark of a damaged text',
    Buffer.concat([Buffer.from('#\u{FFFD}\n# \u{FFFD} '), Buffer.from('é\n', 'latin1')]),
    2,
    'not UTF-8: the byte 0xE9 after `# \u{FFFD} ` is not valid',
  ],
  ['half a character', Buffer.from('é').subarray(0, 1), 1, 'not UTF-8: the byte 0xC3 is not valid'],
  ['UTF-16 with a mark', Buffer.from(`\u{FEFF}${file('Café')}`, 'utf16le'), 1, 'UTF-16'],
  ['UTF-16 without one', Buffer.from(file('Café'), 'utf16le'), 1, 'UTF-16 or UTF-32'],
])('a rules file in %s is refused with its line', (_, bytes, line, reason) => {
  const { problems, rules } = checkRulesFile(bytes);
  expect(rules).toEqual([]);
  expect(problems).toEqual([
    { line, message: `The file is ${reason}; save it as UTF-8`, rule: null, entry: null, part: null },
  ]);
});

test('of many tests that fail under many long entries, some are explained, and the check says that it goes on', () => {
  const group = Array.from({ length: 8 }, (_, index) => `size > ${index}`).join(' && ');
  const define = { d: Array.from({ length: 6 }, () => `(${group})`).join(' || ') };
  const logic = Array.from({ length: 50 }, () => ({ expression: 'd', effect: { action: 'ADD', value: '1' } }));
  const rules = Array.from({ length: 10 }, (_, index) => ({ name: `Long ${index}`, logic }));
  const tests = Array.from({ length: 20 }, (_, index) => ({ name: `t${index}`, pull_request: {}, score: 7 }));
  let steps = 0;
  const onStep = () => {
    steps += 1;
  };
  const { problems } = checkRulesFile(Buffer.from(JSON.stringify({ define, rules, tests })), { onStep });
  expect(problems).toHaveLength(20);
  const explained = problems.filter(({ explanation }) => explanation !== undefined).length;
  expect(explained).toBeGreaterThan(0);
  expect(explained).toBeLessThan(20);
  // Each explanation reports each of its entries.
  expect(steps).toBeGreaterThan(500 * explained);
});

test('a check of many tests says that it goes on while the file is read', () => {
  const count = 2_000;
  const tests = Array.from({ length: count }, (_, index) => ({ name: `t${index}`, pull_request: {}, score: 'x' }));
  let steps = 0;
  checkRulesFile(Buffer.from(JSON.stringify({ rules: [], tests })), { onStep: () => ++steps });
  // None of them runs, since each is wrong: what is counted is the reading.
  expect(steps).toBeGreaterThan(count);
});
