import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { operationProblems } from '../../scripts/operations.ts';
import { metricNamesIn } from '../support/metric-names.ts';

/** The problems that are found after a change of one file. */
function problemsAfter(path: string, before: string | RegExp, after: string): string[] {
  const original = readFileSync(path, 'utf8');
  const changed = original.replace(before, after);
  expect(changed).not.toBe(original);
  const isUnchanged = (folder: string) => folder === '.github/workflows' && !path.startsWith(folder);
  return operationProblems({
    // Linting workflows is the slow part.
    list: folder => (isUnchanged(folder) ? [] : readdirSync(folder).map(name => join(folder, name))),
    read: each => (each === path ? changed : readFileSync(each, 'utf8')),
  });
}

const serve = 'ops/kubernetes/serve.yaml';
const worker = 'ops/kubernetes/worker.yaml';
const alerts = 'ops/prometheus/alerts.yml';

describe('a mistake in a file for operation is found:', () => {
  test.each([
    ['a misspelt key', serve, 'replicas: 2', 'replica: 2', '/spec/replica: Unexpected property'],
    ['a value of a wrong type', serve, 'replicas: 2', 'replicas: two', '/spec/replicas: Expected integer'],
    ['liveness that asks the database', serve, '/healthz', '/readyz', 'livenessProbe asks /readyz, not /healthz'],
    ['readiness that does not', worker, '/readyz', '/healthz', 'startupProbe asks /healthz, not /readyz'],
    ['a probe without a time limit', serve, 'timeoutSeconds: 5', '', '/timeoutSeconds: Expected required'],
    ['a probe of another port', worker, 'port: metrics', 'port: metric', 'startupProbe names the port metric'],
    ['a service with another port', serve, 'targetPort: http', 'targetPort: htp', 'selects has a port htp'],
    ['service links', worker, 'enableServiceLinks: false', '', '/enableServiceLinks: Expected required'],
    ['too little memory', serve, 'memory: 2Gi', 'memory: 1Gi', 'memory limit of 1024 MB is less than'],
    ['no way to the database', 'ops/kubernetes/network.yaml', '- { port: 5432 }', '', 'egress is not DNS, GitHub and'],
    ['no way to the worker', 'ops/kubernetes/network.yaml', '- { port: 3001 }', '', 'ingress is not what the pods'],
    ['a misspelt variable', 'ops/kubernetes/config.yaml', 'METRICS_PORT', 'METRIC_PORT', 'METRICS_PORT is missing'],
    ['an unknown variable', 'docker-compose.yml', '\n    LOG_LEVEL:', '\n    LOG_LEVL:', 'LOG_LEVL is not a variable'],
    ['a variable not passed on', 'docker-compose.yml', /\$\{RATE_LIMIT:-\}/, '', 'does not read RATE_LIMIT'],
    ['an image that runs as root', 'Dockerfile', 'USER node', '', 'does not run as USER node'],
    ['an unknown key', '.github/dependabot.yml', 'interval:', 'intervall:', '/schedule/intervall: Unexpected property'],
    ['an action that is not pinned', '.github/workflows/checks.yml', /@[0-9a-f]{40}/, '@v4', 'is not pinned'],
    ['a grouping label', 'ops/grafana/pullscore.json', 'sum by (operation)', 'sum by (opration)', 'the label opration'],
    ['a value of a label', alerts, 'state="parked"', 'state="prked"', 'has no state "prked"'],
    ['a pattern of statuses', alerts, '5..', '7..', 'has no status "7.."'],
    ['a metric', alerts, 'pullscore_failing_comparisons', 'pullscore_failed_comparisons', 'is not a metric'],
  ] as [string, string, string | RegExp, string, string][])('%s', (_, path, before, after, problem) => {
    expect(problemsAfter(path, before, after).join('\n')).toContain(problem);
  });
});

test('every alert has a test of promtool in which it fires and one in which it does not', () => {
  const { groups } = parse(readFileSync(alerts, 'utf8')) as { groups: { rules: { alert: string; expr: string }[] }[] };
  const { tests } = parse(readFileSync('ops/prometheus/alerts.test.yml', 'utf8')) as {
    tests: { alert_rule_test: { alertname: string; exp_alerts: unknown[] }[] }[];
  };
  const cases = tests.flatMap(each => each.alert_rule_test);
  for (const { alert, expr } of groups.flatMap(({ rules }) => rules)) {
    expect([metricNamesIn(expr).length > 0, alert]).toEqual([true, alert]);
    const fires = cases.filter(({ alertname }) => alertname === alert).map(each => each.exp_alerts.length > 0);
    expect([alert, new Set(fires).size]).toEqual([alert, 2]);
  }
});
