import { Type } from '@sinclair/typebox';
import examples from '../../../openapi/2026-12.examples.json' with { type: 'json' };
import { errorStatuses } from '../../errors.ts';
import { memberRoutes } from '../members.ts';
import { pageSchemas } from '../pagination.ts';
import { pullRequestRoutes } from '../pull-requests.ts';
import { Rule, RuleEffectAction } from '../rules.ts';
import { accountRoutes, User, userRoutes } from '../users.ts';
import { closedObject, namedObject, stringEnum } from '../validation.ts';
import type { Version } from '../version.ts';
import { Account, describeToken } from './account.ts';
import { Change, changeRoutes } from './changes.ts';
import { Health, healthRoutes } from './health.ts';
import { memberListRoutes, pullRequestListRoutes } from './lists.ts';
import { Member, represent } from './member.ts';
import { Audit, Plan } from './plan.ts';
import { PullRequest, PullRequestScore, PullRequestState, ReviewScore, representPullRequest } from './pull-request.ts';
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

const description = `Scores of an organisation's pull requests, by the organisation's own rules.

**Tokens.** Send \`Authorization: Bearer ps_…\`. An operator creates the token with \`pullscore token create\`. Its scopes are
\`read\` for every GET, \`sync\` for PUT and \`delete\` for DELETE; rules files need \`rules:read\`, and \`rules:write\` to
apply one. It sees one organisation; objects of others get 403.

**Pages.** Lists with \`meta\` and \`links\` have 15 items by default; \`per_page\` asks for 1 to 100. Follow \`links.next\` until it
is null. A cursor belongs to its list and does not expire. Pages stay consistent while items are added or deleted.

**Errors.** Each has a \`message\` that says what is wrong and what to do, a \`code\` for programs, and a \`parameter\` if one is to
blame. 401: no valid token. 403: the scope is missing, or the
object belongs to another organisation. 404: there is no such object. 429 and some 503 have \`Retry-After\`, in seconds. Quote
\`x-request-id\` when you report a problem.

**Limits.** \`x-ratelimit-limit\`, \`x-ratelimit-remaining\` and \`x-ratelimit-reset\` show how many requests the token may make in
the current minute.

**Versions.** The paths have the version of the interface, \`2026-12\`. Within it, fields and endpoints are added, and nothing
else changes: ignore fields that you don't know. The program's version is what \`pullscore --version\` prints.

**Caching.** Lists have an \`ETag\`: send it as \`If-None-Match\`, and the reply is 304, without a body, if nothing has
changed. All other replies have \`Cache-Control: no-store\`. You always read your own syncs and deletions.`;

export const version202612: Version = {
  name: '2026-12',
  document: {
    path: '/2026-12/openapi.json',
    info: { title: 'pullscore', description, version: '2026-12' },
    tags: [
      { name: 'Account', description: 'The user who holds the token' },
      { name: 'Members', description: "The organisation's members on GitHub, whose pull requests are tracked" },
      { name: 'Pull requests', description: 'Stored copies of pull requests, with score and breakdown' },
      { name: 'Changes', description: 'What has changed since: for copies elsewhere' },
      { name: 'Rules', description: 'How pull requests are scored' },
      { name: 'Standings', description: 'Totals of scores' },
      { name: 'Health', description: 'What waits, what fails, and why' },
      { name: 'Users', description: 'The people who may hold access tokens' },
    ],
    schemas: [
      ErrorBody,
      ...pageSchemas,
      PullRequestState,
      RuleEffectAction,
      PullRequestScore,
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
    examples,
  },
  cors: { methods: ['GET', 'POST', 'PUT', 'DELETE'], headers: ['if-match', 'if-none-match'] },
  representError: ({ text, code, parameter, problems }, requestId) => ({
    message: text,
    code,
    request_id: requestId,
    parameter,
    problems,
  }),
  refusesUnknownParameters: true,
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
