import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { pino } from 'pino';
import { connectDatabase } from '../src/database/client.ts';
import { migrateDatabase } from '../src/database/migrate.ts';
import { addOrganisation } from '../src/database/organisations.ts';
import { applyRuleset } from '../src/database/rules.ts';
import { startGithub } from '../test/support/github/server.ts';
import { createHome, removeHome } from '../test/support/home.ts';
import { createRandom } from '../test/support/random.ts';
import { findLosses, scoringRules, timeUntilLevel, watchLease } from './killed-database.ts';
import { type KilledReplica, type KilledServer, startKilledServer, superviseReplica } from './killed-processes.ts';
import { login, startTraffic, type Traffic } from './traffic.ts';

const secret = 'a secret of the soak';
/** How long the stand-in takes to answer, about like GitHub. */
const githubDelayMs = 150;

/** Max time from PostgreSQL's return to the first acknowledged webhook. */
const returnTargetSeconds = 2;
/** Max time from a replica's end until its leased work is resumed. */
const resumptionTargetSeconds = 10;

const victims = ['replica 1', 'replica 2', 'both replicas', 'PostgreSQL', 'a PostgreSQL process'] as const;
type Victim = (typeof victims)[number];

interface Scene {
  server: KilledServer;
  replicas: readonly KilledReplica[];
  traffic: Traffic;
  random: () => number;
}

/**
 * Kills two replicas of the service and PostgreSQL at random with SIGKILL while webhooks arrive: nothing acknowledged
 * may be lost. Comparison with GitHub is off, because it would heal a loss.
 *
 * @param operands `--kills N --rate N --seed N`
 * @returns whether webhooks were acknowledged, leased work was resumed in time, the loops finished all work and nothing
 * was lost
 */
export async function soakKills(operands: readonly string[]): Promise<boolean> {
  const { values } = parseArgs({
    args: [...operands],
    options: { kills: { type: 'string' }, rate: { type: 'string' }, seed: { type: 'string' } },
  });
  const kills = Number(values.kills ?? 200);
  const rate = Number(values.rate ?? 200);
  const seed = Number(values.seed ?? Math.floor(Math.random() * 2 ** 31));
  if (![kills, rate, seed].every(value => Number.isInteger(value) && value >= 0)) {
    throw new RangeError('--kills, --rate and --seed take whole numbers');
  }
  print(`${kills} kills at ${rate} webhooks a second, seed ${seed}`);
  const random = createRandom(seed);
  const home = createHome('kill');
  const server = await startKilledServer(home);
  const github = await startGithub();
  // As many points as GraphQL can represent, also after an hour.
  if (github.limit !== null) Object.assign(github.limit, { limit: 2 ** 31 - 1, remaining: 2 ** 31 - 1 });
  github.fault({ kind: 'delay', milliseconds: githubDelayMs }, { times: Number.POSITIVE_INFINITY });
  // Ends the replicas, too.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.once(signal, () => void server.stop().finally(() => process.exit(1)));
  }
  const replicas: KilledReplica[] = [];
  let clean = false;
  try {
    await prepare(server.url, github.organisation(login).id);
    for (const port of await Promise.all([freePort(), freePort()])) {
      const environment = {
        DATABASE_URL: server.url,
        GITHUB_API_URL: github.apiUrl,
        GITHUB_TOKEN: github.token,
        GITHUB_WEBHOOK_SECRET: secret,
        RECONCILE_INTERVAL: '0',
        LOG_LEVEL: 'warn',
      };
      replicas.push(superviseReplica(port, join(home, `replica-${port}.log`), environment));
    }
    await Promise.all(replicas.map(replica => replica.ready()));
    const urls = replicas.map(({ port }) => `http://127.0.0.1:${port}`);
    const traffic = startTraffic({ github, urls, secret, rate, random });
    const begin = performance.now();
    const killed = await killAtRandom({ server, replicas, traffic, random }, kills);
    await traffic.stop();
    const seconds = (performance.now() - begin) / 1000;
    await Promise.all(replicas.map(replica => replica.ready()));
    const level = await timeUntilLevel(server.url);
    const losses = await findLosses(server.url, traffic);
    const ends = replicas.flatMap(replica => replica.ends);
    report(killed, { seconds, level, losses, ends, traffic, replicas });
    const inTime = killed.resumptions.every(milliseconds => milliseconds <= resumptionTargetSeconds * 1000);
    clean = traffic.acknowledged.size > 0 && inTime && level !== undefined && losses.length === 0 && ends.length === 0;
    return clean;
  } finally {
    await Promise.all(replicas.map(replica => replica.stop()));
    await server.stop();
    await github.close();
    if (clean) removeHome(home);
    else print(`Database and logs are in ${home}.`);
  }
}

async function prepare(url: string, githubId: number): Promise<void> {
  await migrateDatabase(url);
  const database = connectDatabase(url, pino({ level: 'silent' }));
  const organisation = await addOrganisation(database.executor, { login, githubId, name: login, photoUrl: '' });
  if (organisation !== undefined) {
    await database.transaction(executor => applyRuleset(executor, organisation.id, scoringRules));
  }
  await database.close();
}

