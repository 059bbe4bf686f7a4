import { expect, test } from 'vitest';
import { hasBrowser, openBrowser } from '../support/browser.ts';
import { closing, startService } from '../support/service.ts';
import { createTenant } from '../support/tenants.ts';

test.skipIf(!hasBrowser)(
  '/docs can be authorised and used in a browser under another address than PUBLIC_URL',
  async () => {
    const service = closing(await startService({ PUBLIC_URL: 'https://scores.example/api' }));
    const { token, user } = await createTenant(service);
    const address = await service.app.listen({ port: 0, host: '127.0.0.1' });
    const page = await (await openBrowser()).newPage();
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

    await page.getByText('/2026-12/rules/plan').waitFor();
    await page.locator('.topbar select').selectOption({ label: 'pullscore 2025-04' });
    await page.getByText('/2025-04/account').waitFor();
    expect(problems).toEqual([]);
  },
);
