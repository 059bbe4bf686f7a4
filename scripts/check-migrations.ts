/**
 * Fails if src/database/schema.ts needs a migration that is not committed, or if the snapshots of the migrations don't
 * follow each other. Generates into a copy, so that nothing in the checkout changes.
 */
import { execFileSync } from 'node:child_process';
import { cpSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { relative } from 'node:path';

const copy = mkdtempSync('.migrations-');
try {
  cpSync('migrations', copy, { recursive: true });
  const options = ['--dialect', 'postgresql', '--out', relative('.', copy)];
  const kit = (...args: string[]) => execFileSync('npx', ['drizzle-kit', ...args, ...options], { stdio: 'pipe' });
  kit('check');
  kit('generate', '--schema', 'src/database/schema.ts');
  const committed = readdirSync('migrations').length;
  if (readdirSync(copy).length !== committed) {
    process.stderr.write(
      'The schema differs from the migrations. Run npm run migration -- --name WHAT and commit the result.\n',
    );
    process.exitCode = 1;
  }
} finally {
  rmSync(copy, { recursive: true });
}
