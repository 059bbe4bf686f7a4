import { execFileSync } from 'node:child_process';
import { type Browser, chromium, type Page } from 'playwright-core';
import { startReader } from './processes.ts';
import { median, type Row } from './report.ts';
import { joinStored, pullRequests } from './stored.ts';

const rounds = 5;

const maxFirstViewMs = 1_000;

const listedRows = 10_000;
/** At 60 frames a second, one that comes later than this has left out another. */
const maxFrameMs = 25;

/** What somebody sees who opens the page of a large organisation, and scrolls. */
export async function measurePage(): Promise<Row[]> {
  const server = await joinStored();
  const service = await startReader(server.url);
  const browser = await chromium.launch({
    executablePath: execFileSync('which', ['chromium'], { encoding: 'utf8' }).trim(),
    args: ['--no-sandbox', '--disable-gpu', '--in-process-gpu'],
  });
  const address = `http://127.0.0.1:${service.port}/#/`;
  try {
    const opened = async (period: string) => {
      const times: number[] = [];
      for (let round = 1; round <= rounds; round += 1) {
        const begin = performance.now();
        const page = await open(browser, `${address}standings?${period}`, server.token);
        await page.getByRole('row').nth(1).waitFor();
        times.push(Math.round(performance.now() - begin));
        await page.context().close();
      }
      return times;
    };
    const month = await opened('since=2017-07-14&until=2017-08-13');
    process.stdout.write(`  standings of all time: ${(await opened('since=all')).join(', ')} ms\n`);
    const list = await open(browser, `${address}pull-requests?since=all`, server.token);
    return [
      {
        what: `standings of a month, of ${pullRequests.toLocaleString('en')} pull requests, until the table is there`,
        against: 'a second',
        ratio: median(month) / maxFirstViewMs,
        target: 1,
        comparison: 'at most',
        detail: `${month.join(', ')} ms`,
      },
      await measureScrolling(list),
    ];
  } finally {
    await browser.close();
    await service.stop();
    await server.leave();
  }
}

/** In a tab of its own, without anything in its cache. */
async function open(browser: Browser, url: string, token: string): Promise<Page> {
  const page = await (await browser.newContext({ locale: 'en-GB' })).newPage();
  await page.addInitScript(`sessionStorage.setItem('token', '${token}')`);
  await page.goto(url, { waitUntil: 'commit' });
  return page;
}

/** Through a list that is loaded already, half a screen with each frame. */
async function measureScrolling(page: Page): Promise<Row> {
  await page.getByRole('row').nth(1).waitFor();
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
  return {
    what: `frames dropped while scrolling through ${listedRows.toLocaleString('en')} loaded rows`,
    against: 'none',
    ratio: dropped,
    target: 0,
    comparison: 'at most',
    detail: `${dropped} of ${frames.length}, the longest ${Math.round(Math.max(...frames))} ms, median ${Math.round(median(frames))} ms`,
  };
}
