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
  webhooks_not_configured: 503,
  overloaded: 503,
  github_timeout: 504,
} as const;

export type ErrorCode = keyof typeof errorStatuses;

export class ServiceError extends Error {
  readonly code: ErrorCode;
  /** What the reader should do next, a sentence; undefined if there is nothing to do. */
  readonly action: string | undefined;
  /** Seconds after which another try makes sense; becomes `Retry-After`. */
  readonly retryAfter: number | undefined;

  /** @param message what went wrong, a sentence */
  constructor(
    code: ErrorCode,
    message: string,
    options: { action?: string | undefined; cause?: unknown; retryAfter?: number } = {},
  ) {
    super(message, { cause: options.cause });
    this.name = 'ServiceError';
    this.code = code;
    this.action = options.action;
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
