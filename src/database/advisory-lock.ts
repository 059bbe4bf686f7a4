import { setTimeout as delay } from 'node:timers/promises';
import type pg from 'pg';
import { databaseUnavailable } from '../errors.ts';

/** How often a process asks whether another has given a lock up. */
const pollMs = 200;

/** Other replicas may be migrating, which takes as long as it takes to build an index. */
const maxWaitMs = 300_000;

export interface LockWait {
  /** Names the holder if the wait takes longer than a moment. */
  log?: ((message: string) => void) | undefined;
  maxWaitMs?: number | undefined;
  /** Ends the wait. */
  signal?: AbortSignal | undefined;
}

/** A lock of this session. Any number will do as its key, as long as every release uses the same. */
export interface AdvisoryLock {
  key: number;
  /** What it is for, in messages. */
  name: string;
  isShared?: boolean;
}

/**
 * Asks again and again: a statement that waits for the lock would be a transaction that has begun, and building an
 * index concurrently waits for all of these to end.
 *
 * @throws ServiceError `database_unavailable` that names the holder; AbortError
 */
export async function takeAdvisoryLock(client: pg.Client, lock: AdvisoryLock, wait: LockWait = {}): Promise<void> {
  const take = lock.isShared ? 'pg_try_advisory_lock_shared' : 'pg_try_advisory_lock';
  const begunAt = performance.now();
  let isLogged = false;
  for (;;) {
    const { rows } = await client.query<{ taken: boolean }>(`select ${take}($1) as taken`, [lock.key]);
    if (rows[0]?.taken === true) return;
    const waitedMs = performance.now() - begunAt;
    if (waitedMs > (wait.maxWaitMs ?? maxWaitMs)) {
      const holder = await findHolder(client, lock);
      throw databaseUnavailable(
        `${describeHolder(lock, holder)}.`,
        `Wait until it has finished. If nothing works there, end it in the database: select pg_terminate_backend(${holder?.id ?? 'ID'})`,
      );
    }
    if (waitedMs > 1_000 && !isLogged) {
      isLogged = true;
      wait.log?.(`${describeHolder(lock, await findHolder(client, lock))}: waiting for it`);
    }
    await delay(pollMs, undefined, { signal: wait.signal });
  }
}

export interface LockHolder {
  id: number;
  /** Its application's name; empty if it has none, or the user may not see it. */
  application: string;
}

/** The first session that holds a lock; undefined if none does. */
export async function findHolder(client: pg.Client, { key }: AdvisoryLock): Promise<LockHolder | undefined> {
  const { rows } = await client.query<LockHolder>(
    `select pid as id, coalesce(application_name, '') as application from pg_locks left join pg_stat_activity using (pid)
      where locktype = 'advisory' and pg_locks.database = (select oid from pg_database where datname = current_database())
        and classid = 0 and objid = $1 and objsubid = 1 and granted and pid <> pg_backend_pid()
      order by pid limit 1`,
    [key],
  );
  return rows[0];
}

/** Without a full stop. */
export function describeHolder({ name }: AdvisoryLock, holder: LockHolder | undefined): string {
  if (holder === undefined) return `Another session holds the lock of ${name}`;
  const application = holder.application === '' ? '' : ` (${holder.application})`;
  return `The database process ${holder.id}${application} holds the lock of ${name}`;
}
