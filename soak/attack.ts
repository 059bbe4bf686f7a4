import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { sql } from 'drizzle-orm';
import { pino } from 'pino';
import { connectDatabase, type Database } from '../src/database/client.ts';
import { applyRuleset } from '../src/database/rules.ts';
import type { RuleDefinition } from '../src/scoring/rule.ts';
import { insertMembers, insertPullRequests } from '../test/support/tenants.ts';
import { attacks } from './attacker.ts';
import { type Installation, print, startInstallation } from './installation.ts';
import { type Measured, startUnseenReads } from './reads.ts';

const readsPerSecond = 50;
const members = 20_000;
const pullRequests = 5_000;

/** How much the p99 latency of a client's reads may grow. */
const maxSlowdown = 3;

/** Some of these take most of what a ruleset may cost. */
const expensiveRules: RuleDefinition[] = Array.from({ length: 20 }, (_, index) => ({
  name: `Expensive ${index}`,
  description: '',
  is_enabled: true,
  logic: Array.from({ length: 10 }, (_, entry) => ({
    expression: `matches(body, 'a.{${index + 1}}b.{${entry + 1}}$')`,
    effect: { action: 'ADD' as const, value: '1' },
  })),
}));

/**
 * Attacks one replica in many ways, one after another, while a well-behaved client reads.
 *
 * @param operands `--seconds N`: for each attack; `--only NAME`: not the others
 * @returns whether no read failed, and the p99 of reads stayed within three times that at rest
 */
export async function soakAttacks(operands: readonly string[]): Promise<boolean> {
  const { values } = parseArgs({
    args: [...operands],
    options: { seconds: { type: 'string' }, only: { type: 'string' } },
  });
  const seconds = Number(values.seconds ?? 15);
  if (!Number.isInteger(seconds) || seconds < 1) throw new RangeError('--seconds takes a whole number from 1');
  const installation = await startInstallation('attack', 1, { RATE_LIMIT: '0' });
  const database = connectDatabase(installation.server.url, pino({ level: 'silent' }));
  let clean = false;
  try {
    await fill(database, installation);
    const origin = `http://127.0.0.1:${installation.replicas[0]?.port}`;
    // Before the first one, code is compiled and connections are opened.
    await measure(installation, origin, 3);
    const rest = await measure(installation, origin, seconds);
    print(`at rest: p99 ${rest.p99.toFixed(1)} ms`);
    clean = true;
    const judge = (what: string, { p99, failures }: Measured) => {
      const slowdown = p99 / rest.p99;
      const isGood = slowdown <= maxSlowdown && failures.length === 0;
      print(
        `${isGood ? 'ok    ' : 'MISSED'} ${what}: p99 ${p99.toFixed(1)} ms, ${slowdown.toFixed(1)} times that at rest`,
      );
      for (const [reason, count] of failures) print(`         ${count} × ${reason}`);
      clean = clean && isGood;
    };
    const isChosen = (name: string) => values.only === undefined || values.only === name;
    for (const name of Object.keys(attacks).filter(isChosen)) {
      judge(name, await underAttack([name], installation, origin, seconds));
    }
    if (isChosen('expensive rules') || isChosen('all at once')) {
      const { id } = installation.organisation;
      await database.transaction(executor =>
        applyRuleset(executor, id, { definitions: [], reviews: [], rules: expensiveRules, source: '' }),
      );
    }
    if (isChosen('expensive rules')) judge('expensive rules', await measure(installation, origin, seconds));
    if (isChosen('all at once')) {
      judge('all at once', await underAttack(Object.keys(attacks), installation, origin, seconds));
    }
    const ends = installation.replicas.flatMap(replica => replica.ends);
    for (const end of ends) print(end);
    clean = clean && ends.length === 0;
    return clean;
  } finally {
    await database.close();
    await installation.stop(clean);
  }
}

async function fill(database: Database, { organisation }: Installation): Promise<void> {
  await insertPullRequests(
    { database },
    { organisation },
    Array.from({ length: pullRequests }, (_, index) => 1_700_000_000 + index),
  );
  await database.executor.execute(sql`
    update pull_requests set body = repeat('ab ', 1000) where organisation_id = ${organisation.id}`);
  await insertMembers({ database }, { organisation }, members);
}

async function measure({ token }: Installation, origin: string, seconds: number): Promise<Measured> {
  const stop = await startUnseenReads({ url: `${origin}/2025-04/pull-requests?unseen=`, token, rate: readsPerSecond });
  await delay(seconds * 1000);
  return stop();
}

async function underAttack(
  names: readonly string[],
  installation: Installation,
  origin: string,
  seconds: number,
): Promise<Measured> {
  let rate = '';
  const attackers = names.map(name => {
    const command = ['--import', 'tsx', 'soak/attacker.ts', name, origin, installation.token];
    const attacker = spawn(process.execPath, command, { stdio: ['ignore', 'pipe', 'inherit'] });
    attacker.stdout.setEncoding('utf8').on('data', (text: string) => {
      rate = text.trim();
    });
    return attacker;
  });
  process.once('exit', () => attackers.forEach(attacker => void attacker.kill('SIGKILL')));
  // Until they are at work.
  await delay(2_000);
  const measured = await measure(installation, origin, seconds);
  await Promise.all(
    attackers.map(async attacker => {
      const exited = once(attacker, 'exit');
      attacker.kill('SIGKILL');
      await exited;
    }),
  );
  if (rate !== '') print(`       at the end ${rate}`);
  return measured;
}
