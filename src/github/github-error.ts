import type { RequestError } from 'octokit';
import { type ErrorCode, ServiceError } from '../errors.ts';

interface Options {
  cause?: unknown;
  retryAfter?: number;
  tooMuch?: boolean;
  isLasting?: boolean;
  retryAfterGuessed?: boolean;
  unknownCursor?: boolean;
}

/** A failure of GitHub, with what a caller needs to decide on the next request. */
export class GithubError extends ServiceError {
  /** GitHub could not answer that much in time; half as much may succeed. */
  readonly tooMuch: boolean;
  /** Waiting does not help: an operator must change something. */
  readonly isLasting: boolean;
  /** The reply named no time. `retryAfter` is a first guess, to be doubled each time it happens again. */
  readonly retryAfterGuessed: boolean;
  /** GitHub does not know the page's cursor. */
  readonly unknownCursor: boolean;

  constructor(code: ErrorCode, message: string, options: Options & { action?: string | undefined } = {}) {
    super(code, message, options);
    this.name = 'GithubError';
    this.tooMuch = options.tooMuch ?? false;
    this.isLasting = options.isLasting ?? false;
    this.retryAfterGuessed = options.retryAfterGuessed ?? false;
    this.unknownCursor = options.unknownCursor ?? false;
  }
}

/** Makes errors of one code: what went wrong, and what the reader should do next. */
const errorOf =
  (code: ErrorCode) =>
  (message: string, action?: string, options?: Options): GithubError =>
    new GithubError(code, message, { action, ...options });

export const githubFailed = errorOf('github_failed');
/** GitHub refused the credentials, or what they asked for. */
export const githubRefused = errorOf('github_credentials');

/** Whether another try, or a smaller request, may succeed. */
export const isTransientFailure = (error: unknown): error is GithubError =>
  error instanceof GithubError &&
  (error.code === 'github_failed' || error.code === 'github_timeout') &&
  !error.unknownCursor &&
  !error.isLasting;

/** One entry of a GraphQL reply's `errors`. */
export interface GraphqlFailure {
  type: string;
  message: string;
  path: (string | number)[];
}

const guessedRetryAfterSeconds = 60;
const maxRetryAfterSeconds = 86_400;

/** It is the first with `PullRequest.fullDatabaseId`; the fields that other queries need are older. */
const oldestEnterpriseServer = '3.13';
const rateLimitText = /rate limit|abuse detection/i;
const tryLater = 'Try again later.';
const tooMuchText = /something went wrong while executing your query|respond to your request in time|timed? ?out/i;

/** @param timeoutMs our own limit; undefined if it was the caller's */
export function timeoutError(timeoutMs: number | undefined): GithubError {
  const after = timeoutMs === undefined ? 'in time' : `within ${timeoutMs / 1000} seconds`;
  return new GithubError('github_timeout', `GitHub did not answer ${after}.`, { action: tryLater, tooMuch: true });
}

/** Octokit's error; without a response if the connection failed. */
export const isHttpError = (error: unknown): error is RequestError =>
  error instanceof Error && error.name === 'HttpError';

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null;

export function graphqlFailures(errors: unknown): GraphqlFailure[] {
  if (errors === undefined || errors === null) return [];
  const entries: unknown[] = Array.isArray(errors) ? errors : [errors];
  return entries.map(entry => {
    const { type, message, path, code, extensions } = isRecord(entry) ? entry : {};
    const types = [type, code, isRecord(extensions) ? extensions.code : undefined];
    return {
      type: types.find(each => typeof each === 'string') ?? '',
      message: typeof message === 'string' ? message.slice(0, 300) : 'no message',
      path: Array.isArray(path) ? path.filter(step => typeof step === 'string' || typeof step === 'number') : [],
    };
  });
}

export const isRateLimit = (failure: GraphqlFailure) =>
  /^(graphql_)?rate_limit(ed)?$/i.test(failure.type) || rateLimitText.test(failure.message);

const isTooMuch = (failure: GraphqlFailure) =>
  /^(RESOURCE_LIMITS?_EXCEEDED|MAX_NODE_LIMIT_EXCEEDED|TIMEOUT)$/.test(failure.type) ||
  tooMuchText.test(failure.message);

