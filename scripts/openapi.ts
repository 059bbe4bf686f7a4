/**
 * Writes the documents in openapi/ from the routes, and their types from them. With --check it only compares them, and
 * fails if they differ.
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildApp } from '../src/app.ts';
import { loadConfig } from '../src/config.ts';
import { connectDeps } from '../src/deps.ts';
import { createLog } from '../src/log.ts';

const pathOf = (name: string) => fileURLToPath(new URL(name, import.meta.url));
/** By the address of the document: the files of it, and of its types. */
const files = {
  '/openapi.json': ['../openapi/openapi.json', '../openapi/client.d.ts'],
  '/2026-12/openapi.json': ['../openapi/2026-12.json', '../openapi/2026-12.d.ts'],
} as const;
// Never connected: the document needs only the routes.
const deps = connectDeps(loadConfig({}), createLog({ logLevel: 'silent' }), 'postgres://unused');
const app = await buildApp(deps);
const isCheck = process.argv.includes('--check');
for (const [address, names] of Object.entries(files)) {
  const [documentPath, typesPath] = names.map(pathOf) as [string, string];
  const document = `${JSON.stringify((await app.inject(address)).json(), null, 2)}\n`;
  // The generator is not installed for a check, so the types say what they were made from.
  const hash = createHash('sha256').update(document).digest('hex');
  const origin = `// From ${basename(documentPath)} with the SHA-256 ${hash}.\n`;
  if (!isCheck) {
    writeFileSync(documentPath, document);
    const generator = pathOf('client-types/node_modules/.bin/openapi-typescript');
    writeFileSync(typesPath, origin + execFileSync(generator, [documentPath], { stdio: 'pipe' }));
  } else if (readFileSync(documentPath, 'utf8') !== document || !readFileSync(typesPath, 'utf8').startsWith(origin)) {
    process.stderr.write('The files in openapi/ differ from the routes. Run npm run openapi and commit the result.\n');
    process.exitCode = 1;
  }
}
await app.close();
await deps.close();
