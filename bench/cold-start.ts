import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { joinEmbeddedDatabase } from '../src/database/embedded.ts';
import { createHome, removeHome } from '../test/support/home.ts';
import { startProcess } from './processes.ts';
import { median, type Row } from './report.ts';

const rounds = 5;

/** From nothing to ready, against the parts that nobody can do without. */
export async function measureColdStart(): Promise<Row[]> {
  const own: number[] = [];
  const bare: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    own.push(await timeInHome(startService));
    bare.push(await timeInHome(startBare));
  }
  return [
    {
      what: 'cold start to ready, database made and migrated',
      against: 'making and starting the server, and node -e 0',
      ratio: median(own) / median(bare),
      target: 1.3,
      comparison: 'at most',
      detail: `${Math.round(median(own))} ms to ${Math.round(median(bare))} ms`,
    },
  ];
}

async function timeInHome(work: (home: string) => Promise<() => Promise<unknown>>): Promise<number> {
  const home = createHome('bench');
  try {
    const begin = performance.now();
    const stop = await work(home);
    const milliseconds = performance.now() - begin;
    await stop();
    return milliseconds;
  } finally {
    removeHome(home);
  }
}

async function startService(home: string): Promise<() => Promise<unknown>> {
  const { stop } = await startProcess(['dist/main.js', 'serve'], {
    PULLSCORE_HOME: home,
    PORT: '0',
    LOG_LEVEL: 'warn',
  });
  return stop;
}

async function startBare(home: string): Promise<() => Promise<unknown>> {
  const server = await joinEmbeddedDatabase({ home });
  await once(spawn(process.execPath, ['-e', '0']), 'exit');
  return () => server.leave();
}
