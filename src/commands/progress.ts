import { duration, formatInteger } from '../text/number-formats.ts';
import { bar, lineWidth, plain, truncate } from '../text/terminal.ts';
import { CommandError, type Context } from './context.ts';

/** On a terminal, one line is redrawn. */
const intervalMs = { terminal: 100, file: 10_000 };
const barWidth = 20;
const clearLine = '\r\u001b[K';

/** The rate is an average over this time: long enough for pages of all sizes, short enough to follow GitHub's speed. */
const rateWindowMs = 60_000;

type Progress = ReturnType<typeof startProgress>;

/** Shows progress on standard error: a bar on a terminal, otherwise a line every ten seconds. */
export function startProgress({ stderr }: Context, unit: string) {
  const isTerminal = stderr.isTTY === true;
  const speedOf = createSpeed();
  let line = '';
  let shown = '';
  const show = () => {
    if (line === shown) return;
    shown = line;
    // The cursor stays at the start of the line: what others write, such as the log, begins there and covers the bar,
    // or the beginning of it.
    stderr.write(isTerminal ? `${clearLine}${truncate(line, lineWidth(stderr) - 1)}\r` : `${line}\n`);
  };
  const timer = setInterval(show, isTerminal ? intervalMs.terminal : intervalMs.file).unref();
  return {
    /**
     * @param total 0 while it is unknown
     * @param worked how much of `done` this run did: the rate counts only this
     */
    update(done: number, total: number, note = '', worked = done): void {
      const parts = [
        `${formatInteger(done)}${total > 0 ? ` of ${formatInteger(total)}` : ''} ${unit}`,
        ...speedOf(worked, total - done),
      ].join(', ');
      const drawn = isTerminal && total > 0 ? `${bar(Math.min(done, total), total, barWidth).padEnd(barWidth)} ` : '';
      line = plain(`${drawn}${parts}${note && ` (${note})`}`);
    },
    stop(): void {
      clearInterval(timer);
      if (isTerminal && shown !== '') stderr.write(clearLine);
    },
  };
}

/**
 * Shows the progress of work that can be interrupted.
 *
 * @throws interruption if the operator interrupts it
 */
export async function withProgress<Result>(
  context: Context,
  unit: string,
  work: (options: { signal: AbortSignal; onProgress: Progress['update'] }) => Promise<Result>,
  interruption = new CommandError('Interrupted. Nothing was changed.'),
): Promise<Result> {
  const signal = context.interrupted;
  const progress = startProgress(context, unit);
  try {
    return await work({ signal, onProgress: progress.update });
  } catch (error) {
    throw signal.aborted ? interruption : error;
  } finally {
    progress.stop();
  }
}

/**
 * @returns a function that takes the work done so far and what is left, and gives `12/s` and, if there is more to do,
 * `4 min left`; nothing in the first second
 */
function createSpeed(): (worked: number, left: number) => string[] {
  const samples: { at: number; worked: number }[] = [];
  return (worked, left) => {
    const at = performance.now();
    samples.push({ at, worked });
    while (samples.length > 2 && at - (samples[1]?.at ?? at) > rateWindowMs) samples.shift();
    const [first] = samples;
    if (first === undefined || at - first.at < 1_000 || worked <= first.worked) return [];
    const rate = ((worked - first.worked) / (at - first.at)) * 1_000;
    const perSecond = `${rate < 10 ? rate.toFixed(1) : formatInteger(rate)}/s`;
    return left > 0 ? [perSecond, `${duration(left / rate)} left`] : [perSecond];
  };
}
