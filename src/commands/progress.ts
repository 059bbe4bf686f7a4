import { Presets, SingleBar } from 'cli-progress';
import type { Context } from './context.ts';

export interface Progress {
  /**
   * @param total 0 while it is not known
   * @param worked what of `done` this run has done, by which its rate is told; not what was found done
   */
  update(done: number, total: number, note: string, worked?: number): void;
  stop(): void;
}

/** Milliseconds between the lines that stand for a bar where there is no terminal. */
const lineInterval = 10_000;

/** Milliseconds whose work the rate is of: long enough for pages of all sizes, short enough to follow GitHub's mood. */
const rateWindow = 60_000;

/**
 * A bar on a terminal; elsewhere a line now and then, so that logs of long work show it lives. On standard error.
 *
 * @param now milliseconds
 */
export function startProgress({ stderr }: Context, unit: string, now = () => performance.now()): Progress {
  const rateOf = createRate(now);
  if (stderr.isTTY !== true) {
    let last = now();
    return {
      update(done, total, note, worked = done) {
        const speed = describeSpeed(rateOf(worked), total - done);
        if (now() - last < lineInterval) return;
        last = now();
        const parts = [`${done}${total > 0 ? ` of ${total}` : ''} ${unit}`, ...speed].join(', ');
        stderr.write(`${parts}${note === '' ? '' : ` (${note})`}\n`);
      },
      stop: () => undefined,
    };
  }
  const bar = new SingleBar(
    {
      stream: stderr,
      format: `{bar} {value}/{total} ${unit}  {speed}  {note}`,
      hideCursor: true,
      // Lines that are cut at the edge of the terminal can be drawn over.
      linewrap: false,
    },
    Presets.shades_classic,
  );
  bar.start(0, 0, { speed: '', note: '' });
  return {
    update(done, total, note, worked = done) {
      bar.setTotal(Math.max(total, done));
      bar.update(done, { speed: describeSpeed(rateOf(worked), total - done).join(', '), note });
    },
    stop: () => bar.stop(),
  };
}

/** @returns is told what was done so far, and tells how much of it a second; undefined as long as that says nothing */
function createRate(now: () => number): (worked: number) => number | undefined {
  const samples: { at: number; worked: number }[] = [];
  return worked => {
    const at = now();
    samples.push({ at, worked });
    while (samples.length > 2 && at - (samples[1]?.at ?? at) > rateWindow) samples.shift();
    const [first] = samples;
    if (first === undefined || at - first.at < 1_000 || worked <= first.worked) return undefined;
    return ((worked - first.worked) / (at - first.at)) * 1_000;
  };
}

/** `12/s` and, where there is a rest, `4 min left`. */
function describeSpeed(rate: number | undefined, rest: number): string[] {
  if (rate === undefined) return [];
  const perSecond = `${rate < 10 ? rate.toFixed(1) : Math.round(rate)}/s`;
  return rest > 0 ? [perSecond, `${showDuration(rest / rate)} left`] : [perSecond];
}

/** `45 s`, `12 min`, `2 h 5 min`: never less than it takes. */
export function showDuration(seconds: number): string {
  const whole = Math.ceil(seconds);
  if (whole < 60) return `${whole} s`;
  const minutes = Math.ceil(whole / 60);
  if (minutes < 120) return `${minutes} min`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
