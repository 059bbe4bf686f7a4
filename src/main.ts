#!/usr/bin/env node
import type { Context } from './commands/context.ts';
import { failure, runProgram } from './commands/program.ts';
import { loadConfig } from './config.ts';
import { createLog } from './deps.ts';

/** A reader that has seen enough, as `head` has, is no failure; an answer that could not be written whole is one. */
function watchOutput({ stdout, stderr }: Pick<NodeJS.Process, 'stdout' | 'stderr'>): void {
  // Nobody is left to be told.
  stderr.on('error', () => undefined);
  stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') return;
    process.exitCode = failure;
    stderr.write(`pullscore: The answer can't be written (${error.code}): see where standard output goes.\n`);
  });
}

async function main(): Promise<void> {
  watchOutput(process);
  let interruption: AbortController | undefined;
  let config: Context['config'] | undefined;
  let log: Context['log'] | undefined;
  const context: Context = {
    get config() {
      config ??= loadConfig(process.env);
      return config;
    },
    get log() {
      log ??= createLog(this.config);
      return log;
    },
    // Within a checkout the program is on nobody's PATH.
    program: process.env.npm_execpath === undefined ? 'pullscore' : 'npx pullscore',
    // Only commands that ask for it end in their own way; the others end at once, as programs do.
    get interrupted() {
      if (interruption === undefined) {
        const controller = new AbortController();
        interruption = controller;
        const interrupt = () => controller.abort();
        process.once('SIGINT', interrupt).once('SIGTERM', interrupt);
      }
      return interruption.signal;
    },
    stdout: process.stdout,
    stderr: process.stderr,
  };

  // What could not be written has set another one.
  process.exitCode = (await runProgram(context, process.argv.slice(2))) || process.exitCode;
}

await main();
