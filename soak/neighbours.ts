import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { eq, sql } from 'drizzle-orm';
import { pino } from 'pino';
import { scopes } from '../src/access-token.ts';
import { listAuditEvents } from '../src/database/audit-log.ts';
import { connectDatabase, type Database } from '../src/database/client.ts';
import type { Organisation } from '../src/database/organisations.ts';
import { pullRequests as pullRequestsTable } from '../src/database/schema.ts';
import { formatId } from '../src/ids.ts';
import type { PullRequest } from '../test/support/github/pull-request.ts';
import { memoryOf } from '../test/support/scorer.ts';
import { createTenant, insertPullRequests } from '../test/support/tenants.ts';
import { githubDelayMs, type Installation, print, startInstallation, webhookSecret } from './installation.ts';
import { type Measured as MeasuredReads, startUnseenReads } from './reads.ts';
import { login } from './traffic.ts';

const readsPerSecond = 50;
const pullRequestCount = 1_000;
const batches = 20;

/** What an organisation may do to another one. */
const limits = { slowdown: 3, megabytes: 300, healthMs: 500, secondsUntilStored: 5 };

const globs = (first: number) => Array.from({ length: 190 }, (_, index) => `"${first + index}.*"`).join(', ');

/** Rules files that were slow or large, of some entries. */
const costlyFiles: Record<string, (entries: number) => string> = {
  'one definition of 190 globs for all entries': entries =>
    rulesFile(entries, () => ({ expression: 'many', value: 1 }), { many: `count_files(${globs(0)}) > 0` }),
  'searches of the description': entries =>
    rulesFile(entries, index => ({ expression: `contains(body, "${String(index).padEnd(60, 'x')}")`, value: 1 })),
  'other globs in each value': entries =>
    rulesFile(entries, index => ({ expression: 'true', value: `count_files(${globs(200 * index)})` })),
};

function rulesFile(
  entries: number,
  entry: (index: number) => { expression: string; value: number | string },
  define: Record<string, string> = {},
): string {
  const logic = Array.from({ length: entries }, (_, index) => {
    const { expression, value } = entry(index);
    return { expression, effect: { action: 'ADD', value } };
  });
  const perRule = 50;
  const rules = Array.from({ length: Math.ceil(entries / perRule) }, (_, rule) => ({
    name: `Rule ${rule}`,
    logic: logic.slice(rule * perRule, (rule + 1) * perRule),
  }));
  return JSON.stringify({ define, rules });
}

const maxEntries = 900;

interface Tenant {
  organisation: Organisation;
  token: string;
  pullRequests: readonly PullRequest[];
}

interface Neighbours {
  installation: Installation;
  database: Database;
  origin: string;
  attacker: Tenant;
  second: Tenant;
  victim: Tenant;
}

/**
 * Begins an attack, which goes on until `signal` is aborted.
 *
 * @returns what resolves once it is over, with what else went wrong for the other one
 */
type Attack = (
  neighbours: Neighbours,
  signal: AbortSignal,
) => Promise<(measured: Measured) => Promise<string | undefined>>;

const attacks: Record<string, Attack> = {
  ...Object.fromEntries(Object.entries(costlyFiles).map(([name, file]) => [name, applyRules(file)])),
  'a pull request with 3,000 files, changed every two seconds': editLargePullRequest,
  'rules files whose last byte never comes': inProcess('unfinished files'),
  'plans whose client leaves': inProcess('left plans'),
  'two organisations that plan all the time': planAllTheTime,
  "reports that ask for the server's files": readServerFiles,
  'pages that are read slowly': inProcess('slow pages'),
  'seven pages of maximum size a second': inProcess('large pages'),
  'eight PUT syncs a second': syncWithoutEnd,
  'a flood of webhooks': floodWithWebhooks,
  // The last one: nothing is left to attack with.
  'the erasure of a member with all pull requests': eraseMember,
};

/**
 * One organisation does what it may, while a well-behaved client of another one reads, and webhooks of the other one
 * arrive.
 *
 * @param operands `--seconds N`: for each attack; `--only NAME`: not the others
 * @returns whether the other one's p99 and the memory stayed within their limits, and none of its changes was lost
 */
