/** What a plan shows about the few pull requests that it names, and about members. */
import { and, eq, inArray } from 'drizzle-orm';
import type { Executor } from './client.ts';
import { isInRepository } from './pull-requests.ts';
import { members, pullRequests, repositories } from './schema.ts';

export interface PullRequestDetails {
  id: string;
  /** `owner/name` */
  repository: string;
  number: number;
  title: string;
  url: string;
}

/** By id. */
export async function describePullRequests(
  executor: Executor,
  organisationId: string,
  ids: readonly string[],
): Promise<Map<string, PullRequestDetails>> {
  if (ids.length === 0) return new Map();
  const rows = await executor
    .select({
      id: pullRequests.id,
      repository: repositories.name,
      number: pullRequests.number,
      title: pullRequests.title,
      url: pullRequests.url,
    })
    .from(pullRequests)
    .innerJoin(repositories, isInRepository)
    .where(and(eq(pullRequests.organisationId, organisationId), inArray(pullRequests.id, [...ids])));
  return new Map(rows.map(row => [row.id, row]));
}

/** Names and logins of everyone who is or was a member, by id. */
export async function describeMembers(
  executor: Executor,
  organisationId: string,
): Promise<Map<string, { login: string; name: string }>> {
  const rows = await executor
    .select({ id: members.id, login: members.login, name: members.name })
    .from(members)
    .where(eq(members.organisationId, organisationId));
  return new Map(rows.map(({ id, ...member }) => [id, member]));
}
