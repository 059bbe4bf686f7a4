import pino from 'pino';
import { loadConfig } from '../src/config.ts';
import type { Executor } from '../src/database/client.ts';
import { findOrganisation } from '../src/database/organisations.ts';
import { contentVersions } from '../src/database/schema.ts';
import { connectDeps, type Deps } from '../src/deps.ts';
import type { FetchedPullRequest } from '../src/github/pull-request.ts';
import { syncPullRequests } from '../src/sync/sync-pull-requests.ts';
import { startGithub } from '../test/support/github/server.ts';
import { joinEmptied } from './database.ts';
import { median, type Row } from './report.ts';

const rounds = 400;
/** One is what a webhook or a PUT sync saves, fifty is what a request for a backlog saves. */
const sizes = [1, 50];

/** What renewing the content version adds to the saving of pull requests, without GitHub's part. */
export async function measureWrites(): Promise<Row[]> {
  const github = await startGithub();
  const bench = github.organisation('bench');
  const author = bench.member('ada');
  for (let index = 0; index < Math.max(...sizes); index += 1) bench.repository('web').addPullRequest({ author });
  const server = await joinEmptied('writes', bench);
  const config = loadConfig({ GITHUB_API_URL: github.apiUrl, GITHUB_TOKEN: github.token });
  const deps = connectDeps(config, pino({ level: 'error' }), server.url);
  try {
    const organisation = await findOrganisation(deps.database.executor, bench.login);
    if (organisation === undefined) throw new Error('The benchmark has no organisation.');
    const nodeIds = bench.repository('web').pullRequests.map(({ nodeId }) => nodeId);
    const results = await deps.github.fetchPullRequests(organisation, nodeIds);
    const fetched = [...results.values()].flatMap(result => (result.status === 'found' ? [result.pullRequest] : []));
    if (fetched.length < nodeIds.length) throw new Error('The stand-in did not show every pull request.');

    let changes = 0;
    const save = async (by: Deps, pullRequests: readonly FetchedPullRequest[]) => {
      changes += 1;
      const changed = pullRequests.map(one => ({
        ...one,
        comments: changes,
        sourceUpdatedAt: one.sourceUpdatedAt + changes,
      }));
      const begin = performance.now();
      await syncPullRequests(by, organisation, async () => ({ pullRequests: changed }));
      return performance.now() - begin;
    };
    const without: Deps = { ...deps, database: withoutContentVersions(deps.database) };
    const rows: Row[] = [];
    for (const size of sizes) {
      const some = fetched.slice(0, size);
      const times = { own: [] as number[], without: [] as number[] };
      for (let round = 0; round < rounds; round += 1) {
        // In turns, and each first as often: whoever comes second finds warmer caches.
        const pairs = [
          ['own', deps],
          ['without', without],
        ] as const;
        for (const [name, by] of round % 2 === 0 ? pairs : pairs.toReversed()) times[name].push(await save(by, some));
      }
      const [own, other] = [median(times.own), median(times.without)];
      rows.push({
        what: `saving ${size} changed pull request${size === 1 ? '' : 's'}`,
        against: 'the same without a new content version',
        ratio: own / other,
        target: 1.03,
        comparison: 'at most',
        detail: `${own.toFixed(2)} to ${other.toFixed(2)} ms`,
      });
    }
    return rows;
  } finally {
    await deps.close();
    await server.leave();
    await github.close();
  }
}

function withoutContentVersions(database: Deps['database']): Deps['database'] {
  const pretend = { values: () => ({ onConflictDoUpdate: async () => undefined }) };
  const leaveOut = (executor: Executor): Executor =>
    new Proxy(executor, {
      get(target, name) {
        if (name !== 'insert') return Reflect.get(target, name);
        return (table: unknown) => (table === contentVersions ? pretend : target.insert(table as never));
      },
    });
  return { ...database, transaction: (work, options) => database.transaction(it => work(leaveOut(it)), options) };
}
