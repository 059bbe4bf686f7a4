import { describe, expect, test } from 'vitest';
import { ServiceError } from '../../src/errors.ts';
import {
  clockOf,
  connectionErrorCode,
  errorOfFailures,
  errorOfRequest,
  GithubError,
  type GraphqlFailure,
  graphqlFailures,
  isHttpError,
  isRateLimit,
  isTransientFailure,
  rateLimitError,
  timeoutError,
} from '../../src/github/github-error.ts';

const failure = (type: string, message = 'it says', path: GraphqlFailure['path'] = []) => ({ type, message, path });

/** As Octokit throws it: with a reply, or without. */
function httpError(message: string, status?: number, headers: Record<string, string | number> = {}, cause?: unknown) {
  const error = new Error(message, { cause });
  error.name = 'HttpError';
  return status === undefined ? error : Object.assign(error, { response: { status, headers } });
}

function summary({ code, text, retryAfter, ...error }: GithubError) {
  const flags = (['tooMuch', 'isLasting', 'retryAfterGuessed', 'unknownCursor'] as const).filter(flag => error[flag]);
  return { code, text, retryAfter, flags };
}
/** The summary of a failure. */
const failed = (text: string, ...flags: string[]) => ({ code: 'github_failed', text, retryAfter: undefined, flags });
const url = 'https://ghe.example';
const translated = (error: unknown) => summary(errorOfRequest(error, 'GITHUB_TOKEN', url) as GithubError);

describe('an error of GitHub', () => {
  test('is a ServiceError without flags by default', () => {
    const cause = new Error('why');
    const error = new GithubError('github_failed', 'What to do.', { cause });
    expect(error).toBeInstanceOf(ServiceError);
    expect(error).toMatchObject({ name: 'GithubError', cause });
    expect(summary(error)).toEqual(failed('What to do.'));
  });

  test('the error for a timeout names our limit, and says that a smaller request may succeed', () => {
    const timeout = failed('GitHub did not answer within 2.5 seconds. Try again later.', 'tooMuch');
    expect(summary(timeoutError(2_500))).toEqual({ ...timeout, code: 'github_timeout' });
    expect(timeoutError(undefined).text).toBe('GitHub did not answer in time. Try again later.');
  });
});

test('failures and timeouts are transient, except for an unknown cursor and what waiting does not help', () => {
  expect(isTransientFailure(new GithubError('github_failed', ''))).toBe(true);
  expect(isTransientFailure(new GithubError('github_timeout', ''))).toBe(true);
  expect(isTransientFailure(new GithubError('github_failed', '', { unknownCursor: true }))).toBe(false);
  expect(isTransientFailure(new GithubError('github_failed', '', { isLasting: true }))).toBe(false);
  expect(isTransientFailure(new GithubError('github_credentials', ''))).toBe(false);
  expect(isTransientFailure(new GithubError('github_rate_limited', ''))).toBe(false);
  expect(isTransientFailure(new ServiceError('github_failed', ''))).toBe(false);
  expect(isTransientFailure(undefined)).toBe(false);
});

describe("the entries of a reply's `errors`", () => {
  test('are read in every form', () => {
    const path = ['nodes', 3, 'title'];
    expect(graphqlFailures([{ type: 'NOT_FOUND', message: 'Gone.', path }])).toEqual([
      failure('NOT_FOUND', 'Gone.', path),
    ]);
    expect(graphqlFailures([{ code: 'rate_limit' }, { type: 5, code: 6, message: 7, path: 8 }])).toEqual([
      failure('rate_limit', 'no message'),
      failure('', 'no message'),
    ]);
    expect(graphqlFailures([{ type: 'A', code: 'B' }, null, 'text', 5])).toEqual([
      failure('A', 'no message'),
      ...Array.from({ length: 3 }, () => failure('', 'no message')),
    ]);
    expect(graphqlFailures([{ extensions: { code: 'undefinedField' } }, { type: 'A', extensions: 5 }])).toEqual([
      failure('undefinedField', 'no message'),
      failure('A', 'no message'),
    ]);
    expect(graphqlFailures({ message: 'alone' })).toEqual([failure('', 'alone')]);
    expect(graphqlFailures([{ path: ['a', null, 1, true, {}] }])[0]?.path).toEqual(['a', 1]);
    expect(graphqlFailures([{ message: 'x'.repeat(400) }])[0]?.message).toBe('x'.repeat(300));
  });

  test.each([undefined, null, []])('a reply whose `errors` are %j has no failures', errors => {
    expect(graphqlFailures(errors)).toEqual([]);
  });
});

