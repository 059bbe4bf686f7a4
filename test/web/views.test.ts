import { sql } from 'drizzle-orm';
import type { BrowserContextOptions, Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
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
import { rescoreAll } from '../support/rescore.ts';
import { createToken } from '../support/tenants.ts';
import { startWorld } from '../support/world.ts';

const script = '<script>window.wasAttacked = true</script>';
const rules = (value: string) => `rules:
  - name: ${JSON.stringify(`Base ${script}`)}
    description: ${JSON.stringify(`For everybody ${script}`)}
    logic:
      - expression: 'true'
        effect: { action: ADD, value: '${value}' }
`;
describe.skipIf(!hasBrowser)('the page', async () => {
  const browser = hasBrowser ? await openBrowser() : undefined;
  const world = await startWorld();
  const { service, client, web, acme, user, organisation } = world;
  const address = await service.app.listen({ port: 0, host: '127.0.0.1' });
  const token = await createToken(service, user, ['read', 'sync', 'rules:read', 'rules:write']);
  const author = acme.member('ada', { name: `Ada ${script}` });
  for (const title of [`One ${script}`, 'שלום']) web.addPullRequest({ author, title });
  await world.import();
  await client.applyFile(token, rules('7'));
  await rescoreAll(service, organisation.id);
  await service.database.executor.execute(sql`
    insert into sync_requests (organisation_id, github_id, node_id, ticket, due_at, last_error)
    values (${organisation.id}::uuid, 1, 'PR_1', 1, null, ${`It failed ${script}`})`);

  async function drop(page: Page, name: string, bytes: Buffer): Promise<void> {
    await page.locator('form').waitFor();
    // Through atob: a text of 2 MB as a list of numbers takes seconds.
    await page.evaluate(`{
      const dataTransfer = new DataTransfer();
      const bytes = Uint8Array.from(atob('${bytes.toString('base64')}'), byte => byte.charCodeAt(0));
      dataTransfer.items.add(new File([bytes], '${name}'));
      document.querySelector('form').dispatchEvent(new DragEvent('drop', { dataTransfer, bubbles: true, cancelable: true }));
    }`);
  }

  const open = shareTab(browser, () => ({ address, token }));
  const openAlone = (view: string, options: BrowserContextOptions = {}, by = token) =>
    openSignedIn(browser, { address, token: by, view }, options);

  const content = {
    standings: 'Members by points',
    'rules?since=all': 'what they gave and took in the period',
    'try-rules': 'Or drop it here, or type:',
    health: 'Pull requests that fail',
  };
  const looks = [
    { colorScheme: 'light', viewport: { width: 1280, height: 800 } },
    { colorScheme: 'dark', viewport: { width: 360, height: 640 } },
  ] as const;
  test.each(looks)('is there for everybody, $colorScheme and $viewport.width pixels wide', async look => {
    const { page, problems } = await openAlone('standings', look);
    for (const [view, text] of Object.entries(content)) {
      await goTo(page, view);
      await page.getByText(text).first().waitFor();
      await page.getByText('Loading…').first().waitFor({ state: 'hidden' });
      expect([view, await chartsWithoutBars(page)]).toEqual([view, 0]);
      expect([view, await violationsOf(page)]).toEqual([view, []]);
      const seen = "['wasAttacked' in window, document.documentElement.scrollWidth - innerWidth]";
      expect([view, await page.evaluate(seen), problems]).toEqual([view, [false, 0], []]);
    }
  });

  test('signs in by a link, whose token leaves the address and is in none that is sent', async () => {
    const context = await browser?.newContext();
    const page = await context?.newPage();
    const asked: string[] = [];
    page?.on('request', request => asked.push(`${request.url()} ${request.headers().referer}`));
    await page?.goto(`${address}/#token=${token}`);
    await page?.getByText('Members by points').waitFor();
    expect(page?.url()).not.toContain('token');
    expect(asked.filter(url => url.includes(token))).toEqual([]);
    await context?.close();
  });

  test('signs in by a link that is opened where the page is open already', async () => {
    const context = await browser?.newContext();
    const page = await context?.newPage();
    await page?.goto(`${address}/`);
    await page?.getByRole('button', { name: 'Sign in' }).waitFor();
    await page?.evaluate(`location.hash = '#token=${token}'`);
    await page?.getByText('Members by points').waitFor();
    expect(page?.url()).not.toContain('token');
    await context?.close();
  });

  test('shows rules with what they gave, when they were created, and their versions', async () => {
    const page = await open('rules?since=all');
    const rule = page.getByRole('row', { name: /^Base .* UTC 14 100%$/ });
    await rule.getByRole('rowheader', { name: `Base ${script}`, exact: true }).waitFor();
    await page.getByRole('columnheader', { name: 'Created' }).waitFor();
    await rule.getByText(`For everybody ${script}`).waitFor();
    expect(await rule.textContent()).toMatch(/adds 7 if true/);
    const version = page.getByRole('table', { name: 'Versions' }).getByRole('row').nth(1);
    expect(await version.textContent()).toContain(world.user.email);
  });

  test('tries typed rules with the keyboard alone, and saves nothing', async () => {
    const { page, problems } = await openAlone('try-rules');
    await page.getByLabel('Or drop it here, or type:').focus();
    await page.keyboard.insertText(rules('90 + 9 * commits'));
    await page.keyboard.press('Shift+Tab');
    await page.keyboard.press('Enter');
    await page.getByText('2 of 2 scores: 2 rise, 0 fall. The sum goes from 14 to 198.').waitFor();
    const games = page.getByRole('table', { name: 'How it can be gamed' });
    await games.getByRole('row', { name: 'ten more commits new 0% (0) 100% (+90)' }).waitFor();
    await page.getByRole('row', { name: /^0 to \d+ 2 0$/ }).waitFor();
    expect(await page.getByRole('link', { name: 'שלום' }).getAttribute('href')).toMatch(/^#\/pull-requests\/pr_/);
    expect(await violationsOf(page)).toEqual([]);
    expect(problems).toEqual([]);
    const { body } = await world.client.get('/2026-12/rules/versions', token);
    expect(body).toMatchObject({ data: [{ version: 1 }] });
  });

  test('says at which lines a rules file has mistakes, with the id of the request', async () => {
    const page = await open('try-rules');
    await page.getByLabel('Or drop it here, or type:').fill(`${rules('9 +')}    unless: merged\n`);
    await page.getByRole('button', { name: 'Try' }).click();
    const alert = page.getByRole('alert');
    await alert.waitFor();
    expect(await alert.innerText()).toMatch(/^\s*Line 6: .*\s+Line 7: .*`?unless`?.*\s+Request id: /);
  });

  test('takes a rules file that is dropped, and says in words why it refuses other files', async () => {
    const page = await open('try-rules');
    for (const [name, bytes, problem] of [
      ['large.yaml', Buffer.alloc(2_000_001, 'a'), 'is larger than 2 MB'],
      ['2 MB.yaml', Buffer.alloc(2_000_000, 'a'), 'is longer than 1,000,000 characters'],
      ['empty.yaml', Buffer.from(' \n'), 'is empty'],
      ['picture.png', Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), 'is not a text in UTF-8'],
      ['NUL.yaml', Buffer.from('rules: []\0'), 'is not a text in UTF-8'],
      ['Latin-1.yaml', Buffer.from('# für alle', 'latin1'), 'is not a text in UTF-8'],
    ] as const) {
      await drop(page, name, bytes);
      await page.getByRole('alert').getByText(`${name} ${problem}`).waitFor();
    }
    const text = `# U+FFFD is \uFFFD\n${rules('9')}`;
    await drop(page, 'rules.yaml', Buffer.from(text));
    await expect.poll(() => page.getByLabel('Or drop it here, or type:').inputValue()).toBe(text);
    // A text that is dropped into the field is the browser's affair.
    const dropText =
      "document.querySelector('textarea').dispatchEvent(new DragEvent('drop', { bubbles: true, cancelable: true }))";
    expect(await page.evaluate(dropText)).toBe(true);
  });

  test('reads a chosen file that was edited when one chooses it again', async () => {
    const page = await open('try-rules');
    const input = page.getByLabel('Rules file', { exact: true });
    const choose = async (text: string) => {
      const [chooser] = await Promise.all([page.waitForEvent('filechooser'), input.click()]);
      // A browser says nothing if the file is the one before.
      expect(await input.inputValue()).toBe('');
      await chooser.setFiles({ name: 'rules.yaml', mimeType: 'application/yaml', buffer: Buffer.from(text) });
      await expect.poll(() => page.getByLabel('Or drop it here, or type:').inputValue()).toBe(text);
    };
    await choose(rules('8'));
    await choose(rules('9'));
  });

  test.each([
    ['text', Buffer.from(rules('8'))],
    ['problem', Buffer.from(' ')],
  ])('takes the file that was chosen last, if the %s of the one before comes after it', async (_, bytes) => {
    const page = await open('try-rules');
    const field = page.getByLabel('Or drop it here, or type:');
    await field.fill('');
    await page.evaluate(`{
      const { arrayBuffer } = File.prototype;
      window.release = undefined;
      File.prototype.arrayBuffer = async function () {
        File.prototype.arrayBuffer = arrayBuffer;
        const bytes = await this.arrayBuffer();
        await new Promise(release => { window.release = release; });
        return bytes;
      };
    }`);
    await drop(page, 'first.yaml', bytes);
    await drop(page, 'last.yaml', Buffer.from(rules('9')));
    await expect.poll(() => field.inputValue()).toBe(rules('9'));
    await expect.poll(() => page.evaluate('typeof release')).toBe('function');
    await page.evaluate('release()');
    expect([await field.inputValue(), await page.getByRole('alert').count()]).toEqual([rules('9'), 0]);
  });

  test('stops a plan on request', async () => {
    const page = await open('try-rules');
    await page.route('**/rules/plan*', () => undefined);
    const file = { name: 'rules.yaml', mimeType: 'text/yaml', buffer: Buffer.from(rules('9')) };
    await page.getByLabel('Rules file').setInputFiles(file);
    await page.getByRole('button', { name: 'Try' }).click();
    const failed = page.waitForEvent('requestfailed');
    await page.getByRole('button', { name: 'Stop' }).click();
    expect((await failed).url()).toContain('/2026-12/rules/plan');
    await page.getByRole('button', { name: 'Stop' }).waitFor({ state: 'detached' });
    expect(await page.getByRole('alert').count()).toBe(0);
  });

  test('leaves the focus where one can go on after Try and Stop', async () => {
    const page = await open('try-rules');
    await page.route('**/rules/plan*', () => undefined);
    const stop = page.getByRole('button', { name: 'Stop' });
    await page.getByLabel('Or drop it here, or type:').fill(rules('9'));
    await page.getByRole('button', { name: 'Try' }).press('Enter');
    await stop.waitFor();
    expect(await focusedOn(page)).toBe('Try');
    await page.keyboard.press('Tab');
    expect(await focusedOn(page)).toBe('Stop');
    await page.keyboard.press('Enter');
    await stop.waitFor({ state: 'detached' });
    expect(await focusedOn(page)).toBe('Try');
  });

  test('leaves the focus in the view when a plan ends, and with it Stop', async () => {
    const page = await open('try-rules');
    const release = await holdRequests(page, '**/rules/plan*');
    await page.getByLabel('Or drop it here, or type:').fill(rules('9'));
    await page.getByRole('button', { name: 'Try' }).press('Enter');
    await page.getByRole('button', { name: 'Stop' }).focus();
    release();
    await page.getByText('The result is below.').waitFor();
    expect(await page.evaluate("document.activeElement.matches('main')")).toBe(true);
  });

  test('sends no second plan while one is under way', async () => {
    const page = await open('try-rules');
    const asked: unknown[] = [];
    await page.route('**/rules/plan*', route => void asked.push(route));
    await page.getByLabel('Or drop it here, or type:').fill(rules('9'));
    const button = page.getByRole('button', { name: 'Try' });
    await Promise.all([page.waitForRequest('**/rules/plan*'), button.press('Enter')]);
    await page.getByRole('button', { name: 'Stop' }).waitFor();
    await button.press('Enter');
    await button.press('Space');
    await page.getByRole('button', { name: 'Stop' }).click();
    await page.getByRole('button', { name: 'Stop' }).waitFor({ state: 'detached' });
    expect(asked.length).toBe(1);
  });

  test('says once that a plan is under way', async () => {
    const page = await open('try-rules');
    const begin = async () => {
      await page.getByLabel('Or drop it here, or type:').fill(rules('9'));
      await page.getByRole('button', { name: 'Try' }).click();
    };
    await begin();
    await page.getByRole('status').getByText('The result is below.').waitFor();
    await page.route('**/rules/plan*', () => undefined);
    await begin();
    await page.getByRole('status').getByText('Scoring all pull requests by these rules.', { exact: true }).waitFor();
    await page.getByRole('progressbar').waitFor();
    expect(await violationsOf(page)).toEqual([]);
  });

  test('shows a result only beside the text that was tried', async () => {
    const page = await open('try-rules');
    const field = page.getByLabel('Or drop it here, or type:');
    const says = (text: string) => page.getByRole('status').getByText(text).waitFor();
    const button = page.getByRole('button', { name: 'Try' });
    const tables = page.getByRole('table');
    const file = { name: 'rules.yaml', mimeType: 'text/yaml', buffer: Buffer.from(rules('10')) };
    await field.fill(rules('9'));
    await button.click();
    for (const replace of [
      () => field.fill(rules('10')),
      () => drop(page, file.name, file.buffer),
      () => page.getByLabel('Rules file').setInputFiles(file),
    ]) {
      await says('The result is below.');
      await tables.first().waitFor();
      await replace();
      await says('The text has changed since the last try.');
      expect(await tables.count()).toBe(0);
      await field.fill(rules('9'));
    }
    // What comes for a text that has gone meanwhile is not shown either.
    await page.route('**/rules/plan*', async route => {
      await field.fill(rules('10'));
      await route.continue();
    });
    await button.click();
    await says('The text has changed since the last try.');
    expect(await tables.count()).toBe(0);
  });

  test('keeps what was tried while one follows a link of the result, until one signs out', async () => {
    const { page } = await openAlone('try-rules');
    const field = page.getByLabel('Or drop it here, or type:');
    await field.fill(rules('9'));
    await page.getByRole('button', { name: 'Try' }).click();
    await page.getByRole('link', { name: 'שלום' }).click();
    await page.getByRole('heading', { name: 'שלום' }).waitFor();
    await page.goBack();
    await page.getByRole('status').getByText('The result is below.').waitFor();
    expect(await field.inputValue()).toBe(rules('9'));
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByLabel('Access token').fill(token);
    await page.getByRole('button', { name: 'Sign in' }).click();
    expect(await field.inputValue()).toBe('');
  });

  test('keeps the mistakes of a text while one fixes it, and says that it has changed', async () => {
    const page = await open('try-rules');
    const field = page.getByLabel('Or drop it here, or type:');
    await field.fill(rules('9 +'));
    await page.getByRole('button', { name: 'Try' }).click();
    await page.getByRole('alert').waitFor();
    await field.fill(rules('9 + 1'));
    await page.getByRole('status').getByText('The text has changed since the last try.').waitFor();
    await page.getByRole('alert').getByText('Line 6: ').waitFor();
    await drop(page, 'rules.yaml', Buffer.from(rules('8')));
    await page.getByRole('alert').waitFor({ state: 'detached' });
  });

  test('shows what fails to tokens that may sync, and offers others only what they may see', async () => {
    const page = await open('health');
    const failure = page.getByRole('table', { name: 'Pull requests that fail' }).getByRole('row').nth(1);
    expect(await failure.textContent()).toMatch(new RegExp(`${script.replace(/[()]/g, '\\$&')}[\\s\\S]*parked`));
    const reader = await createToken(world.service, world.user, ['read']);
    const other = await openAlone('standings', {}, reader);
    await other.page.getByText('Members by points').waitFor();
    const links = await other.page.getByRole('navigation').getByRole('link').allInnerTexts();
    expect(links).toEqual(['Standings', 'Pull requests', 'Rules']);
    // To read the account, a token needs `read`.
    const syncer = await openAlone('standings', {}, await createToken(world.service, world.user, ['sync']));
    await syncer.page.getByRole('link', { name: 'Health' }).click();
    await syncer.page.getByText('Pull requests that fail').waitFor();
  });

  test('leaves the focus in the view when figures give way to an alert', async () => {
    const page = await open('health');
    const button = page.getByRole('button', { name: 'Look again' });
    await button.focus();
    await page.route('**/health', route => route.fulfill({ status: 500, json: {} }));
    await page.keyboard.press('Enter');
    await page.getByRole('alert').waitFor();
    expect(await page.evaluate("document.activeElement.matches('main')")).toBe(true);
  });
});
