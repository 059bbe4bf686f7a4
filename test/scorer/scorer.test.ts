import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { eq } from 'drizzle-orm';
import { expect, onTestFinished, test, vi } from 'vitest';
import { loadConfig } from '../../src/config.ts';
import { listAuditEvents } from '../../src/database/audit-log.ts';
import { getRuleset } from '../../src/database/rules.ts';
import { rulesets } from '../../src/database/schema.ts';
import type { Scorer } from '../../src/scorer/jobs.ts';
import { createScorer } from '../../src/scorer/scorer.ts';
import type { Facts } from '../../src/scoring/facts.ts';
import { requireBuild } from '../commands/support.ts';
import { bundleProgram } from '../support/bundle.ts';
import { createLatch } from '../support/github/faults.ts';
import { hostileScorer, hostileScript, scorersOf, stateOf } from '../support/scorer.ts';
import { startWorld } from '../support/world.ts';

// On a busy machine a process of low priority gets its two seconds of processor time late.
vi.setConfig({ testTimeout: 180_000 });
const patient = { timeout: 60_000 };

const { service, newTenant } = await startWorld();

/** Pull requests have less time than in the service. */
const bounds = { maxPullRequestMs: 500, maxSilenceMs: 20_000 };

/** Ended with the test. */
function newScorer(options: Parameters<typeof hostileScorer>[2] = {}): Scorer {
  const scorer = hostileScorer(service.database, service.log, { bounds, ...options });
  onTestFinished(() => scorer.close());
  return scorer;
}

const score = (scorer: Scorer, organisationId: string, ...titles: string[]) =>
  scorer.run('score', { organisationId, version: 1, facts: titles.map(title => ({ title }) as Facts) });

/** Never ends by itself. `pids`: the processes when it began */
function audit(scorer: Scorer, organisationId: string, signal?: AbortSignal) {
  const begun = createLatch();
  const pids: number[] = [];
  const onProgress = () => {
    pids.push(...scorersOf());
    begun.release();
  };
  const input = { organisationId, ruleset: { definitions: [], reviews: [], rules: [] } };
  const ended = scorer.run('audit', input, { signal, onProgress });
  ended.catch(() => undefined);
  return { begun: begun.released, ended, pids };
}

const hasEnded = (pid: number) => stateOf(pid) === undefined;

test('jobs are done, each in its organisation and in order', async () => {
  const scorer = newScorer();
  const [one, other] = await Promise.all([score(scorer, 'a', 'x', 'y'), score(scorer, 'b', 'z')]);
  expect(one).toEqual([
    { score: 1, breakdown: '["x"]', reviewScores: null },
    { score: 1, breakdown: '["y"]', reviewScores: null },
  ]);
  expect(other).toEqual([{ score: 1, breakdown: '["z"]', reviewScores: null }]);
  expect(scorersOf()).toHaveLength(2);
});

test('jobs of one organisation share a process, so that the other one is for others', async () => {
  const scorer = newScorer();
  const busy = audit(scorer, 'a');
  await busy.begun;
  await score(scorer, 'a', 'x');
  expect(scorersOf()).toHaveLength(1);
  await score(scorer, 'b', 'y');
  expect(scorersOf()).toHaveLength(2);
});

