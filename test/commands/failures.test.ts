import { closeSync, existsSync, openSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Command } from 'commander';
import { describe, expect, test } from 'vitest';
import type { Context } from '../../src/commands/context.ts';
import { buildProgram } from '../../src/commands/program.ts';
import { startWorld } from '../support/world.ts';
import {
  commandsWith,
  complaintOf,
  createFolder,
  type Environment,
  runHere,
  runWith,
  startForTest,
} from './support.ts';

const { write } = createFolder();
const world = await startWorld();
world.web.addPullRequest();
const environment = world.shell;
const { run, runJson } = commandsWith(environment);
/** Nothing listens there, so a command that opens the database before it checks its arguments fails. */
const unreachable = { DATABASE_URL: 'postgres://me:hush@127.0.0.1:1/scores' };

const exampleRules = fileURLToPath(new URL('../../rules.example.yaml', import.meta.url));

describe('wrong usage ends with 2 before anything is opened, and says what is valid', () => {
  const user = 'user add --organisation acme --name';
  const token = 'token create --user a@b.c';
  const standings = 'standings --organisation acme';
  test.each<[line: string[], message: string]>([
    [['organisation add', 'two words'], '"two words" can\'t be a login on GitHub'],
    ...['nobody', 'a\u001b[2Jb@acme.example', 'a@acme.example\u007f', 'a\u202eb@acme.example'].map(
      (email): [string[], string] => [[`${user} X --email`, email], 'is not an e-mail address'],
    ),
    ...['', ' ', 'x'.repeat(201)].map((name): [string[], string] => [
      [user, name, '--email', 'x@acme.example'],
      'The name must have 1 to 200 characters.',
    ]),
    [[`${token} --name`, 'x'.repeat(201)], 'The name can have 200 characters at most.'],
    [[`${token} --scopes read,write`], '"write" is not a scope. Give one or more of read,sync,delete'],
    [[`${token} --expires soon`], '"soon" is not a valid expiry. Give 12h'],
    [[`${token} --expires 2020-01-01`], '2020-01-01 is in the past'],
    [[`${token} --expires 2027-02-30`], '"2027-02-30" is not a valid expiry'],
    [[`${token} --expires 9000y`], '9000y is too late. Without --expires the token never'],
    [[`${standings} --since 2026-02-30`], '"2026-02-30" is not a valid day. Write it as 2026-01-31.'],
    [[`${standings} --until 31.1.2026`], '"31.1.2026" is not a valid day. Write it as 2026-01-31.'],
    [
      [`${standings} --since 2026-02-01 --until 2026-01-31`],
      'The period begins after it ends: since 2026-02-01 until 2026-01-31.',
    ],
    [[`${standings} --by closed`], "'closed' is invalid. Allowed choices are created, merged."],
    [[`${standings} --of teams`], "'teams' is invalid. Allowed choices are members, repositories."],
  ])('%j: %s', async (line, message) => {
    expect(await complaintOf(runHere(unreachable, ...line), 2)).toContain(message);
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
  ])('%s: %s', async (line, complaint) => {
    expect(await complaintOf(runHere(unreachable, line), 2)).toBe(`pullscore: ${complaint}`);
  });
});

describe('help', () => {
  /** Of every command. */
  const texts = new Map<string, string>();
  const walk = (command: Command, path: string[]): void => {
    for (const one of command.commands) walk(one, [...path, one.name()]);
    if (command.commands.length > 0) return;
    let text = '';
    command.configureOutput({ writeOut: part => (text += part) }).outputHelp();
    texts.set(path.join(' '), text);
  };
  walk(buildProgram({ program: 'pullscore' } as Context), []);

  test('of every command has an example, and lists --json once', () => {
    expect(texts.size).toBeGreaterThanOrEqual(20);
    for (const [command, text] of texts) {
      expect(text).toContain(`Usage: pullscore ${command}`);
      expect(text.match(/--json/g)).toHaveLength(1);
      expect(text).toMatch(new RegExp(`Examples?:\\n[^]*pullscore ${command}`));
    }
  });

  test('marks required options', () => {
    const required = texts
      .get('user add')
      ?.split('\n')
      .filter(line => line.endsWith('(required)'));
    expect(required?.map(line => /--\w+/.exec(line)?.[0])).toEqual(['--name', '--email', '--organisation']);
  });

  test.each([
    ['serve', /--json once it is ready, print its address and what to set up next as a line of JSON/],
    ['worker', /--json once it is ready, say so as a line of JSON/],
  ])('says when %s --json answers', (command, expected) => {
    expect(texts.get(command)?.replace(/\s+/g, ' ')).toMatch(expected);
  });

  test('is also a command, and the answer to none', async () => {
    const [named, asked, all] = await Promise.all([
      runHere({}, 'rules help plan'),
      runHere({ PORT: 'x', DATABASE_URL: 'nonsense' }, 'rules plan --help'),
      runHere({}, 'help'),
    ]);
    expect(named.stdout).toContain('Usage: pullscore rules plan [options] <file>');
    expect(named.stdout).toContain('--json');
    // It needs no valid configuration.
    expect(asked).toEqual({ ...named, code: 0, stderr: '' });
    const stdout = expect.stringContaining('Usage: pullscore [options] [command]');
    expect(all).toEqual({ code: 0, stdout, stderr: '' });
    expect(await runHere(unreachable)).toEqual({ code: 2, stdout: '', stderr: stdout });
  });
});

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

