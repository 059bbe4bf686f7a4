import { chmodSync, existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import type { TestProject } from 'vitest/node';
import { joinEmbeddedDatabase } from '../../src/database/embedded.ts';
import { migrateDatabase } from '../../src/database/migrate.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    /** Of a database that may create others. */
    serverUrl: string;
    /** Name of the migrated database that each test file's is cloned from. */
    templateDatabase: string;
  }
}

/** The first that is there: TEST_DATABASE_URL, Docker, the embedded server. Ends with the run. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const { url, stop, kind } = await startServer();
  const templateDatabase = `pullscore_template_${process.pid}`;
  await administer(url, `create database ${templateDatabase}`);
  const templateUrl = new URL(url);
  templateUrl.pathname = `/${templateDatabase}`;
  await migrateDatabase(templateUrl.href);
  process.stdout.write(`Tests run against PostgreSQL: ${kind}.\n`);
  project.provide('serverUrl', url);
  project.provide('templateDatabase', templateDatabase);
  return async () => {
    await administer(url, `drop database ${templateDatabase}`);
    await stop();
  };
}

async function startServer(): Promise<{ url: string; stop(): Promise<unknown>; kind: string }> {
  const given = process.env.TEST_DATABASE_URL;
  if (given !== undefined && given !== '') {
    return { url: given, stop: async () => undefined, kind: 'the one of TEST_DATABASE_URL' };
  }
  if (process.env.DOCKER_HOST !== undefined || existsSync('/var/run/docker.sock')) {
    const container = await startContainer();
    if (container !== undefined) return container;
  }
  const home = mkdtempSync(join(tmpdir(), 'pullscore-test-'));
  // As root the server runs as another user, who can't enter what mkdtemp makes.
  chmodSync(home, 0o755);
  const server = await joinEmbeddedDatabase({ home, durable: false });
  const stop = async () => {
    await server.leave();
    rmSync(home, { recursive: true, force: true });
  };
  return { url: server.url, stop, kind: 'embedded' };
}

/** Undefined where a Docker client is set up, but no engine answers or it can't get the image. */
async function startContainer() {
  const image = 'postgres:17-bookworm';
  const { PostgreSqlContainer } = await import('@testcontainers/postgresql');
  const { getContainerRuntimeClient } = await import('testcontainers');
  try {
    await getContainerRuntimeClient();
    const container = await new PostgreSqlContainer(image)
      .withEnvironment({ LANG: 'C.UTF-8' })
      .withCommand(['postgres', '-c', 'fsync=off', '-c', 'max_connections=200'])
      .start();
    return { url: container.getConnectionUri(), stop: () => container.stop(), kind: `${image} in Docker` };
  } catch (error) {
    process.stderr.write(`Docker does not supply ${image}: ${error instanceof Error ? error.message : error}\n`);
    return undefined;
  }
}

export async function administer(url: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}
