import { pino } from 'pino';
import { createMetrics } from '../../src/api/metrics.ts';
import { loadConfig } from '../../src/config.ts';
import { connectDeps } from '../../src/deps.ts';

/** The names of all series that `/metrics` of a service can have. Needs no database: it says what it would show. */
export async function readMetricNames(): Promise<Set<string>> {
  const url = 'postgres://nobody@127.0.0.1:1/none';
  const deps = connectDeps(loadConfig({ DATABASE_URL: url }), pino({ level: 'silent' }), url);
  const metrics = createMetrics(deps);
  try {
    const types = [...(await metrics.text()).toString().matchAll(/^# TYPE (\S+) (\S+)$/gm)];
    return new Set(
      types.flatMap(([, name = '', type]) =>
        type === 'histogram' ? ['_bucket', '_count', '_sum'].map(end => name + end) : [name],
      ),
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
