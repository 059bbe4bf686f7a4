import { randomUUID } from 'node:crypto';
import { sql } from 'drizzle-orm';
import { expect } from 'vitest';
import { signedRequest } from '../support/github/webhooks.ts';
import { type Service, webhookSecret } from '../support/service.ts';

interface WebhookReply {
  status: number;
  message: string;
  headers: Record<string, unknown>;
}

interface PostOptions {
  path?: string;
  guid?: string;
  secret?: string;
  /** The exact bytes, instead of the payload as JSON; they are what gets signed. */
  body?: string | Buffer;
  /** Override GitHub's own; undefined leaves a header out. */
  headers?: Record<string, string | string[] | undefined>;
}

/** Posts a delivery as GitHub signs it. Every reply must be JSON with a message and nothing else. */
export async function post(
  { app }: Pick<Service, 'app'>,
  { event, payload = {} }: { event: string; payload?: unknown },
  {
    path = '/webhooks/github',
    guid = randomUUID(),
    secret = webhookSecret,
    body = JSON.stringify(payload),
    headers = {},
  }: PostOptions = {},
): Promise<WebhookReply> {
  const signed = signedRequest(secret, { event, payload }, { guid, body });
  const given = Object.fromEntries(
    Object.entries({ ...signed.headers, ...headers }).filter(
      (entry): entry is [string, string] => entry[1] !== undefined,
    ),
  );
  const reply = await app.inject({ method: 'POST', url: path, payload: body, headers: given });
  expect(reply.headers).toMatchObject({
    'content-type': 'application/json; charset=utf-8',
    'x-request-id': expect.stringMatching(/^[\w-]+$/),
  });
  expect(reply.json()).toEqual({ message: expect.stringMatching(/^[A-Z].*\.$/s) });
  return { status: reply.statusCode, message: reply.json().message, headers: reply.headers };
}

/** Counts all rows that a delivery could have written. */
export async function countRows({ database }: Pick<Service, 'database'>) {
  const { rows } = await database.executor.execute<Record<string, number>>(sql`select
    (select count(*)::int from webhook_deliveries) as deliveries, (select count(*)::int from sync_requests) as requests,
    (select count(*)::int from members) as members, (select count(*)::int from repositories) as repositories`);
  return rows[0];
}

export const nothing = { deliveries: 0, requests: 0, members: 0, repositories: 0 };
