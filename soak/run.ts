/** Long tests: `npm run soak` plays random histories; the others put processes under stress. */
import { soakAttacks } from './attack.ts';
import { soakHistories } from './histories.ts';
import { soakKills } from './kill.ts';
import { soakNeighbours } from './neighbours.ts';
import { soakRestarts } from './restart.ts';

/** Each takes the remaining operands and returns whether all is well. @throws RangeError or TypeError on wrong ones */
const soaks: Record<string, (operands: readonly string[]) => Promise<boolean>> = {
  histories: soakHistories,
  kill: soakKills,
  attack: soakAttacks,
  neighbours: soakNeighbours,
  restart: soakRestarts,
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
