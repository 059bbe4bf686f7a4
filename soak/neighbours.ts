import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { eq, sql } from 'drizzle-orm';
import { scopes } from '../src/access-token.ts';
import { listAuditEvents } from '../src/database/audit-log.ts';
import { pullRequests } from '../src/database/schema.ts';
import { formatId } from '../src/ids.ts';
import { createTenant, insertPullRequests } from '../test/support/tenants.ts';
import { githubDelayMs, type Installation, login, print } from './installation.ts';
import { type Attack, editOnGithub, inProcesses, repeat, stress, type Target, type Tenant } from './stress.ts';

const pullRequestCount = 1_000;
const batches = 20;

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

const attacks: Record<string, Attack> = {
  ...Object.fromEntries(Object.entries(costlyFiles).map(([name, file]) => [name, applyRules(file)])),
  'a pull request with 3,000 files, changed every two seconds': editLargePullRequest,
  'rules files whose last byte never comes': inProcesses('unfinished files'),
  'plans whose client leaves': inProcesses('left plans'),
  'two organisations that plan all the time': planAllTheTime,
  "reports that ask for the server's files": readServerFiles,
  'pages that are read slowly': inProcesses('slow pages'),
  'seven pages of maximum size a second': inProcesses('large pages'),
  'eight PUT syncs a second': syncWithoutEnd,
  'a flood of webhooks': floodWithWebhooks,
  // The last one: nothing is left to attack with.
  'the erasure of a member with all pull requests': eraseMember,
};
export const neighbourAttackNames = Object.keys(attacks);

/**
 * One organisation does what it may, while a well-behaved client of another one reads, and webhooks of the other one
 * arrive.
 *
 * @returns whether the other one's p99 and the memory stayed within their limits, and none of its changes was lost
 */
export const soakNeighbours = (options: { seconds: number; only: string | undefined }): Promise<boolean> =>
  stress({
    name: 'neighbours',
    environment: { RATE_LIMIT: '6000' },
    limits: { slowdown: 3, service: { megabytes: 300, healthMs: 500, secondsUntilStored: 5 } },
    attacks,
    ...options,
    fill: async installation => ({
      // As large as GitHub allows: 65,536 characters, each of three bytes here.
      attacker: await addTenant(installation, login, 65_536, 3_000, installation),
      victim: await addTenant(installation, 'neighbour', 1_000),
    }),
  });

/** @param fileCount of its first pull request on GitHub */
async function addTenant(
  { database, github }: Installation,
  name: string,
  bodyCharacters: number,
  fileCount = 1,
  existing?: Pick<Tenant, 'organisation' | 'token'>,
): Promise<Tenant> {
  const onGithub = github.organisation(name);
  const author = onGithub.member('ada');
  const { id: githubId, nodeId } = onGithub;
  const { organisation, token } =
    existing ?? (await createTenant({ database }, { login: name, githubId, nodeId, scopes }));
  const times = Array.from({ length: pullRequestCount }, (_, index) => 1_700_000_000 + index);
  await insertPullRequests({ database }, { organisation }, times);
  // A statement may take ten seconds, and the attacker's rows have 200 MB.
  for (let batch = 0; batch < batches; batch += 1) {
    await database.executor
      .update(pullRequests)
      .set({ body: sql`repeat('€', ${bodyCharacters})` })
      .where(
        sql`${pullRequests.organisationId} = ${organisation.id} and ${pullRequests.githubId} % ${batches} = ${batch}`,
      );
  }
  const repository = onGithub.repository('live');
  const files = Array.from({ length: fileCount }, (_, index) => ({
    path: `src/${'x'.repeat(90)}/${index}.ts`,
    additions: 1,
    deletions: 0,
  }));
  const first = repository.addPullRequest({ author, files, changedFiles: files.length });
  const others = Array.from({ length: 19 }, () => repository.addPullRequest({ author }));
  return { organisation, token, pullRequests: [first, ...others] };
}

async function send(method: string, url: string, token: string, body: string): Promise<Response> {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/yaml', 'if-match': '*' };
  const once = () => fetch(url, { method, headers, body });
  // The service may close a connection that was idle at the moment at which it is used again.
  return once().catch(once);
}

/** Rules at the limits: of as many entries as the service takes. Then pull requests change, the large one too. */
function applyRules(file: (entries: number) => string): Attack {
  return async (target, signal) => {
    const { origin, attacker } = target;
    const apply = (body: string) => send('PUT', `${origin}/2026-12/rules/file`, attacker.token, body);
    let entries = maxEntries;
    for (let reply = await apply(file(entries)); !reply.ok; reply = await apply(file(entries))) {
      const refusal = await reply.text();
      if (![400, 413].includes(reply.status) || entries === 1) throw new Error(`rules got ${reply.status}: ${refusal}`);
      entries = Math.floor(entries * 0.8);
    }
    print(`       ${entries} entries were taken`);
    const finish = await floodWithWebhooks(target, signal);
    return async () => {
      await finish();
      const { status } = await apply('rules: []\n');
      return status === 200 ? undefined : `other rules got ${status}`;
    };
  };
}

