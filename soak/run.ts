/** Long tests: `npm run soak` plays random histories; the others put processes under stress. */
import { Command, InvalidArgumentError, Option } from 'commander';
import { attack } from './attack.ts';
import { soakHistories } from './histories.ts';
import { soakKills } from './kill.ts';
import { neighbours } from './neighbours.ts';
import { soakRestarts } from './restart.ts';
import { soakStress } from './stress.ts';

function whole(text: string): number {
  if (!/^\d+$/.test(text)) throw new InvalidArgumentError('It takes a whole number.');
  return Number(text);
}

const program = new Command('soak');
const seed = Math.floor(Math.random() * 1_000_000_000);

/** @param run returns whether all is well */
function add<Name extends string>(
  name: string,
  numbers: Record<Name, number>,
  run: (given: Record<Name, number> & { only?: string }) => Promise<boolean>,
): Command {
  const command = program.command(name, { isDefault: name === 'histories' });
  for (const [option, otherwise] of Object.entries(numbers)) command.option(`--${option} <n>`, '', whole, otherwise);
  return command.action(async given => {
    process.exitCode = (await run(given)) ? 0 : 1;
  });
}

add('histories', { runs: 10_000, seed }, ({ runs, seed }) => soakHistories(runs, seed));
add('kill', { kills: 200, rate: 200, seed }, ({ kills, rate, seed }) => soakKills(kills, rate, seed));
add('restart', { rounds: 5 }, ({ rounds }) => soakRestarts(rounds));
for (const [stress, seconds] of [
  [attack, 15],
  [neighbours, 20],
] as const) {
  add(stress.name, { seconds }, ({ seconds, only }) => soakStress(stress, seconds, only)).addOption(
    new Option('--only <name>').choices(Object.keys(stress.attacks)),
  );
}
await program.parseAsync();
