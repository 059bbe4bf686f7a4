import { setTimeout as delay } from 'node:timers/promises';
import { sql } from 'drizzle-orm';
import { pino } from 'pino';
import { buildApp } from '../src/app.ts';
import { loadConfig } from '../src/config.ts';
import { connectDatabase } from '../src/database/client.ts';
import { isDatabaseUnavailable } from '../src/database/driver-errors.ts';
import { connectDeps } from '../src/deps.ts';
import { type ErrorCode, ServiceError } from '../src/errors.ts';
import { startLoops } from '../src/sync/start-loops.ts';
import type { WebhookEvent } from '../test/support/github/events.ts';
import { type GithubStandIn, startGithub } from '../test/support/github/server.ts';
import { signedRequest } from '../test/support/github/webhooks.ts';
import { startProxy } from '../test/support/proxy.ts';
import { createBackground } from './background.ts';

const webhookSecret = 'a secret of the soak';

export type Replica = Awaited<ReturnType<typeof startReplica>>;

/** Where histories are played: PostgreSQL, a stand-in for GitHub, and three replicas of the service between them. */
export type Arena = Awaited<ReturnType<typeof openArena>>;

/** What was done, for the report at the end. */
export interface Tally {
  histories: number;
  /** Stored at the ends of histories. */
  pullRequests: number;
  readonly counts: Map<string, number>;
}

const places = 3;

/** The errors that GitHub's faults cause. */
const githubFailures: readonly ErrorCode[] = [
  'github_failed',
  'github_timeout',
  'github_rate_limited',
  'github_credentials',
];

const forgetAfterMs = 2_000;

/** @param databaseUrl of a migrated database without organisations */
export async function openArena(databaseUrl: string, tally: Tally) {
  const github = await startGithub();
  github.grants.tokenWritesChecks = true;
  /** Bypasses the replicas, to read what is stored and to let time pass. */
  const database = connectDatabase(databaseUrl, pino({ level: 'silent' }));
  const replicas: (Replica | undefined)[] = await Promise.all(
    Array.from({ length: places }, () => startReplica(databaseUrl, github)),
  );
  const background = createBackground();
  const defects: string[] = [];
  const over: { organisationIds: readonly string[]; at: number }[] = [];
  let closed = false;

  const count = (what: string, by = 1) => void tally.counts.set(what, (tally.counts.get(what) ?? 0) + by);
  const collect = (replica: Replica) => defects.push(...replica.defects.splice(0));

  /** A living replica, chosen by `via`. */
  async function replica(via: number): Promise<Replica> {
    for (; ; await delay(5)) {
      const first = via % places;
      const found = [...replicas.slice(first), ...replicas.slice(0, first)].find(each => each !== undefined);
      if (found !== undefined) return found;
    }
  }

  return {
    github,
    database,
    tally,
    count,
    replica,
    /** Tries once. @returns false if GitHub or the replica failed @throws what neither explains */
    async attempt(via: number, work: (replica: Replica) => Promise<unknown>): Promise<boolean> {
      try {
        await work(await replica(via));
        return true;
      } catch (error) {
        const isGithubs = error instanceof ServiceError && githubFailures.includes(error.code);
        if (!isGithubs && !isDatabaseUnavailable(error) && (error as Error).name !== 'AbortError') throw error;
        return false;
      }
    },
    /** Retries, as an operator or a client would, if a replica was killed. @throws what no outage explains */
    async insist<Result>(via: number, work: (replica: Replica) => Promise<Result>): Promise<Result> {
      for (let tried = 0; ; tried += 1) {
        try {
          return await work(await replica(via + tried));
        } catch (error) {
          if (!isDatabaseUnavailable(error) || tried === 50) throw error;
          await delay(20);
        }
      }
    },
    /** Kills the replica in the middle of its work; another takes its place. */
    kill(via: number): void {
      const place = via % places;
      const killed = replicas[place];
      if (killed === undefined || closed) return;
      count('replicas killed');
      replicas[place] = undefined;
      collect(killed);
      killed.kill();
      background.add(killed.close());
      background.add(
        startReplica(databaseUrl, github).then(started => {
          replicas[place] = started;
        }),
      );
    },
    /** POSTs a webhook as GitHub does, to the replica chosen by `via`. */
    async deliver(via: number, event: WebhookEvent, guid: string) {
      const { app } = await replica(via);
      const reply = await app.inject({ url: '/webhooks/github', ...signedRequest(webhookSecret, event, { guid }) });
      return { status: reply.statusCode, body: reply.body };
    },
    /** Deletes organisations whose history is over, after a delay: a loop may be working on one of them. */
    async forget(organisationIds: readonly string[]): Promise<void> {
      over.push({ organisationIds, at: performance.now() });
      const old = over.filter(({ at }) => performance.now() - at > forgetAfterMs);
      over.splice(0, old.length);
      const ids = old.flatMap(each => each.organisationIds);
      if (ids.length === 0) return;
      await database.transaction(each =>
        each.execute(sql`delete from organisations where id = any(${sql.param(ids)}::uuid[])`),
      );
    },
    /** Errors on living replicas that no outage explains, since the last call. */
    takeDefects(): string[] {
      for (const each of replicas) if (each !== undefined) collect(each);
      return defects.splice(0);
    },
    async close(): Promise<void> {
      closed = true;
      await background.join();
      await Promise.all(replicas.map(each => each?.close()));
      await database.close();
      await github.close();
      count('GitHub requests', github.requests.length);
    },
  };
}