/** In an hour of so few points that it could use them up. The other one's changes then wait for GitHub alone. */
async function editLargePullRequest(target: Target, signal: AbortSignal) {
  const restore = await limitPoints(target);
  const editing = repeat(signal, 2_000, edits => editOnGithub(target, target.attacker, 0, `Edit ${edits}`));
  return async ({ stored }: { stored: number }) => {
    await editing;
    await restore();
    return stored <= 3 * githubDelayMs
      ? undefined
      : `the other one waited longer than three of GitHub's response times`;
  };
}

/** In a new hour with few points for all. @returns ends it */
async function limitPoints({ github, database }: Target): Promise<() => Promise<void>> {
  const before = github.limit && { ...github.limit };
  if (github.limit) Object.assign(github.limit, { limit: 200, remaining: 200 });
  await database.executor.execute(sql`update organisations set points_used = 0`);
  await database.executor.execute(sql`delete from github_limits`);
  return async () => {
    if (github.limit) Object.assign(github.limit, before);
    await database.executor.execute(sql`delete from github_limits`);
  };
}

async function readServerFiles({ origin, attacker }: Target, signal: AbortSignal) {
  const headers = { authorization: `Bearer ${attacker.token}` };
  const replies = new Set<string>();
  const reading = repeat(signal, 20, async () => {
    const reply = await fetch(`${origin}/2026-12/standings?rules=/etc/shadow`, { headers });
    const { request_id: _id, ...answer } = (await reply.json()) as Record<string, unknown>;
    replies.add(`${reply.status} ${JSON.stringify(answer)}`);
  });
  return async () => {
    await reading;
    const [answer, ...others] = replies;
    const isRefused = others.length === 0 && answer?.startsWith('400 ') && !answer.includes('root');
    return isRefused ? undefined : [...replies].join();
  };
}

/** Meanwhile the other one plans once. */
async function planAllTheTime(target: Target, signal: AbortSignal) {
  const { origin, victim } = target;
  const accomplice = await addTenant(target, 'accomplice', 1_000);
  const planning = [target, { ...target, attacker: accomplice }].map(each => inProcesses('plans')(each, signal));
  const finishes = await Promise.all(planning);
  const file = rulesFile(1, () => ({ expression: 'merged', value: 1 }));
  const planned = send('POST', `${origin}/2026-12/rules/plan`, victim.token, file);
  return async (measured: Parameters<Awaited<ReturnType<Attack>>>[0]) => {
    const { status } = await planned;
    await Promise.all(finishes.map(finish => finish(measured)));
    return status === 200 ? undefined : `a plan of the other one got ${status}`;
  };
}

async function eraseMember(target: Target, signal: AbortSignal) {
  const finish = await floodWithWebhooks(target, signal);
  const operands = ['dist/main.js', 'member', 'erase', 'grace', '--organisation', login, '--yes'];
  const child = spawn(process.execPath, operands, {
    env: { PATH: process.env.PATH, DATABASE_URL: target.server.url },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const exited = once(child, 'exit');
  return async () => {
    await finish();
    const [code] = await exited;
    return code === 0 ? undefined : `the erasure ended with ${code}`;
  };
}

/** Each of the same pull request, in an hour of so few points that the attacker could use them up. */
async function syncWithoutEnd(target: Target, signal: AbortSignal) {
  const { database, origin, attacker } = target;
  const [stored] = await database.executor
    .select({ id: pullRequests.id })
    .from(pullRequests)
    .where(eq(pullRequests.organisationId, attacker.organisation.id))
    .limit(1);
  const url = `${origin}/2025-04/pull-requests/${formatId('pr', stored?.id ?? '')}/sync`;
  const restore = await limitPoints(target);
  const headers = { authorization: `Bearer ${attacker.token}` };
  const begin = performance.now();
  const pending: Promise<unknown>[] = [];
  const attacking = repeat(signal, 125, () => {
    pending.push(fetch(url, { method: 'PUT', headers }).then(reply => reply.arrayBuffer()));
  });
  return async () => {
    await attacking;
    await Promise.allSettled(pending);
    await restore();
    const events = await listAuditEvents(database.executor, { login });
    const syncs = (events ?? []).filter(({ action }) => action === 'pull_request.sync').length;
    const minutes = Math.ceil((performance.now() - begin) / 60_000) + 1;
    return syncs <= minutes ? undefined : `${syncs} rows in the audit log`;
  };
}

/** Fifty a second, of changes that are all true. */
async function floodWithWebhooks(target: Target, signal: AbortSignal) {
  let sent = 0;
  const lanes = Array.from({ length: 10 }, () =>
    repeat(signal, 190, () => {
      sent += 1;
      return editOnGithub(target, target.attacker, sent, `Flood ${sent}`);
    }),
  );
  return async () => {
    await Promise.all(lanes);
    return undefined;
  };
}
