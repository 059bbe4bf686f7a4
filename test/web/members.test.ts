import { sql } from 'drizzle-orm';
import type { BrowserContextOptions, Dialog } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import { formatRulesFile } from '../../src/scoring/file/rules-file.ts';
import { importPullRequests } from '../../src/sync/import.ts';
import { syncMembers } from '../../src/sync/sync-members.ts';
import { entry, rule, rulesetOf } from '../scoring/support.ts';
import {
  chartsWithoutBars,
  focusedOn,
  goTo,
  hasBrowser,
  holdRequests,
  openBrowser,
  openSignedIn,
  shareTab,
  violationsOf,
} from '../support/browser.ts';
import { createToken, insertPullRequests } from '../support/tenants.ts';
import { startWorld } from '../support/world.ts';

const script = '<img src=x onerror="window.wasAttacked = true">';

const sorted = (query = '') => query.split('&').sort().join('&');

describe.skipIf(!hasBrowser)('members and pull requests on the page', async () => {
  const browser = hasBrowser ? await openBrowser() : undefined;
  const world = await startWorld();
  const { service, web, acme } = world;
  const address = await service.app.listen({ port: 0, host: '127.0.0.1' });
  const author = acme.member('ada', { name: `Ada ${script} ${'long'.repeat(25)}` });
  for (let count = 0; count < 120; count += 1) web.addPullRequest({ author, title: `Number ${count}` });
  const source = web.addPullRequest({ author, title: `Last ${script}` });
  await world.applyRules([
    rule(`Merged ${script}`, entry('number > 0', '7'), entry('merged', '3')),
    rule('Large', entry('size > 9000', 'size', 'SUBTRACT')),
  ]);
  await world.import();
  const last = await world.find(source);
  const pullRequest = last.id;
  const member = last.links.member.split('/').pop();
  const other = await world.newTenant();
  await insertPullRequests(service, other, [1_790_000_000]);
  const foreign = (await world.listed(other.token))[0]?.id;

  const open = shareTab(browser, () => ({ address, token: world.token }));
  const openAlone = async (view: string, token = world.token, options: BrowserContextOptions = {}) =>
    (await openSignedIn(browser, { address, token, view }, options)).page;

  test.each([
    { colorScheme: 'light', viewport: { width: 1280, height: 800 } },
    { colorScheme: 'dark', viewport: { width: 360, height: 640 } },
  ] as const)('are there for everybody, $colorScheme and $viewport.width pixels wide', async look => {
    const page = await openAlone('standings', world.token, look);
    const views = {
      [`members/${member}?since=all`]: 'Points by week, from Monday, UTC',
      [`pull-requests/${pullRequest}`]: 'first seen',
      'pull-requests?since=all': 'Number 119',
    };
    for (const [view, text] of Object.entries(views)) {
      await goTo(page, view);
      await page.getByText(text).first().waitFor();
      expect([view, await chartsWithoutBars(page)]).toEqual([view, 0]);
      expect([view, await violationsOf(page)]).toEqual([view, []]);
      const seen = "[document.documentElement.scrollWidth - innerWidth, 'wasAttacked' in window]";
      expect([view, await page.evaluate(seen)]).toEqual([view, [0, false]]);
    }
  });

  test('have one address each, with the name in the tab', async () => {
    const page = await open('members');
    await page.getByRole('table', { name: 'Members by points' }).waitFor();
    await goTo(page, `pull-requests/${pullRequest}`);
    await page.getByRole('heading', { name: '7 points' }).waitFor();
    expect(await page.title()).toBe(`Last ${script} · pullscore`);
    const link = page.getByRole('navigation').getByRole('link', { name: 'Pull requests' });
    expect(await link.getAttribute('aria-current')).toBe('true');
    await goTo(page, 'pull-requests');
    await page.getByRole('heading', { name: 'Pull requests', level: 1 }).waitFor();
    expect(await page.title()).toBe('Pull requests · pullscore');
    expect(await link.getAttribute('aria-current')).toBe('page');
  });

  test('say which time they are sorted by', async () => {
    const page = await open('pull-requests?since=all');
    for (const [choice, head] of [
      ['by day of last update', 'Updated'],
      ['by day of merge', 'Merged'],
    ] as const) {
      await page.getByRole('columnheader', { name: 'Points' }).or(page.getByText('No pull request is in')).waitFor();
      await page.getByLabel('Which days count').selectOption(choice);
      if (head === 'Updated') await page.getByRole('columnheader', { name: head }).waitFor();
      else await page.getByText('No pull request is in this list.').waitFor();
    }
  });

  test('take what one chooses, types and clears into the address', async () => {
    const page = await open('pull-requests?since=all');
    const repository = page.getByLabel('Repository');
    const steps: [change: () => Promise<unknown>, query: string][] = [
      [() => page.getByLabel('State').selectOption('open'), 'since=all&state=open'],
      [() => repository.fill(' acme/web '), 'since=all&state=open'],
      [() => repository.press('Enter'), 'since=all&state=open&repository=acme%2Fweb'],
      // Nobody goes back before the page shows what it has taken.
      [() => expect.poll(() => repository.inputValue()).toBe('acme/web'), 'since=all&state=open&repository=acme%2Fweb'],
      [() => page.goBack(), 'since=all&state=open'],
      [() => page.getByLabel('to', { exact: true }).fill('2026-10-31'), 'state=open&until=2026-10-31'],
      // As one types the year, it passes through others.
      [() => page.getByLabel('From').fill('0202-10-01'), 'state=open&until=2026-10-31'],
      [() => page.getByLabel('From').fill('2026-10-01'), 'state=open&until=2026-10-31&since=2026-10-01'],
      [() => page.getByLabel('to', { exact: true }).fill(''), 'state=open&since=2026-10-01'],
      [() => page.getByLabel('From').fill(''), 'state=open&since=all'],
    ];
    for (const [change, query] of steps) {
      await change();
      await expect
        .poll(() => page.evaluate('location.hash'))
        .toSatisfy((hash: string) => {
          const [view, given] = hash.split('?');
          return view === '#/pull-requests' && sorted(given) === sorted(query);
        });
    }
    await expect.poll(() => repository.inputValue()).toBe('');
  });

  test('show a rank, and more pull requests by the keyboard', async () => {
    const page = await open(`members/${member}?since=all`);
    await page.getByText('points for 121 pull requests: rank 1 of 1.').waitFor();
    const list = page.getByRole('region', { name: 'Pull requests' });
    const more = list.getByRole('button', { name: 'Show more' });
    await expect
      .poll(async () => {
        // It may be gone: what comes into view asks for more rows by itself.
        if (await more.isVisible()) await more.press('Enter', { timeout: 1_000 }).catch(() => undefined);
        return list.getByRole('row').count();
      })
      .toBe(122);
    expect(await list.getByRole('link', { name: 'Number 0', exact: true }).isVisible()).toBe(true);
  });

  test('move the focus to the row before the new ones after "Show more"', async () => {
    // So low that no rows come by themselves.
    const page = await openAlone('pull-requests?since=all', world.token, { viewport: { width: 1280, height: 300 } });
    const rows = page.locator('tbody').getByRole('row');
    const more = page.getByRole('button', { name: 'Show more' });
    for (const count of [25, 50, 75, 100]) {
      await more.focus();
      expect([await focusedOn(page), await rows.count()]).toEqual(['Show more', count]);
      const last = await rows.last().innerText();
      await page.keyboard.press('Enter');
      await rows.nth(count).waitFor();
      expect(await focusedOn(page)).toBe(last);
    }
    expect([await rows.count(), await more.count()]).toEqual([121, 0]);
  });

  test('explain a score, say what would raise it, and lead back', async () => {
    const page = await open(`members/${member}?since=all`);
    await page.getByRole('link', { name: 'Last' }).press('Enter');
    await page.getByRole('heading', { name: '7 points' }).waitFor();
    const changes = page.getByRole('table', { name: 'What would still change it' });
    await changes.getByRole('row', { name: /^Merged .* merged \+3$/ }).waitFor();
    await changes.getByRole('row', { name: 'Large size > 9000 subtracts size' }).waitFor();
    const explained = page.getByRole('region', { name: 'How it was calculated' });
    await explained.locator('summary', { hasText: 'number > 0' }).press('Enter');
    await explained.getByText(/^number = \d+/).waitFor();
    await page.goBack();
    await page.getByText('rank 1 of 1').waitFor();
    await page.goForward();
    await page.getByRole('heading', { name: '7 points' }).waitFor();
  });

  test('have one point, not one points', async () => {
    const tenant = await world.newTenant();
    const token = await createToken(world.service, tenant.user, ['read', 'rules:write']);
    await world.client.applyFile(token, formatRulesFile(rulesetOf([rule('Opened', entry('true', '1'))])));
    tenant.acme.repository('web').addPullRequest({ author: tenant.acme.member('fay'), title: 'One' });
    await importPullRequests(world.service, tenant.organisation);
    const page = await openAlone('standings?since=all', token);
    await page.getByText('1 point for 1 pull request.').waitFor();
    await page.getByRole('link', { name: 'fay' }).click();
    await page.getByText('1 point for 1 pull request: rank 1 of 1.').waitFor();
    await page.getByRole('link', { name: 'One' }).click();
    await page.getByRole('heading', { name: '1 point', exact: true }).waitFor();
  });

  test('say in the table beside the bars what each rule gave and took, and name each in the legend', async () => {
    const tenant = await world.newTenant();
    const token = await createToken(world.service, tenant.user, ['read', 'rules:write']);
    const given = [5, 4, 3].map(value => rule(`Rule that gives all ${value}`, entry('true', `${value}`)));
    const longName = `Rule that takes ${'very '.repeat(20)}much`;
    const taken = rule(longName, entry('true', '2', 'SUBTRACT'));
    await world.client.applyFile(token, formatRulesFile(rulesetOf([...given, taken])));
    tenant.acme.repository('web').addPullRequest({ author: tenant.acme.member('gil'), title: 'One' });
    await importPullRequests(world.service, tenant.organisation);
    // So narrow that each name takes a row of the legend.
    const page = await openAlone('standings?since=all', token, { viewport: { width: 320, height: 640 } });
    const texts = [5, 4, 3].map(value => `Rule that gives all ${value}: ${value}, `);
    await page.getByText(`${texts.join('')}${longName}: -2`, { exact: true }).waitFor();
    const hasLast = `(canvas => {
      const { data } = canvas.getContext('2d').getImageData(0, canvas.height / 2, canvas.width, canvas.height / 2);
      return data.some((red, at) => at % 4 === 0 && red === 0xb2 && data[at + 1] === 0x57 && data[at + 2] === 0xc9);
    })(document.querySelector('canvas'))`;
    await expect.poll(() => page.evaluate(hasLast)).toBe(true);
  });

  test('show the beginning of a name beside the bars on a phone', async () => {
    const tenant = await world.newTenant();
    const author = tenant.acme.member('kim', { name: 'Kimberly Bartholomew-Featherstone' });
    tenant.acme.repository('web').addPullRequest({ author, title: 'One' });
    await importPullRequests(world.service, tenant.organisation);
    const page = await openAlone('nowhere', tenant.token, { viewport: { width: 320, height: 640 } });
    // Names end where they are drawn.
    await page.evaluate(`{
      const { fillText } = CanvasRenderingContext2D.prototype;
      CanvasRenderingContext2D.prototype.fillText = function (text, ...at) {
        if (text.startsWith('Kim')) window.begin = this.getTransform().e - this.measureText(text).width;
        fillText.call(this, text, ...at);
      };
    }`);
    await goTo(page, 'standings?since=all');
    await expect.poll(() => page.evaluate('window.begin')).toBeGreaterThanOrEqual(0);
  });

  test('do not say of a merged one that nothing can change its score', async () => {
    const tenant = await world.newTenant();
    const source = tenant.acme.repository('web').addPullRequest({ author: tenant.acme.member('eve'), title: 'Done' });
    source.merge();
    await importPullRequests(world.service, tenant.organisation);
    const page = await openAlone('pull-requests?since=all', tenant.token);
    await page.getByRole('link', { name: 'Done' }).click();
    await page.getByText('Shown only while it is open.').waitFor();
  });

  test('keep the days of a period in the address, so that a link shows the same next month', async () => {
    const page = await open(`members/${member}`);
    await page.getByText('rank 1 of 1').waitFor();
    expect(page.url()).toMatch(/\?since=\d{4}-\d\d-01&until=\d{4}-\d\d-\d\d$/);
  });

  test('keep the period from view to view', async () => {
    const page = await open(`members/${member}`);
    await page.getByRole('button', { name: 'Last week' }).click();
    const days = /\?since=(\d{4}-\d\d-\d\d)&until=(\d{4}-\d\d-\d\d)/;
    await expect.poll(() => page.url()).toMatch(days);
    const [, since = '', until = ''] = days.exec(page.url()) ?? [];
    expect(new Date(since).getUTCDay()).toBe(1);
    expect(Date.parse(until) - Date.parse(since)).toBe(6 * 86_400_000);
    await page.getByRole('navigation').getByRole('link', { name: 'Rules' }).click();
    await page.getByRole('button', { name: 'Last week', pressed: true }).waitFor();
    expect(page.url()).toContain(`since=${since}`);
  });

  test('link to no address that would run', async () => {
    const page = await open('standings');
    await page.route(`**/pull-requests/${pullRequest}`, async route => {
      const body = await (await route.fetch()).text();
      await route.fulfill({ json: { data: { ...JSON.parse(body).data, url: 'javascript:alert(1)' } } });
    });
    await goTo(page, `pull-requests/${pullRequest}`);
    await page.getByRole('heading', { name: '7 points' }).waitFor();
    await page.getByText('By version').waitFor();
    expect(await page.locator('main a').allInnerTexts()).toEqual(['ada']);
  });

  test('say in words what is wrong with an address', async () => {
    const page = await open('standings');
    for (const [view, text] of [
      ['nowhere', 'There is no such view.'],
      ['members/mem_unknown', 'There is no member with this id.'],
      ['pull-requests/pr_unknown', 'There is no pull request with this id.'],
      [`pull-requests/${foreign}`, 'This action is unauthorized.'],
      ['pull-requests?since=2026-13-01', 'created_since must be'],
      ['pull-requests?by=nothing&state=odd', 'state must be'],
      ['standings?since=2026-02-30', '"2026-02-30" is not a valid day.'],
      // What every object has.
      ['constructor', 'There is no such view.'],
    ] as const) {
      await goTo(page, view);
      await page.getByText(text).first().waitFor();
    }
  });

  test.each([
    ['standings?since=2026-02-30', '"2026-02-30" is not a valid day.'],
    [`members/${member}?since=2026-02-30`, '"2026-02-30" is not a valid day.'],
    [`members/${member}?since=2026-11-30&until=2026-11-01`, 'The period begins after it ends'],
  ])('say once what is wrong with a period: %s', async (view, text) => {
    const page = await openAlone(view);
    await page.getByText(text).first().waitFor();
    await page.waitForLoadState('networkidle');
    await expect.poll(() => page.getByRole('alert').count()).toBe(1);
    await page.getByRole('button', { name: 'All time' }).click();
    await page
      .getByRole('link', { name: /^(Ada|Number 119)/ })
      .first()
      .waitFor();
    expect(await page.getByRole('alert').count()).toBe(0);
  });

  test('say once that a score cannot be explained, and show the rest', async () => {
    const page = await open('nowhere');
    await page.route('**/explanation', route => route.fulfill({ status: 500, json: { message: 'It failed.' } }));
    await goTo(page, `pull-requests/${pullRequest}`);
    await page.getByRole('alert').first().waitFor();
    expect(await page.getByRole('alert').count()).toBe(1);
    await page.getByRole('table', { name: 'What counted' }).waitFor();
    await page.getByRole('table', { name: 'How the score changed' }).waitFor();
  });

  test('keep showing the period that was shown last while the next one is loaded', async () => {
    const page = await open('standings?since=2020-01-01&until=2020-01-31');
    const shown = page.locator('main p').filter({ hasText: 'UTC' });
    await page.getByText('1 Jan 2020').waitFor();
    await page.route(/standings\?/, async route => {
      // Neither what the rules gave in 2021 nor anything of 2022 arrives.
      if (!/by_rule|2022/.test(route.request().url())) await route.continue();
    });
    await goTo(page, 'standings?since=2021-01-01&until=2021-01-31');
    await page.getByText('1 Jan 2021').waitFor();
    await goTo(page, 'standings?since=2022-01-01&until=2022-01-31');
    await page.locator('main [aria-busy=true]').first().waitFor();
    await expect.poll(() => page.getByLabel('From').inputValue()).toBe('2022-01-01');
    expect(await shown.innerText()).toContain('1 Jan 2021');
  });

  test('list each problem of a rule that is no longer valid', async () => {
    const page = await open('standings');
    await page.route('**/explanation', async route => {
      const response = await route.fetch();
      const json = (await response.json()) as { data: { rules: object[] } };
      Object.assign(json.data.rules[1] ?? {}, { problems: ['The first problem.', 'The second problem.'] });
      await route.fulfill({ response, json });
    });
    await goTo(page, `pull-requests/${pullRequest}`);
    await page.locator('summary', { hasText: 'Large' }).click();
    await page.getByRole('listitem').getByText('The second problem.', { exact: true }).waitFor();
    expect(await violationsOf(page)).toEqual([]);
  });

  test('say that a sync is under way', async () => {
    const page = await open(`pull-requests/${pullRequest}`);
    await page.route('**/sync', () => undefined);
    await page.getByRole('button', { name: 'Sync' }).press('Enter');
    await page.getByRole('status').getByText('Under way…').waitFor();
    expect(await focusedOn(page)).toBe('Sync');
  });

  test('leave the focus in the view when what had it is gone', async () => {
    const page = await openAlone('nowhere');
    await page.route('**/rules/versions', route => route.fulfill({ status: 500, json: {} }));
    await goTo(page, 'rules?since=all');
    const isInView = () => page.evaluate("document.activeElement.matches('main, main *')");
    await page.getByRole('button', { name: 'Try again' }).press('Enter');
    expect(await isInView()).toBe(true);
    await page.getByRole('button', { name: 'Sign out' }).press('Enter');
    await page.getByLabel('Access token').waitFor();
    expect(await isInView()).toBe(true);
    await page.getByLabel('Access token').fill(world.token);
    await page.getByRole('button', { name: 'Sign in' }).press('Enter');
    await page.getByRole('button', { name: 'Sign out' }).waitFor();
    expect(await isInView()).toBe(true);
  });

  test('leave the focus in the view when the list that had it is replaced', async () => {
    const page = await open('pull-requests?since=all');
    const state = page.getByLabel('State');
    await state.selectOption('open');
    await page.getByRole('link', { name: 'Number 119' }).focus();
    await page.goBack();
    await expect.poll(() => state.inputValue()).toBe('');
    expect(await page.evaluate("document.activeElement.matches('main')")).toBe(true);
  });

  test('say why the last action failed, and not the one before', async () => {
    const page = await open(`pull-requests/${pullRequest}`);
    page.on('dialog', dialog => dialog.accept());
    await page.route(/pull-requests\/pr_\w+(\/sync)?$/, route => {
      const method = route.request().method();
      if (method === 'GET') return route.continue();
      return route.fulfill({ status: 502, json: { message: `${method} has failed.` } });
    });
    for (const [name, method] of [
      ['Sync', 'PUT'],
      ['Delete', 'DELETE'],
      ['Sync', 'PUT'],
    ] as const) {
      await page.getByRole('button', { name }).click();
      await page.getByText(`${method} has failed.`).waitFor();
      expect(await page.getByRole('alert').count()).toBe(1);
    }
  });

  test('keep what one types while figures arrive', async () => {
    const page = await open('standings');
    const release = await holdRequests(page, '**/weeks*');
    await goTo(page, `members/${member}?since=all`);
    await page.getByLabel('Repository').pressSequentially('acme/we');
    release();
    await page.getByRole('heading', { name: 'Points by week' }).waitFor();
    expect(await page.getByLabel('Repository').inputValue()).toBe('acme/we');
  });

  test('keep the part of a day that one has typed while figures arrive', async () => {
    const page = await open('standings');
    const release = await holdRequests(page, '**/weeks*');
    const from = page.getByLabel('From', { exact: true });
    await goTo(page, `members/${member}?since=2026-11-01`);
    await from.focus();
    // The year comes last.
    await page.keyboard.press('Tab');
    await page.keyboard.press('Tab');
    await page.keyboard.type('20');
    expect(await from.inputValue()).toBe('0020-11-01');
    release();
    await page.getByRole('heading', { name: 'Points by week' }).waitFor();
    expect(await from.inputValue()).toBe('0020-11-01');
  });

  test('go on by themselves when the service is back', async () => {
    const page = await open('nowhere');
    let isAway = true;
    await page.route('**/2026-12/**', route => (isAway ? route.abort() : route.continue()));
    for (const [view, text] of [
      [`pull-requests/${pullRequest}`, '7 points'],
      ['standings?since=all', 'Members by points'],
    ] as const) {
      isAway = true;
      await goTo(page, view);
      await page.getByText('The service cannot be reached.').first().waitFor();
      isAway = false;
      await page.getByRole('heading', { name: text }).waitFor();
    }
    isAway = true;
    await page.getByRole('button', { name: 'Last 12 months' }).click();
    await page.getByText('The service cannot be reached.').waitFor();
    expect(await violationsOf(page)).toEqual([]);
  });

  test('try again after a second if a proxy says by a date when the service is back', async () => {
    const page = await open('nowhere');
    const headers = { 'retry-after': 'Fri, 04 Dec 2026 07:28:00 GMT' };
    await page.route('**/rules/versions', route => route.fulfill({ status: 503, headers, json: {} }));
    await goTo(page, 'rules');
    await page.getByText('The service answered with status 503. The next try is in 1 s.').waitFor();
  });

  test('try again after an hour if a proxy says that the service is away for a month', async () => {
    const page = await open('nowhere');
    let asked = 0;
    await page.route('**/rules/versions', route => {
      asked += 1;
      return route.fulfill({ status: 503, headers: { 'retry-after': '2592000' }, json: {} });
    });
    await goTo(page, 'rules');
    await page.getByText('The service answered with status 503. The next try is in 3600 s.').waitFor();
    expect(asked).toBe(1);
  });

  test('say that a token has ended, and forget it', async () => {
    const token = await createToken(world.service, world.user, ['read', 'sync']);
    const page = await openAlone(`pull-requests/${pullRequest}`, token);
    await page.getByRole('button', { name: 'Sync' }).waitFor();
    expect(await page.getByRole('button', { name: 'Delete' }).count()).toBe(0);
    await world.service.database.executor.execute(
      sql`update access_tokens set revoked_at = now() where scopes = '{read,sync}'`,
    );
    await page.getByRole('button', { name: 'Sync' }).press('Enter');
    await page.getByText('This token is not valid.').waitFor();
    expect(await page.evaluate('sessionStorage.length')).toBe(0);
    expect(await page.title()).toBe('pullscore');
  });

  test('show points for pull requests, for reviews, and the sum, and why a review has them', async () => {
    const tenant = await world.newTenant();
    const [author, reviewer] = ['cyd', 'dee'].map(login => tenant.acme.member(`${login}-reviews`));
    if (author === undefined || reviewer === undefined) throw new Error('no members');
    await syncMembers(world.service, tenant.organisation);
    const token = await createToken(world.service, tenant.user, ['read', 'rules:read', 'rules:write']);
    const rules = (points: string) =>
      formatRulesFile({
        ...rulesetOf([rule('Opened', entry('true', '10'))]),
        reviews: [rule('Approved', entry('verdict == "approved"', points))],
      });
    await world.client.applyFile(token, rules('3'));
    tenant.acme.repository('web').addPullRequest({ author, title: 'Reviewed' }).review(reviewer, 'APPROVED');
    await importPullRequests(world.service, tenant.organisation);
    const page = await openAlone('standings?since=all', token);
    await page.getByText('13 points for 1 pull request and 1 review.').waitFor();
    const table = page.getByRole('table', { name: 'Members by points' });
    await table.getByText('Approved: 3').waitFor();
    const rows = await table.getByRole('row').allInnerTexts();
    expect(rows.map(row => row.split(/\s*\n\s*/).slice(0, 5))).toEqual([
      ['Rank', 'Member', 'Points', 'For pull requests', 'For reviews'],
      ['1', 'cyd-reviews', '10', '10', '0'],
      ['2', 'dee-reviews', '3', '0', '3'],
    ]);
    await page.getByRole('link', { name: 'dee-reviews' }).click();
    await page.getByText('3 points for 0 pull requests and 1 review: rank 2 of 2.').waitFor();
    await goTo(page, 'pull-requests?since=all');
    await page.getByRole('link', { name: 'Reviewed' }).click();
    const review = page.getByRole('table', { name: 'What they are worth to reviewers' }).getByRole('row').nth(1);
    expect(await review.innerText()).toMatch(/^dee-reviews\s+Approved\s+3$/);
    await page.getByText('Review by dee-reviews').click();
    await page.getByText('it adds 3').waitFor({ state: 'attached' });
    expect(await violationsOf(page)).toEqual([]);
    await goTo(page, 'rules?since=all');
    await page.getByRole('row', { name: /^Approved For reviews: adds 3 if verdict == "approved" – 3 \d/ }).waitFor();
    await goTo(page, 'try-rules');
    await page.getByLabel('Or drop it here, or type:').fill(rules('5'));
    await page.getByRole('button', { name: 'Try' }).click();
    await page.getByText('What would change for reviews').waitFor();
    await page.getByRole('row', { name: 'Approved changed 3 5' }).waitFor();
    await page.getByRole('row', { name: 'a friend approves at once' }).waitFor();
  });

  test('ask before a deletion', async () => {
    const page = await open(`pull-requests/${pullRequest}`);
    const answer = async (take: (dialog: Dialog) => Promise<void>) => {
      const asked = page.waitForEvent('dialog').then(async dialog => {
        expect(dialog.message()).toMatch(/^Delete this pull request\?/);
        await take(dialog);
      });
      await Promise.all([asked, page.getByRole('button', { name: 'Delete' }).press('Enter')]);
    };
    await answer(dialog => dialog.dismiss());
    const { status } = await world.client.get(`/2026-12/pull-requests/${pullRequest}`, world.token);
    expect(status).toBe(200);
    await answer(dialog => dialog.accept());
    await page.getByRole('heading', { name: 'Pull requests', level: 1 }).waitFor();
    const deleted = await world.client.get(`/2026-12/pull-requests/${pullRequest}`, world.token);
    expect(deleted.status).toBe(404);
  });
});
