import { addParty, inProcesses, stress } from './stress.ts';

const single = ['bad tokens', 'bodies of 5 MB', 'slow requests', 'slow uploads'];

const attacks = {
  ...Object.fromEntries(single.map(name => [name, inProcesses(name)])),
  'all at once': inProcesses(...single),
};
export const attackNames = Object.keys(attacks);

/**
 * Strangers attack one replica in many ways, one after another, while a well-behaved client reads.
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
      return { attacker: party, victim: party };
    },
  });
