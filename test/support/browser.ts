import { execFileSync } from 'node:child_process';
import axe from 'axe-core';
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import { afterAll, onTestFinished, TestRunner } from 'vitest';
import { createLatch } from './github/faults.ts';

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

export function launchBrowser(): Promise<Browser> {
  // Without a process for graphics, which draws by software here, a test takes a seventh less processor time; without
  // the list below the address bar, which has a process in each window, another third.
  const features = '--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup';
  const args = ['--no-sandbox', '--disable-gpu', '--in-process-gpu', features];
  return chromium.launch({ executablePath: executablePath ?? '', args });
}

/** Closed when the test ends, or with the file if no test calls it. */
export async function openBrowser(): Promise<Browser> {
  const browser = await launchBrowser();
  const atEnd = TestRunner.getCurrentTest() === undefined ? afterAll : onTestFinished;
  atEnd(() => browser.close());
  return browser;
}

/** What axe-core finds on a page of {@link openSignedIn}. */
export async function violationsOf(page: Page): Promise<[rule: string, html: string][]> {
  // Not in every page: it takes a while to load.
  await page.evaluate(`'axe' in window || (0, eval)(${JSON.stringify(axe.source)})`);
  const { violations } = await page.evaluate<axe.AxeResults>("axe.run({ resultTypes: ['violations'] })");
  return violations.flatMap(({ id, nodes }) => nodes.map(({ html }): [string, string] => [id, html]));
}

/** How many charts of a page show no bar in the colour of the first series. */
export const chartsWithoutBars = (page: Page) =>
  page.evaluate<number>(`[...document.querySelectorAll('canvas')].filter(canvas => {
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    return !data.some((red, at) => at % 4 === 0 && red === 0x3b && data[at + 1] === 0x7a && data[at + 2] === 0xe6);
  }).length`);

/** The text of what has the focus, once the browser has drawn what was made: then it leaves what is disabled. */
export const focusedOn = (page: Page) =>
  page.evaluate<string>(`new Promise(done =>
    requestAnimationFrame(() => requestAnimationFrame(() => done(document.activeElement.innerText))))`);

/** Requests of the page to such addresses wait until they are released. @returns what releases them */
export async function holdRequests(page: Page, addresses: string): Promise<() => void> {
  const { released, release } = createLatch();
  await page.route(addresses, async route => {
    await released;
    await route.continue();
  });
  return release;
}

export const goTo = (page: Page, view: string) => page.evaluate(`location.hash = ${JSON.stringify(`#/${view}`)}`);

interface Place {
  address: string;
  token: string;
  view: string;
}

/**
 * Opens the page in a tab of its own that is signed in. Closed when the test ends.
 *
 * @param browser undefined if there is none: see {@link hasBrowser}
 * @returns also what breaks the policy, or asks somebody else, from now on
 */
export async function openSignedIn(browser: Browser | undefined, place: Place, options: BrowserContextOptions = {}) {
  const tab = await openTab(browser, place, options);
  onTestFinished(async () => {
    await forgetRoutes(tab.page);
    await tab.page.context().close();
  });
  return tab;
}

/**
 * One tab for the tests of a file: to load the page takes ten times as long as to go to a view of it. Between tests the tab
 * shows no view, and keeps nothing of what was shown.
 *
 * @returns a function that goes to a view
 */
export function shareTab(browser: Browser | undefined, signIn: () => Omit<Place, 'view'>) {
  let opening: ReturnType<typeof openTab> | undefined;
  return async (view: string): Promise<Page> => {
    opening ??= openTab(browser, { ...signIn(), view: 'nowhere' });
    const { page } = await opening;
    onTestFinished(async () => {
      await forgetRoutes(page);
      page.removeAllListeners('dialog');
      await goTo(page, 'nowhere');
      await page.getByText('There is no such view.').waitFor();
    });
    await goTo(page, view);
    return page;
  };
}

/** A request of the page may be on its way through a route of the test, which would fail outside of any test. */
const forgetRoutes = (page: Page) => page.unrouteAll({ behavior: 'ignoreErrors' });

async function openTab(
  browser: Browser | undefined,
  { address, token, view }: Place,
  options: BrowserContextOptions = {},
): Promise<{ page: Page; problems: string[] }> {
  if (browser === undefined) throw new Error('The browser has not started.');
  const context = await browser.newContext({ locale: 'en-GB', ...options });
  await context.route(/^https:/, route => route.fulfill({ status: 204 }));
  const page = await context.newPage();
  const problems: string[] = [];
  page.on('console', message => message.type() === 'error' && problems.push(message.text()));
  page.on('pageerror', error => problems.push(error.message));
  page.on('request', request => {
    const url = request.url();
    const isOurs = url.startsWith(address) || request.resourceType() === 'image';
    if (!isOurs || url.includes(token)) problems.push(`asks ${url}`);
  });
  await page.addInitScript(`sessionStorage.setItem('token', '${token}')`);
  await page.goto(`${address}/#/${view}`, { waitUntil: 'commit' });
  await page.getByRole('button', { name: 'Sign out' }).waitFor();
  return { page, problems };
}
