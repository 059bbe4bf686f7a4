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

const kinds = {
  repeatable: isRepeatable,
  'of the connection': isConnectionFailure,
  'of the database': isDatabaseUnavailable,
  // Another try would double the wait.
  'a timeout': isTimeout,
};
const kindsOf = (error: unknown) => Object.entries(kinds).flatMap(([kind, isOfKind]) => (isOfKind(error) ? kind : []));

const postgres = (...codes: string[]) =>
  codes.map(code => Object.assign(new pg.DatabaseError(`SQLSTATE ${code}`, 20, 'error'), { code }));
const system = (...codes: string[]) => codes.map(code => Object.assign(new Error(`connect ${code}`), { code }));
const missing = (syscall: string) => Object.assign(new Error(`ENOENT, ${syscall}`), { code: 'ENOENT', syscall });
const late = (...messages: string[]) =>
  messages.map(message => new Error(message, { cause: new Error('Connection terminated unexpectedly') }));

const groups: [kinds: string[], errors: Error[]][] = [
  [['repeatable', 'of the database'], postgres('40001', '40P01')],
  [['repeatable'], [...postgres('23505'), new TransactionOvertaken('overtaken')]],
  [
    ['of the connection', 'of the database'],
    [
      ...postgres('08006', '08P01', '57P01', '57P02', '57P03'),
      ...system('ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'EHOSTUNREACH', 'ENOTFOUND', 'EAI_AGAIN'),
      Object.assign(new AggregateError(system('ECONNREFUSED'), 'all addresses refuse'), { code: 'ECONNREFUSED' }),
      // A socket.
      missing('connect'),
    ],
  ],
  [
    ['of the connection', 'of the database', 'a timeout'],
    late(
      'Query read timeout',
      'timeout exceeded when trying to connect',
      'timeout expired',
      'Connection terminated due to connection timeout',
    ),
  ],
  [
    ['of the database'],
    [
      ...postgres('53100', '53200', '53300', '58030', '28P01', '28000', '3D000', '25006'),
      ...postgres('55000', '57014', '55P03', 'XX001'),
    ],
  ],
  // Bugs of ours, and a missing file.
  [
    [],
    [...postgres('22P02', '23503', '23502', '42703', '42601', '22012'), new TypeError('no function'), missing('open')],
  ],
];

describe.each([
  ['as it is', (error: Error) => error],
  ['wrapped by drizzle', (cause: Error) => new DrizzleQueryError('select timeout from deadlock', [], cause)],
])('an error %s', (_, form) => {
  test.each(groups.flatMap(([expected, errors]) => errors.map(error => [error, expected] as const)))(
    '%s is %j',
    (error, expected) => {
      expect(kindsOf(form(error))).toEqual(expected);
    },
  );
});

test.each([undefined, null, 'text', { code: '40001' }])('what is not an error is of no kind: %j', value => {
  expect(kindsOf(value)).toEqual([]);
});
