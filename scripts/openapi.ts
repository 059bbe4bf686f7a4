/**
 * Writes openapi/openapi.json from the routes, and openapi/client.d.ts from that. With --check it only compares them, and
 * fails if they differ.
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { buildApp } from '../src/app.ts';
import { loadConfig } from '../src/config.ts';
import { connectDeps } from '../src/deps.ts';
import { createLog } from '../src/log.ts';

const pathOf = (name: string) => fileURLToPath(new URL(name, import.meta.url));
const documentPath = pathOf('../openapi/openapi.json');
const typesPath = pathOf('../openapi/client.d.ts');
// Never connected: the document needs only the routes.
const deps = connectDeps(loadConfig({}), createLog({ logLevel: 'silent' }), 'postgres://unused');
const app = await buildApp(deps);
await app.ready();
const document = `${JSON.stringify(app.swagger(), null, 2)}\n`;
await app.close();
await deps.close();

// The generator is not installed for a check, so the types say what they were made from.
const origin = `// From openapi.json with the SHA-256 ${createHash('sha256').update(document).digest('hex')}.\n`;
if (!process.argv.includes('--check')) {
  writeFileSync(documentPath, document);
  const generator = pathOf('client-types/node_modules/.bin/openapi-typescript');
  writeFileSync(typesPath, origin + execFileSync(generator, [documentPath], { stdio: 'pipe' }));
} else if (readFileSync(documentPath, 'utf8') !== document || !readFileSync(typesPath, 'utf8').startsWith(origin)) {
  process.stderr.write('The files in openapi/ differ from the routes. Run npm run openapi and commit the result.\n');
  process.exitCode = 1;
}
