import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { chownSync, existsSync, mkdtempSync, rmSync, statfsSync, statSync } from 'node:fs';
import pg from 'pg';
import type { TestProject } from 'vitest/node';
import { type EmbeddedDatabase, joinEmbeddedDatabase } from '../../src/database/embedded-server.ts';
import { migrateDatabase } from '../../src/database/migrations.ts';
import { createHome, removeHome } from './home.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    /** Of a database whose user may create others. */
    serverUrl: string;
    /** The migrated database that tests clone. */
    templateDatabase: string;
  }
}

/** Several times what the databases of a run have at once. */
const minMemoryBytes = 2 * 1024 ** 3;

/** Starts the first available of TEST_DATABASE_URL, Docker and the embedded server. It ends with the run. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const { url, stop, kind } = await startServer();
  const template = await addDatabase(url);
  await migrateDatabase(template.url);
  process.stdout.write(`Tests run against PostgreSQL: ${kind}.\n`);
  project.provide('serverUrl', url);
  project.provide('templateDatabase', template.name);
  return async () => {
    await template.drop();
    await stop();
  };
}

async function startServer(): Promise<{ url: string; stop(): Promise<unknown>; kind: string }> {
  const given = process.env.TEST_DATABASE_URL;
  if (given !== undefined && given !== '') {
    return { url: given, stop: async () => undefined, kind: 'TEST_DATABASE_URL' };
  }
  if (process.env.DOCKER_HOST !== undefined || existsSync('/var/run/docker.sock')) {
    const container = await startContainer();
    if (container !== undefined) return container;
  }
  return { ...(await startEmbeddedServer('test')), kind: 'embedded' };
}

/** An embedded server in its own folder, which is removed when it stops. */
export async function startEmbeddedServer(name: string): Promise<{ url: string; stop(): Promise<void> }> {
  const home = createHome(name);
  const server = await joinEmbeddedDatabase({ home });
  const memory = await keepDatabasesInMemory(server);
  // Nobody else joins it: if this process is killed, the end of the pipe stops it.
  const stop = 'read -r line; kill -INT "$(head -n 1 "$0/postmaster.pid")"; [ -z "$1" ] || rm -rf "$1"';
  const watch = ['-c', stop, server.dataDirectory, memory ?? ''];
  spawn('/bin/sh', watch, { detached: true, stdio: ['pipe', 'ignore', 'ignore'] }).unref();
  // Faster. The system keeps what a killed server wrote, but a crash of the machine loses it.
  for (const setting of ['fsync', 'full_page_writes']) await query(server.url, `alter system set ${setting} = off`);
  await query(server.url, 'select pg_reload_conf()');
  return {
    url: server.url,
    async stop() {
      await server.leave();
      removeHome(home);
      if (memory !== undefined) rmSync(memory, { recursive: true });
    },
  };
}

/**
 * New databases of the server are made there, if the system has a file system in memory with room for them: ext4 looks
 * through all files deleted in the last seconds for each new one, which took a tenth of a test run's processor time.
 *
 * @returns its folder
 */
async function keepDatabasesInMemory({ url, dataDirectory }: EmbeddedDatabase): Promise<string | undefined> {
  const memory = '/dev/shm';
  if (!existsSync(memory)) return undefined;
  const { bavail, bsize } = statfsSync(memory);
  if (bavail * bsize < minMemoryBytes) return undefined;
  const folder = mkdtempSync(`${memory}/pullscore-`);
  const { uid, gid } = statSync(dataDirectory);
  chownSync(folder, uid, gid);
  await query(url, `create tablespace memory location '${folder}'`);
  await query(url, 'alter database template1 set tablespace memory');
  return folder;
}

/** Undefined if Docker has no engine that answers, or can't get the image. */
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
    process.stderr.write(`Docker can't run ${image}: ${error instanceof Error ? error.message : error}\n`);
    return undefined;
  }
}

export interface AddedDatabase {
  name: string;
  url: string;
  drop(): Promise<void>;
}

/**
 * Creates another database on the server, under a new name.
 *
 * @param options as `create database` takes them, such as `template other`
 */
export async function addDatabase(serverUrl: string, options = ''): Promise<AddedDatabase> {
  const name = `pullscore_${randomUUID().replaceAll('-', '')}`;
  await query(serverUrl, `create database ${name} ${options}`);
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  return { name, url: url.href, drop: async () => void (await query(serverUrl, `drop database ${name} with (force)`)) };
}

/** Runs a statement in a session of its own. */
export async function query<Row extends object>(url: string, text: string): Promise<Row[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const { rows } = await client.query<Row>(text).finally(() => client.end());
  return rows;
}
