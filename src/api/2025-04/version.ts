import finished from '../../../openapi/openapi.json' with { type: 'json' };
import type { SharedRow } from '../../database/pull-request-pages.ts';
import { memberLinks, memberRoutes, type RepresentMember, representMember } from '../members.ts';
import {
  pullRequestRoutes,
  type RepresentPullRequest,
  representFields,
  representMemberLink,
} from '../pull-requests.ts';
import { accountRoutes, userRoutes } from '../users.ts';
import type { Version } from '../version.ts';
import { listRoutes } from './lists.ts';

const representPullRequest: RepresentPullRequest<SharedRow> = (row, base) =>
  `{${representFields(row)},"links":{${representMemberLink(row, base)}}}`;

const represent: RepresentMember = (row, base) => representMember(row, { links: memberLinks(row, base) });

/** As the interface specification has it. */
export const version202504: Version = {
  name: '2025-04',
  document: { path: '/openapi.json', finished },
  cors: { methods: ['GET', 'PUT', 'DELETE'], headers: ['if-none-match'] },
  representError: ({ text }) => ({ message: text }),
  refusesUnknownParameters: false,
  async routes(api) {
    await api.register(accountRoutes);
    await api.register(listRoutes, { representMember: represent, representPullRequest });
    await api.register(memberRoutes, { represent });
    await api.register(pullRequestRoutes, { represent: representPullRequest });
    await api.register(userRoutes, { hasTag: false });
  },
};
