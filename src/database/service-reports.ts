/** What the processes of the service last reported at their start: which variables are set there, never their values. */
import { sql } from 'drizzle-orm';
import type { Database, Executor } from './client.ts';
import { serviceReports } from './schema.ts';

export type ServiceReport = typeof serviceReports.$inferSelect;

/** Replaces what another replica reported for the same command. */
export async function reportService(
  database: Database,
  process: ServiceReport['process'],
  variables: readonly string[],
): Promise<void> {
  await database.transaction(async executor => {
    await executor
      .insert(serviceReports)
      .values({ process, startedAt: new Date(), variables: [...variables] })
      .onConflictDoUpdate({
        target: serviceReports.process,
        set: { startedAt: sql`excluded.started_at`, variables: sql`excluded.variables` },
      });
  });
}

/** `serve` first; a command that has never started is not in the list. */
export const listServiceReports = (executor: Executor): Promise<ServiceReport[]> =>
  executor.select().from(serviceReports).orderBy(serviceReports.process);

/** Whether one of these is set, itself or as the name of a file. */
export const setsVariable = (variables: readonly string[], ...names: readonly string[]): boolean =>
  names.some(name => variables.includes(name) || variables.includes(`${name}_FILE`));
