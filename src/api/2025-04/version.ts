import { Type } from '@sinclair/typebox';
import finished from '../../../openapi/openapi.json' with { type: 'json' };
import type { SharedRow } from '../../database/pull-request-pages.ts';
import {
  MemberLinks,
  memberFields,
  memberLinks,
  memberRoutes,
  type RepresentMember,
  representMember,
} from '../members.ts';
import { pageSchemas } from '../pagination.ts';
import {
  MemberLink,
  pullRequestFields,
  pullRequestRoutes,
  pullRequestSchemas,
  type RepresentPullRequest,
  representFields,
  representMemberLink,
} from '../pull-requests.ts';
import { Account, accountRoutes, User, userRoutes } from '../users.ts';
import { closedObject, namedObject } from '../validation.ts';
import type { Version } from '../version.ts';
import { listRoutes } from './lists.ts';

const ErrorBody = namedObject('Error', { message: Type.String({ description: 'An overview of the error' }) });
const PullRequest = namedObject('PullRequest', { ...pullRequestFields, links: closedObject({ member: MemberLink }) });
const Member = namedObject('Member', { ...memberFields, links: MemberLinks });

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
  schemas: [ErrorBody, ...pageSchemas, ...pullRequestSchemas, PullRequest, Account, Member, User],
  async routes(api) {
    await api.register(accountRoutes);
    await api.register(listRoutes, { representMember: represent, representPullRequest });
    await api.register(memberRoutes, { represent });
    await api.register(pullRequestRoutes, { represent: representPullRequest });
    await api.register(userRoutes, { hasTag: false });
  },
};
