import { existsSync, mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A new temporary folder in which the service can keep its own database. */
export function createHome(name: string): string {
  return mkdtempSync(join(tmpdir(), `pullscore-${name}-`));
}

/** With its database: if root made that, the home holds a link to it. */
export function removeHome(home: string): void {
  const database = join(home, 'postgresql');
  for (const folder of existsSync(database) ? [realpathSync(database), home] : [home]) {
    rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  }
}
