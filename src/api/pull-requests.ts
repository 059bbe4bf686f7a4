import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from '@sinclair/typebox';
import { callerOf, recordSync } from '../database/audit-log.ts';
import type { Database } from '../database/client.ts';
import type { PullRequestRow, SharedRow } from '../database/pull-request-pages.ts';
import { findPullRequestRow, pullRequestExistsAnywhere } from '../database/pull-requests.ts';
import { formatId, parseId } from '../ids.ts';
import { removePullRequest } from '../sync/remove-pull-request.ts';
import { unauthorized } from './authentication.ts';
import { errorResponses, unknownId } from './error-handlers.ts';
import { bytesOf, dataOf, jsonBytes } from './pagination.ts';
import { closedObject } from './validation.ts';
import { versionUrl } from './version.ts';

/** A pull request as JSON, as a version shows it. @param base the address with which the version's paths begin */
export type RepresentPullRequest<Row = PullRequestRow> = (row: Row, base: string) => string;

export const PullRequestParams = Type.Object({
  pullRequest: Type.String({ description: 'Identifier of the pull request' }),
});

const DeletedPullRequest = closedObject(
  {
    id: Type.String({ description: 'Identifier of the deleted object' }),
    object: Type.Literal('pull_request', { description: 'Kind of the deleted object' }),
    deleted: Type.Boolean({ description: 'True when the object was deleted' }),
  },
  { description: 'What was deleted' },
);

/**
 * The fields of every version, as JSON. Numbers and the breakdown are JSON already; ids, states and our addresses need no
 * escaping.
 */
export const representFields = (row: SharedRow): string =>
  `"id":"${formatId('pr', row.id)}","external_id":"${row.githubId}","number":${row.number},` +
  `"url":${JSON.stringify(row.url)},"state":"${row.state}","title":${JSON.stringify(row.title)},` +
  `"body":${JSON.stringify(row.body)},"additions":${row.additions},"deletions":${row.deletions},` +
  `"commits":${row.commits},"changed_files":${row.changedFiles},"score":${row.score},` +
  `"score_breakdown":${row.scoreBreakdown},"created_at":${row.createdAt}`;

export const representMemberLink = ({ memberId }: SharedRow, base: string): string =>
  `"member":"${base}/members/${formatId('mem', memberId)}"`;

/** @throws ServiceError `not_found`, or `forbidden` for a pull request of another organisation */
export async function getPullRequest(database: Database, organisationId: string, text: string) {
  const id = parseId('pr', text);
  const row = id === undefined ? undefined : await findPullRequestRow(database, organisationId, id);
  if (row !== undefined) return row;
  if (id !== undefined && (await pullRequestExistsAnywhere(database, id))) throw unauthorized();
  throw unknownId('pull request');
}

export const pullRequestRoutes: FastifyPluginAsyncTypebox<{ represent: RepresentPullRequest }> = async (
  app,
  { represent },
) => {
  const { database } = app.deps;

  app.put(
    '/pull-requests/:pullRequest/sync',
    {
      config: { scope: 'sync' },
      schema: {
        operationId: 'pull-requests.sync',
        summary: 'Sync a pull request',
        description:
          'Fetches the pull request from GitHub again. Not needed in normal operation, since it is synced on every ' +
          'update; use it when webhooks are disabled.',
        tags: ['Pull requests'],
        params: PullRequestParams,
        response: {
          200: jsonBytes(dataOf(Type.Ref('PullRequest'), 'The refreshed pull request')),
          ...errorResponses(
            [
              'not_found',
              'There is no pull request with this id, GitHub no longer shows it to our credentials, its repository left the ' +
                'organisation, or it was deleted during the sync; what is stored stays as it was',
            ],
            'github_failed',
            'github_timeout',
          ),
        },
      },
    },
    async (request, reply) => {
      const { organisationId } = request.caller;
      const { id } = await getPullRequest(database, organisationId, request.params.pullRequest);
      await app.syncOnRequest(organisationId, id);
      const row = await findPullRequestRow(database, organisationId, id);
      if (row === undefined) throw unknownId('pull request');
      await recordSync(database.executor, request.caller, request.id, formatId('pr', id));
      reply.type('application/json; charset=utf-8');
      return bytesOf(`{"data":${represent(row, versionUrl(request))}}`);
    },
  );

  app.delete(
    '/pull-requests/:pullRequest',
    {
      config: { scope: 'delete' },
      schema: {
        operationId: 'pull-requests.destroy',
        summary: 'Delete a pull request',
        description:
          'Permanently deletes the stored pull request. It becomes available again, under a new id, when it is next ' +
          'updated on GitHub.',
        tags: ['Pull requests'],
        params: PullRequestParams,
        response: {
          200: DeletedPullRequest,
          ...errorResponses(['not_found', 'There is no pull request with this id, or it was deleted before']),
        },
      },
    },
    async request => {
      const { organisationId } = request.caller;
      const { id } = await getPullRequest(database, organisationId, request.params.pullRequest);
      const isDeleted = await removePullRequest(database, organisationId, id, callerOf(request.caller, request.id));
      if (!isDeleted) throw unknownId('pull request');
      return { id: formatId('pr', id), object: 'pull_request' as const, deleted: true };
    },
  );
};
