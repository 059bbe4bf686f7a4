import { formatId } from '../src/ids.ts';
import { createRandom } from '../test/support/random.ts';
import { ask, startReader } from './processes.ts';
import { percentile, within } from './report.ts';
import { allPullRequests, joinStored } from './stored.ts';

const combinations = 40;
/** Of each combination's first page and of its last one that is read. */
const reads = 25;
const deepPage = 1_000;
const maxMs = 50;

const sorts = ['created', 'updated', 'merged'] as const;
const states = ['open', 'draft', 'closed', 'merged'];

/** A page of pull requests under random filters: one by one, since each must be fast by itself. */
export async function measure(): Promise<void> {
  await using server = await joinStored();
  await using service = await startReader(server.url);
  const repositories = await server.value<string[]>('(select array_agg(name order by github_id) from repositories)');
  const memberIds = await server.value<string[]>('(select array_agg(id order by github_id) from members)');
  const members = memberIds.map(id => formatId('mem', id));
  const random = createRandom(7);
  const oneOf = <Item>(items: readonly Item[]): Item => items[Math.floor(items.length * random())] as Item;
  // A range that ends later than all rows, each time a bit later: no page comes from memory.
  let unseen = 4_000_000_000;
  const read = async (query: Record<string, string>, sort: string) => {
    const parameters = new URLSearchParams({ sort, [`${sort}_until`]: String(unseen++), ...query });
    const begin = performance.now();
    const reply = await ask(`${service.origin}/2026-12/pull-requests?${parameters}`, server.token);
    const { meta } = (await reply.json()) as { meta: { next_cursor: string | null } };
    return { next: meta.next_cursor, ms: performance.now() - begin, what: JSON.stringify({ sort, ...query }) };
  };

  const choose = (index: number): Record<string, string> => ({
    ...(random() < 0.5 && { state: [oneOf(states), oneOf(states)].join() }),
    ...(random() < 0.5 && {
      repository: Array.from({ length: 1 + (index % 3) * 10 }, () => oneOf(repositories)).join(),
    }),
    ...(random() < 0.4 && { member: oneOf(members) }),
  });
  // Of all rows, the only draft of this repository comes last; its draft that was merged does not exist.
  const rare = { repository: repositories.at(-1) ?? '', state: 'draft' };
  const chosen = [
    ...Array.from({ length: combinations }, (_, index) => ({ sort: oneOf(sorts), query: choose(index) })),
    ...sorts.map(sort => ({ sort, query: rare })),
    { sort: 'created', query: { ...rare, member: members.at(-1) ?? '' } },
    { sort: 'updated', query: { state: 'draft', member: members[0] ?? '' } },
  ];
  type Read = Awaited<ReturnType<typeof read>>;
  const [first, deep]: [Read[], Read[]] = [[], []];
  for (const { sort, query } of chosen) {
    await read(query, sort);
    for (let count = 0; count < reads; count += 1) first.push(await read(query, sort));
    // A cursor belongs to its filters: this list has one range.
    const fixed = { ...query, [`${sort}_until`]: String(unseen++) };
    let cursor: string | null = null;
    for (let rows = 0; rows < deepPage * 15; rows += 100) {
      const { next } = await read({ ...fixed, per_page: '100', ...(cursor !== null && { cursor }) }, sort);
      if (next === null) break;
      cursor = next;
    }
    if (cursor === null) continue;
    // Other sizes of a page are other addresses.
    for (let perPage = 4; perPage <= 28; perPage += 1) {
      deep.push(await read({ ...fixed, per_page: String(perPage), cursor }, sort));
    }
  }
  const slowest = [...first, ...deep].reduce((slower, each) => (each.ms > slower.ms ? each : slower));
  const shown = `${slowest.ms.toFixed(1)} ms with ${slowest.what.slice(0, 200)}`;
  const compare = (what: string, all: readonly Read[]) => {
    const times = all.map(({ ms }) => ms);
    const [p50, p99] = [percentile(times, 0.5), percentile(times, 0.99)];
    const detail = `p50 ${p50.toFixed(1)} ms, p99 ${p99.toFixed(1)} ms, the slowest of all ${shown}`;
    within(maxMs, 'ms', `p99 of ${what} of ${allPullRequests} under ${chosen.length} filters`, p99, detail);
  };
  compare('the first page of 15', first);
  compare(`page ${deepPage.toLocaleString('en')}, or the last one,`, deep);
}
