import { executeSync, GraphQLError } from 'graphql';
import { githubError, githubSchema, measureQuery, readQuery } from './schema.ts';
import { rootView, type Viewer } from './views.ts';
import { isoTime } from './world.ts';

/** The hour's points. */
export interface PointLimit {
  limit: number;
  remaining: number;
  /** Unix seconds of the real clock. */
  resetAt: number;
}

/** A new hour begins with all of its points. */
export function refill(limit: PointLimit): void {
  for (const now = Date.now() / 1000; limit.resetAt <= now; limit.resetAt += 3_600) limit.remaining = limit.limit;
}

export interface Answer {
  status: number;
  /** A text is HTML. */
  reply: object | string;
  headers?: Record<string, string>;
}

/** GitHub's form of an error: `type` next to `message`, and no `extensions`. */
function formatError({ message, path, extensions, locations }: GraphQLError) {
  const type = typeof extensions.type === 'string' && extensions.type !== '' ? { type: extensions.type } : {};
  return { ...type, ...(path && { path }), ...(locations && { locations }), message };
}

const failed = (...errors: GraphQLError[]): Answer => ({
  status: 200,
  reply: { errors: errors.map(formatError) },
});

export function answerQuery(
  { limit, ...sees }: Omit<Viewer, 'rateLimit'> & { limit: PointLimit | null },
  text: string,
  variables: Record<string, unknown>,
): Answer {
  let query: ReturnType<typeof readQuery>;
  try {
    query = readQuery(text);
  } catch (error) {
    return failed(error instanceof GraphQLError ? error : new GraphQLError(String(error)));
  }
  if (query.errors.length > 0) return failed(...query.errors);
  const { nodeCount, cost, error } = measureQuery(query, variables);
  if (error) return failed(error);
  const usedUp = limit !== null && limit.remaining < cost;
  if (limit) limit.remaining = Math.max(0, limit.remaining - cost);
  const headers = limit && {
    'x-ratelimit-limit': String(limit.limit),
    'x-ratelimit-remaining': String(limit.remaining),
    'x-ratelimit-used': String(limit.limit - limit.remaining),
    'x-ratelimit-reset': String(limit.resetAt),
    'x-ratelimit-resource': 'graphql',
  };
  if (usedUp) {
    const error = githubError('RATE_LIMIT', 'API rate limit already exceeded for user ID 1.');
    return { ...failed(error), ...(headers && { headers }) };
  }
  const rateLimit = limit && {
    ...limit,
    resetAt: isoTime(limit.resetAt),
    used: limit.limit - limit.remaining,
    cost,
    nodeCount,
  };
  const viewer: Viewer = { ...sees, rateLimit };
  const { data = null, errors } = executeSync({
    schema: githubSchema(),
    document: query.document,
    rootValue: rootView,
    contextValue: viewer,
    variableValues: variables,
  });
  return {
    status: 200,
    reply: { data, ...(errors && { errors: errors.map(formatError) }) },
    ...(headers && { headers }),
  };
}
