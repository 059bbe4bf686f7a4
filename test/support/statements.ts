/** Checks every statement that the tests send to PostgreSQL: Citus must accept it, too. */
import pg from 'pg';
import { afterAll, afterEach, expect } from 'vitest';
import { refusalOf } from './citus.ts';

const { query } = pg.Client.prototype;
const checked = new Set<string>();
let refused: { statement: string; reason: string }[] = [];

pg.Client.prototype.query = function (this: pg.Client, ...given: unknown[]) {
  const [first] = given as [string | { text?: string }];
  const statement = typeof first === 'string' ? first : first.text;
  if (statement !== undefined && !checked.has(statement)) {
    checked.add(statement);
    const reason = refusalOf(statement);
    if (reason !== undefined) refused.push({ statement, reason });
  }
  return Reflect.apply(query, this, given);
} as typeof query;

afterAll(() => {
  pg.Client.prototype.query = query;
});

afterEach(() => {
  const found = refused;
  refused = [];
  expect(found).toEqual([]);
});
