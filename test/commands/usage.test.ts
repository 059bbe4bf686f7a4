import { beforeAll, describe, expect, test } from 'vitest';
import { createDatabase } from '../support/service.ts';
import { createFolder, runHere, runJson } from './support.ts';

/** Nothing listens there. */
const unreachable = { DATABASE_URL: 'postgres://me:hush@127.0.0.1:1/scores' };
let environment: { DATABASE_URL: string };

beforeAll(async () => {
  const database = await createDatabase();
  environment = { DATABASE_URL: database.url };
  await runJson(environment, 'organisation', 'add', 'acme');
  return database.drop;
});

const { write } = createFolder();

describe('a failure with --json', () => {
  const organisation = ['--organisation', 'emca'];
  const cases: [string, object, string[], number, object][] = [
    [
      'an unknown organisation',
      {},
      ['webhooks', 'status', ...organisation],
      1,
      {
        code: 'not_found',
        message: 'There is no organisation emca here.',
        action: 'Add it: pullscore organisation add emca',
      },
    ],
    [
      'a wrong configuration',
      { PORT: 'x' },
      ['user', 'list'],
      1,
      {
        code: 'configuration',
        message: 'The configuration is not valid: PORT must be a whole number from 0 to 65535.',
        action: null,
      },
    ],
    [
      'an unreachable database',
      unreachable,
      ['user', 'list'],
      1,
      {
        code: 'database_unavailable',
        message: "The database server at 127.0.0.1:1 can't be reached: ECONNREFUSED.",
        action: 'Check DATABASE_URL and that the server runs.',
      },
    ],
    [
      'an option that is not valid',
      unreachable,
      ['import', ...organisation, '--since', 'x'],
      2,
      { code: 'usage', message: '"x" is not a valid day.', action: 'Write it as 2026-01-31.' },
    ],
    [
      'a missing option',
      unreachable,
      ['rules', 'export'],
      2,
      {
        code: 'usage',
        message: "Required option '--organisation <login>' or '--server <url>' not specified.",
        action: 'See: pullscore rules export --help',
      },
    ],
  ];
  test.each(cases)('%s gives an error document', async (_name, change, operands, code, error) => {
    const ended = await runHere({ ...environment, ...change }, ...operands, '--json');
    expect(JSON.parse(ended.stdout)).toEqual({ error });
    const { message, action } = error as { message: string; action: string | null };
    expect([ended.code, ended.stderr]).toEqual([code, `pullscore: ${message}${action === null ? '' : ` ${action}`}\n`]);
  });

  test('rules that are not valid give a list of all problems', async () => {
    const file = write(
      'rules.yaml',
      `rules:
  - name: Size
    logic:
      - expression: additions > 0
        effect: { action: ADD, value: additions }
      - expression: aditions > 0
        effect:
          action: PLUS
          value: nope
  - name: Comments
    logic:
      - expression: comment > 0
        effect:
          action: ADD
          value: nope
  - name: Comments
    description: [a]
tests:
  - name: x
    score: 1
`,
    );
    const problem = (line: number, rule: string | null, entry: number | null, part: string | null) => ({
      ...{ file, line, rule, entry, part },
      message: expect.any(String),
    });
    const problems = [
      problem(6, 'Size', 2, 'expression'),
      problem(8, 'Size', 2, 'action'),
      problem(9, 'Size', 2, 'value'),
      problem(12, 'Comments', 1, 'expression'),
      problem(15, 'Comments', 1, 'value'),
      problem(16, 'Comments', null, null),
      problem(17, 'Comments', null, 'description'),
      problem(19, null, null, null),
    ];
    const check = await runHere(unreachable, 'rules', 'check', file, '--json');
    expect(JSON.parse(check.stdout)).toEqual({
      error: { code: 'rules_invalid', message: `${file} has 8 problems.`, action: 'Fix them and check it again.' },
      problems,
    });
    const apply = await runHere(environment, 'rules', 'apply', file, '--organisation', 'acme', '--json');
    expect(JSON.parse(apply.stdout)).toMatchObject({ error: { code: 'rules_invalid' }, problems });
    expect([check.code, apply.code]).toEqual([1, 1]);
  });

  test('mistakes in definitions and conditions of rules have their line and part', async () => {
    const file = write(
      'rules.yaml',
      'define:\n  small: size <\nrules:\n  - name: A\n    when: sice > 1\n    logic: [{ expression: merged, effect: { action: ADD, value: 1 } }]\n',
    );
    const { stdout } = await runHere({}, 'rules', 'check', file, '--json');
    expect(JSON.parse(stdout).problems).toEqual([
      { file, line: 2, rule: null, entry: null, part: 'define', message: expect.any(String) },
      { file, line: 5, rule: 'A', entry: null, part: 'when', message: expect.any(String) },
    ]);
  });

  test('a failing test and a file that is not YAML have the line of the problem', async () => {
    const failing = write(
      'rules.yaml',
      'rules: []\ntests:\n  - name: zero is one\n    pull_request: {}\n    score: 1\n',
    );
    const broken = write('broken.yaml', 'rules: [\n');
    const [test, syntax] = await Promise.all([
      runHere({}, 'rules', 'check', failing, '--json'),
      runHere({}, 'rules', 'check', broken, '--json'),
    ]);
    const place = { rule: null, entry: null, part: null };
    expect(JSON.parse(test.stdout).problems).toEqual([
      {
        ...{ ...place, file: failing, line: 3 },
        message: 'test "zero is one" expected 1, but the score is 0 (nothing counted); correct the rules or the test',
        explanation: [],
      },
    ]);
    expect(JSON.parse(syntax.stdout).problems).toEqual([
      { ...place, file: broken, line: expect.any(Number), message: expect.any(String) },
    ]);
  });
});