/** Failures of the query itself have a type in camel case, such as `undefinedField`. */
const isUnknownQuery = (failure: GraphqlFailure) => /^[a-z]+(?:[A-Z][a-z]*)+$/.test(failure.type);

export const isRefusal = (failure: GraphqlFailure) =>
  /^(FORBIDDEN|INSUFFICIENT_SCOPES|SAML_FAILURE|UNAUTHORIZED)$/.test(failure.type);

/**
 * What entries of `errors` mean.
 *
 * @param subject what was asked for, here and below for messages
 * @param credentials the variables to check, likewise
 */
export function errorOfFailures(
  failures: readonly GraphqlFailure[],
  subject: string,
  credentials: string,
): GithubError {
  const refusal = failures.find(isRefusal);
  if (refusal) {
    const message = `GitHub does not let ${credentials} read ${subject}: "${refusal.message}"`;
    return githubRefused(message, undefined, { cause: failures });
  }
  const unknown = failures.find(isUnknownQuery);
  if (unknown) {
    const message = `This GitHub does not support what pullscore asks for: "${unknown.message}".`;
    const action = `Use GitHub Enterprise Server ${oldestEnterpriseServer} or newer.`;
    return githubFailed(message, action, { cause: failures, isLasting: true });
  }
  const [first] = failures;
  const reason = first === undefined ? 'it gave no reason.' : `"${first.message}"`;
  return githubFailed(`GitHub did not return ${subject}: ${reason}`, tryLater, {
    cause: failures,
    tooMuch: failures.some(isTooMuch),
    unknownCursor: failures.some(({ type }) => type === 'INVALID_CURSOR_ARGUMENTS'),
  });
}

type Headers = Record<string, string | number | undefined>;

/** GitHub's clock when it replied, in Unix seconds; ours if the reply does not say. */
export function clockOf({ date }: Headers): number {
  const milliseconds = Date.parse(String(date));
  return Math.floor((Number.isNaN(milliseconds) ? Date.now() : milliseconds) / 1000);
}

/** Seconds until GitHub accepts requests again, by its own clock; undefined if it does not say. */
function secondsToWait(headers: Headers): number | undefined {
  const now = clockOf(headers);
  const retryAfter = headers['retry-after'];
  if (retryAfter !== undefined) {
    const text = String(retryAfter).trim();
    if (/^\d+$/.test(text)) return Number(text);
    const date = Date.parse(text);
    if (!Number.isNaN(date)) return date / 1000 - now;
  }
  const reset = Number(headers['x-ratelimit-reset']);
  if (String(headers['x-ratelimit-remaining']) === '0' && reset > 0) return reset - now;
  return undefined;
}

export function rateLimitError(headers: Headers, cause: unknown): GithubError {
  const seconds = secondsToWait(headers);
  const retryAfter = Math.min(Math.max(Math.ceil(seconds ?? guessedRetryAfterSeconds), 1), maxRetryAfterSeconds);
  return new GithubError('github_rate_limited', "GitHub's rate limit is used up.", {
    action: `Try again in ${retryAfter} seconds, or give the service credentials of its own.`,
    cause,
    retryAfter,
    retryAfterGuessed: seconds === undefined,
  });
}

/**
 * What a failed request means.
 *
 * @param apiUrl where it went
 * @param place what can't be reached, for the message
 */
export function errorOfRequest(error: unknown, credentials: string, apiUrl: string, place = 'GitHub'): ServiceError {
  if (error instanceof ServiceError) return error;
  if (error instanceof Error && error.cause instanceof ServiceError) return error.cause;
  if (isHttpError(error) && error.response) return errorOfResponse(error, error.response, credentials);
  if (error instanceof Error && error.cause instanceof DOMException && error.cause.name === 'TimeoutError') {
    return timeoutError(undefined);
  }
  if (isHttpError(error)) return connectionError(error, apiUrl, place);
  return githubFailed("GitHub's reply is not valid.", 'Check GITHUB_API_URL, or try again later.', { cause: error });
}

