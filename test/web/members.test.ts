import { sql } from 'drizzle-orm';
import type { BrowserContextOptions } from 'playwright-core';
import { beforeAll, describe, expect, test } from 'vitest';
import { goTo, hasBrowser, openBrowser, openSignedIn, violationsOf } from '../support/browser.ts';
import { createToken, insertPullRequests } from '../support/tenants.ts';
import { startWorld } from '../support/world.ts';

const script = '<img src=x onerror="window.wasAttacked = true">';

interface Listed {
  id: string;
  title: string;
  links: { member: string };
}

describe.skipIf(!hasBrowser)('members and pull requests on the page', async () => {
  const browser = hasBrowser ? await openBrowser() : undefined;
  const world = await startWorld();
  let address: string;
  let member: string;
  let pullRequest: string;
  let foreign: string;
  beforeAll(async () => {
    const { service, web, acme, token } = world;
    address = await service.app.listen({ port: 0, host: '127.0.0.1' });
    const author = acme.member('ada', { name: `Ada ${script} ${'long'.repeat(25)}` });
    for (let count = 0; count < 120; count += 1) web.addPullRequest({ author, title: `Number ${count}` });
    web.addPullRequest({ author, title: `Last ${script}` });
    const ofRule = (expression: string, value: string) => ({ expression, effect: { action: 'ADD' as const, value } });
    const logic = [ofRule('number > 0', '7'), ofRule('merged', '3')];
    await world.applyRules([{ name: `Merged ${script}`, description: '', is_enabled: true, logic }]);
    await world.import();
    const list = async (by: string) => {
      const { body } = await world.client.get('/2026-12/pull-requests?per_page=100', by);
      return (body as unknown as { data: Listed[] }).data;
    };
    const last = (await list(token)).find(({ title }) => title.startsWith('Last'));
    pullRequest = last?.id ?? '';
    member = last?.links.member.split('/').pop() ?? '';
    const other = await world.newTenant();
    await insertPullRequests(service, other, [1_790_000_000]);
    foreign = (await list(other.token))[0]?.id ?? '';
  });

  const open = async (view: string, token = world.token, options: BrowserContextOptions = {}) =>
    (await openSignedIn(browser, { address, token, view }, options)).page;

  test.each([
    { colorScheme: 'light', viewport: { width: 1280, height: 800 } },
    { colorScheme: 'dark', viewport: { width: 360, height: 640 } },
  ] as const)('are there for everybody, $colorScheme and $viewport.width pixels wide', async look => {
    const page = await open('standings', world.token, look);
    const views = {
      [`members/${member}?since=all`]: 'Points by week, from Monday, UTC',
      [`pull-request/${pullRequest}`]: 'first seen',
      'pull-requests?since=all': 'Number 119',
    };
    for (const [view, text] of Object.entries(views)) {
      await goTo(page, view);
      await page.getByText(text).first().waitFor();
      expect([view, await violationsOf(page)]).toEqual([view, []]);
      const seen = "[document.documentElement.scrollWidth - innerWidth, 'wasAttacked' in window]";
      expect([view, await page.evaluate(seen)]).toEqual([view, [0, false]]);
    }
  });

  test('show a rank, and more pull requests by the keyboard', async () => {
    const page = await open(`members/${member}?since=all`);
    await page.getByText('points for 121 pull requests: rank 1 of 1.').waitFor();
    const list = page.getByRole('region', { name: 'Pull requests' });
    const more = list.getByRole('button', { name: 'Show more' });
    const first = list.getByRole('link', { name: 'Number 0', exact: true });
    await more.or(first).first().waitFor();
    if (await more.isVisible()) await more.press('Enter');
    await first.waitFor();
    expect(await list.getByRole('row').count()).toBe(122);
  });

  test('explain a score, say what would raise it, and lead back', async () => {
    const page = await open(`members/${member}?since=all`);
    await page.getByRole('link', { name: 'Last' }).press('Enter');
    await page.getByRole('heading', { name: '7 points' }).waitFor();
    await page.getByText('+3, once merged').waitFor();
    const explained = page.getByRole('region', { name: 'How it was calculated' });
    await explained.locator('summary', { hasText: 'number > 0' }).press('Enter');
    await explained.getByText(/^number = \d+/).waitFor();
    await page.goBack();
    await page.getByText('rank 1 of 1').waitFor();
    await page.goForward();
    await page.getByRole('heading', { name: '7 points' }).waitFor();
  });

  test('keep the days of a period in the address, so that a link shows the same next month', async () => {
    const page = await open(`members/${member}`);
    await page.getByText('rank 1 of 1').waitFor();
    expect(page.url()).toMatch(/\?since=\d{4}-\d\d-01&until=\d{4}-\d\d-\d\d$/);
  });

  test('link to no address that would run', async () => {
    const page = await open('standings');
    await page.route(`**/pull-requests/${pullRequest}`, async route => {
      const body = await (await route.fetch()).text();
      await route.fulfill({ json: { data: { ...JSON.parse(body).data, url: 'javascript:alert(1)' } } });
    });
    await goTo(page, `pull-request/${pullRequest}`);
    await page.getByRole('heading', { name: '7 points' }).waitFor();
    expect(await page.locator('main a').allInnerTexts()).toEqual(['ada']);
  });

  test.each([
    ['an unknown member', () => 'members/mem_unknown', 'There is no member with this id.'],
    ['an unknown pull request', () => 'pull-request/pr_unknown', 'There is no pull request with this id.'],
    ['a foreign pull request', () => `pull-request/${foreign}`, 'This action is unauthorized.'],
    ['a bad day', () => 'pull-requests?since=2026-13-01', 'created_since must be'],
    ['a bad filter', () => 'pull-requests?by=nothing&state=odd', 'state must be'],
    ['an unknown view', () => 'nowhere', 'There is no such view.'],
    ['what every object has', () => 'constructor', 'There is no such view.'],
  ])('say in words that an address asks for %s', async (_what, view, text) => {
    const page = await open(view());
    await page.getByText(text).first().waitFor();
  });

  test('go on by themselves when the service is back', async () => {
    const page = await open('standings');
    let isAway = true;
    await page.route('**/2026-12/**', route => (isAway ? route.abort() : route.continue()));
    await goTo(page, `pull-request/${pullRequest}`);
    await page.getByText('The service cannot be reached.').first().waitFor();
    isAway = false;
    await page.getByRole('heading', { name: '7 points' }).waitFor();
  });

  test('say that a token has ended, and forget it', async () => {
    const token = await createToken(world.service, world.user, ['read', 'sync']);
    const page = await open(`pull-request/${pullRequest}`, token);
    await page.getByRole('button', { name: 'Sync' }).waitFor();
    expect(await page.getByRole('button', { name: 'Delete' }).count()).toBe(0);
    await world.service.database.executor.execute(
      sql`update access_tokens set revoked_at = now() where scopes = '{read,sync}'`,
    );
    await page.getByRole('button', { name: 'Sync' }).press('Enter');
    await page.getByText('Your token is no longer valid.').waitFor();
    expect(await page.evaluate('sessionStorage.length')).toBe(0);
  });

  test('ask before a deletion', async () => {
    const page = await open(`pull-request/${pullRequest}`);
    const press = (name: string) => page.getByRole('button', { name, exact: true }).press('Enter');
    await press('Delete');
    await press('Keep it');
    const { status } = await world.client.get(`/2026-12/pull-requests/${pullRequest}`, world.token);
    expect(status).toBe(200);
    await press('Delete');
    await press('Delete it');
    await page.getByRole('heading', { name: 'Pull requests', level: 1 }).waitFor();
    const deleted = await world.client.get(`/2026-12/pull-requests/${pullRequest}`, world.token);
    expect(deleted.status).toBe(404);
  });
});