/** As `serve` builds it, except that its two connections to the outside can be cut. */
async function startReplica(databaseUrl: string, github: GithubStandIn) {
  const proxies = await Promise.all([startProxy(databaseUrl), startProxy(github.apiUrl)]);
  const [toDatabase, toGithub] = proxies;
  const config = loadConfig({
    DATABASE_URL: toDatabase.through(databaseUrl),
    GITHUB_API_URL: toGithub.through(github.apiUrl),
    GITHUB_TOKEN: github.token,
    GITHUB_WEBHOOK_SECRET: webhookSecret,
    RATE_LIMIT: '0',
    // Longer than a history: an organisation is compared when its history says so.
    RECONCILE_INTERVAL: '86400',
  });
  /** Errors that no outage explains. */
  const defects: string[] = [];
  let killed = false;
  // 40001 and the like after all retries are an outage, too: killed replicas leave locks for a moment.
  const err = (error: unknown) => ({ text: describe(error), outage: isDatabaseUnavailable(error) });
  const log = pino(
    { level: 'error', serializers: { err } },
    {
      write(line) {
        const { msg, err } = JSON.parse(line) as { msg: string; err?: { text: string; outage: boolean } };
        // If GitHub keeps failing on one, that is right. If it does not, nothing settles, which is a difference.
        if (msg.startsWith('a pull request is parked')) return;
        if (!killed && err?.outage !== true) defects.push(`${msg}: ${err?.text ?? ''}`);
      },
    },
  );
  const deps = connectDeps(config, log, config.databaseUrl ?? '');
  const app = await buildApp(deps, { maxEventLoopDelayMs: 0 });
  const loops = startLoops(deps);
  return {
    deps,
    app,
    defects,
    /** Cuts it off from PostgreSQL and GitHub: to both it looks like SIGKILL. */
    kill(): void {
      killed = true;
      for (const proxy of proxies) {
        proxy.refuse();
        proxy.cut();
      }
    },
    async close(): Promise<void> {
      await Promise.all([loops.stop(), app.close()]);
      await deps.close();
      await Promise.all(proxies.map(proxy => proxy.close()));
    },
  };
}

const describe = (error: unknown) =>
  error instanceof Error
    ? `${error.message}${error.cause instanceof Error ? `: ${error.cause.message}` : ''}`
    : String(error);
