/** Writes openapi/openapi.json from the routes. With --check it only compares them, and fails if they differ. */
import { readFileSync, writeFileSync } from 'node:fs';
import { pino } from 'pino';
import { buildApp } from '../src/app.ts';
import { loadConfig } from '../src/config.ts';
import { connectDatabase } from '../src/database/client.ts';
import { createGithub } from '../src/github/client.ts';

const path = new URL('../openapi/openapi.json', import.meta.url);
const config = loadConfig({});
const log = pino({ level: 'silent' });
// Never connected: the document needs only the routes.
const database = connectDatabase('postgres://unused', log);
const github = createGithub(config.github);
const app = await buildApp({
  config,
  log,
  database,
  github,
  counters: { gone: 0, stale: 0 },
  migrationsApplied: 0,
  close: () => database.close(),
});
await app.ready();
const document = `${JSON.stringify(app.swagger(), null, 2)}\n`;
await app.close();
await database.close();

if (!process.argv.includes('--check')) {
  writeFileSync(path, document);
} else if (readFileSync(path, 'utf8') !== document) {
  process.stderr.write('openapi/openapi.json differs from the routes. Run npm run openapi and commit the result.\n');
  process.exitCode = 1;
}
