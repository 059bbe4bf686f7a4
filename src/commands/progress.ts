import { Presets, SingleBar } from 'cli-progress';
import type { Context } from './context.ts';

export interface Progress {
  update(done: number, total: number, note: string): void;
  stop(): void;
}

/** A bar on a terminal; elsewhere a line now and then, so that logs of long work show it lives. On standard error. */
export function startProgress({ stderr }: Context, unit: string): Progress {
  if (stderr.isTTY !== true) {
    let last = Date.now();
    return {
      update(done, total, note) {
        if (Date.now() - last < 10_000) return;
        last = Date.now();
        stderr.write(`${done}${total > 0 ? ` of ${total}` : ''} ${unit}${note === '' ? '' : ` (${note})`}\n`);
      },
      stop: () => undefined,
    };
  }
  const bar = new SingleBar(
    {
      stream: stderr,
      format: `{bar} {value}/{total} ${unit}  {eta_formatted} left  {note}`,
      hideCursor: true,
      // Lines that are cut at the edge of the terminal can be drawn over.
      linewrap: false,
    },
    Presets.shades_classic,
  );
  bar.start(0, 0, { note: '' });
  return {
    update(done, total, note) {
      bar.setTotal(Math.max(total, done));
      bar.update(done, { note });
    },
    stop: () => bar.stop(),
  };
}
