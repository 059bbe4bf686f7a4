import {
  BarController,
  BarElement,
  CategoryScale,
  Chart,
  type ChartConfiguration,
  Legend,
  LinearScale,
  Tooltip,
} from 'chart.js';
import { useEffect, useRef, useState } from 'preact/hooks';
import { formatNumber } from './format.ts';

Chart.register(BarController, BarElement, CategoryScale, LinearScale, Legend, Tooltip);

export interface Series {
  name: string;
  /** One for each label. */
  values: number[];
}

const dark = matchMedia('(prefers-color-scheme: dark)');

function useScheme(): boolean {
  const [isDark, setDark] = useState(dark.matches);
  useEffect(() => {
    const follow = () => setDark(dark.matches);
    dark.addEventListener('change', follow);
    return () => dark.removeEventListener('change', follow);
  }, []);
  return isDark;
}

/**
 * Bars, stacked or side by side. They say nothing that the table beside them does not say, so a screen reader needs only the label.
 *
 * @param onChoose called with the index of a bar that is clicked
 */
export function Bars({
  label,
  labels,
  series,
  vertical = false,
  isStacked = true,
  onChoose,
}: {
  label: string;
  labels: string[];
  series: Series[];
  vertical?: boolean;
  isStacked?: boolean;
  onChoose?: (index: number) => void;
}) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const isDark = useScheme();
  const content = JSON.stringify([labels, series, vertical, isDark]);
  useEffect(() => {
    if (canvas.current === null) return;
    const styles = getComputedStyle(canvas.current);
    const color = (name: string) => styles.getPropertyValue(`--${name}`).trim();
    Chart.defaults.color = color('muted');
    Chart.defaults.borderColor = color('line');
    Chart.defaults.font.family = styles.fontFamily;
    const stacked = (isValue: boolean) => ({
      stacked: isStacked,
      grid: { display: isValue },
      ticks: isValue ? { callback: (value: number | string) => formatNumber(Number(value)) } : { autoSkip: vertical },
    });
    const config: ChartConfiguration<'bar'> = {
      type: 'bar',
      data: {
        labels: labels.map(shorten),
        datasets: series.map(({ name, values }, index) => ({
          label: name,
          data: values,
          backgroundColor: color(`series-${(index % 8) + 1}`),
          maxBarThickness: 26,
        })),
      },
      options: {
        indexAxis: vertical ? 'x' : 'y',
        responsive: true,
        maintainAspectRatio: false,
        animation: false,
        scales: { x: stacked(!vertical), y: stacked(vertical) },
        plugins: {
          legend: { display: series.length > 1, position: 'bottom', labels: { boxWidth: 12 } },
          tooltip: { callbacks: { label: ({ dataset, raw }) => `${dataset.label}: ${formatNumber(Number(raw))}` } },
        },
        onClick: (_event, [bar]) => bar !== undefined && onChoose?.(bar.index),
      },
    };
    const chart = new Chart(canvas.current, config);
    return () => chart.destroy();
  }, [content]);
  return (
    <div class={`chart ${vertical ? 'short' : ''}`} data-bars={Math.ceil(labels.length / 5)}>
      <canvas ref={canvas} role="img" aria-label={`${label}. The table says the same.`} />
    </div>
  );
}

const shorten = (text: string) => (text.length > 28 ? `${text.slice(0, 27)}…` : text);