function connectionError(error: RequestError, apiUrl: string, place: string): GithubError {
  const code = connectionErrorCode(error);
  let { action, isLasting } = connectionActions.find(({ codes }) => codes.test(code ?? '')) ?? network;
  // At GitHub's own address the variable is not set.
  if (apiUrl === 'https://api.github.com') action = action.replace(/(?:the name in )?GITHUB_API_URL, and /, '');
  const message = `The connection to ${place} failed: ${code ?? error.message}.`;
  return githubFailed(message, action, { cause: error, isLasting });
}

/** A request that did not get through the proxy. */
export function proxyError(error: unknown, { name, place }: { name: string; place: string }): GithubError {
  // Only the text of undici's error has the answer to CONNECT.
  const [, status] = /Proxy response \((\d+)\)/.exec([...causesOf(error)].join()) ?? [];
  const code = connectionErrorCode(error) ?? String(error);
  const reason = status === undefined ? code : `it answered ${status}`;
  const check =
    status === '407'
      ? `Check the user and the password in ${name}.`
      : `Check ${name}, or name the host in NO_PROXY if it is reached directly.`;
  const isCertificate = certificates.codes.test(code);
  const action = isCertificate ? certificates.action : check;
  return githubFailed(`The connection to GitHub through the proxy ${place} failed: ${reason}.`, action, {
    cause: error,
    isLasting: isCertificate || status === '407',
  });
}

const network = {
  action: 'Check GITHUB_API_URL, and that the network and its firewall allow this machine to connect.',
  isLasting: false,
};

const certificates = {
  codes: /CERT|SELF_SIGNED|UNABLE_TO/,
  action: 'If your own authority issued the certificate, name it in NODE_EXTRA_CA_CERTS; see docs/deployment.md.',
  isLasting: true,
};

/** What to do, by the codes of the system and of TLS. */
const connectionActions = [
  {
    codes: /^(ENOTFOUND|EAI_AGAIN)$/,
    action: 'Check the name in GITHUB_API_URL, and that this machine can look up names.',
    isLasting: false,
  },
  certificates,
  {
    codes: /^(EPROTO|ERR_SSL_(WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG))$/,
    action: 'Check GITHUB_API_URL: the server does not speak TLS on this port.',
    isLasting: true,
  },
];

/** The system's code for a failed connection, such as `ECONNRESET`; it is one or two causes deep. */
export function connectionErrorCode(error: unknown): string | undefined {
  for (const cause of causesOf(error)) if ('code' in cause && typeof cause.code === 'string') return cause.code;
  return undefined;
}

/** The error itself first. */
function* causesOf(error: unknown): Generator<Error> {
  for (let cause = error, depth = 0; cause instanceof Error && depth < 5; depth++) {
    yield cause;
    cause = cause instanceof AggregateError ? cause.errors[0] : cause.cause;
  }
}

/** "Request Timeout" and "Too Early". */
const passingStatuses: ReadonlySet<number> = new Set([408, 425]);

/** What a reply with a status of 400 or more means. */
function errorOfResponse(
  cause: RequestError,
  { status, headers }: NonNullable<RequestError['response']>,
  credentials: string,
): GithubError {
  const saysWhen = headers['retry-after'] !== undefined || String(headers['x-ratelimit-remaining']) === '0';
  if (status === 429 || (status === 403 && (saysWhen || rateLimitText.test(cause.message)))) {
    return rateLimitError(headers, cause);
  }
  if (status === 401) {
    return githubRefused("GitHub refused the service's credentials.", `Renew ${credentials}.`, { cause });
  }
  if (status === 403) {
    const action = `Check the rights of ${credentials} on the organisation.`;
    return githubRefused('GitHub denied the service access.', action, { cause });
  }
  if (status === 404) {
    const action = 'Check GITHUB_API_URL.';
    return githubFailed('There is no GitHub API at this address.', action, { cause, isLasting: true });
  }
  const tooMuch = status === 413 || status === 502 || status === 504 || tooMuchText.test(cause.message);
  if (status < 500 && !tooMuch && !passingStatuses.has(status)) {
    const action = 'Check GITHUB_API_URL: does the address begin with https?';
    return githubFailed(`GitHub refused the request with status ${status}.`, action, { cause, isLasting: true });
  }
  return githubFailed(`GitHub failed with status ${status}.`, tryLater, { cause, tooMuch });
}