test.each([
  ['RATE_LIMIT', 'x', true],
  ['RATE_LIMITED', 'x', true],
  ['graphql_rate_limit', 'x', true],
  ['', 'You have exceeded a secondary Rate Limit.', true],
  ['', 'This triggered an abuse detection mechanism.', true],
  ['NOT_RATE_LIMIT', 'x', false],
  ['RATE_LIMITS', 'x', false],
  ['NOT_FOUND', 'x', false],
])('an error of the type %j with the message %j is a rate limit: %s', (type, message, expected) => {
  expect(isRateLimit(failure(type, message))).toBe(expected);
});

describe('failures', () => {
  const of = (...failures: GraphqlFailure[]) => errorOfFailures(failures, 'the member', 'GITHUB_TOKEN');

  test.each(['FORBIDDEN', 'INSUFFICIENT_SCOPES', 'SAML_FAILURE', 'UNAUTHORIZED'])(
    'a failure of the type %s among others is about credentials',
    type => {
      const failures = [failure('NOT_FOUND'), failure(type, 'Needs more.')];
      const refused = failed('GitHub does not let GITHUB_TOKEN read the member: "Needs more."');
      expect(summary(of(...failures))).toEqual({ ...refused, code: 'github_credentials' });
      expect(of(...failures).cause).toEqual(failures);
    },
  );

  test.each([
    ['RESOURCE_LIMIT_EXCEEDED', 'x', ['tooMuch']],
    ['RESOURCE_LIMITS_EXCEEDED', 'x', ['tooMuch']],
    ['MAX_NODE_LIMIT_EXCEEDED', 'x', ['tooMuch']],
    ['TIMEOUT', 'x', ['tooMuch']],
    ['', 'Something went wrong while executing your query.', ['tooMuch']],
    ['', "We couldn't respond to your request in time.", ['tooMuch']],
    ['', 'The query timed out.', ['tooMuch']],
    ['', 'A time out.', ['tooMuch']],
    ['', 'A timeout.', ['tooMuch']],
    ['INVALID_CURSOR_ARGUMENTS', 'x', ['unknownCursor']],
    ['NO_TIMEOUT', 'x', []],
    ['TIMEOUTS', 'x', []],
    ['FORBIDDEN_CITY', 'x', []],
    ['NOT_FORBIDDEN', 'x', []],
    ['NOT_FOUND', 'x', []],
  ])('a failure of the type %j with the message %j has the flags %j', (type, message, flags) => {
    const error = of(failure('NOT_FOUND', 'First.'), failure(type, message));
    expect(summary(error)).toEqual(failed('GitHub did not return the member: "First." Try again later.', ...flags));
    expect(error.cause).toHaveLength(2);
  });

  test.each(['undefinedField', 'undefinedType', 'argumentNotAccepted', 'missingRequiredArguments'])(
    'a query that this GitHub does not know (%s) names the field and the release that is needed',
    type => {
      const message = "Field 'fullDatabaseId' doesn't exist on type 'PullRequest'";
      expect(summary(of(failure('NOT_FOUND'), failure(type, message)))).toMatchObject({
        code: 'github_failed',
        text: `This GitHub does not support what pullscore asks for: "${message}". Use GitHub Enterprise Server 3.13 or newer.`,
        flags: ['isLasting'],
      });
    },
  );

  test('the error for an empty list of failures says that GitHub gave no reason', () => {
    expect(of().text).toBe('GitHub did not return the member: it gave no reason. Try again later.');
  });
});

