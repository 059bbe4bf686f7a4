import { expect, test } from 'vitest';
import { buildApp } from '../../src/app.ts';
import type { Database } from '../../src/database/client.ts';
import type { Definition } from '../../src/scoring/language/definitions.ts';
import type { RuleDefinition } from '../../src/scoring/rule.ts';
import { definitionsOf, entry, rule as ruleOf } from '../scoring/support.ts';
import { createClient, type RuleBody } from '../support/client.ts';
import { createLatch } from '../support/github/faults.ts';
import { closing } from '../support/service.ts';
import { applyRules } from '../support/tenants.ts';
import { startWorld } from '../support/world.ts';

const world = await startWorld();
const { service, client } = world;

const list = async (token = world.token, by = client) => {
  const { status, body } = await by.get<{ data: RuleBody[] }>('/2025-04/rules', token);
  expect(status).toBe(200);
  expect(Object.keys(body)).toEqual(['data']);
  return body.data;
};
const apply = (rules: RuleDefinition[], definitions: Definition[] = []) =>
  applyRules(service, world.organisation.id, { definitions, rules });
const rule = (name: string, values: Partial<RuleDefinition> = {}) => ({
  ...ruleOf(name, entry('true', '1')),
  ...values,
});

test('rules show the whole condition that is evaluated, and the names of definitions as written', async () => {
  const logic = [entry('small || draft', 'points'), entry('true', '1', 'SUBTRACT')];
  const definitions = definitionsOf({ small: 'size <= 200', points: '5' });
  await apply([rule('Conditional', { when: 'merged || small', logic })], definitions);
  const [only] = await list();
  expect(only).toEqual({
    id: expect.any(String),
    name: 'Conditional',
    description: '',
    is_enabled: true,
    logic: [
      entry('(merged || small) && (small || draft)', 'points'),
      entry('(merged || small) && (true)', '1', 'SUBTRACT'),
    ],
    created_at: expect.any(Number),
  });
  await apply([rule('Conditional', { logic })], definitions);
  expect((await list()).map(({ id, logic }) => ({ id, logic }))).toEqual([{ id: only?.id, logic }]);
});

test("rules applied at one moment are listed in the reverse of the file's order", async () => {
  const names = Array.from({ length: 12 }, (_, index) => `rule ${(index * 7) % 12}`);
  await apply(names.map(name => rule(name)));
  expect((await list()).map(({ name }) => name)).toEqual(names.toReversed());
});

test('the creation time of a rule is rounded down to the second', async () => {
  await apply([rule('timed')]);
  await service.database.executor.execute('update rules set created_at = to_timestamp(1700000000.9)');
  expect(new Set((await list()).map(({ created_at }) => created_at))).toEqual(new Set([1_700_000_000]));
});

test('rules that a new file keeps stay the same rules, listed after those that it adds', async () => {
  await apply([rule('kept'), rule('dropped')]);
  const kept = (await list()).find(({ name }) => name === 'kept');
  await service.database.executor.execute('update rules set created_at = to_timestamp(1700000000)');
  await apply([rule('new'), rule('kept', { description: 'Changed' })]);
  const after = await list();
  expect(after.map(({ name }) => name)).toEqual(['new', 'kept']);
  expect(after[1]).toEqual({ ...kept, description: 'Changed', created_at: 1_700_000_000 });
});

/** A service that waits for `before` whenever it is about to read the rules. */
async function interrupted(before: () => Promise<unknown>) {
  const { database } = service;
  const read: Database['read'] = async (selection, values) => {
    if (selection.name === 'latest_rules') await before();
    return database.read(selection, values);
  };
  const waiting = createClient(closing(await buildApp({ ...service, database: { ...database, read } })));
  return async () => (await list(world.token, waiting)).map(({ name }) => name);
}

test('rules that come into force while a list is read are in that list, and in the next one', async () => {
  await apply([rule('before')]);
  const names = await interrupted(() => apply([rule('after')]));
  expect(await names()).toEqual(['after']);
  expect(await names()).toEqual(['after']);
  await apply([rule('last')]);
  expect(await list()).toMatchObject([{ name: 'last' }]);
});

test('requests for rules that come together share a read, and later ones need none', async () => {
  await apply([rule('shared')]);
  const latch = createLatch();
  let reads = 0;
  const names = await interrupted(() => {
    reads += 1;
    return latch.released;
  });
  const asked = Array.from({ length: 4 }, names);
  await expect.poll(() => reads).toBe(1);
  latch.release();
  expect(await Promise.all(asked)).toEqual(Array(4).fill(['shared']));
  expect(await names()).toEqual(['shared']);
  expect(reads).toBe(1);
});
