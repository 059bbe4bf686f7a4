import { execFileSync } from 'node:child_process';
import { type Browser, chromium } from 'playwright-core';
import { afterAll, onTestFinished, TestRunner } from 'vitest';

const executablePath = ['chromium', 'chromium-browser', 'google-chrome'].flatMap(name => {
  try {
    return execFileSync('which', [name], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
  } catch {
    return [];
  }
})[0];

/** Tests that need one are skipped if it is not installed. */
export const hasBrowser = executablePath !== undefined;

if (!hasBrowser) process.stderr.write('Tests in a browser are skipped: install Chromium to run them.\n');

/** Closed when the test ends, or with the file if no test calls it. */
export async function openBrowser(): Promise<Browser> {
  const browser = await chromium.launch({ executablePath: executablePath ?? '', args: ['--no-sandbox'] });
  const atEnd = TestRunner.getCurrentTest() === undefined ? afterAll : onTestFinished;
  atEnd(() => browser.close());
  return browser;
}