interface Killed {
  counts: Map<Victim, number>;
  /** Milliseconds from each return of PostgreSQL that a replica survived to the first acknowledgement. */
  firstSuccesses: number[];
  /**
   * Milliseconds from a replica's end until all of its leased work was resumed, without the time in which no replica
   * was running.
   */
  resumptions: number[];
}

async function killAtRandom(scene: Scene, kills: number): Promise<Killed> {
  const { server, random } = scene;
  const killed: Killed = { counts: new Map(), firstSuccesses: [], resumptions: [] };
  const recoveries: Promise<void>[] = [];
  const failures: unknown[] = [];
  for (let done = 0; done < kills && failures.length === 0; done += 1) {
    // Sometimes the next kill hits the recovery from the last.
    await delay(300 + random() * 4_500);
    const possible = server.isUp ? victims : victims.slice(0, 3);
    const victim = possible[Math.floor(random() * possible.length)] ?? 'replica 1';
    killed.counts.set(victim, (killed.counts.get(victim) ?? 0) + 1);
    recoveries.push(kill(scene, victim, killed).catch(error => void failures.push(error)));
    if ((done + 1) % 10 === 0) {
      const { sent, acknowledged } = scene.traffic;
      print(`  ${done + 1} kills, ${sent} webhooks sent, ${acknowledged.size} acknowledged`);
    }
  }
  await Promise.all(recoveries);
  if (failures.length > 0) throw failures[0];
  return killed;
}

async function kill(scene: Scene, victim: Victim, killed: Killed): Promise<void> {
  const { server, replicas, random } = scene;
  const [first, second] = replicas;
  if (victim === 'PostgreSQL') return timeReturn(scene, killed, server.killAll(random() * 1_500));
  if (victim === 'a PostgreSQL process') {
    return timeReturn(
      scene,
      killed,
      server.killOne(ids => ids[Math.floor(random() * ids.length)]),
    );
  }
  const chosen = victim === 'both replicas' ? replicas : [victim === 'replica 1' ? first : second];
  for (const replica of chosen) replica?.kill(random() * 500);
  const { lives } = server;
  if (!server.isUp) return;
  const resumed = await watchLease(server.url, {
    counts: () => server.isUp && server.lives === lives,
    isServed: () => replicas.some(({ life }) => life !== 0),
  });
  if (resumed !== undefined) killed.resumptions.push(resumed);
}

/** Measures the time from PostgreSQL's return to the first acknowledgement, if a replica ran throughout. */
async function timeReturn({ traffic, replicas, server }: Scene, killed: Killed, returning: Promise<void>) {
  await returning;
  const returned = performance.now();
  const { lives } = server;
  const before = replicas.map(({ life }) => life);
  const acknowledged = await Promise.race([traffic.nextAcknowledgement(), delay(20_000, undefined, { ref: false })]);
  const lived = replicas.some(({ life }, index) => life !== 0 && life === before[index]);
  if (!lived || server.lives !== lives || !server.isUp) return;
  killed.firstSuccesses.push((acknowledged ?? performance.now()) - returned);
}

interface Outcome {
  seconds: number;
  /** Milliseconds until all work was done; undefined if that took too long. */
  level: number | undefined;
  losses: readonly string[];
  ends: readonly string[];
  traffic: Traffic;
  replicas: readonly KilledReplica[];
}

function report({ counts, firstSuccesses, resumptions }: Killed, outcome: Outcome): void {
  const { seconds, level, losses, ends, traffic, replicas } = outcome;
  const list = (counted: ReadonlyMap<string, number>) =>
    [...counted]
      .sort(([, a], [, b]) => b - a)
      .map(([what, count]) => `\n    ${count} × ${what}`)
      .join('');
  const slowest = (values: readonly number[], target: number) => {
    if (values.length === 0) return 'never measured';
    const max = Math.max(...values) / 1000;
    return `${max.toFixed(2)} s (target ${target} s: ${max <= target ? 'reached' : 'MISSED'}; ${values.length} measured)`;
  };
  const total = [...counts.values()].reduce((sum, count) => sum + count, 0);
  print(
    [
      `\n${total} kills in ${Math.round(seconds)} s:${list(counts)}`,
      `webhooks sent: ${traffic.sent}, redelivered: ${traffic.redelivered}, held back: ${traffic.heldBack}`,
      `acknowledged: ${traffic.acknowledged.size}`,
      `not acknowledged:${list(traffic.refused)}`,
      `slowest first success after PostgreSQL's return: ${slowest(firstSuccesses, returnTargetSeconds)}`,
      `slowest resumption of a killed replica's work: ${slowest(resumptions, resumptionTargetSeconds)}`,
      `starts that failed without PostgreSQL: ${replicas.reduce((sum, { failedStarts }) => sum + failedStarts, 0)}`,
      level === undefined
        ? 'The loops did not finish their work.'
        : `all work done after ${(level / 1000).toFixed(1)} s`,
      ...ends,
      `lost: ${losses.length}`,
      ...losses.slice(0, 50).map(loss => `  ${loss}`),
    ].join('\n'),
  );
}

const print = (text: string) => void process.stdout.write(`${text}\n`);

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  await new Promise(resolve => server.close(resolve));
  if (address === null || typeof address === 'string') throw new Error('no port is free');
  return address.port;
}
