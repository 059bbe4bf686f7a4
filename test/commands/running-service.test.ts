import { createServer, type RequestListener } from 'node:http';
import { beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { findOrganisation } from '../../src/database/organisations.ts';
import { listenOn } from '../support/raw-http.ts';
import { createToken } from '../support/tenants.ts';
import { startWorld } from '../support/world.ts';
import { complaintOf, createFolder, type Ended, runHere, startForTest, startHere } from './support.ts';

const file = (value: string) => `rules:
  - name: Base
    logic:
      - expression: 'true'
        effect: { action: ADD, value: '${value}' }
# ::error::not a command
`;

const rules = createFolder().write('rules.yaml', file('5'));
const world = await startWorld();
let token: string;
let address: string;
let page: string;
let id: string;
beforeAll(async () => {
  const member = world.acme.member('ada');
  for (const title of ['One', '<b>Two</b>', 'Three']) world.web.openPullRequest({ author: member, title });
  await world.import();
  token = await createToken(world.service, world.user, ['read', 'rules:read', 'rules:write']);
  address = await world.service.app.listen({ port: 0, host: '127.0.0.1' });
  const { stdout } = await there('explain acme/web#3 --json');
  ({ id, url: page } = JSON.parse(stdout));
});

const here = (...words: string[]) =>
  runHere({ DATABASE_URL: world.service.database.url }, ...words, '--organisation', 'acme');
/** Asks the service at an address. */
const ask = (server: string, ...words: string[]) => startHere({ PULLSCORE_TOKEN: token }, ...words, '--server', server);
const there = (...words: string[]) => ask(address, ...words).ended;
/** A service that answers like this. @returns its address */
async function answering(answer: RequestListener): Promise<string> {
  const server = createServer(answer);
  onTestFinished(() => void server.close());
  return `http://127.0.0.1:${await listenOn(server)}`;
}
const inForce = async () => (await findOrganisation(world.service.database.executor, 'acme'))?.rulesetVersion;
/** Types a line beside the database, and with --server. */
function inBothWays(line: string, ...options: string[]) {
  const typed = line.replace(/FILE|PAGE|ID/, word => ({ FILE: rules, PAGE: page, ID: id })[word] ?? '');
  return Promise.all([here(typed, ...options), there(typed, ...options)]);
}
/** Keys of JSON have no order: PostgreSQL sorts them. */
const documentOf = (text: string) => (text.startsWith('{') ? JSON.parse(text) : text);

describe('commands with --server', () => {
  test.each([
    'rules plan FILE',
    'rules plan FILE --format markdown',
    'rules audit FILE',
    'rules export',
    'standings --of repositories --since 2020-01-01 --until 2099-12-31',
    'standings --by-rule --csv',
    'explain ACME/web#2',
    'explain PAGE',
    'explain ID',
  ])('%s prints with --server what it prints beside the database', async line => {
    for (const options of line.endsWith('--csv') ? [[]] : [[], ['--json']]) {
      const [one, other] = await inBothWays(line, ...options);
      const withoutPlaces = (text: string) => text.replace(/--(organisation acme|server \S+ --if-version \d+)/g, '');
      expect([other.code, documentOf(withoutPlaces(other.stdout)), other.stderr]).toEqual([
        0,
        documentOf(withoutPlaces(one.stdout)),
        one.stderr,
      ]);
    }
  });

  test('rules apply needs the version that the file was planned against, if one is given', async () => {
    const planned = Number(await inForce());
    expect((await there('rules apply', rules, '--if-version', String(planned))).code).toBe(0);
    expect(await inForce()).toBe(planned + 1);
    expect(await complaintOf(there('rules apply', rules, '--if-version', String(planned)))).toMatch(
      /: Version .* Plan the file again\.$/,
    );
  });
});

describe('--server', () => {
  const failureOf = ({ code, stdout }: Ended) => ({ exitCode: code, ...JSON.parse(stdout).error });

  test.each([
    'explain acme/web#99',
    'explain acme/web#0',
    'explain https://elsewhere.example/acme/web/pull/2',
    'explain https://github.com/acme/web,shop/pull/2',
    'explain pr_01jz8k3v5xe2ksn5q0w4g7h9ab',
    'explain elsewhere',
    'standings --since 2026-02-30',
    'standings --since 2026-02-01 --until 2026-01-01',
    'rules apply FILE --if-version 0',
    'rules plan /nonexistent.yaml',
  ])('%s fails with --server as it does beside the database', async line => {
    const [one, other] = (await inBothWays(line, '--json')).map(failureOf);
    expect(one.exitCode).not.toBe(0);
    expect(other).toEqual(one);
  });

  test('a command with --server says which token it needs instead of its own', async () => {
    const refusalOf = async (by: string) =>
      failureOf(await runHere({ PULLSCORE_TOKEN: by }, 'rules export --json --server', address));
    expect(await refusalOf('ps_x')).toEqual({
      exitCode: 1,
      code: 'unauthenticated',
      message: 'Unauthenticated. Send a valid token in the header Authorization: Bearer TOKEN.',
      action: /^Set PULLSCORE_TOKEN to a token of the service: pullscore token create /,
    });
    const client = await createToken(world.service, world.user, ['read']);
    expect(await refusalOf(client)).toEqual({
      exitCode: 1,
      code: 'forbidden',
      message: 'This action is unauthorized. Use a token with the scope rules:read.',
      action: null,
    });
  });

  test('a command with --server says what is missing or wrong', async () => {
    const invalid = /^pullscore: "\S+" is not a valid address of a service\./;
    const wrongPath = /: No such path\..* Check --server\.$/;
    const ways: [Promise<Ended>, number, RegExp][] = [
      [runHere({}, 'rules export'), 2, /'--organisation <login>' or '--server <url>' not specified/],
      [runHere({}, 'rules export --server', address), 2, /PULLSCORE_TOKEN is not set.* --scopes read,rules:read$/s],
      [
        runHere({}, 'rules apply --server', address, 'rules.example.yaml'),
        2,
        /PULLSCORE_TOKEN is not set.* --scopes rules:write$/s,
      ],
      [ask('scores', 'rules export').ended, 2, invalid],
      [ask('ftp://scores.example', 'rules export').ended, 2, invalid],
      [ask('https://', 'rules export').ended, 2, invalid],
      [ask('https://user:password@scores.example', 'rules export').ended, 2, invalid],
      [ask('http://127.0.0.1:2', 'rules export').ended, 1, /can't be asked \(ECONNREFUSED\)/],
      [ask(`${address}/docs`, 'rules export').ended, 1, wrongPath],
      [ask(`${address}/2026-12`, 'rules export').ended, 1, wrongPath],
    ];
    for (const [ended, code, complaint] of ways) expect(await complaintOf(ended, code)).toMatch(complaint);
  });

  test.each(['explain acme/web#3', 'standings --by-rule'])('%s takes either --server or --organisation', async line => {
    expect(await complaintOf(there(line, '--organisation', 'other'), 2)).toMatch(
      /^pullscore: Give either --organisation or --server\./,
    );
  });

  test.each([
    ['the connection ends', /^pullscore: http:\S+ can't be asked \(UND_ERR_SOCKET\)\. Check --server/],
    ['it is interrupted', /^pullscore: Interrupted\. Nothing was changed\.$/],
  ])('a command with --server fails as usual if %s in the middle of a reply', async (what, complaint) => {
    const broken = await answering((_request, response) => {
      response.writeHead(200, { 'content-length': '100' }).write('{"data":');
      if (what === 'it is interrupted') setTimeout(() => command.interrupt(), 100);
      else setTimeout(() => response.destroy(), 100);
    });
    const command = ask(broken, 'rules plan', rules);
    expect(await complaintOf(command.ended)).toMatch(complaint);
  });

  test('a command with --server waits longer for a reply than a service works on a plan', async () => {
    const slow = await answering((_request, response) => {
      setTimeout(() => response.setHeader('etag', '"1"').end('# Late\n'), 1_500);
    });
    // Its HTTP client counts time in such ticks: up to ten minutes pass for it meanwhile.
    const hurry = `const { setTimeout: wait } = globalThis;
      globalThis.setTimeout = (work, ms, ...given) =>
        ms === 499 ? wait(() => Array(40).fill().forEach(work), 50) : wait(work, ms, ...given);`;
    const NODE_OPTIONS = `--import=data:text/javascript,${encodeURIComponent(hurry)}`;
    const { ended } = startForTest({ PULLSCORE_TOKEN: token, NODE_OPTIONS }, 'rules export --server', slow);
    expect(await ended).toMatchObject({ code: 0, stdout: '# Late\n' });
  });

  test('standings --by-rule --server says if the service left out rules of the last rows', async () => {
    const { stdout } = await there('standings --json');
    const document = { ...JSON.parse(stdout), ruleset_version: 1, outdated: 0 };
    delete document.standings.at(-1).rules;
    const busy = await answering((_request, response) => response.end(JSON.stringify({ data: document })));
    for (const [options, note] of [
      [['--by-rule', '--csv'], 'The rules of the last row are left out: there are too many for one reply.\n'],
      [['--csv'], ''],
    ] as const) {
      expect((await ask(busy, 'standings', ...options).ended).stderr).toBe(note);
    }
  });

  test.each(['--by', '--version'])('rules apply %s is refused with --server', async option => {
    const refused = complaintOf(there('rules apply', ...(option === '--by' ? [rules] : []), option, '1'), 2);
    expect(await refused).toMatch(new RegExp(`^pullscore: ${option} needs the database\\. `));
  });

  test.each([
    ['is interrupted', 'Interrupted'],
    ['loses its connection', 'The connection to SERVER was lost (UND_ERR_SOCKET)'],
    ['passes a proxy that gives up', 'SERVER answers 504: upstream timed out'],
  ])('rules apply --server that %s says that the outcome is not known, and how to see it', async (what, complaint) => {
    const slow = await answering(({ socket }, response) => {
      if (what === 'is interrupted') command.interrupt();
      else if (what === 'loses its connection') socket.destroy();
      else response.writeHead(504).end('upstream timed out\n');
    });
    const command = ask(slow, 'rules apply', rules);
    expect((await complaintOf(command.ended)).replaceAll(slow, 'SERVER')).toBe(
      `pullscore: ${complaint}. It is not known whether the rules were applied. To see the rules in force: pullscore rules export --server SERVER`,
    );
  });

  test('a command with --server waits for its turn for ten minutes, and then says what to do', async () => {
    let asked = 0;
    let lateBy = 0;
    const now = performance.now.bind(performance);
    vi.spyOn(performance, 'now').mockImplementation(() => now() + lateBy);
    onTestFinished(() => void vi.restoreAllMocks());
    const busy = await answering((_request, response) => {
      asked += 1;
      if (asked > 1) lateBy = 11 * 60_000;
      response
        .writeHead(429, { 'retry-after': '1' })
        .end('{"message": "Other files\\ncome first.", "code": "rate_limited"}');
    });
    const { code, stdout, stderr } = await ask(busy, 'rules plan', rules, '--json').ended;
    expect([code, asked]).toEqual([1, 2]);
    const action = 'A command waits for 10 minutes at most. Run it again later.';
    expect(stderr).toBe(`Waiting 1 s: Other files come first.\npullscore: Other files come first. ${action}\n`);
    expect(JSON.parse(stdout).error).toEqual({ code: 'rate_limited', message: 'Other files\ncome first.', action });
  });
});
