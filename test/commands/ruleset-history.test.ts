import { beforeEach, describe, expect, test } from 'vitest';
import { startWorld } from '../support/world.ts';
import { commandsWith, complaintOf, createFolder, runHere } from './support.ts';

const { newTenant, service } = await startWorld();
const { run, runJson } = commandsWith({ DATABASE_URL: service.database.url });
const { write: file } = createFolder();
let login: string;
let acme: string[];
/** Longer than what is kept of a name. */
const bert = 'Bert'.repeat(51);

const rules = (value: number, ...names: string[]) =>
  `rules:\n${names.map(name => `  - name: ${name}\n    logic:\n      - { expression: merged, effect: { action: ADD, value: ${value} } }\n`).join('')}`;

beforeEach(async () => {
  ({ login } = (await newTenant()).organisation);
  acme = ['--organisation', login];
  await runJson('rules apply', file('1.yaml', rules(5, 'Merged', 'Old')), ...acme, '--by', 'Ada');
  await runJson('rules apply', file('2.yaml', rules(6, 'Merged', 'New')), ...acme, '--by', bert);
});

test('the history of rules shows the time, author and changes of each version', async () => {
  const none = { added: [], changed: [], removed: [] };
  const applied = (version: number, by: string, changes: Partial<Record<keyof typeof none, string[]>>) => ({
    ...{ version, applied_at: expect.any(Number), applied_by: by, suspended_at: null, suspension: null },
    ...{ rules: 2, ...none, ...changes, definitions: none, reviews: none },
  });
  expect(await runJson('rules history', ...acme)).toEqual([
    applied(2, bert.slice(0, 200), { added: ['New'], changed: ['Merged'], removed: ['Old'] }),
    applied(1, 'Ada', { added: ['Merged', 'Old'] }),
  ]);
  const { stdout } = await run('rules history', ...acme);
  expect(stdout).toMatch(/^2 \(in force\) .* Bert/m);
});

test('a diff of rules shows the lines in which two versions differ', async () => {
  const { code, stdout } = await run('rules diff 1 2', ...acme);
  expect(code).toBe(0);
  for (const line of ['-          value: "5"', '+          value: "6"', '+  - name: New'])
    expect(stdout).toContain(line);
  const diff = await runJson('rules diff 0 1', ...acme);
  expect(diff).toMatchObject({
    from: 0,
    to: 1,
    changed: [],
    removed: [],
    added: [{ name: 'Merged' }, { name: 'Old' }],
  });
});

