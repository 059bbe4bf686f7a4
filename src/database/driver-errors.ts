import pg from 'pg';
import { ServiceError } from '../errors.ts';

/** Thrown in a transaction that must start again because another one has just written the same row. */
export class TransactionOvertaken extends Error {}

/** Thrown if the connection broke at the commit. To repeat the transaction could have its effect twice. */
export class CommitUnknown extends Error {
  constructor(options: ErrorOptions) {
    super('the connection broke at the commit, so it is not known whether the change was saved', options);
  }
}

/** Messages of `pg` and `pg-pool` for a failed connection; these errors have no code. */
const connectionTexts =
  /^(Connection terminated|Query read timeout|Client has encountered|timeout (exceeded|expired)|Cannot use a pool|Client was closed)/;

interface DriverError extends Error {
  code?: unknown;
  syscall?: unknown;
}

/** The error that PostgreSQL or its driver threw, without Drizzle's wrapping. */
export function driverError(error: unknown): DriverError | undefined {
  let current = error;
  for (let depth = 0; current instanceof Error && depth < 5; depth += 1) {
    const { cause } = current;
    if (
      current instanceof TransactionOvertaken ||
      current instanceof CommitUnknown ||
      current instanceof pg.DatabaseError ||
      // The pool's own error says more than its cause: that it was a timeout.
      connectionTexts.test(current.message) ||
      cause === undefined
    ) {
      return current;
    }
    current = cause;
  }
  return undefined;
}

/** A serialisation failure, a deadlock, or a unique violation by a row that has just appeared. */
export function isRepeatable(error: unknown): boolean {
  const cause = driverError(error);
  return cause instanceof TransactionOvertaken || ['40001', '40P01', '23505'].includes(String(cause?.code));
}

/** Whether this is the code of an error in TLS: the other side's certificate is refused. */
export const isUntrusted = (code: unknown): boolean => /CERT|SELF_SIGNED|UNABLE_TO/.test(String(code));

/** Whether the connection, not the statement, failed. Classes and codes are those of PostgreSQL's appendix A. */
export function isConnectionFailure(error: unknown): boolean {
  const cause = driverError(error);
  if (cause === undefined) return false;
  const code = String(cause.code ?? '');
  return (
    /^(08|57P0[1-4]$)/.test(code) ||
    /^(ECONN|EPIPE|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|EAI_AGAIN)/.test(code) ||
    // A Unix socket. A missing file gives the same codes.
    (/^(ENOENT|EACCES)$/.test(code) && cause.syscall === 'connect') ||
    isUntrusted(code) ||
    connectionTexts.test(cause.message)
  );
}

/**
 * Whether another read's failure disturbed this one: it was sent in the belief that the other had prepared their
 * statement (26000), or had not (42P05).
 */
export const isStatementUnprepared = (error: unknown): boolean =>
  ['26000', '42P05'].includes(String(driverError(error)?.code));

/**
 * Whether the database, not the request, is at fault: it is unreachable, out of resources (class 53), read-only
 * (25006) or a standby (55000), has storage trouble (class 58), refuses our credentials (class 28), can't answer in time
 * (57014, 55P03), or is still busy with conflicting work after every retry.
 */
export function isDatabaseUnavailable(error: unknown): boolean {
  const cause = driverError(error);
  const code = String(cause?.code ?? '');
  return (
    (error instanceof ServiceError && error.code === 'database_unavailable') ||
    cause instanceof CommitUnknown ||
    isConnectionFailure(error) ||
    /^(53|58|28|25006$|55000$|57014$|55P03$|40001$|40P01$|3D000$|XX)/.test(code)
  );
}

/** Whether an answer came too late: another try would double the wait. */
export function isTimeout(error: unknown): boolean {
  return /timeout/i.test(driverError(error)?.message ?? '');
}
