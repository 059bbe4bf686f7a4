import { existsSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { get } from 'node:http';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { loadConfig } from '../../src/config.ts';
import { readPermissions } from '../../src/github/permissions.ts';
import { subscribedEvents } from '../../src/webhooks/events.ts';
import { newAppKeys } from '../support/app-keys.ts';
import { hasBrowser, openBrowser } from '../support/browser.ts';
import { type GithubStandIn, startGithub } from '../support/github/server.ts';
import { closing } from '../support/service.ts';
import { startWorld } from '../support/world.ts';
import { complaintOf, type Environment, newHome, runHere, runJson, startHere } from './support.ts';

interface Setting {
  github: GithubStandIn;
  folder: string;
  output: string;
  environment: Environment;
}

// Its acme has the ids of the first organisation of each stand-in.
const { service } = await startWorld();

async function prepare(options: Parameters<typeof startGithub>[0] = {}): Promise<Setting> {
  const github = closing(await startGithub(options));
  const acme = github.organisation('acme', { name: 'Acme' });
  acme.member('ada');
  acme.repository('web').addPullRequest();
  const folder = newHome('connect');
  const environment = {
    DATABASE_URL: service.database.url,
    GITHUB_API_URL: github.apiUrl,
    PUBLIC_URL: 'https://pullscore.example.com',
  };
  return { github, folder, output: join(folder, '.env'), environment };
}

const operands = ({ output }: Pick<Setting, 'output'>, ...options: string[]) => [
  ...['github', 'connect', '--organisation', 'acme', '--output', output],
  ...options,
];

function connect(setting: Setting, ...options: string[]) {
  const running = startHere(setting.environment, ...operands(setting, ...options));
  onTestFinished(running.interrupt);
  return running;
}

async function addressOf(running: ReturnType<typeof connect>): Promise<string> {
  return (await running.shows(/Open this page .*: (http\S+)/))[1] ?? '';
}

/** What a browser does, without one: it keeps the cookie, and sends the forms. */
async function createApp(github: GithubStandIn, address: string) {
  const page = await fetch(address);
  const cookie = String(page.headers.get('set-cookie')).split(';')[0] ?? '';
  const text = (await page.text()).replaceAll('&quot;', '"');
  const [, action = ''] = /action="([^"]+)"/.exec(text) ?? [];
  const [, manifest = ''] = /name="manifest" value="(\{.*\})"/.exec(text) ?? [];
  const state = new URL(action).searchParams.get('state') ?? '';
  expect(new URL(action).origin).toBe(new URL(github.apiUrl).origin);
  const created = await fetch(action.replace(/\/new\?.*/, ''), {
    method: 'POST',
    body: new URLSearchParams({ manifest, state }),
    redirect: 'manual',
  });
  return { cookie, manifest: JSON.parse(manifest), redirect: created.headers.get('location') ?? '' };
}

const isConversion = ({ path }: { path: string }) => path.includes('/app-manifests/');

const { privateKey } = newAppKeys('pkcs1');

/** What GitHub answers to a code. */
const appReply = ({ apiUrl }: GithubStandIn) => ({
  id: 7,
  name: 'pullscore',
  owner: { login: 'acme' },
  html_url: `${new URL(apiUrl).origin}/apps/pullscore`,
  pem: privateKey,
  webhook_secret: 'a-secret-of-twenty-characters',
});

const variables = (text: string): Environment =>
  Object.fromEntries(
    text.split('\n').flatMap(line => {
      const [, name, value = ''] = /^(\w+)='(.*)'$/.exec(line) ?? [];
      return name === undefined ? [] : [[name, value]];
    }),
  );

