import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { joinEmbeddedDatabase } from '../src/database/embedded-server.ts';
import { createHome, removeHome } from '../test/support/home.ts';
import { startService } from './processes.ts';
import { atMost, compared, median, takeTurns } from './report.ts';

const rounds = 5;

/** From nothing to ready, against the parts that nobody can do without. */
export async function measure(): Promise<void> {
  const measured = await takeTurns(rounds, { own: startOwn, bare: startBare }, timeInHome);
  const figures = compared(median(measured.own), median(measured.bare), 'ms');
  const bare = 'making and starting the server, and node -e 0';
  atMost(1.3, 'cold start to ready, database made and migrated', bare, figures);
}

async function timeInHome(start: (home: string) => Promise<AsyncDisposable>): Promise<number> {
  const home = createHome('bench');
  try {
    const begin = performance.now();
    await using _ = await start(home);
    return performance.now() - begin;
  } finally {
    removeHome(home);
  }
}

const startOwn = (home: string) => startService('serve', { PULLSCORE_HOME: home });

async function startBare(home: string): Promise<AsyncDisposable> {
  const server = await joinEmbeddedDatabase({ home });
  await once(spawn(process.execPath, ['-e', '0']), 'exit');
  return { [Symbol.asyncDispose]: () => server.leave() };
}
