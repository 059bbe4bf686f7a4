import { Type } from '@sinclair/typebox';
import { errorStatuses } from '../../errors.ts';
import { memberRoutes } from '../members.ts';
import { pageSchemas } from '../pagination.ts';
import { pullRequestRoutes, pullRequestSchemas } from '../pull-requests.ts';
import { Rule } from '../rules.ts';
import { accountRoutes, User, userRoutes } from '../users.ts';
import { closedObject, namedObject, stringEnum } from '../validation.ts';
import type { Version } from '../version.ts';
import { Account, describeToken } from './account.ts';
import { Change, changeRoutes } from './changes.ts';
import { document } from './document.ts';
import { Health, healthRoutes } from './health.ts';
import { memberListRoutes, pullRequestListRoutes } from './lists.ts';
import { Member, represent } from './member.ts';
import { Audit, Plan } from './plan.ts';
import { PullRequest, ReviewScore, representPullRequest } from './pull-request.ts';
import { reportRoutes, reportSchemas } from './reports.ts';
import { ruleRoutes } from './rules.ts';

const ErrorBody = namedObject('Error', {
  message: Type.String({ description: 'What is wrong, and what to do; for people' }),
  code: stringEnum(Object.keys(errorStatuses), { description: 'What is wrong; for programs' }),
  request_id: Type.String({ description: 'As in `x-request-id` and in the log' }),
  parameter: Type.Optional(Type.String({ description: 'The name of the parameter that is to blame, if it is one' })),
  problems: Type.Optional(
    Type.Array(
      closedObject({
        line: Type.Integer({ description: 'Its line in the file, from 1' }),
        message: Type.String({ description: 'What is wrong, and what to do; for people' }),
      }),
      { description: 'All that is wrong with the rules file, in the order of its lines, if the file is to blame' },
    ),
  ),
});

export const version202612: Version = {
  name: '2026-12',
  document,
  cors: { methods: ['GET', 'POST', 'PUT', 'DELETE'], headers: ['if-match', 'if-none-match'] },
  representError: ({ text, code, parameter, problems }, requestId) => ({
    message: text,
    code,
    request_id: requestId,
    parameter,
    problems,
  }),
  refusesUnknownParameters: true,
  schemas: [
    ErrorBody,
    ...pageSchemas,
    ...pullRequestSchemas,
    ReviewScore,
    PullRequest,
    Change,
    Account,
    Member,
    Rule,
    User,
    ...reportSchemas,
    Plan,
    Audit,
    Health,
  ],
  async routes(api) {
    await api.register(accountRoutes, { describeToken });
    await api.register(memberListRoutes);
    await api.register(memberRoutes, { represent });
    await api.register(pullRequestListRoutes);
    await api.register(pullRequestRoutes, { represent: representPullRequest });
    await api.register(changeRoutes);
    await api.register(ruleRoutes);
    await api.register(reportRoutes);
    await api.register(healthRoutes);
    await api.register(userRoutes, { hasTag: true });
  },
};
