import type { Page } from 'playwright-core';
import { launchBrowser } from '../test/support/browser.ts';
import { startReader } from './processes.ts';
import { atMost, median, print, takeTurns, within } from './report.ts';
import { allPullRequests, joinStored } from './stored.ts';

const rounds = 5;

const maxFirstViewMs = 1_000;

const listedRows = 10_000;
/** At 60 frames a second, one that comes later than this has left out another. */
const maxFrameMs = 25;

/**
 * Until the first row of a table is painted, in milliseconds since the address was entered. Playwright looks for a row
 * twice a second, and a new tab takes a quarter of a second of its own.
 */
const watchFirstRow = `globalThis.firstRowPainted = new Promise(painted =>
  new MutationObserver((_, observer) => {
    if (document.getElementsByTagName('tr').length < 2) return;
    observer.disconnect();
    requestAnimationFrame(() => {
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = () => painted(performance.now());
      port2.postMessage(null);
    });
  }).observe(document, { childList: true, subtree: true }),
)`;

/** What somebody sees who opens the page of a large organisation, and scrolls. */
export async function measure(): Promise<void> {
  await using server = await joinStored();
  await using service = await startReader(server.url);
  await using browser = await launchBrowser();
  /** In a tab of its own, without anything in its cache. */
  const openTable = async (place: string): Promise<Page> => {
    const page = await (await browser.newContext({ locale: 'en-GB' })).newPage();
    await page.addInitScript(watchFirstRow);
    await page.addInitScript(`sessionStorage.setItem('token', '${server.token}')`);
    await page.goto(`${service.origin}/#/${place}`, { waitUntil: 'commit' });
    await page.getByRole('row').nth(1).waitFor();
    return page;
  };
  const periods = { month: 'since=2017-07-14&until=2017-08-13', all: 'since=all' };
  const { month, all } = await takeTurns(rounds, periods, async period => {
    const page = await openTable(`standings?${period}`);
    const painted = await page.evaluate<number>('firstRowPainted');
    await page.context().close();
    return Math.round(painted);
  });
  print(`standings of all time: ${all.join(', ')} ms`);
  const what = `standings of a month, of ${allPullRequests}, until the table is painted`;
  within(maxFirstViewMs, 'ms', what, median(month), `${month.join(', ')} ms`);
  await measureScrolling(await openTable('pull-requests?since=all'));
}

/** Through a list that is loaded already, half a screen with each frame. */
async function measureScrolling(page: Page): Promise<void> {
  await page.evaluate(`new Promise(done => {
    const rows = document.getElementsByTagName('tr');
    const load = () => {
      scrollTo(0, document.documentElement.scrollHeight);
      if (rows.length < ${listedRows}) requestAnimationFrame(load);
      else done();
    };
    load();
  })`);
  const frames = await page.evaluate<number[]>(`new Promise(done => {
    const frames = [];
    let before;
    scrollTo(0, 0);
    const step = now => {
      if (before !== undefined) frames.push(now - before);
      before = now;
      scrollBy(0, innerHeight / 2);
      if (frames.length < 600) requestAnimationFrame(step);
      else done(frames);
    };
    setTimeout(() => requestAnimationFrame(step), 1000);
  })`);
  const dropped = frames.filter(ms => ms > maxFrameMs).length;
  const times = `the longest ${Math.round(Math.max(...frames))} ms, median ${Math.round(median(frames))} ms`;
  atMost(0, `frames dropped while scrolling through ${listedRows.toLocaleString('en')} loaded rows`, 'none', {
    ratio: dropped,
    detail: `${dropped} of ${frames.length}, ${times}`,
  });
}
