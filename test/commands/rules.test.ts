import { beforeEach, expect, test } from 'vitest';
import { entry, rule } from '../scoring/support.ts';
import { startWorld } from '../support/world.ts';
import { commandsWith, createFolder, runHere, startForTest } from './support.ts';

const { newTenant, service } = await startWorld();
const { run, runJson } = commandsWith({ DATABASE_URL: service.database.url });
let login: string;
let acme: string[];

beforeEach(async () => {
  ({ login } = (await newTenant()).organisation);
  acme = ['--organisation', login];
});

const { write: file } = createFolder();
const good = `rules:
  - name: Size
    description: By lines.
    logic:
      - expression: additions > 0
        effect: { action: ADD, value: additions }
tests:
  - name: ten lines are ten points
    pull_request: { additions: 10 }
    score: 10
`;

test('rules check needs neither a database nor a configuration', async () => {
  const path = file('good.yaml', good);
  const broken = { DATABASE_URL: 'nonsense', PORT: 'x' };
  const [json, text] = await Promise.all([
    commandsWith(broken).runJson('rules check', path),
    runHere(broken, 'rules check', path),
  ]);
  expect(json).toEqual({ valid: true, rules: 1, reviews: 0, tests: 1, warnings: [] });
  expect(text).toMatchObject({ code: 0, stdout: `${path} is valid: 1 rule; 1 test passed.\n`, stderr: '' });
});

test('rules check refuses slow rules in a new process, too, in which no code is compiled yet', async () => {
  const entry = "  - { expression: 'lower(body) == title', effect: { action: ADD, value: 1 } }\n";
  const rules = Array.from({ length: 10 }, (_, index) => `- name: R${index}\n  logic:\n${entry.repeat(50)}`);
  const { code, stderr } = await startForTest({}, 'rules check', file('slow.yaml', `rules:\n${rules.join('')}`)).ended;
  expect([code, stderr]).toEqual([1, /The rules take too long to score one pull request/]);
});

test('rules are applied, exported, and applied again without a change', async () => {
  const path = file('good.yaml', good);
  expect(await runJson('rules apply', path, ...acme)).toEqual({
    organisation: login,
    version: 1,
    source_changed: true,
    outdated: 0,
    changed: true,
    rules: 1,
    reviews: 0,
  });
  const exported = await run('rules export', ...acme);
  expect(exported).toMatchObject({ stdout: good, stderr: '' });
  const again = file('exported.yaml', exported.stdout);
  expect(await runJson('rules apply', again, ...acme)).toMatchObject({ version: 1, changed: false });
  expect(await runJson('rules export', ...acme)).toEqual({
    rules: [{ ...rule('Size', entry('additions > 0', 'additions')), description: 'By lines.' }],
    reviews: [],
    source: good,
    version: 1,
  });
});

test.each(['rules: []', '\ufeffrules: []\r\n', '# Ünïcode, and\ttabs\r\n#\nrules: []\n\n'])(
  'a file is exported byte for byte: %j',
  async source => {
    await runJson('rules apply', file('exact.yaml', source), '--yes', ...acme);
    expect((await run('rules export', ...acme)).stdout).toBe(source);
  },
);

