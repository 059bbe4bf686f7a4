import type autocannon from 'autocannon';
import { load, unseenPages } from './load.ts';
import { startReader } from './processes.ts';
import { atLeast, compared, median, takeTurns } from './report.ts';
import { joinStored } from './stored.ts';

const rounds = 5;
const seconds = 5;
const connections = 36;

/** Pages of pull requests from one, two and three processes on one database, all on this machine. */
export async function measure(): Promise<void> {
  await using server = await joinStored();
  await using first = await startReader(server.url);
  await using second = await startReader(server.url);
  await using third = await startReader(server.url);
  const counts = { one: [first], two: [first, second], three: [first, second, third] };
  // The load is spread evenly, as a load balancer does.
  const requestRate = async (replicas: typeof counts.one, duration: number): Promise<number> => {
    const shared = { duration, connections: connections / replicas.length };
    const results = await Promise.all(
      replicas.map(replica => load({ ...unseenPages(replica, server.token), ...shared })),
    );
    return results.reduce((sum, { requests }: autocannon.Result) => sum + requests.average, 0);
  };
  await requestRate(counts.three, 2);
  const rates = await takeTurns(rounds, counts, replicas => requestRate(replicas, seconds));
  const one = median(rates.one);
  for (const count of ['two', 'three'] as const) {
    const what = `pages of pull requests from ${counts[count].length} replicas`;
    const figures = compared(median(rates[count]), one, 'requests/s');
    atLeast(0.9, what, 'one, all on this machine with their database', figures);
  }
}
