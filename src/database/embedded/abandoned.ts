import { existsSync, readdirSync, readFileSync, readlinkSync, realpathSync } from 'node:fs';
import { connect } from 'node:net';
import { dirname, join } from 'node:path';
import { backLink, rootStore } from './cluster.ts';

/** Data that root made, and whose home no longer leads to it. */
export interface AbandonedDatabase {
  folder: string;
  /** The home that it had. */
  home: string;
  /** The process id of its server; undefined if none runs. */
  serverId: string | undefined;
}

/** Empty unless we are root: others keep their data in the home. */
export async function findAbandonedDatabases(): Promise<AbandonedDatabase[]> {
  if (process.getuid?.() !== 0 || !existsSync(rootStore)) return [];
  const found: AbandonedDatabase[] = [];
  for (const name of readdirSync(rootStore).sort()) {
    const folder = join(rootStore, name);
    const link = attempt(() => readlinkSync(join(folder, backLink)));
    if (link === undefined || attempt(() => realpathSync(link)) === folder) continue;
    found.push({ folder, home: dirname(link), serverId: await findServer(join(folder, 'data')) });
  }
  return found;
}

/** Asks its socket, because a killed server leaves its id behind. */
async function findServer(data: string): Promise<string | undefined> {
  const answers = await new Promise<boolean>(settle => {
    const socket = connect(join(data, '.s.PGSQL.5432'), () => settle(true)).once('error', () => settle(false));
    socket.once('connect', () => socket.destroy());
  });
  return answers ? attempt(() => readFileSync(join(data, 'postmaster.pid'), 'utf8').split('\n')[0]) : undefined;
}

/** Undefined if it is not there, or not a link; others may delete it meanwhile. */
function attempt<Result>(read: () => Result): Result | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
