import { Type } from '@sinclair/typebox';
import type { SharedRow } from '../../database/pull-request-pages.ts';
import { Account, accountRoutes } from '../account.ts';
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
import { Rule } from '../rules.ts';
import { User, userRoutes } from '../users.ts';
import { closedObject, namedObject } from '../validation.ts';
import type { Version } from '../version.ts';
import { document } from './document.ts';
import { memberListRoutes, pullRequestListRoutes } from './lists.ts';
import { ruleRoutes } from './rules.ts';

const ErrorBody = namedObject('Error', { message: Type.String({ description: 'An overview of the error' }) });
const PullRequest = namedObject('PullRequest', { ...pullRequestFields, links: closedObject({ member: MemberLink }) });
const Member = namedObject('Member', { ...memberFields, links: MemberLinks });

const representPullRequest: RepresentPullRequest<SharedRow> = (row, base) =>
  `{${representFields(row)},"links":{${representMemberLink(row, base)}}}`;

const represent: RepresentMember = (row, base) => representMember(row, { links: memberLinks(row, base) });

/** As the interface specification has it. */
export const version202504: Version = {
  name: '2025-04',
  document,
  cors: { methods: ['GET', 'PUT', 'DELETE'], headers: ['if-none-match'] },
  representError: ({ text }) => ({ message: text }),
  refusesUnknownParameters: false,
  schemas: [ErrorBody, ...pageSchemas, ...pullRequestSchemas, PullRequest, Account, Member, Rule, User],
  async routes(api) {
    await api.register(accountRoutes);
    await api.register(memberListRoutes, { represent });
    await api.register(memberRoutes, { represent });
    await api.register(pullRequestListRoutes, { represent: representPullRequest });
    await api.register(pullRequestRoutes, { represent: representPullRequest });
    await api.register(ruleRoutes);
    await api.register(userRoutes, { hasTag: false });
  },
};
