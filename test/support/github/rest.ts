import type { Authorities } from './authorities.ts';
import type { GithubStandInRequest } from './faults.ts';
import type { GraphqlAnswer } from './graphql.ts';
import { organisationPayload } from './payloads.ts';
import { isoTime, type World } from './world.ts';

const notFound: GraphqlAnswer = { status: 404, reply: { message: 'Not Found', status: '404' } };
const unauthorized: GraphqlAnswer = { status: 401, reply: { message: 'Bad credentials', status: '401' } };

/** The few REST paths that clients use beside GraphQL. */
export function answerRest(
  world: World,
  authorities: Authorities,
  { method, path, authorization }: GithubStandInRequest,
  base: string,
): GraphqlAnswer {
  const authority = authorities.of(authorization);
  if (!authority) return unauthorized;
  const route = `${method} ${path.startsWith(base) ? path.slice(base.length) : path}`;

  const login = /^GET \/orgs\/([^/]+)(\/installation)?$/.exec(route);
  if (login) {
    const organisation = world.organisations.get(String(login[1]).toLowerCase());
    if (!organisation) return notFound;
    if (login[2] === undefined) return { status: 200, reply: organisationPayload(organisation) };
    if (authority.kind !== 'app') return unauthorized;
    if (organisation.installationId === undefined) return notFound;
    return { status: 200, reply: { id: organisation.installationId, account: organisationPayload(organisation) } };
  }

  const installation = /^POST \/app\/installations\/(\d+)\/access_tokens$/.exec(route);
  if (installation) {
    if (authority.kind !== 'app') return unauthorized;
    const organisation = [...world.organisations.values()].find(
      each => each.installationId === Number(installation[1]),
    );
    if (!organisation) return notFound;
    return {
      status: 201,
      reply: {
        token: authorities.tokenFor(organisation),
        expires_at: isoTime(Math.floor(Date.now() / 1000) + 3_600),
        permissions: { pull_requests: 'read', members: 'read', metadata: 'read' },
        repository_selection: 'all',
      },
    };
  }
  return notFound;
}
