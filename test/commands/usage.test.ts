import { beforeAll, describe, expect, test } from 'vitest';
import { commandsWith, expectFailure, runHere, useDatabase } from './support.ts';

/** Nothing listens there. */
const unreachable = { DATABASE_URL: 'postgres://me:hush@127.0.0.1:1/scores' };
const environment = await useDatabase();
const { run, runJson } = commandsWith(environment);

beforeAll(() => runJson('organisation add acme'));

describe('a failure with --json', () => {
  const cases: [string, object, line: string, number, object][] = [
    [
      'an unknown organisation',
      {},
      'webhooks status --organisation emca',
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
      'user list',
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
      'user list',
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
      'import --organisation emca --since x',
      2,
      { code: 'usage', message: '"x" is not a valid day.', action: 'Write it as 2026-01-31.' },
    ],
    [
      'an option that excludes --json',
      unreachable,
      'standings --organisation acme --csv',
      2,
      { code: 'usage', message: 'Give either --csv or --json.', action: null },
    ],
    [
      'a missing option',
      unreachable,
      'rules export',
      2,
      {
        code: 'usage',
        message: "Required option '--organisation <login>' or '--server <url>' not specified.",
        action: 'See: pullscore rules export --help',
      },
    ],
  ];
  test.each(cases)('%s gives an error document', async (_name, change, line, code, error) => {
    const ended = await runHere({ ...environment, ...change }, line, '--json');
    expect(JSON.parse(ended.stdout)).toEqual({ error });
    const { message, action } = error as { message: string; action: string | null };
    expect([ended.code, ended.stderr]).toEqual([code, `pullscore: ${message}${action === null ? '' : ` ${action}`}\n`]);
  });
});

describe('options', () => {
  test('--organisation can also be written --organization', async () => {
    for (const option of [['--organization', 'acme'], ['--organization=acme']]) {
      expect(await runJson('rules export', ...option)).toEqual({
        rules: [],
        reviews: [],
        source: '# No rules have been applied yet.\nrules: []\n',
        version: 0,
      });
    }
    expect((await run('rules export --help')).stdout).not.toContain('--organization');
  });

  test.each([
    [
      'rules export --organisaton acme',
      "Unknown option '--organisaton' (Did you mean --organisation?). See: pullscore rules export --help",
    ],
    ['rules plan x.yaml --nope', "Unknown option '--nope'. See: pullscore rules plan --help"],
    ['token create', "Required option '--user <email>' not specified. See: pullscore token create --help"],
    ['rules plan', "Missing required argument 'file'. See: pullscore rules plan --help"],
    ['rules paln', "Unknown command 'paln' (Did you mean plan?). See: pullscore rules --help"],
  ])('the complaint about %s names the mistake, and the help that shows the cure', async (line, complaint) => {
    await expectFailure(runHere(unreachable, line), 2, `pullscore: ${complaint}`);
  });
});

describe('help', () => {
  test('marks required options', async () => {
    const { stdout } = await runHere({}, 'user add --help');
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
      runHere({}, 'rules help plan'),
      runHere({ PORT: 'x', DATABASE_URL: 'nonsense' }, 'rules plan --help'),
      runHere({}, 'help'),
    ]);
    expect(named.stdout).toContain('Usage: pullscore rules plan [options] <file>');
    expect(named.stdout).toContain('--json');
    // It needs no valid configuration.
    expect(asked).toEqual({ ...named, code: 0, stderr: '' });
    expect(all).toMatchObject({ code: 0, stdout: expect.stringContaining('Usage: pullscore [options] [command]') });
  });
});
