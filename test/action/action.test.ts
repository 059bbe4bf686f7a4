import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { cp, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { getOrganisation } from '../../src/database/organisations.ts';
import { startProcess } from '../commands/support.ts';
import { listenOn } from '../support/raw-http.ts';
import { createToken } from '../support/tenants.ts';
import { startWorld } from '../support/world.ts';

interface Comment {
  id: number;
  user: { login: string };
  body: string;
}

/** A package in package-lock.json. */
type Locked = Partial<Record<'dev' | 'optional' | 'devOptional', boolean>>;

const rules = (value: number) => `rules:
  - name: Base
    logic:
      - expression: 'true'
        effect: { action: ADD, value: ${value} }
# ::set-output name=x::y
`;

const world = await startWorld();
let github: Server;
let api: string;
let server: string;
let token: string;
let folder: string;
let comments: Comment[];
/** As `METHOD path`. */
let asked: string[];
beforeAll(async () => {
  world.web.openPullRequest({ author: world.acme.member('ada'), title: 'One' });
  await world.import();
  token = await createToken(world.service, world.user, ['rules:read', 'rules:write']);
  server = await world.service.app.listen({ port: 0, host: '127.0.0.1' });
  folder = await mkdtemp(join(tmpdir(), 'pullscore-action-'));
  // A pull request may add one: it must not change what commands do.
  await writeFile(join(folder, '.env'), 'LOG_LEVEL=loud\n');
  github = createServer(async (request, reply) => {
    const { method, url = '' } = request;
    asked.push(`${method} ${url}`);
    const given = JSON.parse((await text(request)) || '{}') as { body: string };
    const send = (body: unknown) => reply.end(JSON.stringify(body));
    // Pull requests that have the commit come in any order: one may have been merged into the branch of another.
    if (url.includes('/commits/')) {
      const { pathname, searchParams } = new URL(url, api);
      const elsewhere = Array(150).fill({ number: 3, merge_commit_sha: 'elsewhere' });
      const found = [...elsewhere, { number: 4, merge_commit_sha: pathname.split('/').at(-2) }];
      const perPage = Number(searchParams.get('per_page') ?? 30);
      const end = perPage * Number(searchParams.get('page') ?? 1);
      return send(found.slice(end - perPage, end));
    }
    if (method === 'GET') return send(url.includes('/issues/4/') ? comments : []);
    if (method === 'POST')
      comments.push({ id: comments.length, user: { login: 'github-actions[bot]' }, body: given.body });
    else Object.assign(comments.find(({ id }) => url.endsWith(`/${id}`)) ?? {}, given);
    return send({});
  });
  api = `http://127.0.0.1:${await listenOn(github)}`;
});
afterAll(async () => {
  github.close();
  await rm(folder, { recursive: true });
});
beforeEach(() => {
  comments = [];
  asked = [];
});

/** Runs the script as the action does. */
async function run(
  eventName: string,
  event: object,
  content: string,
  given: Record<string, string> = {},
  script = 'action/run.mjs',
) {
  const [file, path] = [join(folder, 'rules.yaml'), join(folder, 'event.json')];
  await writeFile(file, content);
  await writeFile(path, JSON.stringify(event));
  const environment = {
    GITHUB_API_URL: api,
    GITHUB_EVENT_NAME: eventName,
    GITHUB_EVENT_PATH: path,
    GITHUB_REPOSITORY: 'acme/rules',
    GITHUB_TOKEN: 'ghs_secret',
    PULLSCORE_SERVER: server,
    PULLSCORE_TOKEN: token,
    RULES_FILE: 'rules.yaml',
    ...given,
  };
  const { ended } = startProcess(environment, [process.execPath, resolve(script)], { cwd: folder });
  const { code, stdout, stderr } = await ended;
  return { code, output: stdout + stderr };
}

const plan = (content: string, given?: Record<string, string>, script?: string) =>
  run('pull_request', { pull_request: { number: 4 } }, content, given, script);
const push = (content: string) => run('push', { after: 'abc' }, content);
const hashOf = (content: string) => createHash('sha256').update(content).digest('hex');
/** The comment that a plan against this version begins with. */
const planned = (content: string, version: number): Comment => ({
  id: 9,
  user: { login: 'github-actions[bot]' },
  body: `<!-- pullscore rules ${hashOf(`rules.yaml\n${server}`).slice(0, 16)}, version ${version}, sha256 ${hashOf(content)} -->`,
});
const inForce = async () =>
  (await getOrganisation(world.service.database.executor, world.organisation.id)).rulesetVersion;

describe('the action', () => {
  test('updates the comment of an earlier plan, and applies the plan once it is merged', async () => {
    const version = await inForce();
    comments = [planned(rules(2), version)];
    expect(await plan(rules(3))).toMatchObject({ code: 0, output: expect.stringContaining('is in a comment') });
    expect(comments).toHaveLength(1);
    expect(comments[0]?.body).toContain(planned(rules(3), version).body);
    expect(comments[0]?.body).toContain('### `acme`: `rules.yaml`, compared with ');
    expect(comments[0]?.body).toMatch(/\nNothing was saved\. Merge this pull request to put it in force\.$/);
    expect(comments[0]?.body).toMatch(/game (them|these rules)/i);
    const applied = await push(rules(3));
    expect([applied.code, await inForce()]).toEqual([0, version + 1]);
  });

  test('comments with a plan of the bytes whose hash it shows, even if the file changes meanwhile', async () => {
    const between = createServer(async (request, reply) => {
      await writeFile(join(folder, 'rules.yaml'), rules(90));
      const { method = '', url = '', headers } = request;
      const { authorization = '', 'content-type': type = '' } = headers;
      const body = method === 'POST' ? { body: await text(request) } : {};
      const answer = await fetch(server + url, { method, headers: { authorization, 'content-type': type }, ...body });
      for (const name of ['content-type', 'etag']) reply.setHeader(name, answer.headers.get(name) ?? '');
      reply.statusCode = answer.status;
      reply.end(await answer.text());
    });
    expect(await plan(rules(70), { PULLSCORE_SERVER: `http://127.0.0.1:${await listenOn(between)}` })).toMatchObject({
      code: 0,
    });
    between.close();
    expect(comments[0]?.body).toContain(`The file has the SHA-256 \`${hashOf(rules(70))}\`.`);
    expect(comments[0]?.body).toMatch(/\b70\b/);
    expect(comments[0]?.body).not.toMatch(/\b90\b/);
  });

  test('has a comment for each file and server', async () => {
    await plan(rules(9));
    await plan(rules(9), { RULES_FILE: './rules.yaml' });
    expect(comments).toHaveLength(2);
    const version = await inForce();
    expect((await push(rules(9))).code).toBe(0);
    expect(await inForce()).toBe(version + 1);
  });

  test('says in a line which file it misses', async () => {
    const { code, output } = await plan(rules(3), { RULES_FILE: 'scores.yaml' });
    expect([code, asked]).toEqual([1, []]);
    expect(output).toBe(
      "scores.yaml can't be read: ENOENT. Check out the repository first, and name its rules file in the input file.\n",
    );
  });

  test('applies nothing that was not planned, even if somebody else comments that it was', async () => {
    const version = await inForce();
    expect(await push(rules(4))).toMatchObject({ code: 1, output: expect.stringContaining('was not planned') });
    comments = [planned(rules(4), version)];
    expect(await push(rules(5))).toMatchObject({ code: 1, output: expect.stringContaining('not the file that was') });
    comments = comments.map(comment => ({ ...comment, user: { login: 'mallory' } }));
    expect(await push(rules(4))).toMatchObject({ code: 1, output: expect.stringContaining('was not planned') });
    expect(await inForce()).toBe(version);
  });

  test('applies nothing if other rules came into force after the plan', async () => {
    comments = [planned(rules(6), await inForce())];
    await world.applyRules([]);
    const version = await inForce();
    expect(await push(rules(6))).toMatchObject({ code: 1, output: expect.stringContaining('is in force, not') });
    expect(await inForce()).toBe(version);
  });

  test('only checks the file of a fork, which has no token', async () => {
    expect(await plan(rules(7), { PULLSCORE_TOKEN: '' })).toMatchObject({
      code: 0,
      output: expect.stringContaining('was only checked'),
    });
    expect(asked).toEqual([]);
  });

  test('refuses a file with mistakes before anything else, and shows no secret', async () => {
    const { code, output } = await plan(rules(8).replace("'true'", "'nope(##[error])'"));
    expect([code, asked]).toEqual([1, []]);
    expect(output).toContain('rules.yaml:4');
    expect(output).not.toMatch(/##\[|^::/m);
    expect(output).not.toContain(token);
  });
});

test('inputs of the action reach the shell as variables only, and its workflows have few rights', () => {
  const action = parse(readFileSync('action/action.yml', 'utf8')) as { runs: { steps: { run: string }[] } };
  for (const { run: command } of action.runs.steps) expect(command).not.toContain('${{');
  const page = readFileSync('action/README.md', 'utf8');
  const workflows = [...page.matchAll(/```yaml\n([\s\S]*?)```/g)].map(([, found]) => parse(found ?? ''));
  expect(workflows.map(({ on, permissions }) => [Object.keys(on), permissions])).toEqual([
    [['pull_request'], { contents: 'read', 'pull-requests': 'write' }],
    [['push'], { contents: 'read', 'pull-requests': 'read' }],
  ]);
  const steps = workflows.flatMap(({ jobs }) => Object.values(jobs as object).flatMap(job => job.steps));
  const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string };
  expect(steps.map(({ uses }) => uses).filter(uses => uses.startsWith('OWNER/'))).toEqual(
    Array(2).fill(`OWNER/pullscore/action@v${version}`),
  );
});

test('the action installs no packages for developers, and runs the source as it is where Node can', async () => {
  expect(readFileSync('action/action.yml', 'utf8')).toMatch(/run: npm ci --omit=dev --omit=optional --ignore-scripts /);
  const checkout = await mkdtemp(join(tmpdir(), 'pullscore-checkout-'));
  for (const name of ['action', 'src', 'package.json', 'openapi', 'migrations']) {
    await cp(name, join(checkout, name), { recursive: true });
  }
  const { packages } = JSON.parse(readFileSync('package-lock.json', 'utf8')) as { packages: Record<string, Locked> };
  for (const [path, { dev, optional, devOptional }] of Object.entries(packages)) {
    if (!/^node_modules\/(@[^/]+\/)?[^/]+$/.test(path) || dev || optional || devOptional) continue;
    await mkdir(dirname(join(checkout, path)), { recursive: true });
    await symlink(resolve(path), join(checkout, path));
  }
  const { code, output } = await plan(rules(8), { PULLSCORE_TOKEN: '' }, join(checkout, 'action/run.mjs'));
  await rm(checkout, { recursive: true });
  const isErasing = 'typescript' in process.features && Boolean(process.features.typescript);
  expect([code, output]).toEqual(
    isErasing
      ? [0, expect.stringContaining('was only checked')]
      : [1, expect.stringContaining('Use actions/setup-node with Node 22.18 or newer')],
  );
});
