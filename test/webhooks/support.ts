import { randomUUID } from 'node:crypto';
import { sql } from 'drizzle-orm';
import { afterAll, afterEach, expect } from 'vitest';
import { signedRequest } from '../support/github/webhooks.ts';
import { type Service, startService, webhookSecret } from '../support/service.ts';
import { createTenant } from '../support/tenants.ts';

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

/** A service that tracks acme, whose id on GitHub is 1. It ends with the file, and deliveries are gone after each test. */
export async function startForAcme(): Promise<Service> {
  const service = await startService();
  afterAll(() => service.close());
  afterEach(() => service.database.executor.execute('truncate webhook_deliveries, sync_requests'));
  await createTenant(service, { login: 'acme', githubId: 1 });
  return service;
}

/** Counts all rows that a delivery could have written. */
export async function countRows({ database }: Pick<Service, 'database'>) {
  const { rows } = await database.executor.execute<Record<string, number>>(sql`select
    (select count(*)::int from webhook_deliveries) as deliveries, (select count(*)::int from sync_requests) as requests,
    (select count(*)::int from members) as members, (select count(*)::int from repositories) as repositories`);
  return rows[0];
}

export const nothing = { deliveries: 0, requests: 0, members: 0, repositories: 0 };
