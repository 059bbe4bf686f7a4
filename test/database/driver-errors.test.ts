import { DrizzleQueryError } from 'drizzle-orm';
import pg from 'pg';
import { describe, expect, test } from 'vitest';
import {
  isConnectionFailure,
  isDatabaseUnavailable,
  isRepeatable,
  isTimeout,
  TransactionOvertaken,
} from '../../src/database/driver-errors.ts';

const wrapped = (cause: Error) => new DrizzleQueryError('select timeout from deadlock', [], cause);
function postgres(code: string): pg.DatabaseError {
  const error = new pg.DatabaseError('said by PostgreSQL', 20, 'error');
  error.code = code;
  return error;
}
const system = (code: string) => Object.assign(new Error(`connect ${code}`), { code });

describe.each([
  ['as it is', (error: Error) => error],
  ['wrapped by drizzle', wrapped],
])('an error %s', (_, form) => {
  test.each(['40001', '40P01', '23505'])('a transaction that fails with SQLSTATE %s is repeatable', code => {
    expect(isRepeatable(form(postgres(code)))).toBe(true);
    expect(isConnectionFailure(form(postgres(code)))).toBe(false);
  });

  test('a transaction that was overtaken is repeatable', () => {
    expect(isRepeatable(form(new TransactionOvertaken()))).toBe(true);
  });

  test.each(['08006', '08P01', '57P01', '57P02', '57P03'])(
    'an error with SQLSTATE %s is a connection failure',
    code => {
      expect(isConnectionFailure(form(postgres(code)))).toBe(true);
      expect(isDatabaseUnavailable(form(postgres(code)))).toBe(true);
      expect(isRepeatable(form(postgres(code)))).toBe(false);
    },
  );

  test.each(['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'EHOSTUNREACH', 'ENOTFOUND', 'EAI_AGAIN'])(
    'an error with the code %s is a connection failure, but not a timeout',
    code => {
      expect(isConnectionFailure(form(system(code)))).toBe(true);
      expect(isTimeout(form(system(code)))).toBe(false);
    },
  );

  test.each([
    '53100',
    '53200',
    '53300',
    '58030',
    '28P01',
    '28000',
    '3D000',
    '25006',
    '55000',
    '57014',
    '55P03',
    'XX001',
  ])('an error with SQLSTATE %s means a database at fault, but a connection in order', code => {
    expect(isDatabaseUnavailable(form(postgres(code)))).toBe(true);
    expect(isConnectionFailure(form(postgres(code)))).toBe(false);
  });

  test.each(['22P02', '23503', '23502', '42703', '42601', '22012'])(
    'an error with SQLSTATE %s is a bug of ours',
    code => {
      expect(isDatabaseUnavailable(form(postgres(code)))).toBe(false);
      expect(isRepeatable(form(postgres(code)))).toBe(false);
    },
  );

  test.each([
    'Query read timeout',
    'timeout exceeded when trying to connect',
    'timeout expired',
    'Connection terminated due to connection timeout',
  ])('"%s" is a timeout: another try would double the wait', message => {
    const error = new Error(message, { cause: new Error('Connection terminated unexpectedly') });
    expect(isTimeout(form(error))).toBe(true);
    expect(isConnectionFailure(form(error))).toBe(true);
  });

  test('an error from elsewhere is not a database failure', () => {
    const error = form(new TypeError('x is not a function'));
    expect([isRepeatable(error), isConnectionFailure(error), isDatabaseUnavailable(error), isTimeout(error)]).toEqual([
      false,
      false,
      false,
      false,
    ]);
  });
});

test('a host that refuses on all its addresses is a connection failure', () => {
  const refused = Object.assign(new AggregateError([system('ECONNREFUSED'), system('ECONNREFUSED')]), {
    code: 'ECONNREFUSED',
  });
  expect(isConnectionFailure(refused)).toBe(true);
});

test('a missing socket is a connection failure, a missing file is not', () => {
  const missing = (syscall: string) => Object.assign(new Error(`ENOENT, ${syscall}`), { code: 'ENOENT', syscall });
  expect(isConnectionFailure(missing('connect'))).toBe(true);
  expect(isDatabaseUnavailable(missing('open'))).toBe(false);
});

test.each([undefined, null, 'text', { code: '40001' }])(
  'what is not an error (%s) is not a database failure',
  value => {
    expect(isDatabaseUnavailable(value)).toBe(false);
    expect(isRepeatable(value)).toBe(false);
  },
);
