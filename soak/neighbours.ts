import { setTimeout as delay } from 'node:timers/promises';
import { eraseMember } from '../src/database/erasure.ts';
import { findMembersByLogin } from '../src/database/members.ts';
import { oneRow } from '../src/database/statement.ts';
import type { RuleLogic } from '../src/scoring/rule.ts';
import { entry } from '../test/scoring/support.ts';
import { type Attack, addParty, editOnGithub, inProcesses, type Stress } from './stress.ts';

const globs = (first: number) => Array.from({ length: 190 }, (_, index) => `"${first + index}.*"`).join(', ');

/** Rules files that were slow or large, of some entries. */
const costlyFiles: Record<string, (entries: number) => string> = {
  'one definition of 190 globs for all entries': entries =>
    rulesFile(entries, () => entry('many', '1'), { many: `count_files(${globs(0)}) > 0` }),
  'searches of the description': entries =>
    rulesFile(entries, index => entry(`contains(body, "${String(index).padEnd(60, 'x')}")`, '1')),
  'other globs in each value': entries =>
    rulesFile(entries, index => entry('true', `count_files(${globs(200 * index)})`)),
};

function rulesFile(
  entries: number,
  entryAt: (index: number) => RuleLogic,
  define: Record<string, string> = {},
): string {
  const logic = Array.from({ length: entries }, (_, index) => entryAt(index));
  const perRule = 50;
  const rules = Array.from({ length: Math.ceil(entries / perRule) }, (_, rule) => ({
    name: `Rule ${rule}`,
    logic: logic.slice(rule * perRule, (rule + 1) * perRule),
  }));
  return JSON.stringify({ define, rules });
}

const maxEntries = 900;

/**
 * One organisation does what it may, while a well-behaved client of another one reads, and webhooks of the other one
 * arrive.
 */
export const neighbours: Stress = {
  name: 'neighbours',
  environment: { RATE_LIMIT: '6000' },
  attacks: {
    ...Object.fromEntries(Object.entries(costlyFiles).map(([name, file]) => [name, applyRules(file)])),
    'rules files whose last byte never comes': inProcesses('unfinished files'),
    'plans whose client leaves': inProcesses('left plans'),
    'two organisations that plan all the time': planAllTheTime,
    'pages that are read slowly': inProcesses('slow pages'),
    'seven pages of maximum size a second': inProcesses('large pages'),
    'a flood of webhooks': floodWithWebhooks,
    // The last one: nothing is left to attack with.
    'the erasure of a member with all pull requests': startErasure,
  },
  fill: async installation => ({
    // As large as GitHub allows: 65,536 characters, each of three bytes here.
    attacker: await addParty(installation, 'attacker', 65_536, 3_000),
    victim: await addParty(installation, 'neighbour', 1_000),
  }),
};

async function send(method: string, url: string, token: string, body: string): Promise<Response> {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/yaml', 'if-match': '*' };
  const once = () => fetch(url, { method, headers, body });
  // The service may close a connection that was idle at the moment at which it is used again.
  return once().catch(once);
}

/** Rules at the limits: of as many entries as the service takes. Then pull requests change, the large one too. */
function applyRules(file: (entries: number) => string): Attack {
  return async (target, signal) => {
    const { origin, attacker } = target;
    const apply = (body: string) => send('PUT', `${origin}/2026-12/rules/file`, attacker.token, body);
    let entries = maxEntries;
    for (let reply = await apply(file(entries)); !reply.ok; reply = await apply(file(entries))) {
      const refusal = await reply.text();
      if (![400, 413].includes(reply.status) || entries === 1) throw new Error(`rules got ${reply.status}: ${refusal}`);
      entries = Math.floor(entries * 0.8);
    }
    console.log(`       ${entries} entries were taken`);
    const finish = await floodWithWebhooks(target, signal);
    return async () => {
      const problem = await finish();
      const { status } = await apply('rules: []\n');
      return status === 200 ? problem : `other rules got ${status}`;
    };
  };
}

/** Meanwhile the other one plans once. */
async function planAllTheTime(...[target, signal]: Parameters<Attack>) {
  const { origin, victim } = target;
  const accomplice = await addParty(target, 'accomplice', 1_000);
  const finishes = await Promise.all(
    [target, { ...target, attacker: accomplice }].map(each => inProcesses('plans')(each, signal)),
  );
  const file = rulesFile(1, () => entry('merged', '1'));
  const planned = send('POST', `${origin}/2026-12/rules/plan`, victim.token, file);
  return async () => {
    const { status } = await planned;
    for (const finish of finishes) await finish();
    return status === 200 ? undefined : `a plan of the other one got ${status}`;
  };
}

async function startErasure(...[target, signal]: Parameters<Attack>) {
  const { database, attacker } = target;
  const finish = await floodWithWebhooks(target, signal);
  const { id } = attacker.organisation;
  const people = await findMembersByLogin(database.executor, id, 'grace');
  const erased = eraseMember(database, id, oneRow(people));
  return async () => {
    await erased;
    return finish();
  };
}

/** Fifty a second, of changes that are all true. */
async function floodWithWebhooks(...[target, signal]: Parameters<Attack>) {
  let sent = 0;
  let taken = 0;
  const lanes = Array.from({ length: 10 }, async () => {
    for (; !signal.aborted; await delay(190)) {
      sent += 1;
      if ((await editOnGithub(target, target.attacker, sent, `Flood ${sent}`)) === 202) taken += 1;
    }
  });
  return async () => {
    await Promise.all(lanes);
    return taken > 0 ? undefined : 'no webhook of the flood was taken';
  };
}
