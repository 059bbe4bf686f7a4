/** A process that runs rules, as the service sees it: how it starts, what it says, and whether it takes too long. */
import { fork } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { maxHeapMb, maxPullRequestMs, maxSilenceMs } from './bounds.ts';
import type { Order, Report } from './serve-jobs.ts';

/** A quarter of Node's default. A process keeps three times this much, and with 8 it is no faster. */
const maxSemiSpaceMb = 4;

const bundled = fileURLToPath(
  new URL(import.meta.url.endsWith('.ts') ? '../../dist/scorer.js' : 'scorer.js', import.meta.url),
);

export interface ScorerProcessOptions {
  /** The process gets no other variables. */
  environment: Readonly<Record<string, string | undefined>>;
  script?: string | undefined;
  execArgv?: readonly string[] | undefined;
  /** Tests shorten them. */
  bounds?: { maxPullRequestMs: number; maxSilenceMs: number } | undefined;
  onReport(report: Report): void;
  /** @param how the signal or the exit code */
  onEnd(how: string): void;
}

export type ScorerProcess = ReturnType<typeof startScorerProcess>;

export function startScorerProcess({
  environment,
  script = bundled,
  execArgv = [],
  bounds = { maxPullRequestMs, maxSilenceMs },
  onReport,
  onEnd,
}: ScorerProcessOptions) {
  const child = fork(script, [], {
    env: { ...environment },
    execArgv: [`--max-old-space-size=${maxHeapMb}`, `--max-semi-space-size=${maxSemiSpaceMb}`, ...execArgv],
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  /** Since its last report; the processor time is that of the first look after it. */
  let quiet: { since: number; cpuMs: number | undefined };
  const resetClock = () => {
    quiet = { since: performance.now(), cpuMs: undefined };
  };
  resetClock();
  const ended = new Promise<void>(resolve => {
    child.on('exit', (code, signal) => {
      onEnd(signal ?? `exit code ${code}`);
      resolve();
    });
    child.on('error', () => {
      // It never began. Otherwise a message could not be sent, because it is about to end.
      if (child.pid !== undefined) return;
      onEnd('could not start');
      resolve();
    });
  });
  child.on('message', report => {
    resetClock();
    onReport(report as Report);
  });
  return {
    /** If the process is gone, its end is reported. */
    send: (order: Order) => void child.send(order, () => undefined),
    /** Its time begins now. */
    resetClock,
    /**
     * Whether a pull request, or an entry of a check, takes too much processor time, or the process says nothing: the system
     * may have stopped it, so that is not the rules' fault.
     *
     * @param isReady before that, no rules run
     */
    overdue(isReady: boolean): 'time' | 'silence' | undefined {
      const cpuMs = cpuTimeMs(child.pid);
      quiet.cpuMs ??= cpuMs;
      const silentMs = performance.now() - quiet.since;
      const usedMs = cpuMs === undefined ? silentMs : cpuMs - (quiet.cpuMs ?? 0);
      if (isReady && usedMs > bounds.maxPullRequestMs) return 'time';
      return silentMs > bounds.maxSilenceMs ? 'silence' : undefined;
    },
    /** Ends the process, whatever it does. @returns once it is gone */
    async kill(): Promise<void> {
      child.kill('SIGKILL');
      await ended;
    },
  };
}

/** Processor time that a process has used; undefined if the system does not say. */
function cpuTimeMs(pid: number | undefined): number | undefined {
  try {
    // See proc(5): fields 14 and 15, counted from the end of the name, in hundredths of a second.
    const [, fields = ''] = /\) (.*)/.exec(readFileSync(`/proc/${pid}/stat`, 'latin1')) ?? [];
    const [user, system] = fields.split(' ').slice(11, 13).map(Number);
    return 10 * ((user ?? 0) + (system ?? 0));
  } catch {
    return undefined;
  }
}
