import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { closing, startService } from '../support/service.ts';
import { createTenant } from '../support/tenants.ts';

/** Each metric with the labels that expressions ask it for. */
function selectorsIn(expressions: readonly string[]): { metric: string; label: string; value: string }[] {
  return expressions.flatMap(expression =>
    [...expression.matchAll(/([a-z_:]+)\{([^}]*)\}/g)].flatMap(([, metric = '', labels = '']) =>
      [...labels.matchAll(/(\w+)=~?"([^"]*)"/g)].map(([, label = '', value = '']) => ({ metric, label, value })),
    ),
  );
}

const expressionsOf = (value: unknown): string[] =>
  typeof value !== 'object' || value === null
    ? []
    : Object.entries(value).flatMap(([key, inner]) =>
        key === 'expr' && typeof inner === 'string' ? [inner] : expressionsOf(inner),
      );

test('the labels in dashboard and alerts are those that a running service shows', async () => {
  const service = closing(await startService());
  await createTenant(service);
  await service.app.inject('/healthz');
  const { body } = await service.app.inject('/metrics');
  const expressions = [
    ...expressionsOf(JSON.parse(readFileSync('ops/grafana/pullscore.json', 'utf8'))),
    ...expressionsOf(parse(readFileSync('ops/prometheus/alerts.yml', 'utf8'))),
  ];
  const selectors = selectorsIn(expressions).filter(({ metric }) => metric !== 'up');
  expect(selectors.length).toBeGreaterThan(5);
  for (const { metric, label } of selectors) {
    expect([metric, label, new RegExp(`^${metric}\\{[^}]*\\b${label}="`, 'm').test(body)]).toEqual([
      metric,
      label,
      true,
    ]);
  }
});

const hasPromtool = (() => {
  try {
    execFileSync('promtool', ['--version'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
})();

test.skipIf(!hasPromtool)('promtool accepts the alert rules, and its tests of them pass', () => {
  for (const operands of [
    ['check', 'rules', 'ops/prometheus/alerts.yml'],
    ['test', 'rules', 'ops/prometheus/alerts.test.yml'],
  ]) {
    expect(execFileSync('promtool', operands, { encoding: 'utf8' })).toContain('SUCCESS');
  }
});
