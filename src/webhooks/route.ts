import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FastifyRequest } from 'fastify';
import { createBatcher } from '../batching.ts';
import {
  type DeliveryOutcome,
  type PullRequestDelivery,
  takePullRequestDeliveries,
} from '../database/webhook-deliveries.ts';
import { badRequest, unauthenticated, unsupportedMediaType, webhooksNotConfigured } from '../errors.ts';
import { receive } from './events.ts';
import { parsePayload } from './payload.ts';
import { createAdmission, maxOrdinaryBytes, maxPayloadBytes } from './payload-memory.ts';

/** `POST /webhooks/github`: verify, record, acknowledge. The loops do the rest after the reply. */
export const webhookRoutes: FastifyPluginAsyncTypebox = async app => {
  const { deps } = app;
  const secrets = deps.config.webhookSecrets;
  // Deliveries that arrive close together share one statement, because most of a delivery's cost is the commit.
  const takePullRequest = createBatcher<PullRequestDelivery, DeliveryOutcome>(
    { maxUnderWay: 2, maxBatchSize: 100 },
    deliveries => takePullRequestDeliveries(deps.database, deliveries),
  );
  const admission = createAdmission();

  app.removeAllContentTypeParsers();
  app.addContentTypeParser(
    'application/json',
    async (request: FastifyRequest, payload: Readable): Promise<Received> => {
      const signed = secrets.map(({ secret, login }) => ({ hmac: createHmac('sha256', secret), login }));
      const chunks: Buffer[] = [];
      let bytes = 0;
      // The connection stays: it gets the error, if there is one.
      for await (const chunk of payload.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
        admission.receive(request, chunk.length);
        chunks.push(chunk);
        bytes += chunk.length;
        for (const { hmac } of signed) hmac.update(chunk);
        // Large payloads are read at 20 MB/s at most: freeing their memory faster would hold up other requests.
        if (bytes > maxOrdinaryBytes) await delay(3);
      }
      admission.complete(request);
      return { chunks, signatures: signed.map(({ hmac, login }) => ({ signature: hmac.digest(), login })) };
    },
  );

  app.addHook('onRequest', async request => {
    if (!/^application\/json\s*(;|$)/i.test(request.headers['content-type'] ?? '')) {
      throw unsupportedMediaType(
        'The content type must be application/json.',
        'Choose it in the webhook settings on GitHub.',
      );
    }
    if (secrets.length === 0) {
      throw webhooksNotConfigured(
        'Webhooks are not configured.',
        'Set GITHUB_WEBHOOK_SECRET to the secret of the webhook on GitHub.',
      );
    }
    admission.admit(request);
  });
  app.addHook('preParsing', (request, reply, _payload, done) => {
    admission.begin(request, reply);
    done();
  });
  const release = async (request: FastifyRequest) => admission.release(request);
  // Not `onResponse`: if the connection is gone, it never comes, and the memory would stay reserved.
  app.addHook('onSend', release);
  app.addHook('onRequestAbort', release);

  app.post(
    '/github',
    { bodyLimit: maxPayloadBytes, schema: { hide: true } },
    async (request: FastifyRequest<{ Body: Received | undefined }>, reply) => {
      const { body } = request;
      if (body === undefined) throw badRequest('The payload is missing.');
      const signedFor = signers(body, request.headers['x-hub-signature-256']);
      if (signedFor.length === 0) {
        throw unauthenticated(
          'The signature does not match.',
          'Set GITHUB_WEBHOOK_SECRET to the secret of the webhook on GitHub.',
        );
      }
      const event = header(request, 'x-github-event', /^[a-z0-9_]{1,100}$/);
      const guid = header(request, 'x-github-delivery', /^[\w-]{1,100}$/);
      const { taken, message } = await receive(deps, takePullRequest, {
        event,
        guid,
        payload: parsePayload(Buffer.concat(body.chunks)),
        logins: signedFor.includes(undefined) ? undefined : signedFor.flatMap(login => login ?? []),
      });
      deps.counters.deliveries[taken ? 'taken' : 'ignored'] += 1;
      return reply.code(taken ? 202 : 200).send({ message });
    },
  );
};

/** A payload as it was received. The signature is over these bytes; serialising the parsed JSON would give others. */
interface Received {
  chunks: readonly Buffer[];
  /** One by each secret, with the only organisation that the secret is valid for; undefined means all. */
  signatures: readonly { signature: Buffer; login: string | undefined }[];
}

/**
 * Compares with every secret's signature, in the same time for each.
 *
 * @returns the organisations that the secrets with this signature speak for; undefined speaks for all
 */
function signers({ signatures }: Received, header: string | string[] | undefined): (string | undefined)[] {
  if (typeof header !== 'string' || !/^sha256=[0-9a-f]{64}$/.test(header)) return [];
  const sentSignature = Buffer.from(header.slice('sha256='.length), 'hex');
  return signatures.filter(({ signature }) => timingSafeEqual(signature, sentSignature)).map(({ login }) => login);
}

function header(request: FastifyRequest, name: string, pattern: RegExp): string {
  const value = request.headers[name];
  if (typeof value !== 'string' || !pattern.test(value)) {
    throw badRequest(`The header ${name} is missing or malformed.`);
  }
  return value;
}
