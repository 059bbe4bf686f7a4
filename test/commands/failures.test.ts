import { closeSync, existsSync, openSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Command } from 'commander';
import { beforeAll, describe, expect, test } from 'vitest';
import type { Context } from '../../src/commands/context.ts';
import { buildProgram } from '../../src/commands/program.ts';
import { startWorld } from '../support/world.ts';
import {
  complaintOf,
  createFolder,
  type Environment,
  requireBuild,
  runHere,
  runWith,
  startForTest,
} from './support.ts';

const { write } = createFolder();
const world = await startWorld();
world.web.addPullRequest();
const environment = world.shell;
/** Nothing listens there, so a command that opens the database before it checks its arguments fails. */
const unreachable = { DATABASE_URL: 'postgres://me:hush@127.0.0.1:1/scores' };

const exampleRules = fileURLToPath(new URL('../../rules.example.yaml', import.meta.url));

beforeAll(requireBuild);

/** Checks two cases at a time. */
async function each<Case>(cases: readonly Case[], check: (one: Case) => Promise<void>): Promise<void> {
  for (let start = 0; start < cases.length; start += 2) await Promise.all(cases.slice(start, start + 2).map(check));
}

/** The `--help` text of every command. */
function helpTexts(): Map<string, string> {
  const texts = new Map<string, string>();
  const walk = (command: Command, path: string[]): void => {
    if (command.commands.length > 0) {
      for (const one of command.commands) walk(one, [...path, one.name()]);
      return;
    }
    let text = '';
    command.configureOutput({ writeOut: part => (text += part) }).outputHelp();
    texts.set(path.join(' '), text);
  };
  walk(buildProgram({ program: 'pullscore' } as Context), []);
  return texts;
}

test('the help of every command has an example, and lists --json', () => {
  const texts = helpTexts();
  expect(texts.size).toBeGreaterThanOrEqual(20);
  for (const [command, text] of texts) {
    expect(text).toContain(`Usage: pullscore ${command}`);
    expect(text).toContain('--json');
    expect(text).toMatch(new RegExp(`Examples?:\\n[^]*pullscore ${command}`));
  }
});

test('wrong usage ends with 2 before anything is opened, and says what is valid', async () => {
  const user = 'user add --organisation acme --name';
  const token = 'token create --user a@b.c';
  const standings = 'standings --organisation acme';
  const cases: [line: string[], message: string][] = [
    [[], 'Usage: pullscore'],
    [['organisation add', 'two words'], '"two words" can\'t be a login on GitHub'],
    ...['nobody', 'a\u001b[2Jb@acme.example', 'a@acme.example\u007f', 'a\u202eb@acme.example'].map(
      (email): [string[], string] => [[`${user} X --email`, email], 'is not an e-mail address'],
    ),
    ...['', ' ', 'x'.repeat(201)].map((name): [string[], string] => [
      [user, name, '--email', 'x@acme.example'],
      'The name must have 1 to 200 characters.',
    ]),
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
  ];
  await each(cases, async ([line, expected]) => {
    const ended = await runHere(unreachable, ...line);
    expect(ended).toMatchObject({ code: 2, stdout: '' });
    expect(ended.stderr).toContain(expected);
  });
});

test('a reader that closes the pipe early, as `head` does, does not change the exit code', async () => {
  const [answering, complaining] = [startForTest({}, 'rules check', exampleRules), startForTest({}, 'improt')];
  answering.child.stdout?.destroy();
  complaining.child.stderr?.destroy();
  expect(await answering.ended).toMatchObject({ code: 0, stderr: '' });
  expect((await complaining.ended).code).toBe(2);
});

describe('a failure that ends with 1 and one line on standard error', () => {
  async function complaint(env: Environment, ...operands: string[]): Promise<string> {
    const ended = await runHere(env, ...operands);
    expect(ended).toMatchObject({ code: 1, stdout: '' });
    return complaintOf(ended);
  }

  test('names the database server and the cause, but never the password', async () => {
    const elsewhere = (change: Partial<URL>) => Object.assign(new URL(environment.DATABASE_URL), change).href;
    const cases: [string, RegExp][] = [
      [
        'postgres://me:hush@nowhere.invalid/scores',
        /The database server at nowhere\.invalid:5432 can't be reached: (ENOTFOUND|EAI_AGAIN)\./,
      ],
      [
        elsewhere({ pathname: '/not_there' }),
        /The database not_there at .* can't be used: database "not_there" does not exist\. Check DATABASE_URL\.$/,
      ],
      [elsewhere({ username: 'not_there', password: 'hush' }), /can't be used: .*"not_there".* Check DATABASE_URL\.$/],
    ];
    await each(cases, async ([url, expected]) => {
      const line = await complaint({ DATABASE_URL: url }, 'organisation', 'list');
      expect(line).toMatch(expected);
      expect(line).not.toContain('hush');
    });
  });

  test('names the variables of missing or wrong credentials', async () => {
    const { GITHUB_TOKEN: _, ...without } = environment;
    const wrong = { ...environment, GITHUB_TOKEN: 'ghp_hush' };
    const fromFile = { ...without, GITHUB_TOKEN_FILE: write('token', 'ghp_hush') };
    // Not a port that was free a moment ago: another test may have it by now.
    const gone = { ...environment, GITHUB_API_URL: 'http://127.0.0.1:2' };
    const importAcme = 'import --organisation acme';
    const cases: [Environment, line: string, message: string][] = [
      [without, importAcme, 'There are no GitHub credentials. Set GITHUB_TOKEN, or GITHUB_APP_ID and'],
      [wrong, importAcme, "GitHub refused the service's credentials. Renew GITHUB_TOKEN."],
      [fromFile, 'members sync --organisation acme', 'Renew GITHUB_TOKEN_FILE.'],
      [wrong, 'organisation add other', 'Renew GITHUB_TOKEN.'],
      [gone, 'organisation add other', 'The connection to GitHub failed: ECONNREFUSED. Check GITHUB_API_URL'],
      [environment, 'organisation add not-on-github', 'GitHub shows no organisation not-on-github'],
      [environment, `${importAcme} --repository x`, 'GitHub shows no repository acme/x'],
    ];
    await each(cases, async ([env, given, expected]) => {
      const line = await complaint(env, given);
      expect(line).toContain(expected);
      expect(line).not.toContain('hush');
    });
    expect((await runHere(environment, 'organisation list --json')).stdout.match(/"login"/g)).toHaveLength(1);
  });

  test.skipIf(!existsSync('/dev/full'))('says why the answer could not be written', () => {
    const full = openSync('/dev/full', 'w');
    const ended = runWith({ stdio: ['ignore', full, 'pipe'] }, {}, 'rules', 'check', exampleRules);
    closeSync(full);
    expect(ended.code).toBe(1);
    expect(complaintOf(ended)).toBe(
      "pullscore: The answer can't be written (ENOSPC): check where standard output goes.",
    );
  });

  test('says why a rules file could not be read', async () => {
    const cases: [string, string][] = [
      ['/nowhere/rules.yaml', "/nowhere/rules.yaml can't be read: there is no such file. Name a rules file"],
      ['/', "/ can't be read: it is a folder. Name a rules file"],
      ['', "The file's name is empty. Name a rules file"],
      ['/dev/zero', "/dev/zero is larger than 2 MB: it can't be a rules file."],
    ];
    await each(cases, async ([path, expected]) => {
      expect(await complaint(unreachable, 'rules', 'apply', path, '--organisation', 'acme')).toContain(expected);
    });
  });
});
