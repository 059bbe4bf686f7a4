import { chmodSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A new folder for temporary files, in which the service can keep a database of its own. */
export function createHome(name: string): string {
  const home = mkdtempSync(join(tmpdir(), `pullscore-${name}-`));
  // As root the server runs as another user, who can't enter what mkdtemp makes.
  chmodSync(home, 0o755);
  return home;
}