export async function soakNeighbours(operands: readonly string[]): Promise<boolean> {
  const { values } = parseArgs({
    args: [...operands],
    options: { seconds: { type: 'string' }, only: { type: 'string' } },
  });
  const seconds = Number(values.seconds ?? 20);
  if (!Number.isInteger(seconds) || seconds < 5) throw new RangeError('--seconds takes a whole number from 5');
  const chosen = Object.entries(attacks).filter(([name]) => values.only === undefined || values.only === name);
  if (chosen.length === 0) throw new RangeError(`--only takes one of: ${Object.keys(attacks).join(', ')}`);
  const installation = await startInstallation('neighbours', 1, { RATE_LIMIT: '6000' });
  const database = connectDatabase(installation.server.url, pino({ level: 'silent' }));
  let isClean = false;
  try {
    const origin = `http://127.0.0.1:${installation.replicas[0]?.port}`;
    const attacker = await fill(installation, database, login, 100_000, installation);
    const second = await fill(installation, database, 'accomplice', 1_000);
    const victim = await fill(installation, database, 'neighbour', 1_000);
    const neighbours = { installation, database, origin, attacker, second, victim };
    await measure(neighbours, 3);
    const rest = await measure(neighbours, seconds);
    print(`at rest: p99 ${rest.p99.toFixed(1)} ms, ${rest.megabytes.toFixed(0)} MB, stored in ${show(rest.stored)}`);
    isClean = true;
    for (const [name, attack] of chosen) {
      const ending = new AbortController();
      const finish = await attack(neighbours, ending.signal);
      const measured = await measure(neighbours, seconds);
      ending.abort();
      const problem = await finish(measured);
      isClean = judge(name, measured, rest, problem) && isClean;
    }
    for (const end of installation.replicas.flatMap(replica => replica.ends)) {
      print(end);
      isClean = false;
    }
    return isClean;
  } finally {
    await database.close();
    await installation.stop(isClean);
  }
}

const show = (milliseconds: number) => (Number.isFinite(milliseconds) ? `${Math.round(milliseconds)} ms` : 'never');

function judge(name: string, measured: Measured, rest: Measured, problem: string | undefined): boolean {
  const slowdown = measured.p99 / rest.p99;
  const grown = measured.megabytes - rest.megabytes;
  const isGood =
    slowdown <= limits.slowdown &&
    grown <= limits.megabytes &&
    measured.health <= limits.healthMs &&
    problem === undefined &&
    measured.stored <= limits.secondsUntilStored * 1_000 &&
    measured.failures.length === 0;
  print(
    `${isGood ? 'ok    ' : 'MISSED'} ${name}: p99 ${measured.p99.toFixed(1)} ms, ${slowdown.toFixed(1)} times that at rest ` +
      `(at most ${limits.slowdown}); /healthz within ${show(measured.health)} (at most ${limits.healthMs}); ${grown.toFixed(0)} MB more (at most ${limits.megabytes}); ` +
      `a webhook of the other one stored in ${show(measured.stored)} (at most ${limits.secondsUntilStored} s)`,
  );
  for (const [reason, count] of measured.failures) print(`         ${count} × ${reason}`);
  if (problem !== undefined) print(`         ${problem}`);
  return isGood;
}

async function fill(
  { github }: Installation,
  database: Database,
  name: string,
  bodyCharacters: number,
  existing?: Pick<Tenant, 'organisation' | 'token'>,
): Promise<Tenant> {
  const onGithub = github.organisation(name);
  const ada = onGithub.member('ada');
  const { id: githubId, nodeId } = onGithub;
  const { organisation, token } =
    existing ?? (await createTenant({ database }, { login: name, githubId, nodeId, scopes }));
  const times = Array.from({ length: pullRequestCount }, (_, index) => 1_700_000_000 + index);
  await insertPullRequests({ database }, { organisation }, times);
  // Of the attacker, as large as GitHub allows: 65,536 characters, each of three bytes here.
  // A statement may take ten seconds, and these rows have 200 MB.
  for (let batch = 0; batch < batches; batch += 1) {
    await database.executor
      .update(pullRequestsTable)
      .set({ body: sql`repeat('€', ${Math.min(bodyCharacters, 65_536)})` })
      .where(
        sql`${pullRequestsTable.organisationId} = ${organisation.id} and ${pullRequestsTable.githubId} % ${batches} = ${batch}`,
      );
  }
  const files = Array.from({ length: 3_000 }, (_, index) => ({
    path: `src/${'x'.repeat(90)}/${index}.ts`,
    ...oneLine,
  }));
  const pullRequests = Array.from({ length: 20 }, (_, index) =>
    onGithub.repository('live').addPullRequest({
      author: ada,
      ...(bodyCharacters > 1_000 && index === 0 ? { files, changedFiles: files.length } : {}),
    }),
  );
  return { organisation, token, pullRequests };
}

const oneLine = { additions: 1, deletions: 0 };

