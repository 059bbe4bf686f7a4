import { Presets, SingleBar } from 'cli-progress';
import { CommandError, type Context } from './context.ts';
import { duration } from './numbers.ts';

export interface Progress {
  /**
   * @param total 0 while it is unknown
   * @param worked how much of `done` this run did: the rate counts only this
   */
  update(done: number, total: number, note: string, worked?: number): void;
  stop(): void;
}

/** Between two lines if standard error is not a terminal. */
const lineIntervalMs = 10_000;

/** The rate is an average over this time: long enough for pages of all sizes, short enough to follow GitHub's speed. */
const rateWindowMs = 60_000;

/**
 * Shows progress on standard error: a bar on a terminal, otherwise a line every ten seconds.
 *
 * @param now milliseconds
 */
export function startProgress({ stderr }: Context, unit: string, now = () => performance.now()): Progress {
  const speedOf = createSpeed(now);
  if (stderr.isTTY !== true) {
    let last = now();
    return {
      update(done, total, note, worked = done) {
        const speed = speedOf(worked, total - done);
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
      // The bar can only draw over a line that does not wrap.
      linewrap: false,
    },
    Presets.shades_classic,
  );
  bar.start(0, 0, { speed: '', note: '' });
  return {
    update(done, total, note, worked = done) {
      bar.setTotal(Math.max(total, done));
      bar.update(done, { speed: speedOf(worked, total - done).join(', '), note });
    },
    stop: () => bar.stop(),
  };
}

/**
 * Hands each of the batches' pull requests to `add`, and shows the progress.
 *
 * @param total how many there are, or about that
 * @throws CommandError if the operator interrupts it
 */
export async function addAll<PullRequest>(
  context: Context,
  batches: AsyncIterable<Iterable<PullRequest>>,
  total: number,
  add: (pullRequest: PullRequest) => void,
): Promise<void> {
  const progress = startProgress(context, 'pull requests');
  let done = 0;
  try {
    progress.update(0, total, '');
    for await (const batch of batches) {
      if (context.interrupted.aborted) throw new CommandError('Interrupted. Nothing was changed.');
      for (const pullRequest of batch) {
        add(pullRequest);
        done += 1;
      }
      progress.update(done, total, '');
    }
  } finally {
    progress.stop();
  }
}

/**
 * @returns a function that takes the work done so far and what is left, and gives `12/s` and, if there is more to do,
 * `4 min left`; nothing in the first second
 */
function createSpeed(now: () => number): (worked: number, left: number) => string[] {
  const samples: { at: number; worked: number }[] = [];
  return (worked, left) => {
    const at = now();
    samples.push({ at, worked });
    while (samples.length > 2 && at - (samples[1]?.at ?? at) > rateWindowMs) samples.shift();
    const [first] = samples;
    if (first === undefined || at - first.at < 1_000 || worked <= first.worked) return [];
    const rate = ((worked - first.worked) / (at - first.at)) * 1_000;
    const perSecond = `${rate < 10 ? rate.toFixed(1) : Math.round(rate)}/s`;
    return left > 0 ? [perSecond, `${duration(left / rate)} left`] : [perSecond];
  };
}