describe('a rate limit', () => {
  const date = 'Sat, 31 Jan 2026 12:00:00 GMT';
  const now = Date.parse(date) / 1000;
  const wait = (headers: Record<string, string | number>) => {
    const { retryAfter, retryAfterGuessed } = rateLimitError({ date, ...headers }, 'why');
    return retryAfterGuessed ? `guessed ${retryAfter}` : retryAfter;
  };

  test.each([
    [{}, 'guessed 60'],
    [{ 'retry-after': '90' }, 90],
    [{ 'retry-after': 90 }, 90],
    [{ 'retry-after': ' 90 ' }, 90],
    [{ 'retry-after': '0' }, 1],
    [{ 'retry-after': '86400' }, 86_400],
    [{ 'retry-after': '86401' }, 86_400],
    [{ 'retry-after': 'Sat, 31 Jan 2026 12:02:00 GMT' }, 120],
    [{ 'retry-after': 'Sat, 31 Jan 2026 11:00:00 GMT' }, 1],
    [{ 'retry-after': 'in 9 minutes' }, 'guessed 60'],
    [{ 'retry-after': '9s' }, 'guessed 60'],
    [{ 'retry-after': 's9s9' }, 'guessed 60'],
    [{ 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': String(now + 600) }, 600],
    [{ 'x-ratelimit-remaining': 0, 'x-ratelimit-reset': now + 599.5 }, 600],
    [{ 'x-ratelimit-remaining': '1', 'x-ratelimit-reset': String(now + 600) }, 'guessed 60'],
    [{ 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '0' }, 'guessed 60'],
    [{ 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': 'soon' }, 'guessed 60'],
    [{ 'x-ratelimit-remaining': '0' }, 'guessed 60'],
    [{ 'x-ratelimit-reset': String(now + 600) }, 'guessed 60'],
    [{ 'retry-after': '7', 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': String(now + 600) }, 7],
    [{ 'retry-after': 'soon', 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': String(now + 600) }, 600],
  ])('with the headers %j lasts %s seconds', (headers, expected) => {
    expect(wait(headers)).toBe(expected);
  });

  test('says when to try again', () => {
    const error = rateLimitError({ 'retry-after': '90' }, 'why');
    expect(error.cause).toBe('why');
    expect(summary(error)).toEqual({
      code: 'github_rate_limited',
      text: "GitHub's rate limit is used up. Try again in 90 seconds, or give the service credentials of its own.",
      retryAfter: 90,
      flags: [],
    });
  });

  test("counts by GitHub's clock, or by ours if the reply has none", () => {
    expect(clockOf({ date })).toBe(now);
    for (const headers of [{}, { date: 'nonsense' }]) {
      const before = Math.floor(Date.now() / 1000);
      const clock = clockOf(headers);
      expect(clock).toBeGreaterThanOrEqual(before);
      expect(clock).toBeLessThanOrEqual(Date.now() / 1000);
      expect(Number.isInteger(clock)).toBe(true);
    }
  });
});

describe('a request that fails', () => {
  test('because of one of our own errors fails with that error', () => {
    const own = new GithubError('github_timeout', 'Ours.');
    expect(errorOfRequest(own, '', url)).toBe(own);
    expect(errorOfRequest(httpError('around', 500, {}, own), '', url)).toBe(own);
  });

  test.each([
    [429, {}, 'x', 'github_rate_limited'],
    [403, { 'retry-after': '5' }, 'x', 'github_rate_limited'],
    [403, { 'x-ratelimit-remaining': '0' }, 'x', 'github_rate_limited'],
    [403, {}, 'You have exceeded a secondary rate limit', 'github_rate_limited'],
    [403, { 'x-ratelimit-remaining': '1' }, 'x', 'github_credentials'],
    [403, {}, 'x', 'github_credentials'],
    [401, { 'retry-after': '5' }, 'rate limit', 'github_credentials'],
    [404, {}, 'x', 'github_failed'],
    [500, { 'retry-after': '5' }, 'rate limit', 'github_failed'],
    [400, { 'retry-after': '5' }, 'rate limit', 'github_failed'],
  ])('a failure with the status %d, headers %j and message %j is %s', (status, headers, message, code) => {
    expect(translated(httpError(message, status, headers)).code).toBe(code);
  });

  test.each([
    [400, 'GitHub refused the request with status 400. Check GITHUB_API_URL: does the address begin with https?', true],
    [401, "GitHub refused the service's credentials. Renew GITHUB_TOKEN.", false],
    [403, 'GitHub denied the service access. Check the rights of GITHUB_TOKEN on the organisation.', false],
    [404, 'There is no GitHub API at this address. Check GITHUB_API_URL.', true],
    [405, 'GitHub refused the request with status 405. Check GITHUB_API_URL: does the address begin with https?', true],
    [408, 'GitHub failed with status 408. Try again later.', false],
    [425, 'GitHub failed with status 425. Try again later.', false],
    [499, 'GitHub refused the request with status 499. Check GITHUB_API_URL: does the address begin with https?', true],
    [500, 'GitHub failed with status 500. Try again later.', false],
  ])('a failure with the status %d says what to do, and keeps its cause', (status, text, isLasting) => {
    const cause = httpError('x', status);
    const flags = isLasting ? ['isLasting'] : [];
    expect(translated(cause)).toMatchObject({ text, flags, retryAfter: undefined });
    expect(errorOfRequest(cause, 'GITHUB_TOKEN', url).cause).toBe(cause);
  });

  test.each([
    [500, 'x', []],
    [500, 'It timed out.', ['tooMuch']],
    [400, 'It timed out.', ['tooMuch']],
    [413, 'x', ['tooMuch']],
    [502, 'x', ['tooMuch']],
    [503, 'x', []],
    [504, 'x', ['tooMuch']],
  ])('a failure with the status %d and the message %j has the flags %j', (status, message, flags) => {
    expect(translated(httpError(message, status)).flags).toEqual(flags);
  });

  test('because of a time limit is a timeout', () => {
    const error = httpError('x', undefined, {}, new DOMException('late', 'TimeoutError'));
    expect(translated(error)).toMatchObject({ code: 'github_timeout', flags: ['tooMuch'] });
    const aborted = httpError('x', undefined, {}, new DOMException('stop', 'AbortError'));
    expect(translated(aborted)).toMatchObject({ code: 'github_failed' });
  });

  test('a failure without a reply names the reason of the lost connection', () => {
    const reset = Object.assign(new Error('read'), { code: 'ECONNRESET' });
    const action = 'Check GITHUB_API_URL, and that the network and its firewall allow this machine to connect.';
    expect(translated(httpError('x', undefined, {}, reset))).toMatchObject({
      code: 'github_failed',
      text: `The connection to GitHub failed: ECONNRESET. ${action}`,
    });
    expect(errorOfRequest(httpError('other side closed'), '', url, url)).toMatchObject({
      message: 'The connection to https://ghe.example failed: other side closed.',
      action,
    });
  });

  test.each([
    [undefined, 'Check that the network and its firewall allow this machine to connect.'],
    ['ENOTFOUND', 'Check that this machine can look up names.'],
  ])("a failure without a reply from GitHub's own address does not name GITHUB_API_URL: %s", (code, action) => {
    const error = httpError('x', undefined, {}, Object.assign(new Error('connect'), { code }));
    const { message, action: shown } = errorOfRequest(error, '', 'https://api.github.com');
    expect([message, shown]).toEqual([expect.stringMatching(/^The connection to GitHub failed: /), action]);
  });

  test.each([
    ['ENOTFOUND', /^Check the name in GITHUB_API_URL/, false],
    ['EAI_AGAIN', /^Check the name in GITHUB_API_URL/, false],
    ['ECONNREFUSED', /^Check GITHUB_API_URL, and that the network/, false],
    ['CERT_HAS_EXPIRED', /NODE_EXTRA_CA_CERTS/, true],
    ['DEPTH_ZERO_SELF_SIGNED_CERT', /NODE_EXTRA_CA_CERTS/, true],
    ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', /NODE_EXTRA_CA_CERTS/, true],
    ['EPROTO', /does not speak TLS/, true],
    ['ERR_SSL_WRONG_VERSION_NUMBER', /does not speak TLS/, true],
  ])(
    'a failure without a reply, because of %s, says what to do, and whether waiting helps',
    (code, action, isLasting) => {
      const error = httpError('x', undefined, {}, Object.assign(new Error('connect'), { code }));
      expect(errorOfRequest(error, '', url)).toMatchObject({ action: expect.stringMatching(action), isLasting });
    },
  );

  test.each([new SyntaxError('Unexpected token'), 'text', undefined])(
    'an error that is not an HttpError means that the reply is not valid: %s',
    cause => {
      expect(translated(cause)).toMatchObject({
        code: 'github_failed',
        text: "GitHub's reply is not valid. Check GITHUB_API_URL, or try again later.",
        flags: [],
      });
      expect(errorOfRequest(cause, '', url).cause).toBe(cause);
    },
  );

  test('an HttpError is known by its name', () => {
    expect(isHttpError(httpError('x'))).toBe(true);
    expect(isHttpError(new Error('x'))).toBe(false);
    expect(isHttpError({ name: 'HttpError' })).toBe(false);
  });
});

test('the code of a failed connection is found among its causes', () => {
  const coded = Object.assign(new Error('connect'), { code: 'ECONNREFUSED' });
  const within = (error: unknown, depth: number): unknown =>
    depth === 0 ? error : new Error('around', { cause: within(error, depth - 1) });
  expect(connectionErrorCode(coded)).toBe('ECONNREFUSED');
  expect(connectionErrorCode(within(coded, 4))).toBe('ECONNREFUSED');
  expect(connectionErrorCode(within(coded, 5))).toBeUndefined();
  expect(connectionErrorCode(within(new AggregateError([coded, new Error('next')]), 1))).toBe('ECONNREFUSED');
  expect(connectionErrorCode(Object.assign(new Error('x', { cause: coded }), { code: 5 }))).toBe('ECONNREFUSED');
  expect(connectionErrorCode({ code: 'ECONNREFUSED' })).toBeUndefined();
  expect(connectionErrorCode(undefined)).toBeUndefined();
});