interface Measured extends MeasuredReads {
  /** The most that the service had resident, with the processes that run rules. */
  megabytes: number;
  /** The longest that `/healthz` took, in milliseconds. */
  health: number;
  /** The longest time from a webhook of the victim until its change was stored, in milliseconds; infinite if one was lost. */
  stored: number;
}

let titles = 0;

async function measure({ installation, database, origin, victim }: Neighbours, seconds: number): Promise<Measured> {
  const stopReading = await startUnseenReads({
    url: `${origin}/2025-04/pull-requests?unseen=`,
    token: victim.token,
    rate: readsPerSecond,
  });
  const end = performance.now() + seconds * 1_000;
  const service = installation.replicas[0]?.processId ?? 0;
  let megabytes = 0;
  let health = 0;
  const sampling = (async () => {
    for (; performance.now() < end; await delay(200)) {
      megabytes = Math.max(megabytes, memoryOf(service, 'VmRSS'));
      const begin = performance.now();
      const isWell = await fetch(`${origin}/healthz`).then(
        reply => reply.ok,
        () => false,
      );
      health = Math.max(health, isWell ? performance.now() - begin : Number.POSITIVE_INFINITY);
    }
  })();
  let stored = 0;
  for (; performance.now() < end; await delay(500)) stored = Math.max(stored, await timeWebhook());
  await sampling;
  return { ...(await stopReading()), megabytes, health, stored };

  async function timeWebhook(): Promise<number> {
    titles += 1;
    const title = `Change ${titles}`;
    const pullRequest = victim.pullRequests[titles % victim.pullRequests.length];
    if (pullRequest === undefined) throw new Error('there is no pull request');
    const begin = performance.now();
    const event = pullRequest.edit({ title });
    const { status } = await installation.github.deliver(`${origin}/webhooks/github`, webhookSecret, event);
    if (status !== 202) return Number.POSITIVE_INFINITY;
    for (; performance.now() - begin < 4 * limits.secondsUntilStored * 1_000; await delay(20)) {
      const isStored = eq(pullRequestsTable.title, title);
      if ((await database.executor.$count(pullRequestsTable, isStored)) > 0) return performance.now() - begin;
    }
    return Number.POSITIVE_INFINITY;
  }
}

async function send(method: string, url: string, token: string, body: string): Promise<Response> {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/yaml', 'if-match': '*' };
  const once = () => fetch(url, { method, headers, body });
  // The service may close a connection that was idle at the moment at which it is used again.
  return once().catch(once);
}

/** Rules at the limits: of as many entries as the service takes. Then pull requests change, the large one too. */
function applyRules(file: (entries: number) => string): Attack {
  return async (neighbours, signal) => {
    const { origin, attacker } = neighbours;
    const apply = (body: string) => send('PUT', `${origin}/2026-12/rules/file`, attacker.token, body);
    let entries = maxEntries;
    for (let reply = await apply(file(entries)); !reply.ok; reply = await apply(file(entries))) {
      const refusal = await reply.text();
      if (![400, 413].includes(reply.status) || entries === 1) throw new Error(`rules got ${reply.status}: ${refusal}`);
      entries = Math.floor(entries * 0.8);
    }
    print(`       ${entries} entries were taken`);
    const finish = await floodWithWebhooks(neighbours, signal);
    return async () => {
      await finish();
      const { status } = await apply('rules: []\n');
      return status === 200 ? undefined : `other rules got ${status}`;
    };
  };
}

/** In an hour of so few points that it could use them up. The other one's changes then wait for GitHub alone. */
async function editLargePullRequest(neighbours: Neighbours, signal: AbortSignal) {
  const { installation, origin, attacker } = neighbours;
  const restore = await limitPoints(neighbours);
  const editing = (async () => {
    for (let edits = 0; !signal.aborted; edits += 1) {
      const event = attacker.pullRequests[0]?.edit({ title: `Edit ${edits}` });
      if (event !== undefined) await installation.github.deliver(`${origin}/webhooks/github`, webhookSecret, event);
      await delay(2_000);
    }
  })();
  return async ({ stored }: Measured) => {
    await editing;
    await restore();
    return stored <= 3 * githubDelayMs
      ? undefined
      : `the other one waited longer than three of GitHub's response times`;
  };
}

/** In a new hour with few points for all. @returns ends it */
async function limitPoints({ installation: { github }, database }: Neighbours): Promise<() => Promise<void>> {
  const before = github.limit && { ...github.limit };
  if (github.limit) Object.assign(github.limit, { limit: 200, remaining: 200 });
  await database.executor.execute(sql`update organisations set points_used = 0`);
  await database.executor.execute(sql`delete from github_limits`);
  return async () => {
    if (github.limit) Object.assign(github.limit, before);
    await database.executor.execute(sql`delete from github_limits`);
  };
}

