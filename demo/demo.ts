/**
 * Shows all of pullscore without configuration: a stand-in for GitHub on loopback, the real service with its own database,
 * the real commands, and changes that arrive as signed webhooks. Leaves nothing behind.
 */
import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs, styleText } from 'node:util';
import { startGithub } from '../test/support/github/server.ts';
import { createHome, removeHome } from '../test/support/home.ts';
import { connect, list, type PullRequest, Refusal } from './client.ts';
import { createLiveEvents, printEvent } from './live.ts';
import {
  choosePort,
  createEnvironment,
  DemoError,
  exportLine,
  requireBuild,
  runCommand,
  startService,
} from './pullscore.ts';
import { buildSampleData } from './sample-data.ts';
import { freeColumns, print, printCommand, printNote, printSection } from './screen.ts';

const usage = `npm run demo -- [--events N] [--every SECONDS]

  --events N         stop after N live events; by default Ctrl-C stops it
  --every SECONDS    time between live events; 2 by default
`;

interface Options {
  events: number;
  intervalMs: number;
}

class WrongUsage extends DemoError {}

function readOptions(): Options {
  const { events = 'Infinity', every = '2', help } = parse();
  if (help) {
    process.stdout.write(usage);
    process.exit(0);
  }
  if (!/^([1-9]\d{0,8}|Infinity)$/.test(events)) throw new WrongUsage('--events must be a positive whole number.');
  if (!/^\d{1,4}(\.\d+)?$/.test(every)) throw new WrongUsage('--every must be a number of seconds, such as 0.5.');
  return { events: Number(events), intervalMs: Number(every) * 1000 };
}

function parse() {
  try {
    return parseArgs({
      options: { events: { type: 'string' }, every: { type: 'string' }, help: { type: 'boolean', short: 'h' } },
    }).values;
  } catch (error) {
    throw new WrongUsage(`${error instanceof Error ? error.message : error}\n\n${usage.trimEnd()}`);
  }
}

/** Functions that stop what the demo has started. They run in reverse order. */
const cleanups: (() => unknown)[] = [];
const stopping = new AbortController();
const { signal } = stopping;

async function runDemo({ events, intervalMs }: Options): Promise<void> {
  process.stdout.write(
    `\n${styleText('bold', 'pullscore demo')}  runs only on this machine and changes nothing of yours; Ctrl-C stops it\n`,
  );

  printSection('A stand-in for GitHub');
  const github = await startGithub();
  cleanups.push(() => github.close());
  const sample = buildSampleData(github);
  const { organisation, members } = sample;
  const total = organisation.repositories.reduce((sum, { pullRequests }) => sum + pullRequests.length, 0);
  print(`${github.apiUrl} holds the organisation ${organisation.login}:`);
  print(`${members.length} members, ${organisation.repositories.length} repositories, ${total} pull requests`);
  signal.throwIfAborted();

  printSection('The service');
  const home = createHome('demo');
  cleanups.push(() => removeHome(home));
  const secret = randomBytes(20).toString('hex');
  const settings = {
    PULLSCORE_HOME: home,
    PORT: await choosePort(),
    GITHUB_API_URL: github.apiUrl,
    GITHUB_TOKEN: github.token,
    GITHUB_WEBHOOK_SECRET: secret,
    LOG_LEVEL: 'warn',
  };
  // The user shares the token with the demo, which reads often.
  const own = { RATE_LIMIT: '1000000', COLUMNS: String(freeColumns(0)) };
  const environment = createEnvironment({ ...settings, ...own }) as Parameters<typeof startService>[0];
  printCommand(['node', 'dist/main.js', 'serve']);
  const service = await startService(environment, signal, stop => cleanups.push(stop));
  print(`${service.url} is ready, with its own PostgreSQL in ${home}`);

  const run = async (...operands: string[]) => {
    printCommand(['node', 'dist/main.js', ...operands]);
    const answer = await Promise.race([runCommand(environment, operands, signal), service.failed]);
    print(styleText('dim', answer));
    return answer;
  };
  const organisationIs = ['--organisation', organisation.login];
  const email = `clara@${organisation.login}.example`;
  printSection('Set-up with the commands of an operator');
  await run('organisation', 'add', organisation.login);
  await run('user', 'add', ...organisationIs, '--name', 'Clara Beaumont', '--email', email);
  const token = await run('token', 'create', '--user', email, '--scopes', 'read,sync,delete,rules:read');
  await run('rules', 'apply', 'rules.example.yaml', ...organisationIs);
  await run('members', 'sync', ...organisationIs);
  await run('import', ...organisationIs);

  await run('standings', ...organisationIs);

  const api = connect(service.url, token, { signal });
  const pullRequests: PullRequest[] = [];
  for await (const pullRequest of list(api)) pullRequests.push(pullRequest);
  printSection('Your turn: open this in a browser');
  print(styleText('bold', `${service.url}/#token=${token}`));
  printSection('Your turn: the API');
  print(`Token  ${styleText('bold', token)}`);
  print(`Docs   ${service.url}/docs`);
  printCurlLines(`${service.url}/2025-04`, token, pullRequests);
  print();
  print(styleText('dim', '# a client of /2026-12 that filters, and keeps a copy up to date: see demo/client.ts'));
  print(`node --import tsx demo/client.ts ${service.url} ${token}`);
  print();
  print(styleText('dim', '# to run commands in another terminal, paste this line there first'));
  print(exportLine({ ...settings, PORT: new URL(service.url).port }));
  print(`node dist/main.js rules export --organisation ${organisation.login}`);

  printSection(
    `Live: each change arrives as a signed webhook${events === Number.POSITIVE_INFINITY ? ' (Ctrl-C stops)' : ''}`,
  );
  github.webhookTo(`${service.url}/webhooks/github`, secret, organisation);
  const next = createLiveEvents(sample, api);
  for (let count = 1; count <= events; count += 1) {
    const pause = delay(count < events ? intervalMs : 0, undefined, { signal });
    pause.catch(() => undefined);
    printEvent(await Promise.race([next(signal), service.failed]));
    await Promise.race([pause, service.failed]);
  }
}

