import { describe, expect, test } from 'vitest';
import { UnexpectedReply } from '../../src/github/decode.ts';
import { GithubError, type GraphqlFailure } from '../../src/github/github-error.ts';
import { readListedRepository, readLost, readMembers } from '../../src/github/organisation.ts';
import { nodeIdOf, readListedPullRequest } from '../../src/github/pull-request.ts';
import {
  answerAt,
  isOfEdge,
  isOfPullRequest,
  read,
  readEntry,
  readPage,
  unexpectedReplyError,
} from '../../src/github/reply-entries.ts';

const node = {
  id: 'PR_7',
  fullDatabaseId: '7',
  number: 1,
  url: 'https://github.com/acme/web/pull/1',
  title: 'Search',
  body: null,
  state: 'OPEN',
  isDraft: false,
  authorAssociation: 'MEMBER',
  baseRefName: 'main',
  headRefName: 'search',
  headRefOid: 'c'.repeat(40),
  isCrossRepository: false,
  additions: 1,
  deletions: 0,
  changedFiles: 1,
  createdAt: '2026-01-31T12:00:00Z',
  updatedAt: '2026-01-31T12:00:07Z',
  mergedAt: null,
  closedAt: null,
  author: null,
  repository: {
    id: 'R_1',
    databaseId: 1,
    name: 'web',
    isArchived: false,
    isFork: false,
    isPrivate: false,
    owner: { id: 'O_1', login: 'acme', databaseId: 2 },
  },
  milestone: null,
  commits: { totalCount: 1 },
  comments: { totalCount: 0 },
  closingIssuesReferences: { totalCount: 0 },
  labels: { nodes: [] },
  assignees: { nodes: [] },
  files: { totalCount: 0, pageInfo: { endCursor: null, hasNextPage: false }, nodes: [] },
  reviews: { totalCount: 0, pageInfo: { endCursor: null, hasNextPage: false }, nodes: [] },
  latestOpinionatedReviews: { nodes: [] },
  timelineItems: { nodes: [] },
  reviewDecision: null,
};
const words = { subject: 'the pull requests', credentials: 'GITHUB_TOKEN' };

describe('an entry', () => {
  const failure = (path: GraphqlFailure['path'], type = '', message = 'It says.') => ({ type, message, path });
  /** The second of a list. */
  function statusOf(entry: unknown, ...failures: GraphqlFailure[]) {
    const result = readEntry(entry, ['nodes', 1], failures, words);
    return result.status === 'failed' ? result.error.text : result.status;
  }
  const said = 'GitHub did not return the pull requests: "It says." Try again later.';

  test('a complete entry is found', () => {
    const result = readEntry(node, ['nodes', 1], [], words);
    expect(result).toMatchObject({ status: 'found', pullRequest: { nodeId: 'PR_7', sourceUpdatedAt: 1_769_860_807 } });
  });

  test('that GitHub does not show is gone', () => {
    expect(statusOf(null)).toBe('gone');
    expect(statusOf(undefined)).toBe('gone');
    expect(statusOf(null, failure(['nodes', 1], 'NOT_FOUND'))).toBe('gone');
  });

  test('of which a part failed has failed', () => {
    expect(statusOf(null, failure(['nodes', 1], 'NOT_FOUND'), failure(['nodes', 1]))).toBe(said);
    expect(statusOf(node, failure(['nodes', 1], 'NOT_FOUND'))).toBe(said);
    expect(statusOf(node, failure(['nodes', 1, 'files']))).toBe(said);
    expect(statusOf(null, failure(['nodes', 1, 'author'], 'FORBIDDEN'))).toBe(
      'GitHub does not let GITHUB_TOKEN read the pull requests: "It says."',
    );
  });

  test('a failure elsewhere does not affect an entry', () => {
    for (const path of [['nodes', 0], ['nodes', '1'], ['nodes', 11], ['node', 1], ['rateLimit']]) {
      expect(statusOf(node, failure(path))).toBe('found');
      expect(statusOf({ ...node, files: null }, failure(path))).toBe('found');
      expect(statusOf(null, failure(path))).toBe('gone');
    }
  });

  test.each([[['nodes']], [[]]])(
    'an entry has failed after a failure at %j if that may have removed a part of it',
    path => {
      for (const name of ['closingIssuesReferences', 'files', 'labels', 'latestOpinionatedReviews', 'reviews']) {
        expect(statusOf({ ...node, [name]: null }, failure(path))).toBe(said);
      }
      expect(statusOf(null, failure(path))).toBe(said);
      expect(statusOf(node, failure(path))).toBe('found');
    },
  );

  test('that is not valid has failed', () => {
    expect(statusOf({ ...node, number: 'one' })).toBe(
      'GitHub\'s reply about the pull requests is not valid: number is "one", not a count. Try again later.',
    );
  });
});

