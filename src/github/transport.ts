import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { Type } from '@sinclair/typebox';
import { LRUCache } from 'lru-cache';
import { createFairQueue } from '../fair-queue.ts';
import { createCredentials, createOctokit, type GithubConfig, type OrganisationReference } from './credentials.ts';
import { withDeadline } from './deadline.ts';
import { matches, parseReply, Reply, unixSeconds } from './decode.ts';
import {
  clockOf,
  errorOfFailures,
  errorOfRequest,
  type GraphqlFailure,
  githubFailed,
  graphqlFailures,
  isHttpError,
  isRateLimit,
  rateLimitError,
} from './github-error.ts';
import { createGuardedFetch } from './guarded-fetch.ts';

export interface GithubOptions {
  /** For one call, including credentials and a second try. */
  timeoutMs?: number;
  maxReplyBytes?: number;
  /** Requests with one credential under way at once: later ones wait. */
  maxUnderWay?: number;
  /** Organisations for which an App's installation and token are remembered. */
  maxInstallations?: number;
}

/** One GraphQL request that was sent, for metrics. */
export interface GithubRequest {
  /** The organisation's login. */
  organisation: string;
  operation: string;
  milliseconds: number;
  /** Undefined if it failed, and on a GitHub Enterprise Server without rate limits. */
  rateLimit: RateLimit | undefined;
  error: unknown;
}

export type RequestListener = (request: GithubRequest) => void;

/** In GraphQL's points. */
export interface RateLimit {
  /** Points that the request cost. */
  cost: number;
  /** Points per hour. */
  limit: number;
  remaining: number;
  /** Unix seconds. */
  resetAt: number;
}

/** The usable part of a reply, and what failed. */
interface GraphqlReply {
  data: object;
  failures: GraphqlFailure[];
  /** By GitHub's clock, in Unix seconds. */
  repliedAt: number;
  /** Undefined on a GitHub Enterprise Server without rate limits. */
  rateLimit: RateLimit | undefined;
}

export interface RequestContext {
  organisation: OrganisationReference;
  /** What is asked for, for messages. */
  subject: string;
  /** The caller's own limit, by `performance.now()`. */
  deadline?: number | undefined;
}

/** Part of every query. Mutations have no such field: the headers of their replies say it. */
export const rateLimit = 'rateLimit { cost limit remaining resetAt }';
const { Count, Time, UnixSeconds } = Reply;
const Points = Type.Object({ cost: Count, limit: Count, remaining: Count });
const Limited = Type.Object({ rateLimit: Type.Object({ ...Points.properties, resetAt: Time }) });
const Figures = Type.Object({ ...Points.properties, resetAt: UnixSeconds });

function graphqlUrl(apiUrl: string): string {
  return apiUrl.endsWith('/api/v3') ? apiUrl.replace(/\/v3$/, '/graphql') : `${apiUrl}/graphql`;
}

/**
 * GitHub allows a credential a hundred, so two replicas can share one:
 * https://docs.github.com/en/graphql/overview/rate-limits-and-query-limits-for-the-graphql-api
 */
const defaultMaxUnderWay = 48;

