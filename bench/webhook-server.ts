/**
 * The service's own application, with a database that answers at once that the delivery is taken: what accepting a
 * webhook costs before anything is stored. Prints its address.
 */
import { drizzle } from 'drizzle-orm/node-postgres';
import pg from 'pg';
import { buildApp } from '../src/app.ts';
import { loadConfig } from '../src/config.ts';
import type { Database } from '../src/database/client.ts';
import { connectDeps } from '../src/deps.ts';
import { createLog } from '../src/log.ts';

const unused = () => Promise.reject(new Error('The route under measurement stores nothing.'));
const row: object = { known: true, enabled: true, taken: true };
const config = loadConfig(process.env);
const database: Database = {
  url: '',
  executor: drizzle({ client: new pg.Client() }),
  read: unused,
  readStep: unused,
  write: async <Row extends object>(_statement: unknown, { guids }: Readonly<Record<string, unknown>>) =>
    (guids as string[]).map(() => row as Row),
  transaction: unused,
  close: async () => undefined,
};
const app = await buildApp({ ...connectDeps(config, createLog(config), 'postgres://unused'), database });
process.stdout.write(`${await app.listen({ port: 0, host: '127.0.0.1' })}\n`);