test('rules with mistakes are refused with line numbers, and change nothing', async () => {
  const wrong = good.replace('additions > 0', 'aditions > 0').replace('value: additions', 'value: nope');
  const path = file('bad.yaml', `define:\n  small: size <\n${wrong}`);
  const [check, apply, json] = await Promise.all([
    run('rules check', path),
    run('rules apply', path, ...acme),
    run('rules apply', path, ...acme, '--json'),
  ]);
  expect(check).toMatchObject({ code: 1, stdout: '' });
  expect(check.stderr.split('\n')).toEqual([
    expect.stringContaining(`${path}:2: Definition "small":`),
    expect.stringContaining(`${path}:7: Rule "Size", entry 1, expression:`),
    expect.stringContaining(`${path}:8: Rule "Size", entry 1, value:`),
    `pullscore: ${path} has 3 problems. Fix them and check it again.`,
    '',
  ]);
  expect(apply).toMatchObject({ code: 1, stdout: '' });
  expect(apply.stderr).toMatch(/^pullscore: .*bad\.yaml:2: .* To see all 3 problems: pullscore rules check .*\n$/);
  const place = { file: path, rule: 'Size', entry: 1, message: expect.any(String) };
  expect(JSON.parse(json.stdout)).toEqual({
    error: { code: 'rules_invalid', message: expect.any(String), action: /^To see all 3/ },
    problems: [
      { ...place, line: 2, rule: null, entry: null, part: 'define' },
      { ...place, line: 7, part: 'expression' },
      { ...place, line: 8, part: 'value' },
    ],
  });
  expect(await runJson('rules export', ...acme)).toMatchObject({ version: 0 });
});

test('rules are refused with the entries that counted if one of their tests fails', async () => {
  const path = file('failing.yaml', good.replace('score: 10', 'score: 11'));
  const message = `test "ten lines are ten points" expected 11, but the score is 10 (+10 Size); correct the rules or the test`;
  const [apply, check, json] = await Promise.all([
    run('rules apply', path, ...acme),
    runHere({}, 'rules check', path),
    runHere({}, 'rules check', path, '--json'),
  ]);
  expect(apply).toMatchObject({
    code: 1,
    stderr: `pullscore: ${path}:8: ${message}. To see how the score was calculated: pullscore rules check ${path}\n`,
  });
  expect(check).toMatchObject({
    code: 1,
    stdout: '',
    stderr: `    +10  Size
         additions > 0 → true   where additions = 10
         additions = 10

───────
     10  total

pullscore: ${path}:8: ${message}
`,
  });
  expect(json.stderr).toBe(`pullscore: ${path}:8: ${message}\n`);
  const entry = { entry: 1, outcome: 'counted', effect: 10, condition: { source: 'additions > 0', value: true } };
  expect(JSON.parse(json.stdout).problems).toMatchObject([
    { file: path, line: 8, message, explanation: [{ name: 'Size', entries: [entry] }] },
  ]);
});

test('rules check shows each test that fails, and how its score was calculated', async () => {
  const more = '      - { expression: draft, effect: { action: SUBTRACT, value: 3 } }\n';
  const path = file(
    'failing.yaml',
    `${good.replace('tests:', `${more}tests:`)}  - name: a draft\n    pull_request: { additions: 1, draft: true }\n    score: 0\n  - name: nothing\n    pull_request: {}\n    score: 1\n`,
  );
  const { code, stderr } = await runHere({}, 'rules check', path);
  expect([code, stderr]).toEqual([
    1,
    `${path}:12: test "a draft" expected 0, but the score is −2 (+1 Size, entry 1; −3 Size, entry 2); correct the rules or the test
     +1  Size, entry 1
         additions > 0 → true   where additions = 1
         additions = 1

     −3  Size, entry 2
         draft = true

───────
     −2  total

${path}:15: test "nothing" expected 1, but the score is 0 (nothing counted); correct the rules or the test
      ·  Size, entry 1: its condition is false
         additions > 0 → false   where additions = 0

      ·  Size, entry 2: its condition is false
         draft = false

───────
      0  total

pullscore: ${path} has 2 problems. Fix them and check it again.
`,
  ]);
});

