import type { InjectOptions } from 'fastify';
import { expect } from 'vitest';
import type { components } from '../../openapi/client.d.ts';
import type { App } from '../../src/app.ts';
import { bodyOf, createReplyCheck } from './openapi.ts';

export interface Reply<Body> {
  status: number;
  headers: Record<string, unknown>;
  body: Body;
}

export interface ErrorReply {
  message: string;
}

/** A client of the service that checks every reply with a body against the OpenAPI document. */
export function createClient(app: App) {
  let check: ReturnType<typeof createReplyCheck> | undefined;

  async function send<Body = ErrorReply>(
    method: NonNullable<InjectOptions['method']>,
    url: string,
    token: string | undefined,
    options: InjectOptions = {},
  ): Promise<Reply<Body>> {
    check ??= createReplyCheck(app);
    const checkReply = await check;
    const reply = await app.inject({
      method,
      url,
      ...options,
      headers: { ...(token !== undefined && { authorization: `Bearer ${token}` }), ...options.headers },
    });
    const isUnchanged = reply.statusCode === 304;
    if (isUnchanged) expect(reply.body).toBe('');
    else checkReply(reply, method, url);
    return {
      status: reply.statusCode,
      headers: reply.headers,
      body: method === 'HEAD' || isUnchanged ? null : bodyOf(reply),
    };
  }

  const get = <Body = ErrorReply>(url: string, token?: string, options?: InjectOptions) =>
    send<Body>('GET', url, token, options);

  return {
    send,
    get,
    /** Follows the links of a list in one direction to its end. @param between runs after each page */
    async pages<Item = { id: string }>(
      url: string,
      token: string,
      direction: 'next' | 'prev' = 'next',
      between = async (): Promise<void> => {},
    ): Promise<PageBody<Item>[]> {
      const pages: PageBody<Item>[] = [];
      for (let next: string | null = url; next !== null; next = pages.at(-1)?.links[direction] ?? null) {
        const { status, body }: Reply<PageBody<Item>> = await get(next, token);
        expect(status, `${next} → ${JSON.stringify(body)}`).toBe(200);
        pages.push(body);
        await between();
        expect(pages.length, 'paging ends').toBeLessThan(2_000);
      }
      return pages;
    },
    put: <Body = ErrorReply>(url: string, token?: string, options?: InjectOptions) =>
      send<Body>('PUT', url, token, options),
    delete: <Body = ErrorReply>(url: string, token?: string, options?: InjectOptions) =>
      send<Body>('DELETE', url, token, options),
    /** Puts a rules file in force, whatever is. */
    applyFile: (token: string, payload: string) =>
      send<{ data: Record<string, unknown> }>('PUT', '/2026-12/rules/file', token, {
        payload,
        headers: { 'content-type': 'application/yaml', 'if-match': '*' },
      }),
    /** For other clients. */
    async fetch(request: Request): Promise<Response> {
      const { pathname, search } = new URL(request.url);
      const method = request.method as NonNullable<InjectOptions['method']>;
      const headers = Object.fromEntries(request.headers);
      const { status, body } = await send<unknown>(method, pathname + search, undefined, { headers });
      return Response.json(body, { status });
    },
  };
}

export type Client = ReturnType<typeof createClient>;

export type PullRequestBody = components['schemas']['PullRequest'];
export type MemberBody = components['schemas']['Member'];
export type RuleBody = components['schemas']['Rule'];
export type UserBody = components['schemas']['User'];

export interface PageBody<Item> {
  data: Item[];
  meta: components['schemas']['PageMeta'];
  links: components['schemas']['PageLinks'];
}

/** The ids of a list, in order. */
export const idsOf = (pages: readonly PageBody<{ id: string }>[]) =>
  pages.flatMap(({ data }) => data.map(({ id }) => id));