describe('options', () => {
  test('--organisation can also be written --organization', async () => {
    for (const option of [['--organization', 'acme'], ['--organization=acme']]) {
      expect(await runJson(environment, 'rules', 'export', ...option)).toEqual({
        rules: [],
        reviews: [],
        source: '# No rules have been applied yet.\nrules: []\n',
        version: 0,
      });
    }
    expect((await runHere(environment, 'rules', 'export', '--help')).stdout).not.toContain('--organization');
  });

  test.each([
    [
      ['rules', 'export', '--organisaton', 'acme'],
      "Unknown option '--organisaton' (Did you mean --organisation?). See: pullscore rules export --help",
    ],
    [['rules', 'plan', 'x.yaml', '--nope'], "Unknown option '--nope'. See: pullscore rules plan --help"],
    [['token', 'create'], "Required option '--user <email>' not specified. See: pullscore token create --help"],
    [['rules', 'plan'], "Missing required argument 'file'. See: pullscore rules plan --help"],
    [['rules', 'paln'], "Unknown command 'paln' (Did you mean plan?). See: pullscore rules --help"],
  ])('the complaint about %j names the mistake, and the help that shows the cure', async (operands, complaint) => {
    expect(await runHere(unreachable, ...operands)).toEqual({
      code: 2,
      stdout: '',
      stderr: `pullscore: ${complaint}\n`,
    });
  });
});

describe('help', () => {
  test('marks required options', async () => {
    const { stdout } = await runHere({}, 'user', 'add', '--help');
    const required = stdout.split('\n').filter(line => line.endsWith('(required)'));
    expect(required.map(line => /--\w+/.exec(line)?.[0])).toEqual(['--name', '--email', '--organisation']);
  });

  test.each([
    ['serve', /--json once it is ready, print its address and what to set up next as a line of JSON/],
    ['worker', /--json once it is ready, say so as a line of JSON/],
  ])('says when %s --json answers', async (command, expected) => {
    const { stdout } = await runHere({}, command, '--help');
    expect(stdout.replace(/\s+/g, ' ')).toMatch(expected);
    expect(stdout.match(/--json/g)).toHaveLength(1);
  });

  test('is also a command', async () => {
    const [named, asked, all] = await Promise.all([
      runHere({}, 'rules', 'help', 'plan'),
      runHere({}, 'rules', 'plan', '--help'),
      runHere({}, 'help'),
    ]);
    expect(named.stdout).toContain('Usage: pullscore rules plan [options] <file>');
    expect(named).toEqual(asked);
    expect(all).toMatchObject({ code: 0, stdout: expect.stringContaining('Usage: pullscore [options] [command]') });
  });
});