describe('github connect', () => {
  test('registers an App with what the service needs, and ends with what doctor says', async () => {
    const setting = await prepare();
    const { github, output } = setting;
    const running = connect(setting, '--json');
    const { cookie, manifest, redirect } = await createApp(github, await addressOf(running));
    expect(manifest).toEqual({
      name: 'pullscore acme',
      url: 'https://pullscore.example.com',
      description: expect.any(String),
      hook_attributes: { url: 'https://pullscore.example.com/webhooks/github/acme', active: true },
      redirect_url: /^http:\/\/127\.0\.0\.1:\d+\/[\w-]{32}\/done$/,
      public: false,
      default_permissions: { ...Object.fromEntries(readPermissions.map(name => [name, 'read'])), checks: 'write' },
      default_events: [...subscribedEvents.keys()],
    });
    const done = await fetch(redirect, { headers: { cookie } });
    expect(await done.text()).toContain('GitHub has created the App pullscore acme.');
    await running.shows(/Now install it on acme: (\S+)/);
    github.installApp(github.organisation('acme'));
    const { code, stdout, stderr } = await running.ended;
    expect(code).toBe(0);
    const text = readFileSync(output, 'utf8');
    expect(statSync(output).mode & 0o777).toBe(0o600);
    expect(JSON.parse(stdout)).toMatchObject({
      organisation: 'acme',
      app: { id: '1000000', name: 'pullscore acme', url: `${new URL(github.apiUrl).origin}/apps/pullscore-acme` },
      output,
      installed: true,
      ok: true,
    });
    const written = variables(text);
    expect(Object.keys(written)).toEqual(['GITHUB_APP_ID', 'GITHUB_APP_PRIVATE_KEY', 'GITHUB_WEBHOOK_SECRET']);
    for (const secret of [written.GITHUB_APP_PRIVATE_KEY, written.GITHUB_WEBHOOK_SECRET?.replace('acme:', '')]) {
      expect(stdout + stderr).not.toContain(String(secret).slice(30, 60));
    }
    // The service starts with it, and with it beside the program.
    expect(loadConfig(written).github.app?.id).toBe('1000000');
    const findings = (await runJson({ ...setting.environment, ...written }, 'doctor')) as { ok: boolean };
    expect(findings.ok).toBe(true);
  });

  test.skipIf(!hasBrowser)('leads through an Enterprise Server in a browser', async () => {
    const running = connect(await prepare({ enterprise: true }));
    const page = await (await openBrowser()).newPage();
    const problems: string[] = [];
    page.on('console', message => message.text().includes('Content Security Policy') && problems.push(message.text()));
    await page.goto(await addressOf(running));
    await page.getByRole('button', { name: 'Create the App on GitHub' }).click();
    await page.getByRole('button', { name: 'Create GitHub App for acme' }).click();
    await page.getByRole('link', { name: 'Install it on acme' }).click();
    await page.getByRole('button', { name: 'Install' }).click();
    await page.getByText('Installed').waitFor();
    const { code, stdout } = await running.ended;
    expect(stdout).toContain('The App is installed and has all permissions that it needs.');
    expect(code).toBe(0);
    expect(problems).toEqual([]);
  });

  test('ends without checks of a database in the order of Docker, where there is none yet', async () => {
    const { github, folder, output, environment } = await prepare();
    github.fault({ kind: 'reply', status: 201, body: appReply(github) }, { when: isConversion });
    const installation = { id: 1, permissions: {} };
    const isAsked = ({ path }: { path: string }) => path.includes('/installation');
    github.fault({ kind: 'reply', status: 200, body: installation }, { when: isAsked });
    const { DATABASE_URL: _, ...docker } = environment;
    const command = operands({ output }, '--code', 'abc');
    const home = join(folder, '.pullscore');
    const { code, stdout, stderr } = await runHere({ ...docker, PULLSCORE_HOME: home }, ...command);
    expect({ code, stdout }).toEqual({ code: 0, stdout: 'The App pullscore is installed on acme.\n' });
    expect(stderr).toContain('Next, start the service, with npm start or docker compose up -d');
    expect(existsSync(home)).toBe(false);
  });

  test('takes one answer, with its own state, from the browser that opened the page', async () => {
    const setting = await prepare();
    const { github } = setting;
    const running = connect(setting);
    const address = await addressOf(running);
    const status = async (url: string, headers: Record<string, string> = {}) => (await fetch(url, { headers })).status;
    const { cookie, redirect } = await createApp(github, address);
    const wrongState = redirect.replace(/state=.*/, 'state=x');
    expect(await status(new URL('/', address).href)).toBe(404);
    expect(await status(`${address.slice(0, -1)}${address.endsWith('x') ? 'y' : 'x'}`)).toBe(404);
    expect(await status(address)).toBe(403);
    expect(await status(address, { cookie })).toBe(200);
    expect(await status(redirect)).toBe(403);
    expect(await status(redirect, { cookie: 'pullscore=x' })).toBe(403);
    expect(await status(wrongState, { cookie })).toBe(400);
    expect(
      await status(`${address}/done?code=../x&state=${new URL(redirect).searchParams.get('state')}`, { cookie }),
    ).toBe(400);
    const answers = await Promise.all([status(redirect, { cookie }), status(redirect, { cookie }).catch(() => 410)]);
    expect(answers.sort()).toEqual([200, 410]);
    github.installApp(github.organisation('acme'));
    expect((await running.ended).code).toBe(0);
  });

  test('goes on after requests that are not valid, and after a browser closes too early', async () => {
    const setting = await prepare();
    const { github, output } = setting;
    const running = connect(setting);
    const address = await addressOf(running);
    const { cookie, redirect } = await createApp(github, address);
    const strange = 'é'.repeat(cookie.length);
    const ask = (path: string, headers: Record<string, string>) =>
      new Promise<number>((resolve, reject) => {
        const { hostname, port } = new URL(address);
        get({ hostname, port, path, headers }, reply => resolve(reply.resume().statusCode ?? 0)).on('error', reject);
      });
    const { pathname, search } = new URL(redirect);
    expect(await ask('//', {})).toBe(404);
    expect(await ask(pathname + search, { cookie: strange })).toBe(403);
    const state = new URL(redirect).searchParams.get('state') ?? '';
    const wrong = search.replace(state, encodeURIComponent('é'.repeat(state.length)));
    expect(await ask(pathname + wrong, { cookie })).toBe(400);
    const { begun, release } = github.hold('hold', isConversion);
    const leaving = new AbortController();
    const left = fetch(redirect, { headers: { cookie }, signal: leaving.signal }).catch(() => undefined);
    await begun;
    leaving.abort();
    await left;
    release();
    await running.shows(/Now install it/);
    github.installApp(github.organisation('acme'));
    expect((await running.ended).code).toBe(0);
    expect(variables(readFileSync(output, 'utf8'))).toHaveProperty('GITHUB_APP_ID');
  });

  test('finishes once with the code on a machine without a browser', async () => {
    const setting = await prepare();
    const { github, environment, output } = setting;
    const running = connect(setting);
    const { redirect } = await createApp(github, await addressOf(running));
    running.interrupt();
    const interrupted = await running.ended;
    expect(interrupted.code).toBe(1);
    expect(interrupted.stderr).toContain('It was interrupted. Nothing was written. Run the command again.');
    expect(existsSync(output)).toBe(false);
    github.installApp(github.organisation('acme'));
    const code = new URL(redirect).searchParams.get('code') ?? '';
    const command = operands({ output }, '--code', code);
    expect(await runJson(environment, ...command)).toMatchObject({ installed: true });
    expect(await complaintOf(runHere(environment, ...command, '--yes'))).toContain(
      'GitHub does not know this code: it has been used, or is over an hour old.',
    );
  });

  test('keeps what else is in the file, and asks before it replaces a value', async () => {
    const setting = await prepare();
    const { github, environment, output } = setting;
    const others =
      "# ours\nPOSTGRES_PASSWORD='x'\nGITHUB_TOKEN='ghp_old'\nexport GITHUB_WEBHOOK_SECRET=a-secret-of-before\nPORT=3000";
    writeFileSync(output, others, { mode: 0o644 });
    expect(await complaintOf(runHere(environment, ...operands(setting)), 2)).toContain(
      `Replace GITHUB_TOKEN in ${output}?`,
    );
    expect(readFileSync(output, 'utf8')).toBe(others);
    const running = connect(setting, '--yes');
    const { cookie, redirect } = await createApp(github, await addressOf(running));
    await fetch(redirect, { headers: { cookie } });
    github.installApp(github.organisation('acme'));
    expect((await running.ended).code).toBe(0);
    const text = readFileSync(output, 'utf8');
    expect(text).toMatch(
      /^# ours\nPOSTGRES_PASSWORD='x'\nGITHUB_TOKEN=''\nGITHUB_WEBHOOK_SECRET='a-secret-of-before,acme:[0-9a-f]{40}'\nPORT=3000\nGITHUB_APP_ID='1000000'\nGITHUB_APP_PRIVATE_KEY='[^']+'\n$/,
    );
    expect(statSync(output).mode & 0o777).toBe(0o600);
  });

  test('refuses a file that is a link, has other contents or cannot be written, before it begins', async () => {
    const { environment, folder } = await prepare();
    const elsewhere = join(folder, 'elsewhere');
    writeFileSync(elsewhere, '');
    const link = join(folder, 'link');
    symlinkSync(elsewhere, link);
    const missing = join(folder, 'missing', '.env');
    mkdirSync(join(folder, 'directory'));
    const notes = join(folder, 'notes.md');
    writeFileSync(notes, '# Notes\n\nKeep these.\n');
    const page = join(folder, 'page.html');
    writeFileSync(page, '<p>Keep this</p>\n');
    for (const [path, reason] of [
      [link, 'is not a regular file'],
      [join(folder, 'directory'), 'is not a regular file'],
      [missing, "can't be written: ENOENT"],
      [notes, 'contains something other than variables'],
      [page, 'contains something other than variables'],
    ] as const) {
      expect(await complaintOf(runHere(environment, ...operands({ output: path })))).toContain(`${path} ${reason}`);
    }
  });

  test('refuses a file that has the most secrets of one organisation, with which no service would start', async () => {
    const { environment, output } = await prepare();
    const secrets = [1, 2, 3, 4].map(number => `Acme:a-secret-of-before-${number}`);
    writeFileSync(output, `GITHUB_WEBHOOK_SECRET=${secrets}\n`);
    const refused = complaintOf(runHere(environment, ...operands({ output }, '--code', 'abc')));
    expect(await refused).toContain('GITHUB_WEBHOOK_SECRET has more than 4 secrets for one organisation');
  });

  test.each([
    [{ PUBLIC_URL: '' }, 'PUBLIC_URL is not set. Set it to the address'],
    [{ PUBLIC_URL: 'http://localhost:3000' }, "GitHub can't deliver webhooks to PUBLIC_URL"],
    [
      { GITHUB_APP_ID: '1', GITHUB_APP_PRIVATE_KEY_FILE: 'test/support/certificate/key.pem' },
      '.env beside GITHUB_APP_ID, GITHUB_APP_PRIVATE_KEY_FILE. Unset',
    ],
    [{ GITHUB_TOKEN: 'ghp_other' }, '.env beside GITHUB_TOKEN. Unset'],
    [{ GITHUB_WEBHOOK_SECRET: 'another-secret-of-before' }, '.env beside GITHUB_WEBHOOK_SECRET. Unset'],
    [
      { GITHUB_TOKEN: 'ghp_old', GITHUB_WEBHOOK_SECRET: 'a-secret-of-before, acme:a-secret-of-acme' },
      'Replace GITHUB_TOKEN',
    ],
  ])('refuses the configuration %o, and says why', async (changes, message) => {
    const { environment, output } = await prepare();
    writeFileSync(output, 'GITHUB_TOKEN=ghp_old\nGITHUB_WEBHOOK_SECRET=a-secret-of-before,acme:a-secret-of-acme\n');
    const refused = runHere({ ...environment, ...changes }, ...operands({ output }, '--code', 'abc'));
    // Without a terminal nobody answers the question, which --yes would.
    expect(await complaintOf(refused, message.startsWith('Replace') ? 2 : 1)).toContain(message);
  });

  test.each([
    ['webhook_secret', "'"],
    ['webhook_secret', '\nPORT=1'],
    ['pem', "'\n"],
    ['pem', '\u001b[2J\n'],
  ] as const)('refuses a %s with %j, which the file could not hold', async (name, strange) => {
    const { github, environment, output } = await prepare();
    const reply = appReply(github);
    const body = { ...reply, [name]: strange + reply[name] };
    github.fault({ kind: 'reply', status: 201, body }, { when: isConversion });
    const command = operands({ output }, '--code', 'abc');
    expect(await complaintOf(runHere(environment, ...command))).toContain("GitHub's reply about the App is not valid");
    expect(existsSync(output)).toBe(false);
  });

  test('shows the name of an App without its escapes', async () => {
    const { github, environment, output } = await prepare();
    const body = { ...appReply(github), name: 'pull\u001b[2Jscore', owner: { login: 'other\u001b[2J' } };
    const command = operands({ output }, '--code', 'abc');
    github.fault({ kind: 'reply', status: 201, body }, { when: isConversion });
    const foreign = complaintOf(runHere(environment, ...command));
    expect(await foreign).toContain('The App belongs to other [2J, not to acme.');
    github.fault({ kind: 'reply', status: 201, body: { ...body, owner: { login: 'acme' } } }, { when: isConversion });
    const running = startHere(environment, ...command);
    await running.shows(/Wrote the credentials of the App pull \[2Jscore to/);
    await running.shows(/Now install it/);
    running.interrupt();
    expect((await running.ended).stderr).not.toContain('\u001b');
  });

  test('writes nothing if GitHub answers with something else, and never prints it', async () => {
    const { github, environment, output } = await prepare();
    const command = operands({ output }, '--code', 'abc');
    const conversion = { when: isConversion };
    for (const body of [{ id: 1, pem: 'a secret' }, '<html>']) {
      github.fault({ kind: 'reply', status: 201, body }, conversion);
      const complaint = await complaintOf(runHere(environment, ...command));
      expect(complaint).toContain("GitHub's reply about the App is not valid");
      expect(complaint).not.toContain('a secret');
    }
    for (const status of [403, 500] as const) {
      github.fault({ kind: 'reply', status, body: {} }, conversion);
      expect((await runHere(environment, ...command)).code).toBe(1);
    }
    expect(existsSync(output)).toBe(false);
  });
});

test('checks enable needs an App that may write checks, and doctor and status say how it goes', async () => {
  const setting = await prepare();
  const { github, environment, output } = setting;
  const command = ['checks', 'enable', '--organisation', 'acme'];
  const withoutApp = complaintOf(runHere({ ...environment, GITHUB_TOKEN: github.token }, ...command));
  expect(await withoutApp).toContain('Only a GitHub App can write checks');
  const running = connect(setting);
  const { cookie, redirect } = await createApp(github, await addressOf(running));
  await fetch(redirect, { headers: { cookie } });
  github.installApp(github.organisation('acme'));
  await running.ended;
  const app = { ...environment, ...variables(readFileSync(output, 'utf8')) };
  github.grants.permissions = { ...github.grants.permissions, checks: 'read' };
  expect(await complaintOf(runHere(app, ...command))).toContain('may not write checks');
  github.grants.permissions = { ...github.grants.permissions, checks: 'write' };
  expect(await runJson(app, ...command)).toEqual({ organisation: 'acme', checks_enabled: true });
  const status = await runJson(app, 'webhooks status --organisation acme');
  expect(status.checks).toEqual({ enabled: true, waiting: 0, failing: 0, parked: 0, failures: [] });
  github.grants.permissions = { ...github.grants.permissions, checks: 'read' };
  const examined = await runHere(app, 'doctor');
  expect(examined.stdout.replace(/\s+/g, ' ')).toContain('may not write checks: scores are not shown on GitHub.');
  expect(await runJson(app, 'checks disable --organisation acme')).toEqual({
    organisation: 'acme',
    checks_enabled: false,
  });
});
