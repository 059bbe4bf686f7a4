import { setTimeout as delay } from 'node:timers/promises';
import { pino } from 'pino';
import { connectDatabase } from '../src/database/client.ts';
import { isDatabaseUnavailable } from '../src/database/driver-errors.ts';
import { ServiceError } from '../src/errors.ts';
import { startLoops } from '../src/sync/start-loops.ts';
import { type GithubStandIn, maxPoints, startGithub } from '../test/support/github/server.ts';
import { startProxy } from '../test/support/proxy.ts';
import { startReplica as startService } from '../test/support/service.ts';
import { createBackground } from './background.ts';

export type Replica = Awaited<ReturnType<typeof startReplica>>;

/** Where histories are played: PostgreSQL, a stand-in for GitHub, and three replicas of the service between them. */
export type Arena = Awaited<ReturnType<typeof openArena>>;

/** @param databaseUrl of a migrated database without organisations */
export async function openArena(databaseUrl: string) {
  const github = await startGithub({ points: maxPoints });
  /** Bypasses the replicas, to read what is stored and to let time pass. */
  const database = connectDatabase(databaseUrl, pino({ level: 'silent' }));
  /** Those that live. */
  const replicas: Replica[] = [];
  const addReplica = async () => replicas.push(await startReplica(databaseUrl, github));
  await Promise.all(Array.from({ length: 3 }, addReplica));
  const background = createBackground();
  /** Of killed replicas. */
  const defects: string[] = [];

  async function replica(): Promise<Replica> {
    for (; ; await delay(5)) {
      const found = replicas[Math.floor(Math.random() * replicas.length)];
      if (found !== undefined) return found;
    }
  }

  return {
    github,
    database,
    replica,
    /** Tries once, on any replica. @returns false if GitHub or the replica failed @throws what neither explains */
    async attempt(work: (replica: Replica) => Promise<unknown>): Promise<boolean> {
      try {
        await work(await replica());
        return true;
      } catch (error) {
        const isGithubs = error instanceof ServiceError && error.code.startsWith('github_');
        if (!isGithubs && !isDatabaseUnavailable(error) && (error as Error).name !== 'AbortError') throw error;
        return false;
      }
    },
    /** Kills a replica in the middle of its work; another takes its place. */
    kill(place: number): void {
      for (const killed of replicas.splice(place, 1)) {
        defects.push(...killed.takeDefects());
        killed.kill();
        background.add(killed.close());
        background.add(addReplica());
      }
    },
    /** Errors on living replicas that no outage explains, since the last call. */
    takeDefects(): string[] {
      const found = [...defects.splice(0), ...replicas.flatMap(each => each.takeDefects())];
      return found.map(text => `a replica logged: ${text}`);
    },
    async close(): Promise<void> {
      await background.join();
      await Promise.all(replicas.map(each => each.close()));
      await database.close();
      await github.close();
    },
  };
}

/** With its loops, and between two connections to the outside that can be cut. */
async function startReplica(databaseUrl: string, github: GithubStandIn) {
  const proxies = await Promise.all([startProxy(databaseUrl), startProxy(github.apiUrl)]);
  const [toDatabase, toGithub] = proxies;
  const environment = {
    GITHUB_API_URL: toGithub.through(github.apiUrl),
    GITHUB_TOKEN: github.token,
    // Longer than a history: an organisation is compared when its history says so.
    RECONCILE_INTERVAL: '86400',
  };
  // 40001 and the like after all retries are an outage, too: killed replicas leave locks for a moment.
  const err = (error: Error) => ({ text: String(error.cause ?? error), isOutage: isDatabaseUnavailable(error) });
  const service = await startService(toDatabase.through(databaseUrl), environment, {}, { err });
  const loops = startLoops(service);
  return {
    ...service,
    /** Errors that no outage explains, since the last call. */
    takeDefects(): string[] {
      return service.complaints.splice(0).flatMap(({ level, msg, err }) => {
        const { text = '', isOutage = false } = (err ?? {}) as { text?: string; isOutage?: boolean };
        // If GitHub keeps failing on one, that is right. If it does not, nothing settles, which is a difference.
        const isExpected = isOutage || level < 50 || msg.startsWith('a pull request is parked');
        return isExpected ? [] : [`${msg}: ${text}`];
      });
    },
    /** Cuts it off from PostgreSQL and GitHub: to both it looks like SIGKILL. */
    kill(): void {
      for (const proxy of proxies) {
        proxy.refuse();
        proxy.cut();
      }
    },
    async close(): Promise<void> {
      await loops.stop();
      await service.close();
      await Promise.all(proxies.map(proxy => proxy.close()));
    },
  };
}