/** Prints a command for each endpoint, in the order to try them; DELETE comes last. */
function printCurlLines(base: string, token: string, pullRequests: readonly PullRequest[]): void {
  const member = pullRequests[0]?.links.member.split('/').at(-1);
  const open = pullRequests.find(({ state }) => state === 'open')?.id;
  // No live event brings it back.
  const oldest = pullRequests.at(-1)?.id;
  const curl = (shows: string, path: string, method = '') => {
    print();
    print(styleText('dim', `# ${shows}`));
    print(`curl ${method === '' ? '' : `-X ${method} `}-H 'Authorization: Bearer ${token}' '${base}/${path}'`);
  };
  curl('who holds the token', 'account');
  curl('the users of the organisation', 'users');
  curl('its current rules', 'rules');
  curl('its members', 'members');
  curl('one member', `members/${member}`);
  curl("that member's pull requests, with scores and breakdowns", `members/${member}/pull-requests`);
  curl('all pull requests, three to a page', 'pull-requests?per_page=3');
  curl('one of them fetched again from GitHub', `pull-requests/${open}/sync`, 'PUT');
  curl('another one deleted', `pull-requests/${oldest}`, 'DELETE');
}

function describe(error: unknown): string {
  if (error instanceof Refusal) return `the API refused a request: ${error.message}`;
  if (error instanceof DemoError) return error.message;
  return (error instanceof Error && error.stack) || String(error);
}

async function end(): Promise<void> {
  for (const cleanUp of cleanups.reverse()) {
    try {
      await cleanUp();
    } catch (error) {
      process.stderr.write(`demo: ${error instanceof Error ? error.message : error}\n`);
      process.exitCode = 1;
    }
  }
}

for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(name, () => stopping.abort());
signal.addEventListener('abort', () => printNote('Stopping.'));
// The reader of a pipe has ended.
process.stdout.on('error', () => stopping.abort());

try {
  const options = readOptions();
  requireBuild();
  await runDemo(options);
} catch (error) {
  if (!signal.aborted) {
    process.stderr.write(`\ndemo: ${describe(error)}\n`);
    process.exitCode = error instanceof WrongUsage ? 2 : 1;
  }
}
await end();
if (cleanups.length > 0) printNote('The service and its database have stopped, and their data is removed.');
