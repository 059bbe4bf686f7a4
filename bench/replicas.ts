import { type Running, startReader } from './processes.ts';
import { load } from './reads.ts';
import { median, type Row } from './report.ts';
import { joinStored } from './stored.ts';

const rounds = 5;
const seconds = 5;
const connections = 36;
const counts = [1, 2, 3] as const;

/** Pages of pull requests from one, two and three processes on one database, all on this machine. */
export async function measureReplicas(): Promise<Row[]> {
  const server = await joinStored();
  const replicas: Running[] = [];
  try {
    for (const _ of Array(Math.max(...counts))) {
      replicas.push(await startReader(server.url));
    }
    // The load is spread evenly, as a load balancer does.
    const measure = async (count: number, duration: number): Promise<number> => {
      const results = await Promise.all(
        replicas.slice(0, count).map(({ port }) => {
          // Every address is new: no page comes from memory.
          const url = `http://127.0.0.1:${port}/2025-04/pull-requests?unseen=[<id>]`;
          const headers = { authorization: `Bearer ${server.token}` };
          return load({ url, idReplacement: true, headers }, duration, connections / count);
        }),
      );
      return results.reduce((sum, result) => sum + result.requests.average, 0);
    };
    await measure(Math.max(...counts), 2);
    const rates = new Map<number, number[]>(counts.map(count => [count, []]));
    for (let round = 0; round < rounds; round += 1) {
      for (const count of counts) rates.get(count)?.push(await measure(count, seconds));
    }
    const rate = (count: number) => median(rates.get(count) ?? []);
    return counts.slice(1).map(count => ({
      what: `pages of pull requests from ${count} replicas`,
      against: 'one, all on this machine with their database',
      ratio: rate(count) / rate(1),
      target: 0.9,
      comparison: 'at least',
      detail: `${Math.round(rate(count))} to ${Math.round(rate(1))} requests/s`,
    }));
  } finally {
    for (const replica of replicas) await replica.stop();
    await server.leave();
  }
}
