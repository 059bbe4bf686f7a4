import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from '@sinclair/typebox';
import { countOutdated, countSyncRequests, listFailingRequests } from '../../database/backlog.ts';
import { getOrganisation } from '../../database/organisations.ts';
import { getRuleset } from '../../database/rules.ts';
import { listDeliveries } from '../../database/webhook-deliveries.ts';
import { representFailure, representHealth } from '../../reports/health.ts';
import { unixSeconds } from '../../text/times.ts';
import { errorResponses } from '../error-handlers.ts';
import { dataOf } from '../pagination.ts';
import { closedObject, Nullable, namedObject } from '../validation.ts';

const maxFailures = 100;

export const Health = namedObject('Health', {
  organisation: Type.String({ description: "The organisation's login" }),
  webhooks_enabled: Type.Boolean({ description: 'Whether changes are taken from GitHub' }),
  rules_suspended_by: Nullable(Type.String(), 'The entry for which the rules in force are suspended'),
  compared_at: Nullable(Type.Integer(), 'When all was last compared with GitHub, Unix seconds'),
  comparison_failed_at: Nullable(Type.Integer(), 'When a comparison last failed, Unix seconds'),
  comparison_failure: Nullable(Type.String(), 'Why it failed'),
  last_delivery_at: Nullable(Type.Integer(), 'When the last webhook came, Unix seconds'),
  waiting: Type.Integer({ description: 'How many pull requests wait to be fetched' }),
  behind: Type.Integer({ description: 'How many of these wait until GitHub shows what a webhook announced' }),
  overdue_seconds: Type.Integer({ description: 'How long the one that waits longest has been due; 0 if none is' }),
  failing: Type.Integer({ description: 'How many of these failed, and are tried again or parked' }),
  parked: Type.Integer({ description: 'How many of these are tried again only when they change, or on request' }),
  outdated: Type.Integer({ description: 'How many stored scores have yet to be recalculated' }),
  failures: Type.Array(
    closedObject({
      pull_request: Nullable(Type.String(), '`owner/name#number`, if it is known'),
      url: Nullable(Type.String(), 'Its page, if it is known'),
      attempts: Type.Integer({ description: 'How often it failed' }),
      reason: Type.String({ description: 'Why it failed last' }),
      parked: Type.Boolean({ description: 'Whether it is parked' }),
      due_at: Nullable(Type.Integer(), 'When it is tried again, Unix seconds; null if it is parked'),
    }),
    { description: `Pull requests that fail, up to ${maxFailures}` },
  ),
});

export const healthRoutes: FastifyPluginAsyncTypebox = async app => {
  const { executor } = app.deps.database;

  app.get(
    '/health',
    {
      config: { scope: 'sync' },
      schema: {
        operationId: 'health.show',
        summary: 'Show what is not up to date',
        tags: ['Health'],
        response: { 200: dataOf(Type.Ref(Health), 'What waits and what fails'), ...errorResponses() },
      },
    },
    async ({ caller: { organisationId: id } }) => {
      const organisation = await getOrganisation(executor, id);
      const [{ suspension }, requests, failures, outdated, [latest]] = await Promise.all([
        getRuleset(executor, id, organisation.rulesetVersion),
        countSyncRequests(executor, id),
        listFailingRequests(executor, id, maxFailures),
        countOutdated(executor, id),
        listDeliveries(executor, id, 1),
      ]);
      const { waiting, behind, failing, parked, ...state } = representHealth(organisation, suspension, requests);
      const data = {
        ...state,
        last_delivery_at: unixSeconds(latest?.receivedAt ?? null),
        ...{ waiting, behind, overdue_seconds: requests.overdueSeconds, failing, parked, outdated },
        failures: failures.map(representFailure),
      };
      return { data };
    },
  );
};
