import { eraseMember } from '../src/database/erasure.ts';
import { findMembersByLogin } from '../src/database/members.ts';
import { oneRow } from '../src/database/statement.ts';
import type { RuleLogic } from '../src/scoring/rule.ts';
import { entry } from '../test/scoring/support.ts';
import { repeat } from './background.ts';
import { type Attack, addParty, editOnGithub, inProcesses, type Stress, type Target } from './stress.ts';

const globs = (first: number) => Array.from({ length: 190 }, (_, index) => `"${first + index}.*"`).join(', ');

function rulesFile(entries: number, entryAt: (index: number) => RuleLogic, define?: Record<string, string>): string {
  const logic = Array.from({ length: entries }, (_, index) => entryAt(index));
  const rules: object[] = [];
  while (logic.length > 0) rules.push({ name: `Rule ${rules.length}`, logic: logic.splice(0, maxEntriesOfRule) });
  return JSON.stringify({ define, rules });
}

const maxEntries = 900;
const maxEntriesOfRule = 50;

/**
 * One organisation does what it may, while a well-behaved client of another one reads, and webhooks of the other one
 * arrive.
 */
export const neighbours: Stress = {
  name: 'neighbours',
  environment: { RATE_LIMIT: '6000' },
  attacks: {
    // Rules files that were slow or large.
    'one definition of 190 globs for all entries': applyRules(() => entry('many', '1'), {
      many: `count_files(${globs(0)}) > 0`,
    }),
    'searches of the description': applyRules(index =>
      entry(`contains(body, "${String(index).padEnd(60, 'x')}")`, '1'),
    ),
    'other globs in each value': applyRules(index => entry('true', `count_files(${globs(200 * index)})`)),
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
function applyRules(entryAt: (index: number) => RuleLogic, define?: Record<string, string>): Attack {
  return async target => {
    const { origin, attacker } = target;
    const put = (body: string) => send('PUT', `${origin}/2026-12/rules/file`, attacker.token, body);
    let entries = maxEntries;
    const apply = () => put(rulesFile(entries, entryAt, define));
    for (let reply = await apply(); !reply.ok; reply = await apply()) {
      const refusal = await reply.text();
      if (![400, 413].includes(reply.status) || entries === 1) throw new Error(`rules got ${reply.status}: ${refusal}`);
      entries = Math.floor(entries * 0.8);
    }
    console.log(`       ${entries} entries were taken`);
    const finish = await floodWithWebhooks(target);
    return async () => {
      const problem = await finish();
      const { status } = await put('rules: []\n');
      return status === 200 ? problem : `other rules got ${status}`;
    };
  };
}

/** Meanwhile the other one plans once. */
async function planAllTheTime(target: Target) {
  const { origin, victim } = target;
  const accomplice = await addParty(target, 'accomplice', 1_000);
  const finishes = await Promise.all([target, { ...target, attacker: accomplice }].map(inProcesses('plans')));
  const file = rulesFile(1, () => entry('merged', '1'));
  const planned = send('POST', `${origin}/2026-12/rules/plan`, victim.token, file);
  return async () => {
    const { status } = await planned;
    for (const finish of finishes) await finish();
    return status === 200 ? undefined : `a plan of the other one got ${status}`;
  };
}

async function startErasure(target: Target) {
  const { database, attacker } = target;
  const finish = await floodWithWebhooks(target);
  const { id } = attacker.organisation;
  const people = await findMembersByLogin(database.executor, id, 'grace');
  const erased = eraseMember(database, id, oneRow(people));
  return async () => {
    const problem = await finish();
    await erased;
    return problem;
  };
}

/** Fifty a second, of changes that are all true. */
async function floodWithWebhooks(target: Target) {
  let taken = 0;
  const edit = async () => {
    const { status } = await editOnGithub(target, target.attacker);
    if (status === 202) taken += 1;
  };
  const stops = Array.from({ length: 10 }, () => repeat(190, edit));
  return async () => {
    await Promise.all(stops.map(stop => stop()));
    return taken > 0 ? undefined : 'no webhook of the flood was taken';
  };
}
