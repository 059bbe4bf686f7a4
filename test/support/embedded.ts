import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, copyFileSync, readFileSync, realpathSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Client } from 'pg';
import { afterAll, afterEach, expect, vi } from 'vitest';
import { type EmbeddedDatabase, joinEmbeddedDatabase } from '../../src/database/embedded-server.ts';
import { ServiceError } from '../../src/errors.ts';
import { bundleProgram } from './bundle.ts';
import { createHome } from './home.ts';

/** For homes. It is removed when the test file ends. */
export const root = realpathSync(createHome('embedded'));

interface User {
  uid: number;
  gid: number;
}

export const isRoot = process.getuid?.() === 0;
export const nobody: User = { uid: 65_534, gid: 65_534 };
const checkout = fileURLToPath(new URL('../..', import.meta.url));
/** Ordinary users are us, or `nobody` if we are root; undefined if `nobody` cannot enter the checkout. */
export const ordinary: Partial<User> | undefined = isRoot ? (canEnter(checkout, nobody) ? nobody : undefined) : {};

function canEnter(folder: string, user: User): boolean {
  try {
    execFileSync('test', ['-r', `${folder}/package.json`], { ...user, stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

let copiedNode: string | undefined;

/** A Node that every user can run: npx keeps its own in a folder that only its user can enter. */
export function nodeForAll(): string {
  if (!isRoot) return process.execPath;
  try {
    execFileSync(process.execPath, ['--version'], { ...nobody, cwd: '/', stdio: 'ignore' });
    return process.execPath;
  } catch {
    if (copiedNode === undefined) {
      const folder = createHome('node');
      chmodSync(folder, 0o755);
      copiedNode = join(folder, 'node');
      copyFileSync(process.execPath, copiedNode);
    }
    return copiedNode;
  }
}

export const joined = new Set<EmbeddedDatabase>();
export const children = new Set<ChildProcess>();
export const dataDirectories = new Set<string>();

export async function joinAt(home: string): Promise<EmbeddedDatabase> {
  const database = await joinEmbeddedDatabase({ home });
  joined.add(database);
  dataDirectories.add(database.dataDirectory);
  return database;
}

export async function leave(database: EmbeddedDatabase): Promise<void> {
  joined.delete(database);
  await database.leave();
}

interface Joined {
  child: ChildProcess;
  url: string;
  dataDirectory: string;
}

/** Starts another process that joins, and stays until it gets a line. */
export function startChild(home: string, user: Partial<User> = {}): ChildProcess {
  const node = user.uid === undefined ? process.execPath : nodeForAll();
  const child = spawn(node, [bundleProgram(new URL('embedded-user.ts', import.meta.url)), home], user);
  children.add(child);
  return child;
}

/** @throws Error with what the process wrote if it does not join */
export async function joinInChild(home: string, user?: Partial<User>): Promise<Joined> {
  const child = startChild(home, user);
  let errors = '';
  child.stderr?.on('data', text => {
    errors += text;
  });
  const ended = once(child, 'close').then(() => Promise.reject(new Error(errors)));
  ended.catch(() => undefined);
  if (child.stdout === null) throw new Error('no pipe');
  const [output] = (await Promise.race([once(child.stdout, 'data'), ended])) as [Buffer];
  const database = JSON.parse(output.toString()) as Omit<Joined, 'child'>;
  dataDirectories.add(database.dataDirectory);
  return { child, ...database };
}

export async function leaveInChild({ child }: Pick<Joined, 'child'>): Promise<void> {
  child.stdin?.write('\n');
  await once(child, 'exit');
}

export async function query(url: string, text: string): Promise<unknown> {
  const client = new Client({ connectionString: url });
  // A killed server is told of here as well as by the query that it fails.
  client.on('error', () => undefined);
  await client.connect();
  try {
    const { rows } = await client.query<unknown[]>({ text, rowMode: 'array' });
    return rows[0]?.[0];
  } finally {
    await client.end();
  }
}

/** Tries again while a server is being brought back. */
export function eventually(url: string, text: string): Promise<unknown> {
  return vi.waitFor(() => query(url, text), { timeout: 30_000, interval: 25 });
}

export const startOf = (url: string) => query(url, 'SELECT pg_postmaster_start_time()::text');
export const pidFile = ({ dataDirectory }: { dataDirectory: string }) => join(dataDirectory, 'postmaster.pid');
export const serverOf = (database: { dataDirectory: string }) =>
  Number.parseInt(readFileSync(pidFile(database), 'utf8'), 10);

/** Living processes that have one of these texts in their arguments. */
export function processesOf(...texts: string[]): string[] {
  return execFileSync('ps', ['-axww', '-o', 'pid=,stat=,command='], { encoding: 'utf8' })
    .split('\n')
    .filter(line => !/^\s*\d+\s+Z/.test(line) && /bin\/(postgres|initdb)/.test(line))
    .filter(line => texts.some(text => line.includes(text)));
}

export function gone(...texts: string[]): Promise<void> {
  return vi.waitFor(() => expect(processesOf(...texts)).toEqual([]), { timeout: 30_000, interval: 25 });
}

/** What a command refuses with. */
export async function refusalOf(joining: Promise<unknown>): Promise<string> {
  const failure = await joining.catch((error: unknown) => error);
  expect(failure).toBeInstanceOf(ServiceError);
  expect(failure).toMatchObject({ code: 'database_unavailable' });
  expect((failure as ServiceError).text).toMatch(/Fix that, or set PULLSCORE_HOME or DATABASE_URL\.$/);
  return (failure as ServiceError).text;
}

/** Ends what the tests of a file start. A hook here would be the first file's alone: modules load once per worker. */
export function cleanUpAfterTests(): void {
  afterEach(async () => {
    const ended = [...children].map(
      child => child.exitCode === null && child.signalCode === null && once(child, 'exit'),
    );
    for (const child of children) child.kill('SIGKILL');
    children.clear();
    await Promise.all(ended);
    await Promise.all([...joined].map(leave));
    await gone(...dataDirectories);
  });

  afterAll(() => {
    // Of a test that failed.
    for (const line of processesOf(root, ...dataDirectories)) process.kill(Number.parseInt(line, 10), 'SIGKILL');
    rmSync(root, { recursive: true, force: true });
    // Root's databases are elsewhere.
    for (const data of dataDirectories) rmSync(dirname(data), { recursive: true, force: true });
    dataDirectories.clear();
    if (copiedNode !== undefined) rmSync(dirname(copiedNode), { recursive: true });
    copiedNode = undefined;
  });
}
