import { execFileSync } from 'node:child_process';
import { beforeEach, expect, test } from 'vitest';
import type { Context } from '../../src/commands/context.ts';
import { nextSteps } from '../../src/commands/next-steps.ts';
import { loadConfig } from '../../src/config.ts';
import { connectDeps } from '../../src/deps.ts';
import { createLog } from '../../src/log.ts';
import { shellWord } from '../../src/text/terminal.ts';
import { query } from '../support/database-server.ts';
import { createMigratedDatabase } from '../support/service.ts';
import { startWorld } from '../support/world.ts';
import { type Environment, runHere, runJson } from './support.ts';

const { github, shell } = await startWorld();
for (const login of ['acme', 'apex']) {
  github.organisation(login).member('ada');
  github.organisation(login).repository('web').addPullRequest();
}
let environment: Environment;

beforeEach(async () => {
  environment = {
    ...shell,
    DATABASE_URL: await createMigratedDatabase(),
    GITHUB_WEBHOOK_SECRET: 'a secret of more than sixteen',
  };
});

/** What a start of the service prints. */
async function hints(program = 'pullscore'): Promise<string[]> {
  const config = loadConfig(environment);
  const deps = connectDeps(config, createLog({ logLevel: 'silent' }), config.databaseUrl ?? '');
  const steps = await nextSteps({ program, config } as Context, deps);
  await deps.close();
  return steps.map(({ command }) => command);
}

/** Runs a command as it was printed. */
const runPrinted = async (command: string) => {
  const [program, ...operands] = command.split(' ');
  expect(program).toBe('pullscore');
  expect(await runHere(environment, ...operands)).toMatchObject({ code: 0 });
};

const addUser = ['user', 'add', '--name', 'Ada', '--email', 'ada@acme.example', '--organisation'];

test('a start of the service lists what is missing until it is there, and what it prints works', async () => {
  await runJson(environment, 'organisation add acme');
  await runJson(environment, 'organisation add apex');
  for (const login of ['acme', 'apex']) {
    const organisation = `--organisation ${login}`;
    const token = (email: string) => `pullscore token create --user ${email} --scopes read,sync ${organisation}`;
    const rules = `pullscore rules apply rules.example.yaml ${organisation}`;
    const load = `pullscore members sync ${organisation} && pullscore import ${organisation}`;
    expect(await hints()).toEqual([
      `pullscore user add ${organisation} --name NAME --email EMAIL`,
      token('EMAIL'),
      rules,
      load,
    ]);
    const { stdout } = await runHere(environment, ...addUser, login);
    expect(stdout).toBe(`Added Ada. Next, create a token: ${token('ada@acme.example')}\n`);
    expect(await hints()).toEqual([token('ada@acme.example'), rules, load]);
    // The user of apex is in two organisations.
    await runPrinted(token('ada@acme.example'));
    await runPrinted(rules);
    await runPrinted(`pullscore members sync ${organisation}`);
    expect(await hints()).toEqual([load]);
    await runPrinted(`pullscore import ${organisation}`);
  }
  expect(await hints()).toEqual([]);
  for (const { id } of await runJson<{ id: string }[]>(environment, 'token list'))
    await runJson(environment, 'token revoke', id);
  expect(await hints()).toEqual([
    'pullscore token create --user ada@acme.example --scopes read,sync --organisation acme',
  ]);
});

test('a start of the service asks for nothing of an organisation that is being removed', async () => {
  await runJson(environment, 'organisation add acme');
  const ofNone = [
    'pullscore organisation add LOGIN',
    'pullscore user add --organisation LOGIN --name NAME --email EMAIL',
  ];
  await query(environment.DATABASE_URL ?? '', 'update organisations set removed_at = now()');
  expect((await hints()).slice(0, 2)).toEqual(ofNone);
});

test('a start without credentials names the command that gets them, in a checkout, and their file', async () => {
  await runJson(environment, 'organisation add acme');
  environment = { ...environment, GITHUB_TOKEN: '', GITHUB_WEBHOOK_SECRET: '' };
  const [connect, addsUser] = await hints('node dist/main.js');
  expect(connect).toBe('node dist/main.js github connect --organisation acme');
  expect(addsUser).toContain('user add');
  expect((await hints()).slice(0, 2)).toEqual([
    'GITHUB_TOKEN=…   (with docker compose: in .env, then docker compose up -d)',
    'GITHUB_WEBHOOK_SECRET=…   (with docker compose: in .env, then docker compose up -d)',
  ]);
});

test.each(['plain', 'a b', "it's", '$HOME', '', 'ü', '*', '../x_1.yaml'])(
  '%j is one word of a printed command',
  text => {
    const printed = execFileSync('sh', ['-c', `printf %s ${shellWord(text)}`], { encoding: 'utf8' });
    expect(printed).toBe(text);
  },
);
