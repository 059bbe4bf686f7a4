/**
 * Every failure that a caller is told about, and the HTTP status it has. The API's error handler and the OpenAPI
 * document both read this table; the command line prints the text. Anything that is not a `ServiceError` is a
 * defect: it is logged and answered with a fixed text.
 */
export const errorStatuses = {
  bad_request: 400,
  unauthenticated: 401,
  forbidden: 403,
  not_found: 404,
  method_not_allowed: 405,
  cursor_expired: 410,
  precondition_failed: 412,
  payload_too_large: 413,
  unsupported_media_type: 415,
  precondition_required: 428,
  rate_limited: 429,
  headers_too_large: 431,
  internal: 500,
  github_failed: 502,
  github_credentials: 502,
  github_not_configured: 503,
  github_rate_limited: 503,
  database_unavailable: 503,
  rules_suspended: 503,
  webhooks_not_configured: 503,
  overloaded: 503,
  github_timeout: 504,
} as const;

export type ErrorCode = keyof typeof errorStatuses;

/** What is wrong with a file. */
export interface Problem {
  /** From 1. */
  line: number;
  message: string;
}

export interface ErrorOptions {
  cause?: unknown;
  parameter?: string | undefined;
  problems?: readonly Problem[];
  retryAfter?: number;
}

export class ServiceError extends Error {
  readonly code: ErrorCode;
  /** What the reader should do next, a sentence; undefined if there is nothing to do. */
  readonly action: string | undefined;
  /** The request's parameter that is to blame, by its name. */
  readonly parameter: string | undefined;
  /** All that is wrong with the file that was sent; undefined if none is to blame. */
  readonly problems: readonly Problem[] | undefined;
  /** Seconds after which another try makes sense; becomes `Retry-After`. */
  readonly retryAfter: number | undefined;

  constructor(code: ErrorCode, message: string, options: ErrorOptions & { action?: string | undefined } = {}) {
    super(message, { cause: options.cause });
    this.name = 'ServiceError';
    this.code = code;
    this.action = options.action;
    this.parameter = options.parameter;
    this.problems = options.problems;
    this.retryAfter = options.retryAfter;
  }

  get status(): number {
    return errorStatuses[this.code];
  }

  /** What went wrong and what to do next, as API clients, operators and logs are told. */
  get text(): string {
    return this.action === undefined ? this.message : `${this.message} ${this.action}`;
  }
}

/** Makes errors of one code: what went wrong, and what the reader should do next. */
const errorOf =
  (code: ErrorCode) =>
  (message: string, action?: string, options: ErrorOptions = {}): ServiceError =>
    new ServiceError(code, message, { action, ...options });

export const badRequest = errorOf('bad_request');
export const unauthenticated = errorOf('unauthenticated');
export const forbidden = errorOf('forbidden');
export const notFound = errorOf('not_found');
export const methodNotAllowed = errorOf('method_not_allowed');
export const cursorExpired = errorOf('cursor_expired');
export const preconditionFailed = errorOf('precondition_failed');
export const preconditionRequired = errorOf('precondition_required');
export const payloadTooLarge = errorOf('payload_too_large');
export const unsupportedMediaType = errorOf('unsupported_media_type');
export const rateLimited = errorOf('rate_limited');
export const internal = errorOf('internal');
export const githubNotConfigured = errorOf('github_not_configured');
export const databaseUnavailable = errorOf('database_unavailable');
export const webhooksNotConfigured = errorOf('webhooks_not_configured');
export const overloaded = errorOf('overloaded');

/** For a reply that nobody reads. */
export const brokenOff = (): ServiceError => badRequest('The client broke off its request.');

/** For operators. @param entry the rule and the entry that break a bound */
export const describeSuspension = (entry: string): string =>
  `The rules in force are suspended: ${entry} takes too much time or memory. Stored scores stay; nothing is synced.`;

export const rulesSuspended = (): ServiceError =>
  new ServiceError('rules_suspended', 'The rules in force are suspended: they take too much time or memory.', {
    action: 'Apply other rules.',
  });
