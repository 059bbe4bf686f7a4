#!/usr/bin/env node
import type { Context } from './commands/context.ts';
import { failure, runProgram } from './commands/program.ts';
import { lineWidth } from './commands/terminal.ts';
import { loadConfig } from './config.ts';
import { createLog } from './deps.ts';

const { stdout, stderr } = process;

// There is nowhere left to report it.
stderr.on('error', () => undefined);
// A reader that stops early, as `head` does, is not a failure; an answer that can't be written in full is.
stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') return;
  process.exitCode = failure;
  stderr.write(`pullscore: The answer can't be written (${error.code}): check where standard output goes.\n`);
});

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
  // In a checkout the program is not on the PATH.
  program: process.env.npm_execpath === undefined ? 'pullscore' : 'npx pullscore',
  // A command that reads this handles interruption itself; any other ends at once.
  get interrupted() {
    if (interruption === undefined) {
      interruption = new AbortController();
      const interrupt = () => interruption?.abort();
      process.once('SIGINT', interrupt).once('SIGTERM', interrupt);
    }
    return interruption.signal;
  },
  stdout,
  columns: lineWidth(stdout, process.env.COLUMNS),
  stderr,
};

// A failed write has already set an exit code.
process.exitCode = (await runProgram(context, process.argv.slice(2))) || process.exitCode;
