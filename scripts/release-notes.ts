/** Prints the changelog's text of a release: npx tsx scripts/release-notes.ts v1.0.0 */
import { readFileSync } from 'node:fs';

const tag = process.argv[2] ?? '';
const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string };
const sections = readFileSync('CHANGELOG.md', 'utf8').split(/^## /m);
const [heading, ...text] = sections.find(section => section.startsWith(`${version} `))?.split('\n') ?? [];
if (tag !== `v${version}` || heading === undefined) {
  process.stderr.write(`${tag} is not v${version}, or CHANGELOG.md has no section "## ${version} (day)".\n`);
  process.exitCode = 1;
} else {
  process.stdout.write(`${text.join('\n').trim()}\n`);
}
