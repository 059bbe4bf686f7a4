import { describe, expect, test } from 'vitest';
import type { Decision, SyncRequest } from '../../src/database/sync-requests.ts';
import { databaseUnavailable } from '../../src/errors.ts';
import { GithubError } from '../../src/github/github-error.ts';
import { type Answer, chooseBatch, decide, type Failure, nextTry } from '../../src/sync/decide-next-try.ts';

/** A webhook named the time 100, and nothing has been answered yet. */
const fresh: SyncRequest = {
  githubId: 7,
  nodeId: 'PR_7',
  ticket: 1,
  attempts: 0,
  minSourceUpdatedAt: 100,
  age: 0,
  behindSourceUpdatedAt: null,
  behindSeconds: null,
  isCandidate: false,
  isSetAside: false,
  isIsolated: false,
  hasShownOthers: false,
  isBackground: false,
};
const sweep = { minSourceUpdatedAt: null, isBackground: true };
const found = (sourceUpdatedAt: number): Answer => ({ status: 'found', githubId: 7, sourceUpdatedAt });
const gone: Answer = { status: 'gone' };
const failed = (error: Error, failure: Partial<Failure> = {}): Answer => ({
  ...({ status: 'failed', error, cause: 'entry', batchSize: 50, hasShownOthers: true } as const),
  ...failure,
});
const shown = { hasShownOthers: true };
const noneShown = { hasShownOthers: false };
const aside = { isSetAside: true };
const lone = { isIsolated: true };
const together = { cause: 'batch', batchSize: 2, hasShownOthers: false } as const;
const alone = { ...together, batchSize: 1 };
const service = { ...together, cause: 'service' } as const;
const down = new GithubError('github_failed', 'Down.');
const limited = new GithubError('github_rate_limited', 'Limited.', { retryAfter: 90 });

const sameFor = (behindSeconds: number) => ({ behindSourceUpdatedAt: 99, behindSeconds });
const wait = (seconds: number) => ({ kind: 'wait', seconds }) as const;
const retry = (seconds: number, attempts: number) => ({ kind: 'retry', seconds, attempts }) as const;
const found99 = found(99);

