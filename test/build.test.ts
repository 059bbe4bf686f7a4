import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { requireBuild } from './commands/support.ts';

test('a build, which npx starts too, never takes the program away from those who run it', async () => {
  requireBuild();
  const build = spawn(process.execPath, ['--import', 'tsx', 'scripts/build.ts'], { stdio: 'inherit' });
  const ended = once(build, 'close');
  let wasMissing = false;
  while (build.exitCode === null) {
    wasMissing ||= !existsSync('dist/main.js');
    await delay(1);
  }
  expect(await ended).toEqual([0, null]);
  expect(wasMissing).toBe(false);
});
