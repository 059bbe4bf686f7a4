import { execFileSync } from 'node:child_process';
import { chromium } from 'playwright-core';
import { expect, test } from 'vitest';
import { closing, createTenant, startService } from '../support/service.ts';

const executablePath = ['chromium', 'chromium-browser', 'google-chrome'].flatMap(name => {
  try {
    return execFileSync('which', [name], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
  } catch {
    return [];
  }
})[0];

if (executablePath === undefined) {
  process.stderr.write('The test of /docs in a browser is skipped: install Chromium to run it.\n');
}

test.skipIf(executablePath === undefined)('/docs can be authorised and used in a browser', async () => {
  const service = closing(await startService());
  const { token, user } = await createTenant(service);
  const address = await service.app.listen({ port: 0, host: '127.0.0.1' });
  const browser = await chromium.launch({ executablePath: executablePath ?? '', args: ['--no-sandbox'] });
  try {
    const page = await browser.newPage();
    const problems: string[] = [];
    page.on('console', message => message.type() === 'error' && problems.push(message.text()));
    page.on('pageerror', error => problems.push(error.message));
    await page.goto(`${address}/docs`);

    await page.getByRole('button', { name: 'Authorize' }).first().click();
    await page.getByLabel('auth-bearer-value').fill(token);
    await page.getByRole('button', { name: 'Apply credentials' }).click();
    await page.getByRole('button', { name: 'Close' }).click();
    const operation = page.locator('[id^=operations-Account]');
    await operation.locator('.opblock-summary').click();
    await operation.getByRole('button', { name: 'Try it out' }).click();
    await operation.getByRole('button', { name: 'Execute' }).click();
    const reply = operation.locator('.live-responses-table .response').first();
    await reply.waitFor();
    expect(await reply.innerText()).toContain('200');
    expect(await reply.innerText()).toContain(user.name);

    await page.locator('.topbar select').selectOption({ label: 'pullscore for operators' });
    await page.getByText('/operator/rules/plan').waitFor();
    expect(problems).toEqual([]);
  } finally {
    await browser.close();
  }
});