export function createTransport(config: GithubConfig, options: GithubOptions) {
  const { timeoutMs = 8_000, maxReplyBytes = 32 * 1024 * 1024, maxUnderWay = defaultMaxUnderWay } = options;
  const baseUrl = config.apiUrl;
  const guardedFetch = createGuardedFetch(maxReplyBytes, config.proxy);
  const credentials = createCredentials(config, guardedFetch, timeoutMs, options.maxInstallations);
  const listeners = new Set<RequestListener>();
  const queues = new LRUCache<string, ReturnType<typeof createFairQueue>>({
    max: 10_000,
    memoMethod: () => createFairQueue(maxUnderWay),
  });
  /** Does it when its turn comes. An App has a token, and so a queue, for each organisation. */
  const inTurn = <Result>({ login }: OrganisationReference, work: () => Promise<Result>, signal?: AbortSignal) =>
    queues.memo(config.app === undefined ? '' : login.toLowerCase())(Symbol(), signal, work);
  let client: ReturnType<typeof createOctokit> | undefined;

  async function send(
    organisation: OrganisationReference,
    query: string,
    variables: Record<string, unknown>,
    signal: AbortSignal,
  ) {
    // Octokit's own reader takes nine times as long to keep big integers, which we request as text.
    client ??= createOctokit(baseUrl, { fetch: guardedFetch, parseSuccessResponseBody: false });
    const octokit = await client;
    for (;;) {
      const authorization = await credentials.authorization(organisation);
      signal.throwIfAborted();
      try {
        const { data, headers } = await octokit.request({
          method: 'POST',
          url: graphqlUrl(baseUrl),
          query,
          variables,
          headers: { authorization },
          request: { signal },
        });
        return { body: parseReply(data ? await text(data) : ''), headers };
      } catch (error) {
        const isUnknownToken = isHttpError(error) && error.response?.status === 401;
        if (!isUnknownToken || !credentials.isNew(organisation)) {
          const translated = errorOfRequest(error, credentials.names, baseUrl);
          if (translated.code === 'github_credentials') credentials.refused(organisation);
          throw translated;
        }
        await delay(1_000, undefined, { signal });
      }
    }
  }

  function readReply(
    body: unknown,
    headers: Parameters<typeof rateLimitError>[0],
    { organisation, subject }: RequestContext,
  ): GraphqlReply {
    if (typeof body !== 'object' || body === null || !('data' in body || 'errors' in body)) {
      throw githubFailed("GitHub's reply is not GraphQL.", 'Check GITHUB_API_URL, or try again later.');
    }
    const failures = graphqlFailures('errors' in body ? body.errors : undefined).filter(
      failure => failure.path[0] !== 'rateLimit',
    );
    if (failures.some(isRateLimit)) throw rateLimitError(headers, failures);
    if (failures.some(({ type }) => type === 'FORBIDDEN')) credentials.refusedPart(organisation);
    const data = 'data' in body ? body.data : undefined;
    if (typeof data !== 'object' || data === null) throw errorOfFailures(failures, subject, credentials.names);
    return { data, failures, repliedAt: clockOf(headers), rateLimit: readRateLimit(data) ?? limitOfHeaders(headers) };
  }

  return {
    /** The variables that hold the credentials, for messages. */
    credentialNames: credentials.names,
    readsMembers: (organisation: OrganisationReference) =>
      inTurn(organisation, () => credentials.readsMembers(organisation)),
    /** Reports every request from now on. @returns a function that ends this */
    onRequest(listener: RequestListener): () => void {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    /**
     * One GraphQL request.
     *
     * @param meter is told about this request, too
     * @throws ServiceError if no part of the reply can be used
     */
    async graphql(
      query: string,
      variables: Record<string, unknown>,
      { organisation, subject, deadline }: RequestContext,
      meter?: RequestListener,
    ): Promise<GraphqlReply> {
      let reply: GraphqlReply | undefined;
      let started: number | undefined;
      let failure: unknown;
      const work = async (signal: AbortSignal) => {
        const { body, headers } = await send(organisation, query, variables, signal);
        return readReply(body, headers, { organisation, subject });
      };
      try {
        const request = () => {
          started = performance.now();
          return withDeadline(timeoutMs, work, deadline);
        };
        const wait = (signal?: AbortSignal) => inTurn(organisation, request, signal);
        reply = await (deadline === undefined ? wait() : withDeadline(Number.POSITIVE_INFINITY, wait, deadline));
        return reply;
      } catch (error) {
        failure = error;
        throw error;
      } finally {
        // One whose caller could wait no longer was not sent.
        if (started !== undefined) {
          const request: GithubRequest = {
            organisation: organisation.login,
            operation: /^\s*(?:query|mutation) (\w+)/.exec(query)?.[1] ?? '',
            milliseconds: performance.now() - started,
            rateLimit: reply?.rateLimit,
            error: failure,
          };
          for (const listener of listeners) listener(request);
          meter?.(request);
        }
      }
    },
  };
}

function readRateLimit(data: object): RateLimit | undefined {
  if (!matches(Limited, data)) return undefined;
  return { ...data.rateLimit, resetAt: unixSeconds(data.rateLimit.resetAt) };
}

/** A mutation costs one point: https://docs.github.com/en/graphql/overview/rate-limits-and-query-limits-for-the-graphql-api */
function limitOfHeaders(headers: Parameters<typeof rateLimitError>[0]): RateLimit | undefined {
  const numberOf = (name: string) => Number(headers[`x-ratelimit-${name}`]);
  const figures = { cost: 1, limit: numberOf('limit'), remaining: numberOf('remaining'), resetAt: numberOf('reset') };
  return matches(Figures, figures) ? figures : undefined;
}
