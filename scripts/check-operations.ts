/**
 * Fails if a file for operation does not say what it must (see operations.ts), or if a package that the service is shipped
 * with has a licence that is not known to be permissive.
 */
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { operationProblems } from './operations.ts';

const problems = operationProblems({
  list: folder => readdirSync(folder).map(name => join(folder, name)),
  read: path => readFileSync(path, 'utf8'),
});

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
  else if (process.env.GITHUB_ACTIONS === 'true') problems.push('promtool is not installed');
  else process.stderr.write('promtool is not installed: the alert rules were not tested. apt-get install prometheus\n');
}

for (const problem of problems) process.stderr.write(`${problem}\n`);
if (problems.length > 0) process.exitCode = 1;
