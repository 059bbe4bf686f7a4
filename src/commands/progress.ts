import { Presets, SingleBar } from 'cli-progress';
import type { Context } from './context.ts';

export interface Progress {
  /**
   * @param total 0 while it is unknown
   * @param worked the part of `done` that this run did, for its rate
   */
  update(done: number, total: number, note: string, worked?: number): void;
  stop(): void;
}

/** Time between two lines on a stream that is not a terminal. */
const lineIntervalMs = 10_000;

/** The rate is measured over this: long enough for pages of all sizes, short enough to follow GitHub's speed. */
const rateWindowMs = 60_000;

/**
 * Shows progress on standard error: a bar on a terminal, elsewhere a line now and then.
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
        if (now() - last < lineIntervalMs) return;
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
      // A line that is cut at the terminal's edge can be drawn over.
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

/** @returns a function from the work done so far to the rate per second; undefined while it is too early to say */
function createRate(now: () => number): (worked: number) => number | undefined {
  const samples: { at: number; worked: number }[] = [];
  return worked => {
    const at = now();
    samples.push({ at, worked });
    while (samples.length > 2 && at - (samples[1]?.at ?? at) > rateWindowMs) samples.shift();
    const [first] = samples;
    if (first === undefined || at - first.at < 1_000 || worked <= first.worked) return undefined;
    return ((worked - first.worked) / (at - first.at)) * 1_000;
  };
}

/** `12/s` and, if there is more to do, `4 min left`. */
function describeSpeed(rate: number | undefined, rest: number): string[] {
  if (rate === undefined) return [];
  const perSecond = `${rate < 10 ? rate.toFixed(1) : Math.round(rate)}/s`;
  return rest > 0 ? [perSecond, `${showDuration(rest / rate)} left`] : [perSecond];
}

/** `45 s`, `12 min`, `2 h 5 min`, rounded up. */
export function showDuration(seconds: number): string {
  const whole = Math.ceil(seconds);
  if (whole < 60) return `${whole} s`;
  const minutes = Math.ceil(whole / 60);
  if (minutes < 120) return `${minutes} min`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