describe('the answer to a query', () => {
  test('is the value of its root field, even null', () => {
    expect(answerAt({ node: 'this' }, 'node', 'the page')).toBe('this');
    expect(answerAt({ node: null }, 'node', 'the page')).toBeNull();
  });

  test('an answer that lacks the root field of its query is not valid', () => {
    for (const name of ['other', 'toString']) {
      expect(() => answerAt({ node: 'this' }, name, 'the page')).toThrow(
        `GitHub's reply about the page is not valid: ${name} is missing.`,
      );
    }
  });
});

describe('a page', () => {
  const holder = (totalCount: unknown, hasNextPage: unknown, endCursor: unknown) => ({
    id: 'O_1',
    databaseId: 2,
    login: 'acme',
    viewerIsAMember: true,
    membersWithRole: { totalCount, pageInfo: { hasNextPage, endCursor }, nodes: [] },
  });

  test.each([
    [9, true, 'next'],
    [9, false, 'before'],
    [0, false, null],
  ])('of %d entries, with a next page (%s), ends at %j', (totalCount, hasNextPage, endCursor) => {
    const page = { totalCount, hasNextPage, endCursor };
    expect(readMembers(holder(totalCount, hasNextPage, endCursor))).toMatchObject(page);
  });

  test('before another one leads nowhere without an end cursor', () => {
    expect(() => readMembers(holder(9, true, null))).toThrow(new UnexpectedReply('endCursor leads nowhere'));
  });

  test.each([
    [null, true, 'next'],
    [9, 'yes', 'next'],
    [9, true, 5],
  ])('with %j, %j and %j for its parts is not valid', (totalCount, hasNextPage, endCursor) => {
    expect(() => readMembers(holder(totalCount, hasNextPage, endCursor))).toThrow(/^membersWithRole\./);
  });
});

test('a listed pull request has its ids and its last change', () => {
  expect(readListedPullRequest(node)).toEqual({ githubId: 7, nodeId: 'PR_7', sourceUpdatedAt: 1_769_860_807 });
  for (const broken of [undefined, { ...node, id: null }]) {
    expect(() => readListedPullRequest(broken)).toThrow(UnexpectedReply);
  }
});

test('the id of a node is read if there is one', () => {
  expect(nodeIdOf(node)).toBe('PR_7');
  for (const nothing of [null, {}, { id: 5 }]) expect(nodeIdOf(nothing)).toBeUndefined();
});

test('an unexpected reply is a failure of GitHub; other errors are thrown again', () => {
  const unexpected = new UnexpectedReply('a is 5, not text');
  const error = unexpectedReplyError(unexpected, 'the page');
  expect(error).toBeInstanceOf(GithubError);
  const text = "GitHub's reply about the page is not valid: a is 5, not text. Try again later.";
  expect(error).toMatchObject({ code: 'github_failed', text, cause: unexpected });
  const defect = new RangeError('a defect');
  expect(() => unexpectedReplyError(defect, 'the page')).toThrow(defect);
  expect(read('the page', () => 'read')).toBe('read');
  const reading = (thrown: Error) => () =>
    read('the page', () => {
      throw thrown;
    });
  expect(reading(unexpected)).toThrow(GithubError);
  expect(reading(defect)).toThrow(defect);
});

test('a repository is lost only if GitHub says that it is gone, or names another owner', () => {
  const at = (type: string, ...path: (string | number)[]): GraphqlFailure => ({ type, message: 'No.', path });
  const nodeIds = ['R_1', 'R_2', 'R_3', 'R_4', 'R_5', 'R_6', 'R_7', 'R_8'];
  const [own, another, invalid] = [9, 8, -1].map(databaseId => ({ owner: { databaseId } }));
  const nodes = [own, null, null, null, null, {}, invalid, another];
  const failures = [
    at('NOT_FOUND', 'nodes', 1),
    at('FORBIDDEN', 'nodes', 2),
    at('NOT_FOUND', 'nodes', 3, 'owner'),
    at('NOT_FOUND'),
  ];
  expect([...readLost(9, nodeIds, nodes, failures)]).toEqual(['R_2', 'R_8']);
});