async function readServerFiles({ origin, attacker }: Neighbours, signal: AbortSignal) {
  const headers = { authorization: `Bearer ${attacker.token}` };
  const replies = new Set<string>();
  const reading = (async () => {
    for (; !signal.aborted; await delay(20)) {
      const reply = await fetch(`${origin}/2026-12/standings?rules=/etc/shadow`, { headers });
      const { request_id: _id, ...answer } = (await reply.json()) as Record<string, unknown>;
      replies.add(`${reply.status} ${JSON.stringify(answer)}`);
    }
  })();
  return async () => {
    await reading;
    const [answer, ...others] = replies;
    return others.length === 0 && answer?.startsWith('400 ') && !answer.includes('root')
      ? undefined
      : [...replies].join();
  };
}

/** Meanwhile the other one plans once. */
async function planAllTheTime(neighbours: Neighbours, signal: AbortSignal) {
  const { origin, second, victim } = neighbours;
  const planning = [
    await inProcess('plans')(neighbours, signal),
    await inProcess('plans')({ ...neighbours, attacker: second }, signal),
  ];
  await delay(2_000);
  const planned = send(
    'POST',
    `${origin}/2026-12/rules/plan`,
    victim.token,
    rulesFile(1, () => ({ expression: 'merged', value: 1 })),
  );
  return async (measured: Measured) => {
    const { status } = await planned;
    await Promise.all(planning.map(finish => finish(measured)));
    return status === 200 ? undefined : `a plan of the other one got ${status}`;
  };
}

async function eraseMember(neighbours: Neighbours, signal: AbortSignal) {
  const { installation } = neighbours;
  const finish = await floodWithWebhooks(neighbours, signal);
  const operands = ['dist/main.js', 'member', 'erase', 'grace', '--organisation', login, '--yes'];
  const child = spawn(process.execPath, operands, {
    env: { PATH: process.env.PATH, DATABASE_URL: installation.server.url },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const exited = once(child, 'exit');
  return async () => {
    await finish();
    const [code] = await exited;
    return code === 0 ? undefined : `the erasure ended with ${code}`;
  };
}

/** In a process of its own, so that it delays nobody who measures: see attacker.ts. */
function inProcess(name: string): Attack {
  return async ({ origin, attacker: { token } }) => {
    const child = spawn(process.execPath, ['--import', 'tsx', 'soak/attacker.ts', name, origin, token], {
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    const exited = once(child, 'exit');
    process.once('exit', () => child.kill('SIGKILL'));
    return async () => {
      child.kill('SIGKILL');
      await exited;
      return undefined;
    };
  };
}

/** Each of the same pull request, in an hour of so few points that the attacker could use them up. */
async function syncWithoutEnd(neighbours: Neighbours, signal: AbortSignal) {
  const { database, origin, attacker } = neighbours;
  const [stored] = await database.executor
    .select({ id: pullRequestsTable.id })
    .from(pullRequestsTable)
    .where(eq(pullRequestsTable.organisationId, attacker.organisation.id))
    .limit(1);
  const url = `${origin}/2025-04/pull-requests/${formatId('pr', stored?.id ?? '')}/sync`;
  const restore = await limitPoints(neighbours);
  const headers = { authorization: `Bearer ${attacker.token}` };
  const begin = performance.now();
  const attacking = (async () => {
    const pending: Promise<unknown>[] = [];
    for (; !signal.aborted; await delay(125)) {
      pending.push(fetch(url, { method: 'PUT', headers }).then(reply => reply.arrayBuffer()));
    }
    await Promise.allSettled(pending);
  })();
  return async () => {
    await attacking;
    await restore();
    const events = await listAuditEvents(database.executor, { login });
    const syncs = (events ?? []).filter(({ action }) => action === 'pull_request.sync').length;
    const minutes = Math.ceil((performance.now() - begin) / 60_000) + 1;
    return syncs <= minutes ? undefined : `${syncs} rows in the audit log`;
  };
}

/** Fifty a second, of changes that are all true. */
async function floodWithWebhooks({ installation, origin, attacker }: Neighbours, signal: AbortSignal) {
  let sent = 0;
  const lane = async () => {
    while (!signal.aborted) {
      sent += 1;
      const event = attacker.pullRequests[sent % attacker.pullRequests.length]?.edit({ title: `Flood ${sent}` });
      if (event !== undefined) {
        await installation.github.deliver(`${origin}/webhooks/github`, webhookSecret, event);
      }
      await delay(190);
    }
  };
  const lanes = Array.from({ length: 10 }, lane);
  return () => Promise.all(lanes).then(() => undefined);
}