test('a process has a lower priority than the service, goes first if memory runs out, and has no secrets', async () => {
  const { scorerEnvironment: environment } = loadConfig({ PGPASSFILE: '/passwords', GITHUB_TOKEN: 'ghp_secret' });
  const scorer = newScorer({ environment });
  await score(scorer, 'a', 'x');
  const [pid] = scorersOf();
  // See proc(5): the 19th field, the 17th after the name.
  expect(readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ')[16]).toBe('5');
  expect(Number(readFileSync(`/proc/${pid}/oom_score_adj`, 'utf8'))).toBe(500);
  const names = readFileSync(`/proc/${pid}/environ`, 'utf8')
    .split('\0')
    .map(each => each.split('=')[0]);
  expect(names).toEqual(expect.arrayContaining(['DATABASE_URL', 'PGPASSFILE']));
  expect(names).not.toContain('GITHUB_TOKEN');
});

test.each(['endless', 'greedy'])(
  'a pull request that is %s fails alone, and jobs of others in its process are done again',
  async act => {
    const scorer = newScorer();
    // Both processes have a job, so that a third one shares one of them.
    const [bad, ...others] = await Promise.allSettled([
      score(scorer, 'bad', act),
      ...Array.from({ length: 5 }, (_, index) => score(scorer, `good ${index}`, `x${index}`)),
    ]);
    expect(bad).toMatchObject({ status: 'rejected', reason: { code: 'overloaded' } });
    expect(others).toMatchObject(
      Array.from({ length: 5 }, (_, index) => ({ status: 'fulfilled', value: [{ breakdown: `["x${index}"]` }] })),
    );
  },
);

/** @returns `begun`: once so many processes have been at work on it */
function begin(scorer: Scorer, organisationId: string, title: string, processes = 1) {
  const { release, released } = createLatch();
  const input = { organisationId, version: 1, facts: [{ title } as Facts] };
  let begun = 0;
  const ended = scorer.run('score', input, { onProgress: () => ++begun === processes && release() });
  ended.catch(() => undefined);
  return { begun: released, ended };
}

test('a job is not blamed for memory that another one in its process takes', async () => {
  const scorer = newScorer();
  // The other process has more to do, so that the next job comes to the hoarder, and the hoarder to it.
  await Promise.all(hoarding(scorer).map(({ begun }) => begun));
  await expect(score(scorer, 'small', 'large of entry 1')).resolves.toMatchObject([{ score: 1 }]);
});

const hoarding = (scorer: Scorer) => [
  begin(scorer, 'hoarder', 'hoard'),
  begin(scorer, 'busy', 'wait'),
  begin(scorer, 'busy', 'wait'),
];

test('a job that is done again does not wait for later ones of its organisation', async () => {
  const scorer = newScorer();
  const [again, ...others] = hoarding(scorer);
  await Promise.all([again, ...others].map(job => job?.begun));
  // The hoarder's process ends in it, and another one runs it alone.
  const endless = begin(scorer, 'endless', 'endless', 2);
  await endless.begun;
  await begin(scorer, 'hoarder', 'wait').begun;
  await expect(endless.ended).rejects.toMatchObject({ code: 'overloaded' });
  await expect(again?.ended).resolves.toMatchObject([{ score: 1 }]);
});

test('a rules file that takes too long is refused as such', async () => {
  const scorer = newScorer();
  await score(scorer, 'a', 'x');
  await expect(scorer.run('check', { organisationId: 'a', file: 'endless' })).rejects.toMatchObject({
    code: 'bad_request',
    message: 'These rules take too much time or memory.',
  });
});

test('rules in force that break a bound are suspended, and the audit log names the entry', async () => {
  const { organisation } = await newTenant();
  const { executor } = service.database;
  await executor.insert(rulesets).values({
    organisationId: organisation.id,
    version: 1,
    definitions: [],
    rules: [],
    source: '',
    appliedBy: 'ada',
  });
  const scorer = newScorer();
  await expect(score(scorer, organisation.id, 'x', 'endless of entry 7')).rejects.toMatchObject({
    code: 'rules_suspended',
  });
  const [stored] = await executor.select().from(rulesets).where(eq(rulesets.organisationId, organisation.id));
  expect(stored?.suspendedAt).toBeInstanceOf(Date);
  expect(await getRuleset(executor, organisation.id, 1)).toMatchObject({ suspension: 'rule "Hostile", entry 7' });
  expect(await listAuditEvents(executor, { login: organisation.login })).toMatchObject([
    { actor: 'pullscore', action: 'rules.suspend', subject: 'rule "Hostile", entry 7' },
  ]);
});

test('a process that is ended from outside is replaced, and its rules are not suspended', async () => {
  const scorer = newScorer();
  await expect(score(scorer, 'a', 'crash of entry 1')).rejects.toMatchObject({ code: 'overloaded' });
  const jobs = Array.from({ length: 20 }, (_, index) => score(scorer, 'b', `x${index}`));
  for (const pid of scorersOf()) process.kill(pid, 'SIGKILL');
  await expect(Promise.all(jobs)).resolves.toHaveLength(20);
});

test('a process that the system stops is replaced, and its rules are not suspended', async () => {
  const { organisation } = await newTenant();
  const scorer = newScorer({
    bounds: {
      ...bounds,
      // On a busy machine, a process may need longer to start.
      get maxSilenceMs() {
        return scorersOf().some(pid => stateOf(pid) === 'T') ? 1_000 : bounds.maxSilenceMs;
      },
    },
  });
  await expect(score(scorer, organisation.id, 'stop of entry 7')).rejects.toMatchObject({
    code: 'overloaded',
    message: 'The process that runs rules was ended.',
  });
});

test('long jobs that are done again, each alone, leave a process to all others', async () => {
  const scorer = newScorer();
  await Promise.all([audit(scorer, 'a').begun, audit(scorer, 'b').begun]);
  for (const pid of scorersOf()) process.kill(pid, 'SIGKILL');
  for (const id of ['a', 'c']) await expect(score(scorer, id, 'x')).resolves.toMatchObject([{ score: 1 }]);
});

test('a client that leaves ends its job at once, even one that does not give way', async () => {
  const scorer = newScorer();
  const leaving = new AbortController();
  const { signal } = leaving;
  const willing = audit(scorer, 'a', signal);
  await willing.begun;
  const blocking = createLatch();
  const facts = [{ title: 'endless' } as Facts];
  const input = { organisationId: 'b', version: 1, facts };
  const stuck = scorer.run('score', input, { signal, onProgress: blocking.release });
  await blocking.released;
  const [blocked] = scorersOf().filter(pid => !willing.pids.includes(pid));
  leaving.abort();
  expect(await Promise.allSettled([willing.ended, stuck])).toMatchObject([
    { reason: { name: 'AbortError' } },
    { reason: { name: 'AbortError' } },
  ]);
  expect(hasEnded(blocked ?? 0)).toBe(true);
  expect(willing.pids.some(hasEnded)).toBe(false);
});

test('the organisation served longest ago is next in the queue for long jobs', async () => {
  const scorer = newScorer();
  const leaving = new AbortController();
  const places = [audit(scorer, 'a', leaving.signal), audit(scorer, 'b')];
  await Promise.all(places.map(({ begun }) => begun));
  const [again, third] = [audit(scorer, 'a'), audit(scorer, 'c')];
  leaving.abort();
  expect(await Promise.race([again.begun.then(() => 'a'), third.begun.then(() => 'c')])).toBe('c');
});

test('a long job that waits too long is refused, with the time for another try', async () => {
  const scorer = newScorer({ maxQueueMs: 500 });
  await Promise.all([audit(scorer, 'a').begun, audit(scorer, 'b').begun]);
  await expect(audit(scorer, 'c').ended).rejects.toMatchObject({ code: 'rate_limited', retryAfter: 30 });
});

test('a process may take longer to start than rules may for a pull request', async () => {
  requireBuild();
  const busy = 'data:text/javascript,for(let end=900;process.cpuUsage().user/1e3<end;)for(let i=0;i<1e7;i++);';
  const scorer = createScorer(service.database, service.log, {
    environment: {},
    execArgv: ['--import', busy],
    bounds,
  });
  onTestFinished(() => scorer.close());
  const checked = await scorer.run('check', { organisationId: 'a', file: 'rules: []' });
  expect(checked.problems).toEqual([]);
});

test('jobs fail with 503 if no process can be started, and the next job tries again', async () => {
  const scorer = createScorer(service.database, service.log, { environment: {}, script: '/nonexistent.js' });
  onTestFinished(() => scorer.close());
  await expect(score(scorer, 'a', 'x')).rejects.toMatchObject({ code: 'overloaded', retryAfter: 5 });
  await expect(score(scorer, 'a', 'x')).rejects.toMatchObject({ code: 'overloaded', retryAfter: 5 });
});

test('closing ends the processes, whatever they do, and their jobs fail', async () => {
  const scorer = hostileScorer(service.database, service.log);
  const jobs = Promise.allSettled([score(scorer, 'a', 'endless'), audit(scorer, 'b').ended]);
  await vi.waitUntil(() => scorersOf().length === 2, patient);
  const pids = scorersOf();
  await scorer.close();
  expect(await jobs).toMatchObject([{ status: 'rejected' }, { status: 'rejected' }]);
  expect(pids.every(hasEnded)).toBe(true);
});

test('no process outlives a service that is killed, even one whose job never ends', async () => {
  const program = bundleProgram(new URL('../support/scorer-parent.ts', import.meta.url));
  const parent = spawn(process.execPath, [program, service.database.url, hostileScript()], { stdio: 'ignore' });
  onTestFinished(() => void parent.kill('SIGKILL'));
  const pid = parent.pid ?? 0;
  await vi.waitUntil(() => scorersOf(pid).length > 0, patient);
  const pids = scorersOf(pid);
  parent.kill('SIGKILL');
  await vi.waitUntil(() => pids.every(hasEnded), patient);
});
