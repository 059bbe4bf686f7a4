/**
 * What each running process of the service reports: which variables are set there, and a fingerprint of the values that
 * processes should share.
 *
 * A thief of the database has the fingerprint, and anything that could be stored as its key. So it is scrypt with a random
 * salt, as for passwords: a guess at a weak secret costs as much as a guess at a weak password does. DATABASE_URL is not
 * among the values: all processes here have the same database.
 */
import { randomBytes, scrypt } from 'node:crypto';
import { promisify } from 'node:util';
import { eq, gt, not, sql } from 'drizzle-orm';
import type { Database, Executor } from './client.ts';
import { serviceReports } from './schema.ts';
import { secondsFromNow } from './statement.ts';

/** A process that has not confirmed for that long is gone. */
const isPresent = (goneSeconds: number) => gt(serviceReports.seenAt, secondsFromNow(-goneSeconds));

export type ServiceReport = Awaited<ReturnType<typeof listServiceReports>>[number];

export interface ServiceProcess {
  id: string;
  command: 'serve' | 'worker';
  /** Where it runs, for people. */
  place: string;
  /** Names of those that are set. */
  variables: readonly string[];
  /** Those to compare, in one text. */
  values: string;
}

const derive = promisify(scrypt) as (text: string, salt: string, length: number) => Promise<Buffer>;

/** The fingerprint of values. Takes about 50 ms of a processor. */
export const hashValues = async (values: string, salt: string): Promise<string> =>
  (await derive(values, salt, 16)).toString('base64url');

/** Stores the report of a process, or that it still runs. @param refusedDeliveries since its start */
export async function reportService(
  database: Database,
  process: ServiceProcess,
  goneSeconds: number,
  refusedDeliveries = 0,
): Promise<void> {
  const { id, command, place, variables, values } = process;
  const isOwn = eq(serviceReports.process, id);
  const { rowCount } = await database.executor
    .update(serviceReports)
    .set({ seenAt: sql`now()`, refusedDeliveries })
    .where(isOwn);
  if (rowCount === 1) return;
  await database.transaction(async executor => {
    // One after the other, or two that start together would choose two salts.
    await executor.execute(sql`select pg_advisory_xact_lock(hashtextextended('service_reports', 0))`);
    await executor.delete(serviceReports).where(not(isPresent(goneSeconds)));
    const [other] = await executor.select({ salt: serviceReports.salt }).from(serviceReports).limit(1);
    const salt = other?.salt ?? randomBytes(16).toString('base64url');
    const fingerprint = await hashValues(values, salt);
    const row = { process: id, command, place, variables: [...variables], salt, fingerprint };
    await executor.insert(serviceReports).values(row);
  });
}

export async function withdrawReport({ executor }: Pick<Database, 'executor'>, id: string): Promise<void> {
  await executor.delete(serviceReports).where(eq(serviceReports.process, id));
}

/** Of all processes that run: `serve` first. */
export function listServiceReports(executor: Executor, goneSeconds: number) {
  const { process, command, place, startedAt, variables, salt, fingerprint, refusedDeliveries } = serviceReports;
  return executor
    .select({ process, command, place, startedAt, variables, salt, fingerprint, refusedDeliveries })
    .from(serviceReports)
    .where(isPresent(goneSeconds))
    .orderBy(command, startedAt, process);
}

/** Whether one of these is set, itself or as the name of a file. */
export const setsVariable = (variables: readonly string[], ...names: readonly string[]): boolean =>
  names.some(name => variables.includes(name) || variables.includes(`${name}_FILE`));
