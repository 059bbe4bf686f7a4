import { entry, rule } from '../test/scoring/support.ts';
import { memoryOf } from '../test/support/scorer.ts';
import { applyRules, insertMembers } from '../test/support/tenants.ts';
import { load, loadBeside, steadily, unseenPages } from './load.ts';
import { bearer, startReader } from './processes.ts';
import { within } from './report.ts';
import { joinStored, type Stored } from './stored.ts';

const members = 50_000;
/** Of the list, at once. */
const readers = 4;
const seconds = 10;

/** 200 rules with 50 entries each, as large as they may be: `GET /rules` shows the whole condition of each entry. */
const maxSizeRules = Array.from({ length: 200 }, (_, index) => ({
  ...rule(`Rule ${index}`, ...Array.from({ length: 50 }, (_, place) => entry(`additions > ${place}`, '1'))),
  when: `title != "${'x'.repeat(1_900)}"`,
}));

/** What lists of 50,000 members and of the largest rules cost the other requests of a process, and its memory. */
export async function measure(): Promise<void> {
  await using server = await joinStored();
  await applyRules(server, server.organisationId, { rules: maxSizeRules });
  await insertMembers(server, { organisation: { id: server.organisationId } }, members);
  await measureList(server, 'members', `${members.toLocaleString('en')} members`);
  await measureList(server, 'rules', 'rules of 20 MB');
}

async function measureList({ url, token }: Stored, path: string, what: string): Promise<void> {
  await using service = await startReader(url);
  const pages = unseenPages(service, token);
  await load({ ...pages, ...steadily, duration: 3 });
  const idle = memoryOf(service.id, 'VmRSS');
  let ended = 0;
  const p99 = await loadBeside({ ...pages, duration: seconds }, async () => {
    // A thread of its own reads them: beside megabytes that arrive, pages would wait for their own client.
    const reading = { connections: readers, workers: 1, duration: seconds + 2, timeout: 60 };
    const lists = await load({ url: `${service.origin}/2025-04/${path}`, headers: bearer(token), ...reading });
    ended += lists['2xx'];
  });
  const peak = memoryOf(service.id, 'VmHWM');
  const read = `${what}, read by ${readers} at once`;
  within(50, 'ms', `p99 of pages beside ${read}`, p99, `${p99} ms; ${ended} lists in ${seconds + 2} s`);
  const detail = `${Math.round(peak - idle)} MB above ${Math.round(idle)} MB`;
  within(100, 'MB above idle', `memory for ${read}`, peak - idle, detail);
}