test('a diff of rules has nothing that a CI service would take for a command', async () => {
  const text = '##[error]x\\n::error::y';
  const apply = (name: string, keys: string) => {
    const path = file(name, rules(7, 'Merged').replace('logic', `${keys}\n    logic`));
    return runJson('rules apply', path, ...acme);
  };
  await apply('3.yaml', `description: "${text}"`);
  await apply('4.yaml', `description: "${text}"\n    enabled: false`);
  // The text is new in the first diff, and the second one has it as a line that did not change.
  for (const versions of [
    ['2', '3'],
    ['3', '4'],
  ]) {
    const { stdout } = await run('rules diff', ...versions, ...acme);
    expect(stdout).toContain('## [error]x');
    expect(stdout).toContain('error::y');
    expect(stdout).not.toMatch(/##\[|^\s*::/m);
  }
  const exported = await run('rules export', ...acme);
  expect(exported.stdout).toContain(text);
});

test('an earlier version of the rules can be exported', async () => {
  const exported = async (...options: string[]) => (await run('rules export', ...acme, ...options)).stdout;
  expect(await exported('--version', '1')).toBe(rules(5, 'Merged', 'Old'));
  expect(await exported('--version', '2')).toBe(await exported());
  expect(await complaintOf(run('rules export', ...acme, '--version', '0'))).toContain(
    `${login} has no version 0 of its rules.`,
  );
});

test('an earlier version of the rules can be applied again, as a new version', async () => {
  const applied = await runJson('rules apply --version 1', ...acme);
  expect(applied).toMatchObject({ version: 3, changed: true });
  expect((await run('rules diff 1 3', ...acme)).stdout).toBe('Versions 1 and 3 have the same rules.\n');
});

test('a version of the rules must be a number, and have been applied', async () => {
  expect((await run('rules diff x 1', ...acme)).code).toBe(2);
  expect(await complaintOf(run('rules apply --version 9', ...acme))).toContain('has no version 9');
  // A diff takes 0, which has no rules.
  expect(await complaintOf(run('rules apply --version 0', ...acme))).toContain(
    `${login} has no version 0 of its rules.`,
  );
  expect((await run('rules apply rules.yaml --version 1', ...acme)).code).toBe(2);
});

describe('the text of a rules file', () => {
  const withTests = (comment: string, value = 6) =>
    `# ${comment}\n${rules(value, 'Merged', 'New')}tests: [{ name: both, pull_request: { merged: true }, score: ${2 * value} }]`;
  const apply = (text: string) => run('rules apply', file('next.yaml', text), ...acme);
  const exported = () => run('rules export', ...acme);

  test('makes a version without changes if the rules are the same', async () => {
    const { stdout } = await apply(withTests('A reason'));
    expect(stdout).toBe('Version 3 is in force, with the same rules: only comments and tests have changed.\n');
    expect((await exported()).stdout).toBe(withTests('A reason'));
    expect((await apply(withTests('A reason'))).stdout).toBe('Nothing to do: version 3, in force, is this file.\n');
    const [latest, ...before] = await runJson<object[]>('rules history', ...acme);
    expect(latest).toMatchObject({ version: 3, rules: 2, added: [], changed: [], removed: [] });
    expect(before).toHaveLength(2);
    const events = await runJson<{ action: string; subject: string }[]>('audit-log', ...acme);
    expect(events.filter(({ action }) => action === 'rules.apply').map(({ subject }) => subject)).toEqual([
      'version 1',
      'version 2',
      'version 3, comments and tests',
    ]);
  });

  test('comes back with its version', async () => {
    await apply(withTests('A reason'));
    await runJson('rules apply --version 1', ...acme);
    expect((await exported()).stdout).toBe(rules(5, 'Merged', 'Old'));
    await runJson('rules apply --version 3', ...acme);
    expect((await exported()).stdout).toBe(withTests('A reason'));
  });

  test('comments and tests of a rules file make no difference between versions', async () => {
    await apply(withTests('A reason'));
    expect((await run('rules diff 2 3', ...acme)).stdout).toBe('Versions 2 and 3 have the same rules.\n');
    await apply(withTests('Another reason', 7));
    const { stdout } = await run('rules diff 2 4', ...acme);
    expect(stdout).not.toMatch(/reason|tests/);
    expect(stdout).toContain('+          value: "7"');
  });
});

describe('definitions and conditions of rules', () => {
  const defined = (small: string, when: string) =>
    `define:\n  zebra: "1"\n  small: ${small}\nrules:\n  - name: Small\n    when: ${when}\n    logic:\n      - expression: small\n        effect:\n          action: ADD\n          value: zebra\n  - name: Other\n    logic:\n      - expression: draft\n        effect:\n          action: ADD\n          value: "2"\n`;
  const apply = (name: string, text: string) => runJson('rules apply', file(name, text), ...acme);

  test('are exported as they were written', async () => {
    const text = defined('size < 5', 'merged');
    expect(await apply('3.yaml', text)).toMatchObject({ version: 3, changed: true });
    const { stdout } = await run('rules export', ...acme);
    expect(stdout).toBe(text);
    expect(await apply('4.yaml', stdout)).toMatchObject({ version: 3, changed: false });
    const exported = await runJson<{ define: unknown; rules: unknown[] }>('rules export', ...acme);
    expect(exported.define).toEqual({ zebra: '1', small: 'size < 5' });
    expect(exported.rules[0]).toMatchObject({ name: 'Small', when: 'merged', logic: [{ expression: 'small' }] });
  });

  test('the history and a diff show changed definitions and conditions, with the rules that use them', async () => {
    await apply('3.yaml', defined('size < 5', 'merged'));
    expect(await apply('4.yaml', defined('size < 6', 'merged'))).toMatchObject({ version: 4, changed: true });
    expect(await apply('5.yaml', defined('size < 6', 'draft'))).toMatchObject({ version: 5, changed: true });
    const [fifth, fourth, third] = await runJson<unknown[]>('rules history', ...acme);
    const { stdout: history } = await run('rules history', ...acme);
    const columns = history.split('\n').map(line => line.split(/ {2,}/).at(-1));
    expect(columns.slice(0, 4)).toEqual(['DEFINITIONS', '-', '1 changed', '2 added']);
    const none = { added: [], changed: [], removed: [] };
    expect(fifth).toMatchObject({ changed: ['Small'], definitions: none });
    expect(fourth).toMatchObject({ changed: ['Small'], definitions: { ...none, changed: ['small'] } });
    expect(third).toMatchObject({ added: ['Small', 'Other'], definitions: { ...none, added: ['zebra', 'small'] } });
    expect(await runJson('rules diff 3 5', ...acme)).toMatchObject({
      added: [],
      changed: [{ name: 'Small', parts: ['when', 'definitions'] }],
      removed: [],
      definitions: { ...none, changed: [{ name: 'small', before: 'size < 5', after: 'size < 6' }] },
    });
    const { stdout } = await run('rules diff 3 5', ...acme);
    expect(stdout).toContain('-  small: size < 5\n+  small: size < 6');
    expect(stdout).toContain('-    when: merged\n+    when: draft');
  });

  test('rules check counts definitions', async () => {
    const { stdout } = await runHere({}, 'rules check', file('a.yaml', defined('size < 5', 'merged')));
    expect(stdout).toMatch(/ is valid: 2 definitions, 2 rules; no tests\.\n$/);
  });
});
