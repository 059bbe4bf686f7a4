import { Type } from '@sinclair/typebox';
import type { ServiceError } from '../errors.ts';
import { decode, matches, Reply, UnexpectedReply } from './decode.ts';
import { errorOfFailures, GithubError, type GraphqlFailure } from './github-error.ts';
import { pageOf, readPageInfo } from './pages.ts';
import { nodeIdOf } from './pull-request.ts';
import { type LongList, longLists, selectPage } from './pull-request-queries.ts';
import { unexpectedReplyError } from './reply-entries.ts';
import { rateLimit } from './transport.ts';

/*
 * Reads the rest of the lists whose first page came with the pull request. Each request reads the next page of every list
 * that has one.
 */

/** GitHub lists up to 3,000 files of a pull request, a hundred on a page. */
const maxPages = 30;

const { Entries, Nullable, Text } = Reply;
const List = Nullable(pageOf({ nodes: Entries(Type.Unknown()) }));
/** `headRefOid` shows a push even if it falls into the same second as `updatedAt`. */
const Lists = Type.Object({ updatedAt: Text, headRefOid: Text, files: List, reviews: List });

/** A list that has a next page. */
interface OpenList {
  /** GitHub's reply about the pull request, to which pages are added. */
  node: object;
  id: string;
  name: LongList;
  after: string;
}

/** Its lists that have a next page; none if the reply is not valid, which its reader reports. */
function openListsOf(node: unknown): OpenList[] {
  const id = nodeIdOf(node);
  if (id === undefined || !matches(Lists, node)) return [];
  return longLists.flatMap(name => {
    const list = node[name];
    const next = list ? readPageInfo(list) : undefined;
    return next?.hasNextPage && next.endCursor !== null ? [{ node, id, name, after: next.endCursor }] : [];
  });
}

const queryOf = (lists: readonly OpenList[]) => `
query FurtherPages(${lists.map((_, index) => `$id${index}: ID!, $after${index}: String!`).join(', ')}) {
  ${rateLimit}
  ${lists
    .map(
      ({ name }, index) =>
        `page${index}: node(id: $id${index}) { ... on PullRequest { updatedAt headRefOid ${selectPage(name, `$after${index}`)} } }`,
    )
    .join('\n  ')}
}`;

const variablesOf = (lists: readonly OpenList[]) =>
  Object.fromEntries(
    lists.flatMap(({ id, after }, index) => [
      [`id${index}`, id],
      [`after${index}`, after],
    ]),
  );

/** Adds the page to the list. @returns the list if it has another page @throws UnexpectedReply */
function addPage(list: OpenList, page: unknown): OpenList[] {
  const { name, after } = list;
  const known = decode(Lists, list.node);
  const next = decode(Lists, page);
  const [all, added] = [known[name]?.nodes, next[name]];
  if (!(all && added?.nodes)) throw new UnexpectedReply(`${name} are missing`);
  if (next.updatedAt !== known.updatedAt || next.headRefOid !== known.headRefOid) {
    throw new UnexpectedReply(`it changed while its ${name} were read`);
  }
  all.push(...added.nodes);
  const { hasNextPage, endCursor } = readPageInfo(added);
  if (hasNextPage && endCursor === after) throw new UnexpectedReply('endCursor leads nowhere');
  return hasNextPage && endCursor !== null ? [{ ...list, after: endCursor }] : [];
}

/**
 * Adds the further pages to GitHub's replies about pull requests.
 *
 * @param credentials the variables that hold them, for messages
 * @returns why lists could not be read to their end, by the given reply
 * @throws ServiceError if GitHub must not be asked
 */
export async function readFurtherPages(
  nodes: readonly unknown[],
  ask: (query: string, variables: Record<string, unknown>) => Promise<{ data: object; failures: GraphqlFailure[] }>,
  credentials: string,
): Promise<ReadonlyMap<unknown, ServiceError>> {
  const failed = new Map<unknown, ServiceError>();
  /** What `read` returns; if it can't be read, the failure is recorded. */
  const reading = (node: unknown, failures: GraphqlFailure[], read: () => OpenList[]): OpenList[] => {
    const id = nodeIdOf(node);
    const subject = id === undefined ? 'a pull request' : `the pull request ${id}`;
    try {
      if (failures.length > 0) throw errorOfFailures(failures, subject, credentials);
      return read();
    } catch (error) {
      failed.set(node, error instanceof GithubError ? error : unexpectedReplyError(error, subject));
      return [];
    }
  };
  let open = nodes.flatMap(node => reading(node, [], () => openListsOf(node)));
  for (let page = 2; open.length > 0 && page <= maxPages; page += 1) {
    const asked = open;
    try {
      const { data, failures } = await ask(queryOf(asked), variablesOf(asked));
      open = asked.flatMap((list, index) => {
        const alias = `page${index}`;
        const own = failures.filter(({ path: [first = alias] }) => first === alias);
        return reading(list.node, own, () => addPage(list, (data as Record<string, unknown>)[alias]));
      });
    } catch (error) {
      if (!(error instanceof GithubError) || refusals.has(error.code)) throw error;
      for (const { node } of asked) failed.set(node, error);
    }
    open = open.filter(({ node }) => !failed.has(node));
  }
  return failed;
}

/** They are about all requests, not about these pull requests. */
const refusals: ReadonlySet<string> = new Set(['github_rate_limited', 'github_credentials']);