const cases: [string, Partial<SyncRequest>, Answer, Partial<Decision>][] = [
  ['an answer at the floor', {}, found(100), { kind: 'done' }],
  ['an answer above the floor', {}, found(101), { kind: 'done' }],
  ['any answer if there is no floor', sweep, found(1), { kind: 'done' }],
  ['the pull request of another id', {}, { ...found(101), githubId: 8 } as Answer, { kind: 'gone' }],

  ['the first answer below the floor', {}, found99, { ...wait(1), sourceUpdatedAt: 99 }],
  ['nothing at first', {}, gone, { ...wait(1), sourceUpdatedAt: null }],
  ['the same answer for 1 s', sameFor(1), found99, wait(2)],
  ['the same answer for 16 s', sameFor(16), found99, wait(14)],
  ['another answer after 16 s', { ...sameFor(16), behindSourceUpdatedAt: 98 }, found99, wait(1)],
  ['the same answer for 30 s', sameFor(30), found99, { kind: 'stale' }],
  ['nothing for 30 s', { behindSeconds: 30 }, gone, wait(30)],
  ['nothing for 779 s', { behindSeconds: 779 }, gone, wait(1)],
  ['nothing for 780 s', { behindSeconds: 780 }, gone, { kind: 'gone' }],
  ['changing answers for an hour', { age: 3_600 }, found99, wait(1)],
  ['changing answers for longer', { age: 3_601 }, found99, { kind: 'stale' }],
  ['nothing, now and then, for longer', { age: 3_601 }, gone, { kind: 'gone' }],
  ['nothing about what a sweep asked for', sweep, gone, { kind: 'gone' }],

  ['its first failure', {}, failed(down), { ...retry(5, 1), reason: 'Down.', isIsolated: false }],
  ['its second failure', { attempts: 1 }, failed(down), retry(30, 2)],
  ['its third failure', { attempts: 2 }, failed(down), retry(120, 3)],
  ['its fourth failure', { attempts: 3 }, failed(down), retry(600, 4)],
  ['its fifth failure', { attempts: 4 }, failed(down), retry(3_600, 5)],
  ['its seventh failure', { attempts: 6 }, failed(down), retry(3_600, 7)],
  [
    'its eighth failure',
    { attempts: 7 },
    failed(down),
    { kind: 'parked', seconds: null, attempts: 8, reason: 'Down.' },
  ],
  ['a failure after it was parked', { attempts: 8 }, failed(down), { kind: 'parked', attempts: 9 }],
  ['a fifth failure of all', { attempts: 4 }, failed(down, noneShown), retry(3_600, 5)],
  ['an eighth failure of all', { attempts: 5 }, failed(down, noneShown), retry(3_600, 5)],
  ['a rate limit', { attempts: 7 }, failed(limited, service), { kind: 'retry', attempts: 7, reason: 'Limited.' }],
  ['a rate limit for a sweep', sweep, failed(limited, service), { kind: 'retry', attempts: 0, reason: null }],
  ['a failure for a sweep', sweep, failed(down), { kind: 'retry', attempts: 1, reason: 'Down.' }],
  ['a database that is gone', { attempts: 7 }, failed(databaseUnavailable('Gone.'), service), retry(1, 7)],
  ['a defect', {}, failed(new Error('secret')), { reason: 'Internal error; see the log of the service.' }],

  ['a first failure with others', {}, failed(down, together), { kind: 'split' }],
  ['a failure with others of the candidates', { isCandidate: true }, failed(down, together), { kind: 'split' }],
  ['a failure of the last candidate', { isCandidate: true }, failed(down, alone), { kind: 'retry', isIsolated: true }],
  ['a failure of the only one', {}, failed(down, alone), { kind: 'retry', isIsolated: false }],
  ['a limit on an isolated one', lone, failed(limited, service), { kind: 'retry', isIsolated: true }],
  [
    'a failure with others, set aside, nothing shown',
    aside,
    failed(down, together),
    { ...retry(5, 1), isIsolated: false },
  ],
  ['a failure with others, set aside, others shown', { ...aside, ...shown }, failed(down, together), { kind: 'split' }],
  [
    'a failure, set aside, others shown in its reply',
    aside,
    failed(down, { ...together, ...shown }),
    { kind: 'split' },
  ],
  ['a failure alone, nothing shown', lone, failed(down, alone), { kind: 'retry', isIsolated: false }],
  ['a failure alone, others shown', { ...lone, ...shown }, failed(down, alone), { kind: 'retry', isIsolated: true }],
  ['an eighth of these', { ...lone, ...shown, attempts: 7 }, failed(down, alone), { kind: 'parked', attempts: 8 }],
];

test.each(cases)('decides what becomes of a request after %s', (_, request, answer, expected) => {
  expect(decide({ ...fresh, ...request }, answer, 0.5)).toMatchObject(expected);
});

describe('a batch', () => {
  const batchOf = (...requests: Partial<SyncRequest>[]) =>
    chooseBatch(requests.map((request, index) => ({ ...fresh, ...request, githubId: index }))).map(
      ({ githubId }) => githubId,
    );

  test.each<[string, Partial<SyncRequest>[], number[]]>([
    ['is all that is due', [{}, {}, {}], [0, 1, 2]],
    ['leaves out isolated requests', [{}, { isIsolated: true }, {}], [0, 2]],
    ['is the isolated request that comes first', [{ isIsolated: true }, {}, { isIsolated: true }], [0]],
    ['is half of the candidates, and nothing else', [...Array(5).fill({ isCandidate: true }), {}], [0, 1, 2]],
    ['is the last candidate', [{ isCandidate: true }, {}], [0]],
    ['is empty if nothing is due', [], []],
  ])('%s', (_, requests, expected) => {
    expect(batchOf(...requests)).toEqual(expected);
  });
});

describe('chance', () => {
  const seconds = (error: Error) => [0, 1].map(chance => nextTry(fresh, error, { isOwn: true }, chance).seconds);

  test('spreads tries by a fifth to each side', () => {
    expect(seconds(down)).toEqual([4, expect.closeTo(6)]);
  });

  test('lets none come back before a rate limit ends', () => {
    expect(seconds(limited)).toEqual([90, 91.8]);
    expect(seconds(new GithubError('github_rate_limited', 'Limited.'))[0]).toBe(60);
  });
});
