import pg from 'pg';

/** Thrown within a transaction that must start again: another one has just written the same row, or it lacks a lock. */
export class TransactionOvertaken extends Error {}

/** How `pg` and `pg-pool` say that a connection failed; these errors have no code. */
const connectionTexts =
  /^(Connection terminated|Query read timeout|Client has encountered|timeout (exceeded|expired)|Cannot use a pool|Client was closed)/;

interface DriverError extends Error {
  code?: unknown;
  syscall?: unknown;
}

/** The error that PostgreSQL or its driver threw, below drizzle's wrapping. */
export function driverError(error: unknown): DriverError | undefined {
  let current = error;
  for (let depth = 0; current instanceof Error && depth < 5; depth += 1) {
    const { cause } = current;
    if (
      current instanceof TransactionOvertaken ||
      current instanceof pg.DatabaseError ||
      // The pool's own say more than what caused them: that it was a timeout.
      connectionTexts.test(current.message) ||
      cause === undefined
    ) {
      return current;
    }
    current = cause;
  }
  return undefined;
}

/** Serialisation failure, deadlock, unique violation by a row that appeared meanwhile. */
export function isRepeatable(error: unknown): boolean {
  const cause = driverError(error);
  return cause instanceof TransactionOvertaken || ['40001', '40P01', '23505'].includes(String(cause?.code));
}

/** Whether the connection, not the statement, failed. Classes and codes are those of PostgreSQL's appendix A. */
export function isConnectionFailure(error: unknown): boolean {
  const cause = driverError(error);
  if (cause === undefined) return false;
  const code = String(cause.code ?? '');
  return (
    /^(08|57P0[1-4]$)/.test(code) ||
    /^(ECONN|EPIPE|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|EAI_AGAIN)/.test(code) ||
    // Of a Unix socket; a file that is missing has the same codes.
    (/^(ENOENT|EACCES)$/.test(code) && cause.syscall === 'connect') ||
    connectionTexts.test(cause.message)
  );
}

/**
 * Whether the database, not the request, is at fault: unreachable, out of resources (class 53), read-only (25006),
 * broken or overwhelmed storage (class 58), refusing our credentials (class 28), unable to answer in time (57014,
 * 55P03), or still busy with conflicting work after every retry.
 */
export function isDatabaseUnavailable(error: unknown): boolean {
  const code = String(driverError(error)?.code ?? '');
  return isConnectionFailure(error) || /^(53|58|28|25006$|57014$|55P03$|40001$|40P01$|3D000$|XX)/.test(code);
}

/** Whether an answer did not come in time: another try would double the wait. */
export function isTimeout(error: unknown): boolean {
  return /timeout/i.test(driverError(error)?.message ?? '');
}
