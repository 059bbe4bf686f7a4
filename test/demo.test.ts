import { type ChildProcess, execFile, execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, realpathSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { createEnvironment, exportLine, startService } from '../demo/pullscore.ts';
import { type Running, runJson, startProcess } from './commands/support.ts';
import { createHome, removeHome } from './support/home.ts';
import { freePort } from './support/raw-http.ts';

const programs = fileURLToPath(new URL('../demo', import.meta.url));
const tsx = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href;

/** Settings of the user, which the demo must ignore. */
const foreign = {
  DATABASE_URL: 'postgres://nobody@127.0.0.1:1/nothing',
  PULLSCORE_HOME: '/nonexistent/home',
  HOST: 'nowhere.invalid',
  PORT: 'none',
  GITHUB_API_URL: 'http://127.0.0.1:1',
  GITHUB_TOKEN: 'not a token',
  GITHUB_APP_ID: '1',
  GITHUB_APP_PRIVATE_KEY_FILE: '/nonexistent/key',
  GITHUB_WEBHOOK_SECRET: 'not the secret',
  WORKER: 'false',
};

/** On an idle machine a demo takes a tenth of this. */
const timeoutMs = 180_000;

const children = new Set<ChildProcess>();

/** Starts it, or its client, in its own process group, as a terminal does. */
function startDemo(options: readonly string[] = [], environment = {}, program = 'demo.ts'): Running {
  const line = [process.execPath, '--import', tsx, join(programs, program), ...options];
  const running = startProcess({ ...process.env, ...foreign, ...environment }, line, { cwd: '.', detached: true });
  children.add(running.child);
  return running;
}

/** The processes that the demo has started so far, and the folders of its data. */
function tracesOf({ child, output }: Running) {
  const listed = execFileSync('ps', ['-axww', '-o', 'pid=,ppid='], { encoding: 'utf8' });
  const started = [...listed.matchAll(/(\d+)\s+(\d+)/g)].flatMap(([, id, parent]) =>
    Number(parent) === child.pid ? [Number(id)] : [],
  );
  const [, url = '', folder = ''] = /(http:\S+) is ready, with its own PostgreSQL in (\S+)/.exec(output.stdout) ?? [];
  expect(started).not.toEqual([]);
  expect(existsSync(folder)).toBe(true);
  return { started, url, folder, database: realpathSync(join(folder, 'postgresql')) };
}

const isRemoved = ({ folder, database }: ReturnType<typeof tracesOf>) => !existsSync(folder) && !existsSync(database);

async function expectNothingRunning({ started, url, folder, database }: ReturnType<typeof tracesOf>): Promise<void> {
  const running = () =>
    execFileSync('ps', ['-axww', '-o', 'pid=,stat=,command='], { encoding: 'utf8' })
      .split('\n')
      .filter(line => !/^\s*\d+\s+Z/.test(line))
      .filter(line => line.includes(folder) || line.includes(database) || started.includes(Number.parseInt(line, 10)));
  await vi.waitFor(() => expect(running()).toEqual([]), { timeout: 30_000, interval: 50 });
  await expect(fetch(`${url}/healthz`)).rejects.toThrow();
}

/** Occupied, so that concurrent demos don't compete for it. */
let usualPort: Server;

beforeAll(async () => {
  usualPort = createServer().listen({ host: '127.0.0.1', port: 3000 });
  await Promise.race([once(usualPort, 'listening'), once(usualPort, 'error')]).catch(() => undefined);
});

afterAll(() => {
  usualPort.close();
  for (const child of children) child.kill('SIGKILL');
});

describe.concurrent('the demo', { timeout: timeoutMs }, () => {
  it('shows a token, a working curl line for each endpoint, and scores that follow webhooks', async () => {
    const demo = startDemo(['--events', '5', '--every', '1']);
    await demo.shows(/^ +opened .*$/m);
    const traces = tracesOf(demo);
    const [, token] = await demo.shows(/^ +Token +(ps_\w{38})$/m);
    expect(demo.output.stdout).toMatch(new RegExp(`^ +${traces.url}/#token=${token}$`, 'm'));
    const lines = demo.output.stdout.match(/^ +curl .*$/gm) ?? [];

    const replies: [string, number, unknown][] = [];
    for (const line of lines) {
      const [, method = 'GET', given, url = ''] =
        /^ +curl (?:-X (\w+) )?-H 'Authorization: Bearer (\w+)' '([^']+)'$/.exec(line) ?? [];
      expect(given).toBe(token);
      const reply = await fetch(url, { method, headers: { authorization: `Bearer ${given}` } });
      const path = url.slice(traces.url.length).replace(/(mem|pr)_\w{26}/, '$1');
      replies.push([`${method} ${path}`, reply.status, await reply.json()]);
    }
    const pullRequest = expect.objectContaining({ score: expect.any(Number), score_breakdown: expect.any(Array) });
    expect(replies).toEqual([
      ['GET /2025-04/account', 200, { data: expect.objectContaining({ name: 'Clara Beaumont' }) }],
      ['GET /2025-04/users', 200, expect.objectContaining({ data: [expect.anything()] })],
      ['GET /2025-04/rules', 200, { data: Array(8).fill(expect.objectContaining({ logic: expect.any(Array) })) }],
      ['GET /2025-04/members', 200, { data: Array(8).fill(expect.objectContaining({ id: expect.any(String) })) }],
      ['GET /2025-04/members/mem', 200, { data: expect.objectContaining({ name: expect.any(String) }) }],
      ['GET /2025-04/members/mem/pull-requests', 200, expect.objectContaining({ data: Array(15).fill(pullRequest) })],
      ['GET /2025-04/pull-requests?per_page=3', 200, expect.objectContaining({ data: Array(3).fill(pullRequest) })],
      ['PUT /2025-04/pull-requests/pr/sync', 200, { data: pullRequest }],
      ['DELETE /2025-04/pull-requests/pr', 200, expect.objectContaining({ object: 'pull_request', deleted: true })],
    ]);

    expect((await demo.ended).code).toBe(0);
    const events = demo.output.stdout.match(
      /^ +\w+ +acme\/[\w-]+#\d+ +".* +score +(?:new|−?\d+) → +−?\d+ {2}\(.+\)$/gm,
    );
    expect(events).toHaveLength(5);
    expect(events?.[4]).toMatch(/merged .* \(\+\d+ Work.*\)$/);
    expect(demo.output.stdout).toContain('120 saved, 3 skipped because the author is not a member');
    expect(demo.output.stdout).toMatch(/^ +\d +Tomasz Nowak +tnowak /m);
    await expectNothingRunning(traces);
    expect(isRemoved(traces)).toBe(true);
  });

  it('listens on PORT, works with commands in another shell, and leaves nothing behind when it is killed', async () => {
    const port = await freePort();
    const demo = startDemo([], { PORT: port });
    await demo.shows(/^ +opened +acme\/[\w-]+#\d+ .*$/m);
    const [, line = ''] = /^ +(export .*)$/m.exec(demo.output.stdout) ?? [];
    const shell = async (command: string) => {
      const typed = `${line}\n${process.execPath} dist/main.js ${command} --json`;
      const { stdout } = await promisify(execFile)('sh', ['-c', typed], { env: { ...process.env, ...foreign } });
      return JSON.parse(stdout);
    };
    expect(demo.output.stdout).toContain(`http://127.0.0.1:${port} is ready`);
    expect(line).toContain(` PORT=${port} `);
    const [, url = '', token = ''] =
      /^ +node --import tsx demo\/client.ts (\S+) (\S+)$/m.exec(demo.output.stdout) ?? [];
    const client = startDemo([url, token], {}, 'client.ts');
    await client.shows(/^acme\/.* open {2}score .*\n\nCopied 12\d pull requests.*\nacme\/[\w-]+#\d+ .*score/ms);
    client.child.kill();
    // It asks the stand-in.
    expect(await shell('members sync --organisation acme')).toMatchObject({ members: 8 });
    expect(await shell('doctor')).toMatchObject({ ok: true });
    const traces = tracesOf(demo);
    demo.child.kill('SIGKILL');
    await expectNothingRunning(traces);
    await vi.waitFor(() => expect(isRemoved(traces)).toBe(true), { timeout: timeoutMs / 2 });
  });

  it("neither the demo's commands nor those of another shell use what .env sets", () => {
    const folder = createHome('demo-env');
    onTestFinished(() => removeHome(folder));
    const file = join(folder, '.env');
    writeFileSync(file, "GITHUB_APP_ID='1'\nRATE_LIMIT=1\n");
    const settings = { RATE_LIMIT: '9' };
    expect(createEnvironment(settings, file)).toMatchObject({ GITHUB_APP_ID: '', RATE_LIMIT: '9' });
    expect(exportLine(settings, file)).toContain('GITHUB_APP_ID= RATE_LIMIT=9');
  });

  it('leaves nothing behind after Ctrl-C, even while a command runs', async () => {
    const demo = startDemo();
    await demo.shows(/\$ node dist\/main\.js user add/);
    const traces = tracesOf(demo);
    // A terminal sends SIGINT to the whole process group.
    process.kill(-Number(demo.child.pid), 'SIGINT');
    expect((await demo.ended).code).toBe(0);
    expect(demo.output.stdout).not.toContain('Token');
    await expectNothingRunning(traces);
    expect(isRemoved(traces)).toBe(true);
  });

  it('says so if the API refuses its token', async () => {
    const demo = startDemo();
    await demo.shows(/^ +opened +acme\/[\w-]+#\d+ .*$/m);
    const { folder } = tracesOf(demo);
    const shell = { PULLSCORE_HOME: folder, PATH: process.env.PATH ?? '' };
    const [{ id = '' } = {}] = await runJson<{ id: string }[]>(shell, 'token list');
    await runJson(shell, 'token revoke', id);
    const { code, stderr } = await demo.ended;
    expect([code, stderr]).toEqual([1, /^\ndemo: the API refused a request: Unauthenticated\. .*\n$/]);
  });

  it('says why the service does not start', async ({ onTestFinished }) => {
    const home = createHome('demo-failure');
    onTestFinished(() => removeHome(home));
    const environment = { PULLSCORE_HOME: home, PATH: process.env.PATH ?? '', DATABASE_URL: foreign.DATABASE_URL };
    await expect(startService(environment, new AbortController().signal, () => undefined)).rejects.toThrow(
      /^the service has ended \(exit code 1\):\npullscore: The database server at 127\.0\.0\.1:1 can't be reached/,
    );
  });

  it('shows its usage after a wrong option', async () => {
    const { code, stderr } = await startDemo(['--evnets', '5']).ended;
    expect([code, stderr]).toEqual([2, /'--evnets'[\s\S]*--events N/]);
  });
});
