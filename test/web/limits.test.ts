import { sql } from 'drizzle-orm';
import type { BrowserContextOptions, Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import { formatId } from '../../src/ids.ts';
import {
  chartsWithoutBars,
  goTo,
  hasBrowser,
  holdRequests,
  openBrowser,
  openSignedIn,
  violationsOf,
} from '../support/browser.ts';
import { rescoreAll } from '../support/rescore.ts';
import { createToken, insertPullRequests, type Tenant } from '../support/tenants.ts';
import { startWorld } from '../support/world.ts';

const rules = `rules:
  - name: Base
    logic:
      - expression: 'true'
        effect: { action: ADD, value: '7' }
`;
/** 1 December 2026. */
const december = 1_796_083_200;
const inDecember = 'since=2026-12-01&until=2026-12-31';

describe.skipIf(!hasBrowser)('the page at its limits', async () => {
  const browser = hasBrowser ? await openBrowser() : undefined;
  const world = await startWorld();
  const { service, client } = world;
  const address = await service.app.listen({ port: 0, host: '127.0.0.1' });

  const tokenOf = ({ user }: Tenant) => createToken(service, user, ['read', 'rules:read', 'rules:write']);
  const open = async (view: string, token: string, options: BrowserContextOptions = {}) =>
    (await openSignedIn(browser, { address, token, view }, options)).page;
  /** Presses Tab until what has the focus has this name. */
  async function tabTo(page: Page, name: string): Promise<void> {
    const seen: string[] = [];
    while (seen.at(-1) !== name) {
      expect(seen.length, seen.join(', ')).toBeLessThan(60);
      await page.keyboard.press('Tab');
      const focused = '(({ labels, innerText }) => labels?.[0]?.innerText ?? innerText)(document.activeElement)';
      seen.push((await page.evaluate<string>(focused)).trim());
    }
  }

  test('skips the navigation by the first Tab and Enter', async () => {
    const page = await open(`standings?${inDecember}`, await tokenOf(await world.newTenant()));
    await page.keyboard.press('Tab');
    expect(await page.evaluate('document.activeElement.innerText')).toBe('Skip to content');
    await page.keyboard.press('Enter');
    expect(await page.evaluate('document.activeElement.tagName')).toBe('MAIN');
  });

  test('leads from signing in to an explanation and to the rules by Tab and Enter alone', async () => {
    const tenant = await world.newTenant();
    const token = await tokenOf(tenant);
    await insertPullRequests(service, tenant, [december]);
    await client.applyFile(token, rules);
    await rescoreAll(service, tenant.organisation.id);
    const context = await browser?.newContext({ locale: 'en-GB' });
    const page = (await context?.newPage()) as Page;
    await page.goto(`${address}/#/standings?${inDecember}`);
    await tabTo(page, 'Access token');
    await page.keyboard.insertText(token);
    await page.keyboard.press('Enter');
    for (const [link, text] of [
      ['Grace Hopper', 'rank 1 of 1'],
      ['Pull request 1', 'What would still change it'],
    ] as const) {
      await page.getByRole('link', { name: link }).waitFor();
      await tabTo(page, link);
      await page.keyboard.press('Enter');
      await page.getByText(text).waitFor();
    }
    const rule = page.getByRole('region', { name: 'How it was calculated' }).getByText('Base');
    await rule.waitFor();
    await tabTo(page, 'Base +7');
    await page.keyboard.press('Enter');
    await page.getByText('it adds 7').waitFor({ state: 'hidden' });
    await page.keyboard.press('Shift+Tab');
    await page.reload();
    await tabTo(page, 'Rules');
    await page.keyboard.press('Enter');
    await page.getByText('adds 7 if true').waitFor();
    await context?.close();
  });

  test('says what to do in an organisation without a pull request and without rules', async () => {
    const tenant = await world.newTenant();
    const page = await open('standings', await tokenOf(tenant));
    const views = {
      standings: ['No pull request counts in this period.'],
      'pull-requests': ['No pull request is in this list.'],
      rules: ['No rules have been applied yet.', 'There is no version yet.'],
    };
    for (const [view, texts] of Object.entries(views)) {
      await goTo(page, view);
      for (const text of texts) await page.getByText(text).waitFor();
      expect([view, await violationsOf(page)]).toEqual([view, []]);
    }
    await goTo(page, 'try-rules');
    await page.getByLabel('Or drop it here, or type:').fill(rules);
    await page.getByRole('button', { name: 'Try' }).click();
    await page.getByText('There is no pull request yet.').waitFor();
  });

  test('says how many scores are out of date, until they are not', async () => {
    const tenant = await world.newTenant();
    const token = await tokenOf(tenant);
    await insertPullRequests(service, tenant, [december, december, december]);
    await client.applyFile(token, rules);
    const page = await open(`standings?${inDecember}`, token);
    const notice = page.getByText('3 scores have yet to be recalculated');
    await notice.waitFor();
    await goTo(page, `rules?${inDecember}`);
    await notice.waitFor();
    await goTo(page, `standings?${inDecember}`);
    await page.getByRole('link', { name: 'Grace Hopper' }).click();
    await page.getByRole('region', { name: 'In this period' }).getByText('3 scores have yet to be').waitFor();
    await rescoreAll(service, tenant.organisation.id);
    await goTo(page, `standings?${inDecember}`);
    await page.getByText('21 points for 3 pull requests').waitFor();
    expect(await notice.count()).toBe(0);
  });

  test('draws the last figures if the library of charts arrives after them', async () => {
    const tenant = await world.newTenant();
    const token = await tokenOf(tenant);
    await insertPullRequests(service, tenant, [december]);
    await client.applyFile(token, rules);
    await rescoreAll(service, tenant.organisation.id);
    const page = await open(`standings?${inDecember}`, token);
    const release = await holdRequests(page, '**/auto-*.js');
    await Promise.all([page.waitForRequest('**/auto-*.js'), page.reload({ waitUntil: 'commit' })]);
    await page.getByText('Base: 7').waitFor();
    release();
    await expect.poll(() => chartsWithoutBars(page)).toBe(0);
  });

  test('fits on a phone with the longest name of a user', async () => {
    const tenant = await world.newTenant();
    const name = 'W'.repeat(200);
    await service.database.executor.execute(sql`update users set name = ${name} where id = ${tenant.user.id}`);
    const page = await open('rules', tenant.token, { viewport: { width: 320, height: 640 } });
    await page.getByText(name).waitFor();
    expect(await page.evaluate('document.documentElement.scrollWidth - innerWidth')).toBe(0);
  });

  test('shows a value just above a limit as above it, and a small one as not 0', async () => {
    const tenant = await world.newTenant();
    const token = await tokenOf(tenant);
    // It has one addition.
    const [id = ''] = await insertPullRequests(service, tenant, [december]);
    const condition = '24 + additions / 360 <= 24 || additions / 250 > 0';
    await client.applyFile(token, rules.replace('true', condition));
    await rescoreAll(service, tenant.organisation.id);
    const page = await open(`pull-requests/${formatId('pr', id)}`, token);
    const explained = page.getByRole('region', { name: 'How it was calculated' });
    await explained.getByText('Base').waitFor();
    expect(await explained.textContent()).toMatch(/24 \+ additions \/ 360 = 24\.0028 .*additions \/ 250 = 0\.004 /);
  });

  test('says that requests are limited, and when it tries again', async () => {
    const limited = await world.replica(undefined, { RATE_LIMIT: '1' });
    const other = await limited.app.listen({ port: 0, host: '127.0.0.1' });
    const { page } = await openSignedIn(browser, { address: other, token: world.token, view: 'rules' });
    const refusals = page.getByText(/Too many requests.*The next try is in \d+ s\./);
    await refusals.first().waitFor();
    expect(await page.getByRole('button', { name: 'Sign out' }).count()).toBe(1);
  });

  test('with 50,000 members, shows the first ones at once on a 4K screen, and lays out only rows near the view', async () => {
    const tenant = await world.newTenant();
    await insertPullRequests(service, tenant, [december]);
    const page = await open('rules', await tokenOf(tenant), { viewport: { width: 3840, height: 2160 } });
    // The service's reply, with its row 50,000 times.
    await page.route('**/standings?of=members*', async route => {
      const { data } = await (await route.fetch()).json();
      const [first] = data.standings;
      const ranks = Array.from({ length: 50_000 }, (_, index) => index + 1);
      const standings = ranks.map(rank => ({ ...first, rank, name: `Member ${rank}` }));
      await route.fulfill({ json: { data: { ...data, standings } } });
    });
    await goTo(page, `standings?${inDecember}`);
    await page.getByRole('link', { name: 'Member 50', exact: true }).waitFor();
    expect(await page.getByRole('row').count()).toBeLessThan(1_000);
    expect(await page.evaluate('document.documentElement.scrollWidth - innerWidth')).toBe(0);
    const chart = await page.getByRole('img', { name: 'Points' }).boundingBox();
    const table = await page.getByRole('table', { name: 'Members by points' }).boundingBox();
    expect(table?.x).toBeGreaterThan((chart?.x ?? Infinity) + (chart?.width ?? 0));

    // On a usual screen, the end of the list is far again once a block of rows is laid out.
    await page.setViewportSize({ width: 1280, height: 720 });
    await page.evaluate(`new Promise(done => {
      const rows = document.getElementsByTagName('tr');
      const step = () => {
        scrollTo(0, document.documentElement.scrollHeight);
        if (rows.length < 2_000) requestAnimationFrame(step);
        else done();
      };
      step();
    })`);
    const laidOut = await page.evaluate<number>(
      `[...document.querySelectorAll('td')].filter(cell => cell.checkVisibility({ contentVisibilityAuto: true })).length /
        document.querySelector('tbody tr').querySelectorAll('td').length`,
    );
    expect(laidOut).toBeGreaterThan(0);
    expect(laidOut).toBeLessThan(500);
  });
});
