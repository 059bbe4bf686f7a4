import { pino } from 'pino';
import { Registry } from 'prom-client';
import { createMetrics } from '../../src/api/metrics.ts';
import { loadConfig } from '../../src/config.ts';
import { connectDeps } from '../../src/deps.ts';

export interface Metric {
  readonly help: string;
  /** Labels that its series can have. */
  readonly labels: ReadonlySet<string>;
}

/** All series that `/metrics` of a service can have, by name. Needs no database: it says what it would show. */
export async function readMetrics(): Promise<Map<string, Metric>> {
  const url = 'postgres://nobody@127.0.0.1:1/none';
  const deps = connectDeps(loadConfig({ DATABASE_URL: url }), pino({ level: 'silent' }), url);
  // A registry does not tell its metrics' labels.
  const { registerMetric } = Registry.prototype;
  const labelNames = new Map<string, readonly string[]>();
  Registry.prototype.registerMetric = function (metric) {
    const { name, labelNames: labels = [] } = metric as unknown as { name: string; labelNames?: string[] };
    labelNames.set(name, labels);
    return registerMetric.call(this, metric);
  };
  const metrics = createMetrics(deps);
  Registry.prototype.registerMetric = registerMetric;
  try {
    const text = (await metrics.text()).toString();
    return new Map(
      [...text.matchAll(/^# HELP (\S+) (.*)\n# TYPE \S+ (\S+)$/gm)].flatMap(([, name = '', help = '', type]) => {
        const labels = labelNames.get(name) ?? [];
        const ends = type === 'histogram' ? ['_bucket', '_count', '_sum'] : [''];
        return ends.map(end => [name + end, { help, labels: new Set(end === '_bucket' ? [...labels, 'le'] : labels) }]);
      }),
    );
  } finally {
    metrics.close();
    await deps.close();
  }
}

/** Words and functions of PromQL, and what Prometheus itself records of each target. */
const notOurs = new Set(
  'and or unless on ignoring by without sum max min avg count rate increase histogram_quantile absent up'.split(' '),
);

/** The metrics that an expression of PromQL names. */
export const metricNamesIn = (expression: string): string[] =>
  [
    ...expression
      .replace(/"[^"]*"|\{[^}]*\}|\[[^\]]*\]/g, '')
      .replace(/\b(by|without)\s*\([^)]*\)/g, '')
      .matchAll(/[a-zA-Z_:][\w:]*/g),
  ]
    .map(([name]) => name)
    .filter(name => !notOurs.has(name));
