import { randomUUID } from 'node:crypto';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { joinEmbeddedDatabase } from '../src/database/embedded.ts';
import { migrateDatabase } from '../src/database/migrate.ts';

/** A PostgreSQL for as long as a soak takes. */
export interface SoakServer {
  /** A database of its own, with the current schema and nothing in it. */
  createDatabase(): Promise<{ url: string; drop(): Promise<void> }>;
  close(): Promise<void>;
}

/** The one of TEST_DATABASE_URL, else an embedded one in a folder that is removed. */
export async function startServer(): Promise<SoakServer> {
  const given = process.env.TEST_DATABASE_URL;
  const { url: serverUrl, leave } = given ? { url: given, leave: async () => undefined } : await startEmbedded();

  const administer = async (statement: string) => {
    const client = new pg.Client({ connectionString: serverUrl });
    await client.connect();
    try {
      await client.query(statement);
    } finally {
      await client.end();
    }
  };
  return {
    async createDatabase() {
      const name = `pullscore_soak_${randomUUID().replaceAll('-', '')}`;
      await administer(`create database ${name}`);
      const url = new URL(serverUrl);
      url.pathname = `/${name}`;
      await migrateDatabase(url.href);
      return { url: url.href, drop: () => administer(`drop database ${name} with (force)`) };
    },
    close: leave,
  };
}

async function startEmbedded() {
  const home = mkdtempSync(join(tmpdir(), 'pullscore-soak-'));
  // As root the server runs as another user, who can't enter what mkdtemp makes.
  chmodSync(home, 0o755);
  const server = await joinEmbeddedDatabase({ home, durable: false });
  return {
    url: server.url,
    async leave() {
      await server.leave();
      rmSync(home, { recursive: true, force: true });
    },
  };
}