test('a reader that closes the pipe early, as `head` does, does not change the exit code', async () => {
  const [answering, complaining] = [startForTest({}, 'rules check', exampleRules), startForTest({}, 'improt')];
  answering.child.stdout?.destroy();
  complaining.child.stderr?.destroy();
  expect(await answering.ended).toMatchObject({ code: 0, stderr: '' });
  expect((await complaining.ended).code).toBe(2);
});

describe('a failure with --json', () => {
  test.each<[line: string, change: object, code: string, message: string, action: string | null]>([
    [
      'webhooks status --organisation emca',
      {},
      'not_found',
      'There is no organisation emca here.',
      'Add it: pullscore organisation add emca',
    ],
    [
      'user list',
      { PORT: 'x' },
      'configuration',
      'The configuration is not valid: PORT must be a whole number from 0 to 65535.',
      null,
    ],
    [
      'user list',
      unreachable,
      'database_unavailable',
      "The database server at 127.0.0.1:1 can't be reached: ECONNREFUSED.",
      'Check DATABASE_URL and that the server runs.',
    ],
    [
      'import --organisation emca --since x',
      unreachable,
      'usage',
      '"x" is not a valid day.',
      'Write it as 2026-01-31.',
    ],
    ['standings --organisation acme --csv', unreachable, 'usage', 'Give either --csv or --json.', null],
    [
      'rules export',
      unreachable,
      'usage',
      "Required option '--organisation <login>' or '--server <url>' not specified.",
      'See: pullscore rules export --help',
    ],
  ])('gives an error document: %s with %j', async (line, change, code, message, action) => {
    const ended = await runHere({ ...environment, ...change }, line, '--json');
    expect(JSON.parse(ended.stdout)).toEqual({ error: { code, message, action } });
    const stderr = `pullscore: ${message}${action === null ? '' : ` ${action}`}\n`;
    expect(ended).toMatchObject({ code: code === 'usage' ? 2 : 1, stderr });
  });
});

describe('a failure that ends with 1 and one line on standard error', () => {
  const elsewhere = (change: Partial<URL>) => Object.assign(new URL(environment.DATABASE_URL), change).href;
  const { GITHUB_TOKEN: _, ...without } = environment;
  const wrong = { ...environment, GITHUB_TOKEN: 'ghp_hush' };
  const fromFile = { ...without, GITHUB_TOKEN_FILE: write('token', 'ghp_hush') };
  // Not a port that was free a moment ago: another test may have it by now.
  const gone = { ...environment, GITHUB_API_URL: 'http://127.0.0.1:2' };

  test.each([
    [
      'postgres://me:hush@nowhere.invalid/scores',
      /The database server at nowhere\.invalid:5432 can't be reached: (ENOTFOUND|EAI_AGAIN)\./,
    ],
    [
      elsewhere({ pathname: '/not_there' }),
      /The database not_there at .* can't be used: database "not_there" does not exist\. Check DATABASE_URL\.$/,
    ],
    [elsewhere({ username: 'not_there', password: 'hush' }), /can't be used: .*"not_there".* Check DATABASE_URL\.$/],
  ])('names the database server and the cause, but never the password: %s', async (url, expected) => {
    const complaint = await complaintOf(runHere({ DATABASE_URL: url }, 'organisation list'));
    expect(complaint).toMatch(expected);
    expect(complaint).not.toContain('hush');
  });

  test.each<[line: string, Environment, message: string]>([
    ['import', without, 'There are no GitHub credentials. Set GITHUB_TOKEN, or GITHUB_APP_ID and'],
    ['import', wrong, "GitHub refused the service's credentials. Renew GITHUB_TOKEN."],
    ['members sync', fromFile, 'Renew GITHUB_TOKEN_FILE.'],
    ['organisation add other', wrong, 'Renew GITHUB_TOKEN.'],
    ['organisation add other', gone, 'The connection to GitHub failed: ECONNREFUSED. Check GITHUB_API_URL'],
    ['organisation add not-on-github', environment, 'GitHub shows no organisation not-on-github'],
    ['import --repository x', environment, 'GitHub shows no repository acme/x'],
  ])('names what is missing or wrong, and adds no organisation: %s with %j', async (line, given, expected) => {
    const rest = line.startsWith('organisation') ? [] : ['--organisation', 'acme'];
    const complaint = await complaintOf(runHere(given, line, ...rest));
    expect(complaint).toContain(expected);
    expect(complaint).not.toContain('hush');
    expect(await runJson('organisation list')).toHaveLength(1);
  });

  test.skipIf(!existsSync('/dev/full'))('says why the answer could not be written', async () => {
    const full = openSync('/dev/full', 'w');
    const ended = runWith({ stdio: ['ignore', full, 'pipe'] }, {}, 'rules', 'check', exampleRules);
    closeSync(full);
    expect(await complaintOf({ ...ended, stdout: '' })).toBe(
      "pullscore: The answer can't be written (ENOSPC): check where standard output goes.",
    );
  });

  test.each([
    ['/nowhere/rules.yaml', "/nowhere/rules.yaml can't be read: there is no such file. Name a rules file"],
    ['/', "/ can't be read: it is a folder. Name a rules file"],
    ['', "The file's name is empty. Name a rules file"],
    ['/dev/zero', "/dev/zero is larger than 2 MB: it can't be a rules file."],
  ])('says why the rules file %j could not be read', async (path, expected) => {
    expect(await complaintOf(runHere(unreachable, 'rules apply', path, '--organisation', 'acme'))).toContain(expected);
  });
});
