import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { startEmbeddedServer } from '../support/database-server.ts';
import { type Change, changes } from './statement-changes.ts';

const root = resolve(import.meta.dirname, '../..');
const print = (text: string) => process.stdout.write(`${text}\n`);

/**
 * Changes statements one at a time, in a copy of the checkout, and runs the tests that should notice.
 *
 * @param word only changes whose guarantee or file contains it
 * @returns whether every change was noticed
 */
export async function tryStatements(word: string): Promise<boolean> {
  const chosen = changes.filter(({ guarantee, file }) =>
    `${guarantee} ${file}`.toLowerCase().includes(word.toLowerCase()),
  );
  const begin = performance.now();
  const given = process.env.TEST_DATABASE_URL;
  const server = given ? { url: given, stop: async () => undefined } : await startEmbeddedServer('mutation');
  const copy = mkdtempSync(join(tmpdir(), 'pullscore-mutation-'));
  try {
    const files = spawnSync('git', ['ls-files'], { cwd: root, encoding: 'utf8' }).stdout.trim().split('\n');
    for (const file of files) cpSync(join(root, file), join(copy, file));
    symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));

    // Some tests run the built program; `npm test` builds it.
    const pass = (tests: readonly string[]): boolean =>
      spawnSync('npm', ['test', '--', '--bail', '1', ...tests], {
        cwd: copy,
        env: { ...process.env, TEST_DATABASE_URL: server.url },
        stdio: 'ignore',
      }).status === 0;
    const isNoticed = ({ file, from, to, tests }: Change) => {
      const path = join(copy, file);
      const text = readFileSync(path, 'utf8');
      const places = text.split(from).length - 1;
      if (places !== 1) throw new RangeError(`${file} contains this ${places} times, not once: ${from}`);
      writeFileSync(
        path,
        text.replace(from, () => to),
      );
      const noticed = !pass(tests);
      writeFileSync(path, text);
      return noticed;
    };
    const untouched = [...new Set(chosen.flatMap(({ tests }) => tests))];
    if (!pass(untouched)) throw new RangeError('The tests fail without any change, so their failures show nothing.');

    const unnoticed = chosen.filter((change, index) => {
      const noticed = isNoticed(change);
      const seconds = Math.round((performance.now() - begin) / 1000);
      const { guarantee, file, from, to } = change;
      print(
        `${index + 1} of ${chosen.length}, ${seconds} s: ${noticed ? 'noticed' : 'NOT NOTICED'}  ${guarantee}, ${file}`,
      );
      if (!noticed) print(`    ${inOneLine(from)}\n  → ${inOneLine(to)}`);
      return !noticed;
    });
    const minutes = ((performance.now() - begin) / 60_000).toFixed(1);
    print(`\n${chosen.length - unnoticed.length} of ${chosen.length} changes noticed. It took ${minutes} minutes.`);
    return unnoticed.length === 0;
  } finally {
    rmSync(copy, { recursive: true, force: true });
    await server.stop();
  }
}

const inOneLine = (text: string) => text.replace(/\s+/g, ' ').trim();
