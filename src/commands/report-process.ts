import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { Config } from '../config.ts';
import { reportService, type ServiceProcess, withdrawReport } from '../database/service-reports.ts';
import type { Deps } from '../deps.ts';

const intervalMs = 15_000;

/** A process that has not confirmed for that long is gone. */
export const goneSeconds = 60;

/** Processes on one database should agree on these. HOST, PORT, LOG_LEVEL and the like may differ. */
export const sharedNames: readonly string[] = [
  'GITHUB_API_URL',
  'GITHUB_TOKEN',
  'GITHUB_APP_ID',
  'GITHUB_APP_PRIVATE_KEY',
  'RECONCILE_INTERVAL',
  'GITHUB_WEBHOOK_SECRET',
  'PUBLIC_URL',
  'TRUST_PROXY',
  'CORS_ORIGINS',
  'METRICS_TOKEN',
  'RATE_LIMIT',
];

/** The values of these, secrets among them. */
export const sharedValues = ({ settings }: Config): string =>
  JSON.stringify(sharedNames.map(name => settings[name] ?? null));

/**
 * Reports this process to commands in other shells, now and while it runs.
 *
 * @returns a function that ends this
 */
export async function startReporting(
  { config, counters, database, log }: Pick<Deps, 'config' | 'counters' | 'database' | 'log'>,
  command: ServiceProcess['command'],
) {
  const { variables } = config;
  const place = `${hostname()}, process ${process.pid}`;
  const own = { id: randomUUID(), command, place, variables, values: sharedValues(config) };
  await reportService(database, own, goneSeconds);
  let latest = Promise.resolve();
  const timer = setInterval(() => {
    latest = reportService(database, own, goneSeconds, counters.deliveries.refused).catch(error =>
      log.debug({ err: error }, 'this process was not reported'),
    );
  }, intervalMs);
  return async () => {
    clearInterval(timer);
    await latest;
    // Without this the report ends by itself.
    await withdrawReport(database, own.id).catch(() => undefined);
  };
}