test('a failure of a single pull request of a page is told from one of the whole page', () => {
  const isOfOne = (...path: (string | number)[]) => isOfPullRequest({ type: '', message: '', path });
  expect(isOfOne('node', 'pullRequests', 'nodes', 0)).toBe(true);
  expect(isOfOne('node', 'pullRequests', 'nodes', 7, 'files', 'nodes')).toBe(true);
  expect(isOfOne()).toBe(false);
  expect(isOfOne('node', 'pullRequests', 'nodes')).toBe(false);
  expect(isOfOne('node', 'pullRequests', 'pageInfo', 0)).toBe(false);
});

describe('a page of repositories', () => {
  const edge = (number: number) => ({
    cursor: `cursor ${number}`,
    node: {
      id: `R_${number}`,
      databaseId: number,
      name: `web-${number}`,
      isArchived: false,
      isFork: true,
      owner: { login: 'acme' },
      pullRequests: { totalCount: 1, nodes: [{ updatedAt: '2026-01-31T12:00:00Z' }] },
    },
  });
  const at = (index: number, type = '', ...rest: (string | number)[]): GraphqlFailure => ({
    type,
    message: 'It says.',
    path: ['node', 'repositories', 'edges', index, ...rest],
  });
  const pageOf = (edges: readonly unknown[], ...failures: GraphqlFailure[]) => {
    const subject = 'the repositories';
    const { items, failed } = readPage(edges, failures, readListedRepository, { ...words, subject });
    return [items.map(({ name }) => name), failed.map(error => error.text)];
  };
  const said = 'GitHub did not return the repositories: "It says." Try again later.';

  test('has those that came whole, in order', () => {
    expect(pageOf([edge(1), edge(2)])).toEqual([['acme/web-1', 'acme/web-2'], []]);
    expect(readPage([edge(1)], [], readListedRepository, words).items).toEqual([
      {
        githubId: 1,
        nodeId: 'R_1',
        owner: 'acme',
        name: 'acme/web-1',
        isArchived: false,
        isFork: true,
        pullRequests: 1,
        pullRequestsUpdatedAt: 1_769_860_800,
        cursor: 'cursor 1',
      },
    ]);
  });

  test('leaves out those that GitHub does not show', () => {
    expect(pageOf([null, { cursor: 'c', node: null }, edge(3)], at(0, 'NOT_FOUND'))).toEqual([['acme/web-3'], []]);
    expect(pageOf([edge(1)], at(0, 'NOT_FOUND', 'node'))).toEqual([['acme/web-1'], []]);
  });

  test('says once why each other one is missing', () => {
    expect(pageOf([null, edge(2), edge(3)], at(0), at(2), at(2, 'FORBIDDEN', 'node'))).toEqual([
      ['acme/web-2'],
      [said, expect.stringContaining('It says.')],
    ]);
    const { node, ...place } = edge(2);
    const withoutChange = { ...place, node: { ...node, pullRequests: { totalCount: 1, nodes: null } } };
    for (const broken of [{ cursor: 5 }, withoutChange]) {
      expect(pageOf([edge(1), broken])).toEqual([
        ['acme/web-1'],
        [expect.stringMatching(/^GitHub's reply about the repositories is not valid: /)],
      ]);
    }
  });

  test('a failure of a single repository of a page is told from one of the whole page', () => {
    expect(isOfEdge(at(0))).toBe(true);
    expect(isOfEdge(at(0, '', 'node', 'name'))).toBe(true);
    for (const path of [
      [],
      ['node', 'repositories', 'edges'],
      ['node', 'repositories', 'edges', 'totalCount'],
      ['node', 'repositories', 'nodes', 0],
      ['node', 'members', 'edges', 0],
      ['repositories', 'edges', 0, 0],
    ]) {
      expect(isOfEdge({ type: '', message: '', path })).toBe(false);
    }
  });
});
