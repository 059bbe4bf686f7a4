/** Long tests: `npm run soak` plays random histories; the others put processes under stress. */
import { parseArgs } from 'node:util';
import { attackNames, soakAttacks } from './attack.ts';
import { soakHistories } from './histories.ts';
import { soakKills } from './kill.ts';
import { neighbourAttackNames, soakNeighbours } from './neighbours.ts';
import { soakRestarts } from './restart.ts';

/** A soak's options that take whole numbers, with the name of the one thing that it may be limited to, if any. */
type Values<Name extends string> = Record<Name, number> & { only: string | undefined };

/**
 * @param only what `--only` may name
 * @returns reads the operands, and runs the soak @throws RangeError or TypeError on wrong ones
 */
const withOptions =
  <Name extends string>(
    options: Record<Name, { default: number; min: number }>,
    soak: (values: Values<Name>) => Promise<boolean>,
    only: readonly string[] = [],
  ) =>
  (args: string[]): Promise<boolean> => {
    const names = Object.keys(options) as Name[];
    const allowed = only.length === 0 ? names : [...names, 'only'];
    const types = Object.fromEntries(allowed.map(name => [name, { type: 'string' as const }]));
    const given = parseArgs({ args, options: types }).values;
    const numbers = names.map(name => {
      const value = Number(given[name] ?? options[name].default);
      if (Number.isInteger(value) && value >= options[name].min) return [name, value];
      throw new RangeError(`--${name} takes a whole number from ${options[name].min}`);
    });
    if (given.only !== undefined && !only.includes(given.only)) {
      throw new RangeError(`--only takes one of: ${only.join(', ')}`);
    }
    return soak({ ...Object.fromEntries(numbers), only: given.only });
  };

const seed = { default: Math.floor(Math.random() * 1_000_000_000), min: 0 };

/** Each returns whether all is well. */
const soaks: Record<string, (operands: string[]) => Promise<boolean>> = {
  histories: withOptions({ runs: { default: 10_000, min: 1 }, seed }, soakHistories),
  kill: withOptions({ kills: { default: 200, min: 0 }, rate: { default: 200, min: 0 }, seed }, soakKills),
  attack: withOptions({ seconds: { default: 15, min: 1 } }, soakAttacks, attackNames),
  neighbours: withOptions({ seconds: { default: 20, min: 5 } }, soakNeighbours, neighbourAttackNames),
  restart: withOptions({ rounds: { default: 5, min: 1 } }, soakRestarts),
};

const operands = process.argv.slice(2);
const name = operands[0]?.startsWith('-') === false ? operands.shift() : 'histories';
const soak = soaks[name ?? ''];
try {
  if (soak === undefined) throw new RangeError(`"${name}" is not a soak; choose from ${Object.keys(soaks).join(', ')}`);
  process.exitCode = (await soak(operands)) ? 0 : 1;
} catch (error) {
  const isUsage =
    error instanceof RangeError || (error as { code?: string }).code?.startsWith('ERR_PARSE_ARGS') === true;
  if (!isUsage) throw error;
  process.stderr.write(`${(error as Error).message}\n`);
  process.exitCode = 2;
}
