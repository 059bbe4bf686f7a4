/** PostgreSQL, a stand-in for GitHub, and replicas of the service that know one organisation. */
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { spawnNode } from '../bench/processes.ts';
import { type GithubWorld, openGithub } from '../bench/world.ts';
import { entry, rule } from '../test/scoring/support.ts';
import { createHome, removeHome } from '../test/support/home.ts';
import { freePort } from '../test/support/raw-http.ts';
import { applyRules, type Tenant } from '../test/support/tenants.ts';

export const login = 'acme';

/** `findLosses` of traffic.ts computes the same in SQL. */
const scoringRules = [
  rule('Size', entry('additions > 0', 'per(additions, 3)')),
  rule('Given up', entry('state == "closed"', '5', 'SUBTRACT')),
];

const startTimeoutMs = 60_000;

export interface Installation extends GithubWorld, Pick<Tenant, 'organisation' | 'token'> {
  readonly replicas: readonly Replica[];
}

/**
 * Comparison with GitHub is off, because it would heal a loss.
 *
 * @param name part of the name of the folder for database and logs
 * @param work returns whether all is well; if not, the database and the logs stay, and this prints where
 * @returns whether that is so, and no replica ended by itself
 */
export async function withInstallation(
  name: string,
  replicaCount: number,
  environment: Record<string, string>,
  work: (installation: Installation) => Promise<boolean>,
): Promise<boolean> {
  const home = createHome(name);
  const world = await openGithub(home);
  // It takes about as long to answer as GitHub.
  world.github.fault({ kind: 'delay', milliseconds: 150 }, { times: Number.POSITIVE_INFINITY });
  // Ends the replicas, too.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.once(signal, () => void world.server.leave().finally(() => process.exit(1)));
  }
  const replicas: Replica[] = [];
  let isClean = false;
  try {
    const tenant = await world.add(login);
    await applyRules(world, tenant.organisation.id, { rules: scoringRules });
    for (const port of await Promise.all(Array.from({ length: replicaCount }, freePort))) {
      const own = { ...world.environment, LOG_LEVEL: 'warn', ...environment };
      replicas.push(superviseReplica(port, join(home, `replica-${port}.log`), own));
    }
    await Promise.all(replicas.map(replica => replica.ready()));
    isClean = await work({ ...world, ...tenant, replicas });
    const ends = replicas.flatMap(replica => replica.ends);
    for (const end of ends) console.log(end);
    isClean &&= ends.length === 0;
    return isClean;
  } finally {
    await Promise.all(replicas.map(replica => replica.stop()));
    await world[Symbol.asyncDispose]();
    if (isClean) removeHome(home);
    else console.log(`Database and logs are in ${home}.`);
  }
}

export type Replica = ReturnType<typeof superviseReplica>;

/** `dist/main.js serve` under a supervisor that starts it again whenever it ends, as an orchestrator does. */
function superviseReplica(port: number, logFile: string, environment: Record<string, string>) {
  const log = createWriteStream(logFile, { flags: 'a' });
  /** Unexpected ends after it was ready, and stops that were not clean. */
  const ends: string[] = [];
  let child: ChildProcess;
  let isReady = false;
  /** Whether its end is meant. */
  let isEnding = false;
  let stopped = false;
  let pauseMs = 0;

  const supervise = async () => {
    for (; !stopped; await delay(pauseMs)) {
      isEnding = false;
      pauseMs = 200;
      const started = spawnNode(['dist/main.js', 'serve'], { PORT: String(port), ...environment }, log);
      const own = started.child;
      child = own;
      void started.line.then(() => {
        // Its output may arrive only after its end.
        isReady = !isEnding && own.exitCode === null && own.signalCode === null;
      });
      const [code, signal] = await started.ended;
      // It can't start without PostgreSQL.
      if (!isEnding && isReady) ends.push(`the replica on port ${port} ended unexpectedly (${signal ?? code})`);
      isReady = false;
    }
  };
  const supervised = supervise();
  process.once('exit', () => child.kill('SIGKILL'));

  const end = (signal: 'SIGKILL' | 'SIGTERM', milliseconds: number) => {
    isEnding = true;
    isReady = false;
    pauseMs = milliseconds;
    child.kill(signal);
  };

  /** @throws if it does not start within a minute */
  async function ready(): Promise<void> {
    for (const begin = performance.now(); !isReady; await delay(10)) {
      if (performance.now() - begin > startTimeoutMs) throw new Error(`the replica on port ${port} does not start`);
    }
  }

  return {
    origin: `http://127.0.0.1:${port}`,
    get processId() {
      return child.pid ?? 0;
    },
    ends,
    ready,
    /** Kills it with SIGKILL, and starts it again after `milliseconds`. */
    kill: (milliseconds: number) => end('SIGKILL', milliseconds),
    /** Stops it with SIGTERM and starts it again. @throws if it does not start within a minute */
    async restart(): Promise<void> {
      const exited = once(child, 'exit');
      end('SIGTERM', 0);
      const [code, signal] = await exited;
      if (code !== 0) ends.push(`the replica on port ${port} did not stop cleanly (${signal ?? code})`);
      await ready();
    },
    async stop(): Promise<void> {
      stopped = true;
      end('SIGKILL', 0);
      await supervised;
      log.end();
    },
  };
}
