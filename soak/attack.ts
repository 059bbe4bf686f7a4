import { insertMembers } from '../test/support/tenants.ts';
import { type Attack, addParty, inProcesses, stress } from './stress.ts';

const members = 20_000;

/** Costly rules are among the attacks of neighbours.ts. */
const single = ['bad tokens', 'long ids', 'lists of all members', 'bodies of 5 MB', 'slow requests', 'slow uploads'];

const attacks: Record<string, Attack> = {
  ...Object.fromEntries(single.map(name => [name, inProcesses(name)])),
  'all at once': inProcesses(...single),
};
export const attackNames = Object.keys(attacks);

/**
 * Attacks one replica in many ways, one after another, while a well-behaved client of the same organisation reads.
 *
 * @returns whether no read failed, and the p99 of reads stayed within three times that at rest
 */
export const soakAttacks = (seconds: number, only: string | undefined): Promise<boolean> =>
  stress({
    name: 'attack',
    environment: { RATE_LIMIT: '0' },
    ...{ attacks, seconds, only },
    async fill(installation) {
      const party = await addParty(installation, 'client', 1_000);
      await insertMembers(installation, party, members);
      return { attacker: party, victim: party };
    },
  });
