import { onTestFinished } from 'vitest';
import type { Executor } from '../../src/database/client.ts';

let triggers = 0;

/**
 * Makes the database do something at a point, until the test ends.
 *
 * @param when such as `before insert on members for each row`
 * @param what PL/pgSQL, without the last semicolon
 * @returns a function that ends it before
 */
export async function addTrigger(executor: Executor, when: string, what: string): Promise<() => Promise<void>> {
  const name = `trigger_${++triggers}`;
  const kind = when.includes(' deferrable ') ? 'constraint trigger' : 'trigger';
  await executor.execute(`
    create function ${name}() returns trigger language plpgsql as $$ begin ${what}; return coalesce(new, old); end $$;
    create ${kind} ${name} ${when} execute function ${name}()`);
  const end = async () => void (await executor.execute(`drop function if exists ${name} cascade`));
  onTestFinished(end);
  return end;
}