test('rules check shows the entries that explain a failing test, and with --all every one', async () => {
  const path = file(
    'many.yaml',
    `rules:
  - name: Size
    logic:
      - { expression: merged, effect: { action: ADD, value: 5 } }
      - { expression: draft, effect: { action: SUBTRACT, value: 5 } }
      - { expression: "true", effect: { action: ADD, value: hours_to_merge } }
      - { expression: size > 0, effect: { action: ADD, value: size } }
  - name: Draft
    logic: [{ expression: draft, effect: { action: SUBTRACT, value: 1 } }]
  - name: Off
    enabled: false
    logic: [{ expression: draft, effect: { action: ADD, value: 2 } }]
  - name: Commits
    logic: [{ expression: commits > 0, effect: { action: ADD, value: 100 } }]
tests:
  - { name: one, pull_request: { additions: 10 }, score: 15 }
`,
  );
  const [usual, all, json] = await Promise.all([
    runHere({}, 'rules check', path),
    runHere({}, 'rules check', path, '--all'),
    runHere({}, 'rules check', path, '--json'),
  ]);
  const shown = (text: string) => Array.from(text.matchAll(/^ +[·+−]\S* {2}(\S.*?)(?::|$)/gmu), ([, place]) => place);
  expect(shown(usual.stderr)).toEqual(['Size, entry 1', 'Size, entry 3', 'Size, entry 4', 'Off']);
  expect(usual.stderr).toContain('10  total\n\n3 more entries did not count. To show all: --all\n');
  expect(shown(all.stderr)).toEqual([
    ...['Size, entry 1', 'Size, entry 2', 'Size, entry 3', 'Size, entry 4', 'Draft', 'Off', 'Commits'],
  ]);
  expect(all.stderr).not.toContain('--all');
  const [{ explanation }] = JSON.parse(json.stdout).problems;
  expect(explanation.map(({ entries }: { entries: unknown[] }) => entries.length)).toEqual([4, 1, 1, 1]);
});

test('rules check and rules apply show warnings, and only check --strict fails for them', async () => {
  const path = file(
    'odd.yaml',
    good.replace('additions > 0', 'additions > 10 && additions < 5').replace('score: 10', 'score: 0'),
  );
  const conditions = '`additions > 10 && additions < 5` can never be true, whatever `additions` is';
  const warnings = [
    {
      ...{ file: path, line: 5, rule: 'Size', entry: 1, part: 'expression' },
      message: `Rule "Size", entry 1, expression: ${conditions}`,
    },
    {
      ...{ file: path, line: 5, rule: 'Size', entry: null, part: 'logic' },
      message: 'Rule "Size", logic: none of its entries can ever count; correct or remove the rule',
    },
  ];
  const lines = warnings.map(({ line, message }) => `${path}:${line}: warning: ${message}\n`).join('');
  const [text, json, strict, strictJson] = await Promise.all([
    runHere({}, 'rules check', path),
    runHere({}, 'rules check', path, '--json'),
    runHere({}, 'rules check', path, '--strict'),
    runHere({}, 'rules check', path, '--strict', '--json'),
  ]);
  expect(text).toMatchObject({
    code: 0,
    stdout: `${path} is valid: 1 rule; 1 test passed. It has 2 warnings.\n`,
    stderr: lines,
  });
  expect([json.code, JSON.parse(json.stdout)]).toEqual([0, { valid: true, rules: 1, reviews: 0, tests: 1, warnings }]);
  expect([strict.code, strict.stdout]).toEqual([1, '']);
  expect(strict.stderr).toBe(
    `${lines.replaceAll(' warning:', '')}pullscore: ${path} has 2 problems. Fix them and check it again.\n`,
  );
  expect([strictJson.code, JSON.parse(strictJson.stdout).problems]).toEqual([1, warnings]);
  expect(await runHere({}, 'rules check', file('good.yaml', good), '--strict')).toMatchObject({ code: 0, stderr: '' });
  const applied = await run('rules apply', path, ...acme);
  expect(applied).toMatchObject({ code: 0, stderr: lines });
  expect(applied.stdout).toMatch(/^Version 1 is in force/);
});

test('the line of a failing test does not name all entries if many count', async () => {
  const entry = '      - { expression: "true", effect: { action: ADD, value: 1 } }\n';
  const path = file('many.yaml', good.replace('tests:', `${entry.repeat(10)}tests:`));
  const { stderr } = await runHere({}, 'rules check', path, '--json');
  expect(stderr).toContain('the score is 20 (+10 Size, entry 1; +1 Size, entry 2; ');
  expect(stderr).toContain('; +1 Size, entry 10; 1 more)');
});
