/** Long tests: `npm run soak` plays random histories; the others put processes under stress. */
import { parseArgs } from 'node:util';
import { attack } from './attack.ts';
import { soakHistories } from './histories.ts';
import { soakKills } from './kill.ts';
import { neighbours } from './neighbours.ts';
import { soakRestarts } from './restart.ts';
import { type Stress, soakStress } from './stress.ts';

const number = { type: 'string' } as const;
const { values, positionals } = (() => {
  try {
    const options = { runs: number, seed: number, kills: number, rate: number, rounds: number, seconds: number };
    return parseArgs({ allowPositionals: true, options: { ...options, only: { type: 'string' } } });
  } catch (error) {
    return fail((error as Error).message);
  }
})();

function fail(message: string): never {
  process.stderr.write(`${message}\n`);
  process.exit(2);
}

function whole(name: Exclude<keyof typeof values, 'only'>, otherwise: number): number {
  const value = Number(values[name] ?? otherwise);
  return Number.isInteger(value) && value >= 0 ? value : fail(`--${name} takes a whole number`);
}

/** With all of its attacks, or with the one that `--only` names. */
function stress({ attacks, ...others }: Stress, seconds: number): Promise<boolean> {
  const chosen = Object.entries(attacks).filter(([name]) => name === (values.only ?? name));
  if (chosen.length === 0) fail(`--only takes one of: ${Object.keys(attacks).join(', ')}`);
  return soakStress({ attacks: Object.fromEntries(chosen), ...others }, whole('seconds', seconds));
}

/** Each returns whether all is well. */
const soaks: Record<string, () => Promise<boolean>> = {
  histories: () => soakHistories(whole('runs', 10_000), seed()),
  kill: () => soakKills(whole('kills', 200), whole('rate', 200), seed()),
  restart: () => soakRestarts(whole('rounds', 5)),
  attack: () => stress(attack, 15),
  neighbours: () => stress(neighbours, 20),
};
const seed = () => whole('seed', Math.floor(Math.random() * 1_000_000_000));

const [name = 'histories'] = positionals;
const soak = soaks[name] ?? (() => fail(`"${name}" is not a soak; choose from ${Object.keys(soaks).join(', ')}`));
process.exitCode = (await soak()) ? 0 : 1;
