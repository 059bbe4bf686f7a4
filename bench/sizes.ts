import type pg from 'pg';
import { keptChanges } from '../src/sync/prune.ts';
import { joinEmptied, withClient } from './database.ts';
import type { Row } from './report.ts';
import { insertPullRequests } from './stored.ts';

/** What is assumed of a busy organisation; docs/deployment.md repeats it. */
const webhooksPerDay = 1_000_000;
const webhooksPerPullRequest = 25;
const pullRequestsPerDay = webhooksPerDay / webhooksPerPullRequest;
/** Of a pull request by webhooks, the first sight included. */
const ownScoreChanges = 6;
/** A new version of the rules each week changes half of all scores. */
const ruleChangesPerDay = 0.5 / 7;
const untrackedPerDay = pullRequestsPerDay / 20;
const deletionsPerDay = pullRequestsPerDay / 1_000;
const syncsPerDay = 10_000;
const otherEventsPerDay = deletionsPerDay + 10;
const days = 365;

/** Rows that are measured. */
const sampleSize = 50_000;

/** Bytes a row, with what updates leave behind between two vacuums; without and with its indexes. */
interface Measured {
  table: string;
  rowBytes: number;
  totalBytes: number;
}

/** Prints how large the tables are after a year. There is nothing to compare them with. */
export async function measureSizes(): Promise<Row[]> {
  const server = await joinEmptied('sizes', { login: 'bench', id: 1 });
  try {
    const measured = await withClient(server.url, async client => {
      const { rows } = await client.query<{ id: string }>('select id from organisations');
      return fill(client, rows[0]?.id ?? '');
    });
    printTable(measured);
    return [];
  } finally {
    await server.leave();
  }
}

/** Fills tables as the service does: in small steps, with the same updates, and vacuumed now and then. */
async function fill(client: pg.Client, organisationId: string): Promise<Measured[]> {
  await client.query('truncate audit_events');
  await insertPullRequests(client, organisationId, sampleSize);
  const inSteps = async (table: string, steps: number, statements: (step: number) => string[]) => {
    for (let step = 0; step < steps; step += 1) {
      for (const statement of statements(step)) await client.query(statement);
      await client.query(`vacuum analyze ${table}`);
    }
  };
  const organisation = `'${organisationId}'::uuid`;
  const step = sampleSize / 10;
  const github = (first: number) => `generate_series(${first * step + 1}, ${(first + 1) * step}) as n`;
  await inSteps('pull_requests', 30, at => [
    `update pull_requests set comments = comments + 1, fetched_at = now(), node_id = 'PR_kwDOAB' || md5(node_id),
      files = array(select 'src/module-' || n || '/some-component.ts' from generate_series(1, 8) as n)
      where github_id % 10 = ${at % 10}`,
  ]);
  await inSteps('webhook_deliveries', 10, at => [
    `insert into webhook_deliveries (organisation_id, guid, event, action, state, pull_request_github_id, ticket)
      select ${organisation}, gen_random_uuid(), 'pull_request_review', 'submitted', 'pending', n, n from ${github(at)}`,
    `update webhook_deliveries set state = 'applied', applied_at = now() where state = 'pending'`,
  ]);
  await inSteps('score_changes', 10, () => [
    `insert into score_changes (organisation_id, pull_request_id, from_score, to_score, cause, ruleset_version)
      select organisation_id, id, 10, 20, 'pull_request', 7 from pull_requests order by md5(id::text)`,
  ]);
  await inSteps('audit_events', 10, at => [
    `insert into audit_events (organisation_id, organisation, actor, action, subject, request_id)
      select ${organisation}, 'bench', 'ada.lovelace@acme.example', 'pull_request.sync', 'pr_01jz8k3v5xe2ksn5q0w4g7h9ab',
        gen_random_uuid() from ${github(at)}`,
  ]);
  await inSteps('untracked_pull_requests', 10, at => [
    `insert into untracked_pull_requests
      select ${organisation}, n, 'PR_kwDOAB' || md5(n::text), n % 5000, now() from ${github(at)}`,
  ]);
  await inSteps('deleted_pull_requests', 10, at => [
    `insert into deleted_pull_requests select ${organisation}, n, now(), n from ${github(at)}`,
  ]);
  const { rows } = await client.query<Measured>(
    `select relname as table, pg_table_size(oid) / reltuples as "rowBytes",
      pg_total_relation_size(oid) / reltuples as "totalBytes"
    from pg_class where relkind = 'r' and reltuples >= $1 and relnamespace = 'public'::regnamespace`,
    [sampleSize],
  );
  return rows;
}

/** Score changes after a year, of pull requests that came in on each of its days. */
function countScoreChanges(isFolded: boolean): number {
  let count = 0;
  for (let age = 0; age < days; age += 1) {
    const changes = ownScoreChanges + age * ruleChangesPerDay;
    const earlier = Math.max(0, changes - keptChanges);
    const months = Math.ceil(earlier / (ruleChangesPerDay * 30));
    count += pullRequestsPerDay * (isFolded ? changes - earlier + Math.min(earlier, months) : changes);
  }
  return count;
}

const eventsPerDay = syncsPerDay + otherEventsPerDay;

/** Rows after a year: as they are kept, and if nothing were deleted or folded. */
const rowsAfterYear: Record<string, { kept: number; all: number }> = {
  pull_requests: { kept: pullRequestsPerDay * days, all: pullRequestsPerDay * days },
  score_changes: { kept: countScoreChanges(true), all: countScoreChanges(false) },
  webhook_deliveries: { kept: webhooksPerDay * 8, all: webhooksPerDay * days },
  audit_events: { kept: syncsPerDay * 90 + otherEventsPerDay * days, all: eventsPerDay * days },
  untracked_pull_requests: { kept: untrackedPerDay * days, all: untrackedPerDay * days },
  deleted_pull_requests: { kept: deletionsPerDay * days, all: deletionsPerDay * days },
};

function printTable(measured: readonly Measured[]): void {
  const millions = (rows: number) => (rows / 1e6).toFixed(rows < 1e6 ? 2 : 1);
  const gigabytes = (bytes: number) => (bytes / 1e9).toFixed(bytes < 1e8 ? 3 : 1);
  const lines = [
    ['table', 'bytes a row', 'with indexes', 'million rows', 'GB', 'GB without pruning'],
    ['---', '---:', '---:', '---:', '---:', '---:'],
  ];
  const sum = { kept: 0, all: 0 };
  for (const [table, { kept, all }] of Object.entries(rowsAfterYear)) {
    const found = measured.find(each => each.table === table);
    if (found === undefined) throw new Error(`the table ${table} was not measured`);
    const { rowBytes, totalBytes } = found;
    sum.kept += kept * totalBytes;
    sum.all += all * totalBytes;
    const sizes = [millions(kept), gigabytes(kept * totalBytes), gigabytes(all * totalBytes)];
    lines.push([`\`${table}\``, String(Math.round(rowBytes)), String(Math.round(totalBytes)), ...sizes]);
  }
  lines.push(['together', '', '', '', gigabytes(sum.kept), gigabytes(sum.all)]);
  for (const cells of lines) process.stdout.write(`| ${cells.join(' | ')} |\n`);
}
