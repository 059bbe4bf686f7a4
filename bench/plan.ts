import { writeFileSync } from 'node:fs';
import { createFactsReader } from '../src/database/facts.ts';
import { readRange } from '../src/database/rescore-ranges.ts';
import { beforeAllIds } from '../src/database/statement.ts';
import type { FactName } from '../src/scoring/facts.ts';
import { formatRulesFile } from '../src/scoring/file/rules-file.ts';
import type { RuleDefinition } from '../src/scoring/rule.ts';
import { entry, rule, rulesetOf } from '../test/scoring/support.ts';
import { load, loadBeside, steadily, unseenPages } from './load.ts';
import { ask, runCommand, startReader } from './processes.ts';
import { atMost, takeTurns, timeAgainst, timed, within } from './report.ts';
import { allPullRequests, joinStored, pullRequests, type Stored } from './stored.ts';

const rounds = 3;

const size = rule('Size', entry('additions > 0', 'per(additions, 20)'));

const fileOf = (...rules: RuleDefinition[]) => formatRulesFile(rulesetOf(rules));

const withBodies = fileOf(
  size,
  rule('Described', entry('length(body) > 100 && contains(body, "tests")', '5')),
  rule('Sources', entry('any_file("src/**")', '5')),
);

const variants: { what: string; facts: FactName[]; rules: string }[] = [
  {
    what: 'numbers and states',
    facts: ['additions', 'number', 'state'],
    rules: fileOf(size, rule('Merged', entry('state == "merged"', '10')), rule('Share', entry('number % 5 == 0', '5'))),
  },
  { what: 'bodies and files too', facts: ['additions', 'body', 'files'], rules: withBodies },
];

/** `rules plan` from the command line to its answer, against the mere reading that a re-scoring does for the same. */
export async function measure(): Promise<void> {
  await using server = await joinStored();
  const file = 'bench/.data/rules.yaml';
  const all = { fromId: beforeAllIds, untilId: null };
  for (const { what, facts, rules } of variants) {
    writeFileSync(file, rules);
    const read = async () => {
      const reader = createFactsReader(facts);
      for await (const step of readRange(server.database.executor, server.organisationId, all, reader)) {
        // They are made as they are gone through.
        for (const _ of step);
      }
    };
    const environment = { DATABASE_URL: server.url, LOG_LEVEL: 'warn' };
    const plan = () => runCommand(['rules', 'plan', file, '--organisation', 'bench'], environment);
    const measured = await takeTurns(rounds, { read, plan }, timed);
    const against = 'the reading of a re-scoring, in time';
    atMost(1, `rules plan over ${allPullRequests}, ${what}`, against, timeAgainst(measured.plan, measured.read));
  }
  await measurePagesBeside(server, withBodies);
}

/** Of a page in milliseconds. */
const maxP99 = 50;

/** Pages at a steady rate while the same service makes plans over HTTP, one after another. */
async function measurePagesBeside({ url, token }: Stored, body: string): Promise<void> {
  await using service = await startReader(url);
  const pages = unseenPages(service, token);
  await load({ ...pages, ...steadily, duration: 2 });
  const atRest = await load({ ...pages, ...steadily, duration: 10 });
  let ended = 0;
  const p99 = await loadBeside({ ...pages, duration: 20 }, async () => {
    const headers = { 'content-type': 'application/yaml' };
    const reply = await ask(`${service.origin}/2026-12/rules/plan`, token, { method: 'POST', headers, body });
    await reply.text();
    ended += 1;
  });
  const what = `p99 of a page, not seen before, beside a plan of ${pullRequests.toLocaleString('en')} over HTTP`;
  const detail = `${p99} ms, ${atRest.latency.p99} ms at rest; ${ended} plans ended`;
  within(maxP99, 'ms', what, p99, detail);
}
