import { type Static, type TProperties, Type } from '@sinclair/typebox';
import { Reply, UnexpectedReply } from './decode.ts';

/** What is selected of every connection that is read by pages. */
export const pageInfo = 'totalCount pageInfo { endCursor hasNextPage }';
const PageInfo = Type.Object({
  totalCount: Reply.Count,
  pageInfo: Type.Object({ endCursor: Reply.Nullable(Reply.Text), hasNextPage: Reply.Flag }),
});
export const pageOf = <Parts extends TProperties>(parts: Parts) => Type.Object({ ...PageInfo.properties, ...parts });

/**
 * The cursor stays valid while entries come and go. It is null on an empty page.
 * @throws UnexpectedReply if there is a next page, but no cursor
 */
export function readPageInfo({ totalCount, pageInfo }: Static<typeof PageInfo>) {
  const { hasNextPage, endCursor = null } = pageInfo;
  if (hasNextPage && endCursor === null) throw new UnexpectedReply('endCursor leads nowhere');
  return { totalCount, hasNextPage, endCursor };
}
