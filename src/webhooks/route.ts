import { createHmac, timingSafeEqual } from 'node:crypto';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FastifyRequest } from 'fastify';
import { createBatcher } from '../batching.ts';
import { secretsTried, type WebhookSecret, webhookPath } from '../config.ts';
import {
  type DeliveryOutcome,
  type PullRequestDelivery,
  takePullRequestDeliveries,
} from '../database/webhook-deliveries.ts';
import { badRequest, unauthenticated, unsupportedMediaType, webhooksNotConfigured } from '../errors.ts';
import { minRetrySeconds } from '../sync/decide-next-try.ts';
import { receive } from './events.ts';

/** GitHub's payloads for our events stay below 2 MB, by its own limits on texts and lists. */
const maxPayloadBytes = 5_000_000;

/**
 * `POST /webhooks/github`, and the same with an organisation's login: verify, record, acknowledge. The loops do the rest
 * after the reply.
 */
export const webhookRoutes: FastifyPluginAsyncTypebox = async app => {
  const { deps } = app;
  // Deliveries that arrive close together share one statement, because most of a delivery's cost is the commit.
  const takePullRequest = createBatcher<PullRequestDelivery, DeliveryOutcome>(
    { maxUnderWay: 2, maxBatchSize: 100, maxWaitMs: 250 },
    deliveries => takePullRequestDeliveries(deps.database, deliveries, minRetrySeconds),
  );
  app.removeAllContentTypeParsers();
  // The signature is over these bytes: serialising the parsed JSON would give others.
  app.addContentTypeParser(
    'application/json',
    { parseAs: 'buffer' },
    async (_request: FastifyRequest, body: Buffer) => body,
  );

  app.addHook('onRequest', async request => {
    app.refuseOverload();
    if (!/^application\/json\s*(;|$)/i.test(request.headers['content-type'] ?? '')) {
      throw unsupportedMediaType(
        'The content type must be application/json.',
        'Choose it in the webhook settings on GitHub.',
      );
    }
    if (deps.config.webhookSecrets.length === 0) {
      throw webhooksNotConfigured(
        'Webhooks are not configured.',
        'Set GITHUB_WEBHOOK_SECRET to the secret of the webhook on GitHub.',
      );
    }
  });
  app.admitBodies(app, maxPayloadBytes);
  app.addHook('onSend', async (_request, reply) => {
    if (reply.statusCode >= 400) deps.counters.deliveries.refused += 1;
  });

  for (const path of ['/github', '/github/:login(^[\\w-]{1,100}$)']) {
    app.post(
      path,
      { bodyLimit: maxPayloadBytes, schema: { hide: true } },
      async (request: FastifyRequest<{ Body: Buffer; Params: { login?: string } }>, reply) => {
        const { body } = request;
        const { login } = request.params;
        const tried = secretsTried(deps.config, login);
        const signedFor = signers(tried, body, request.headers['x-hub-signature-256']);
        if (signedFor.length === 0) throw mismatch(login, tried.length < deps.config.webhookSecrets.length);
        const event = header(request, 'x-github-event', /^[a-z0-9_]{1,100}$/);
        const guid = header(request, 'x-github-delivery', /^[\w-]{1,100}$/);
        const { taken, message } = await receive(deps, takePullRequest, {
          event,
          guid,
          payload: parsePayload(body),
          logins: signedFor.includes(undefined) ? undefined : signedFor.flatMap(each => each ?? []),
        });
        deps.counters.deliveries[taken ? 'taken' : 'ignored'] += 1;
        return reply.code(taken ? 202 : 200).send({ message });
      },
    );
  }
};

/** Says the same whether the organisation has a secret or not, so that strangers learn nothing. */
function mismatch(login: string | undefined, isPartial: boolean) {
  const action =
    login !== undefined
      ? 'Set GITHUB_WEBHOOK_SECRET to the secret of the webhook on GitHub, with the login and a colon before it.'
      : isPartial
        ? `Set GITHUB_WEBHOOK_SECRET to the secret of the webhook on GitHub, or let the webhook go to ${webhookPath}/LOGIN if its secret is for one organisation.`
        : 'Set GITHUB_WEBHOOK_SECRET to the secret of the webhook on GitHub.';
  return unauthenticated('The signature does not match.', action);
}

/** @returns the organisations that the secrets with this signature speak for; undefined speaks for all */
function signers(
  secrets: readonly WebhookSecret[],
  body: Buffer,
  header: string | string[] | undefined,
): (string | undefined)[] {
  if (typeof header !== 'string' || !/^sha256=[0-9a-f]{64}$/.test(header)) return [];
  const sentSignature = Buffer.from(header.slice('sha256='.length), 'hex');
  return secrets
    .filter(({ secret }) => timingSafeEqual(createHmac('sha256', secret).update(body).digest(), sentSignature))
    .map(({ login }) => login);
}

function header(request: FastifyRequest, name: string, pattern: RegExp): string {
  const value = request.headers[name];
  if (typeof value !== 'string' || !pattern.test(value)) {
    throw badRequest(`The header ${name} is missing or malformed.`);
  }
  return value;
}

/** GitHub's own payloads are less than ten levels deep. */
const maxDepth = 100;

/** @throws ServiceError `bad_request` if the bytes are not a JSON object that GitHub could have sent */
function parsePayload(body: Buffer): object {
  let payload: unknown;
  try {
    // Without a byte order mark.
    payload = JSON.parse(new TextDecoder().decode(body));
  } catch (error) {
    throw badRequest('The payload is not JSON.', undefined, { cause: error });
  }
  if (typeof payload !== 'object' || payload === null || Array.isArray(payload)) {
    throw badRequest('The payload is not an object.');
  }
  requirePlain(payload, 1);
  return payload;
}

function requirePlain(value: object, depth: number): void {
  if (depth > maxDepth) throw badRequest('The payload is nested too deeply.');
  if (Object.hasOwn(value, '__proto__')) throw badRequest('The payload has a forbidden key.');
  for (const part of Object.values(value)) {
    if (typeof part === 'object' && part !== null) requirePlain(part, depth + 1);
  }
}
