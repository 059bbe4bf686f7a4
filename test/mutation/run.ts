/**
 * `npm run mutation` runs Stryker on the pure code, with any further options. `npm run mutation -- statements [WORD]`
 * changes statements: all, or those whose guarantee or file contains the word.
 */
import { spawnSync } from 'node:child_process';
import { tryStatements } from './statements.ts';

const operands = process.argv.slice(2);
if (operands[0] === 'statements') {
  process.exitCode = (await tryStatements(operands[1] ?? '')) ? 0 : 1;
} else {
  const begin = performance.now();
  const { status } = spawnSync('npx', ['stryker', 'run', 'test/mutation/stryker.config.js', ...operands], {
    stdio: 'inherit',
  });
  process.stdout.write(`It took ${((performance.now() - begin) / 60_000).toFixed(1)} minutes.\n`);
  process.exitCode = status ?? 1;
}
