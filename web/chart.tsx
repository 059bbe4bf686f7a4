import { useEffect, useRef } from 'preact/hooks';

/** Loaded beside the rest of the page, so that the first table does not wait for it. */
const library = import('chart.js/auto');

/** Each stands out from the light and from the dark background. */
const colors = ['#3b7ae6', '#d37a22', '#2b9348', '#b257c9', '#d6485b', '#12868f', '#96782a', '#7a828c'];
export const maxSeries = colors.length;
export const dark = matchMedia('(prefers-color-scheme: dark)');

const maxLength = 28;
const shorten = (text: string, max = maxLength) => (text.length > max ? `${text.slice(0, max - 1)}…` : text);

/** With one value for each label of its chart. */
export type Series = { label: string; data: number[] };

export type Plot = { labels: string[]; series: Series[]; vertical?: boolean };

/** Upright side by side, or from left to right, stacked. To a screen reader, the table beside them says the same. */
export function Bars({ title, labels, series, vertical = false }: Plot & { title: string }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const draw = async (canvas: HTMLCanvasElement, signal: AbortSignal) => {
    const { Chart } = await library;
    // Other figures came while the library was loaded. A canvas takes one chart at a time.
    if (signal.aborted) return;
    const { color, fontFamily: family } = getComputedStyle(canvas);
    Object.assign(Chart.defaults, { color, borderColor: '#8886', font: { ...Chart.defaults.font, family } });
    // Names get half of the width, and lose their beginning if they need more. Most letters are less than 8 pixels wide.
    const room = Math.min(maxLength, Math.floor((canvas.parentElement?.clientWidth ?? 0) / 2 / 8));
    const axis = (isValue: boolean) => ({ stacked: !vertical, grid: { display: isValue } });
    const chart = new Chart(canvas, {
      type: 'bar',
      data: {
        labels: labels.map(label => shorten(label, room)),
        datasets: series.map(({ label, data }, index) => ({
          label: shorten(label),
          data,
          backgroundColor: colors[index] ?? '',
          maxBarThickness: 26,
        })),
      },
      options: {
        indexAxis: vertical ? 'x' : 'y',
        maintainAspectRatio: false,
        animation: false,
        scales: { x: axis(!vertical), y: axis(vertical) },
        plugins: {
          legend: {
            display: series.length > 1,
            position: 'bottom',
            maxHeight: 24 * series.length,
            labels: { boxWidth: 12 },
          },
        },
      },
    });
    signal.addEventListener('abort', () => chart.destroy());
  };
  // An effect: the table is painted before.
  useEffect(() => {
    const leaving = new AbortController();
    void draw(canvas.current as HTMLCanvasElement, leaving.signal);
    return () => leaving.abort();
  }, [JSON.stringify([labels, series, dark.matches])]);
  return (
    <div class="chart" style={{ height: `${vertical ? 15 : 7 + 1.4 * labels.length + series.length}rem` }}>
      <canvas ref={canvas} role="img" aria-label={`${title}. The table says the same.`} />
    </div>
  );
}
