import { entry, rule } from '../test/scoring/support.ts';
import { applyRules, insertMembers } from '../test/support/tenants.ts';
import { type Attack, addParty, inProcesses, type Stress } from './stress.ts';

const members = 20_000;

/** Some of these take most of what a ruleset may cost. */
const expensiveRules = Array.from({ length: 20 }, (_, index) =>
  rule(
    `Expensive ${index}`,
    ...Array.from({ length: 10 }, (_, place) => entry(`matches(body, 'a.{${index + 1}}b.{${place + 1}}$')`, '1')),
  ),
);

const applyExpensiveRules: Attack = async ({ database, attacker: { organisation } }) => {
  await applyRules({ database }, organisation.id, { rules: expensiveRules });
  return async () => undefined;
};

/** Those of one process each. */
const single = ['bad tokens', 'long ids', 'lists of all members', 'bodies of 5 MB', 'slow requests', 'slow uploads'];

/** Many ways to attack one replica, while a well-behaved client of the same organisation reads. */
export const attack: Stress = {
  name: 'attack',
  environment: { RATE_LIMIT: '0' },
  attacks: {
    ...Object.fromEntries(single.map(name => [name, inProcesses(name)])),
    'expensive rules': applyExpensiveRules,
    'all at once': async target => {
      await applyExpensiveRules(target);
      return inProcesses(...single)(target);
    },
  },
  async fill(installation) {
    const party = await addParty(installation, 'client', 1_000);
    await insertMembers(installation, party, members);
    return { attacker: party, victim: party };
  },
};
