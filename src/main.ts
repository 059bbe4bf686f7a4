#!/usr/bin/env node
import { statSync } from 'node:fs';
import { basename, relative } from 'node:path';
import { parseEnv } from 'node:util';
import { type Context, endingSignals } from './commands/context.ts';
import { readEnvText } from './commands/env-file.ts';
import { failure, runProgram } from './commands/program.ts';
import { ConfigError, loadConfig } from './config.ts';
import { createLog } from './log.ts';
import { lineWidth, shellWord } from './text/terminal.ts';

const { stdout, stderr } = process;

// There is nowhere left to report it.
stderr.on('error', () => undefined);
// A reader that stops early, as `head` does, is not a failure; an answer that can't be written in full is.
stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') return;
  process.exitCode = failure;
  stderr.write(`pullscore: The answer can't be written (${error.code}): check where standard output goes.\n`);
});

// The image has the program on its PATH, and so has npx, but only for itself.
const isOnPath = basename(process.argv[1] ?? '') === 'pullscore';
const isByNpx = isOnPath && process.env.npm_lifecycle_event === 'npx';

if (isByNpx) {
  // npx passes a signal on to its shell only, which ends without telling us.
  const shell = process.ppid;
  const watch = setInterval(() => {
    if (process.ppid === shell) return;
    clearInterval(watch);
    process.kill(process.pid, 'SIGTERM');
  }, 250).unref();
}

let interruption: AbortController | undefined;
let config: Context['config'] | undefined;
let log: Context['log'] | undefined;
const context: Context = {
  get config() {
    config ??= loadConfig(process.env, loadEnvFile('.env'));
    return config;
  },
  get log() {
    log ??= createLog(this.config);
    return log;
  },
  program: isOnPath && !isByNpx ? 'pullscore' : `node ${shellWord(relative('', import.meta.filename))}`,
  // A command that reads this handles interruption itself; any other ends at once.
  get interrupted() {
    if (interruption === undefined) {
      interruption = new AbortController();
      const interrupt = () => interruption?.abort();
      for (const name of endingSignals) process.once(name, interrupt);
    }
    return interruption.signal;
  },
  stdout,
  columns: lineWidth(stdout, process.env.COLUMNS),
  stderr,
};

/** Sets the variables that are not set yet. @returns the path, if there is such a file @throws ConfigError */
function loadEnvFile(path: string): string | undefined {
  try {
    if (!statSync(path, { throwIfNoEntry: false })?.isFile()) return undefined;
    const text = readEnvText(path);
    if (text.includes('\0')) throw new ConfigError([`${path} is not in UTF-8: save it as UTF-8`]);
    for (const [name, value] of Object.entries(parseEnv(text))) process.env[name] ??= value;
  } catch (error) {
    if (error instanceof ConfigError) throw error;
    throw new ConfigError([`${path} can't be read: ${(error as NodeJS.ErrnoException).code}`]);
  }
  return path;
}

// A failed write has already set an exit code.
process.exitCode = (await runProgram(context, process.argv.slice(2))) || process.exitCode;
