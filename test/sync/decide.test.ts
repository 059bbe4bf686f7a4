import { describe, expect, test } from 'vitest';
import type { Decision, SyncRequest } from '../../src/database/sync-requests.ts';
import { databaseUnavailable } from '../../src/errors.ts';
import { GithubError } from '../../src/github/errors.ts';
import { type Answer, decide, nextTry } from '../../src/sync/decide.ts';

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
  isIsolated: false,
  isBackground: false,
};
const sweep = { minSourceUpdatedAt: null, isBackground: true };
const found = (sourceUpdatedAt: number): Answer => ({ status: 'found', githubId: 7, sourceUpdatedAt });
const gone: Answer = { status: 'gone' };
const failed = (error: unknown, isOwn = true, isAlone = false): Answer => ({ status: 'failed', error, isOwn, isAlone });
const down = new GithubError('github_failed', 'Down.');
const limited = new GithubError('github_rate_limited', 'Limited.', { retryAfter: 90 });

const cases: [string, Partial<SyncRequest>, Answer, Partial<Decision>][] = [
  ['an answer at the floor', {}, found(100), { kind: 'done' }],
  ['an answer above the floor', {}, found(101), { kind: 'done' }],
  ['any answer if there is no floor', sweep, found(1), { kind: 'done' }],
  ['the pull request of another id', {}, { ...found(101), githubId: 8 } as Answer, { kind: 'gone' }],

  ['the first answer below the floor', {}, found(99), { kind: 'wait', seconds: 1, sourceUpdatedAt: 99 }],
  ['nothing at first', {}, gone, { kind: 'wait', seconds: 1, sourceUpdatedAt: null }],
  ['the same answer for 1 s', { behindSourceUpdatedAt: 99, behindSeconds: 1 }, found(99), { kind: 'wait', seconds: 2 }],
  [
    'the same answer for 16 s',
    { behindSourceUpdatedAt: 99, behindSeconds: 16 },
    found(99),
    { kind: 'wait', seconds: 14 },
  ],
  [
    'another answer after 16 s',
    { behindSourceUpdatedAt: 98, behindSeconds: 16 },
    found(99),
    { kind: 'wait', seconds: 1 },
  ],
  ['the same answer for 30 s', { behindSourceUpdatedAt: 99, behindSeconds: 30 }, found(99), { kind: 'stale' }],
  ['nothing for 30 s', { behindSeconds: 30 }, gone, { kind: 'wait', seconds: 30 }],
  ['nothing for 779 s', { behindSeconds: 779 }, gone, { kind: 'wait', seconds: 1 }],
  ['nothing for 780 s', { behindSeconds: 780 }, gone, { kind: 'gone' }],
  ['changing answers for an hour', { age: 3_600 }, found(99), { kind: 'wait', seconds: 1 }],
  ['changing answers for longer', { age: 3_601 }, found(99), { kind: 'stale' }],
  ['nothing, now and then, for longer', { age: 3_601 }, gone, { kind: 'gone' }],
  ['nothing about what a sweep asked for', sweep, gone, { kind: 'gone' }],

  ['its first failure', {}, failed(down), { kind: 'retry', seconds: 5, attempts: 1, reason: 'Down.', isAlone: false }],
  ['its second failure', { attempts: 1 }, failed(down), { kind: 'retry', seconds: 30, attempts: 2 }],
  ['its third failure', { attempts: 2 }, failed(down), { kind: 'retry', seconds: 120, attempts: 3 }],
  ['its fourth failure', { attempts: 3 }, failed(down), { kind: 'retry', seconds: 600, attempts: 4 }],
  ['its fifth failure', { attempts: 4 }, failed(down), { kind: 'retry', seconds: 3_600, attempts: 5 }],
  ['its seventh failure', { attempts: 6 }, failed(down), { kind: 'retry', seconds: 3_600, attempts: 7 }],
  [
    'its eighth failure',
    { attempts: 7 },
    failed(down),
    { kind: 'parked', seconds: null, attempts: 8, reason: 'Down.' },
  ],
  ['a failure after it was parked', { attempts: 8 }, failed(down), { kind: 'parked', attempts: 9 }],
  ['a failure that harms others', {}, failed(down, true, true), { kind: 'retry', isAlone: true }],
  ['a fifth failure of all', { attempts: 4 }, failed(down, false), { kind: 'retry', seconds: 3_600, attempts: 5 }],
  ['an eighth failure of all', { attempts: 5 }, failed(down, false), { kind: 'retry', seconds: 3_600, attempts: 5 }],
  ['a rate limit', { attempts: 7 }, failed(limited), { kind: 'retry', attempts: 7, reason: 'Limited.' }],
  ['a rate limit for a sweep', sweep, failed(limited), { kind: 'retry', attempts: 0, reason: null }],
  ['a failure for a sweep', sweep, failed(down), { kind: 'retry', attempts: 1, reason: 'Down.' }],
  [
    'a database that is gone',
    { attempts: 7 },
    failed(databaseUnavailable('Gone.')),
    { kind: 'retry', seconds: 1, attempts: 7 },
  ],
  [
    'a defect',
    {},
    failed(new Error('secret')),
    { kind: 'retry', reason: 'Internal error; see the log of the service.' },
  ],
];

test.each(cases)('what becomes of a request after %s', (_, request, answer, expected) => {
  expect(decide({ ...fresh, ...request }, answer, 0.5)).toMatchObject(expected);
});

describe('chance', () => {
  const seconds = (error: unknown) => [0, 1].map(chance => nextTry(fresh, error, { isOwn: true }, chance).seconds);

  test('spreads tries by a fifth to each side', () => {
    expect(seconds(down)).toEqual([4, expect.closeTo(6)]);
  });

  test('lets none come back before a rate limit ends', () => {
    expect(seconds(limited)).toEqual([90, 91.8]);
    expect(seconds(new GithubError('github_rate_limited', 'Limited.'))[0]).toBe(60);
  });
});
