import finished from '../../../openapi/openapi.json' with { type: 'json' };
import { memberRoutes } from '../members.ts';
import { pullRequestRoutes } from '../pull-requests.ts';
import { accountRoutes, userRoutes } from '../users.ts';
import type { Version } from '../version.ts';
import { listRoutes, represent, representPullRequest } from './lists.ts';

/** As the interface specification has it. */
export const version202504: Version = {
  name: '2025-04',
  document: { path: '/openapi.json', finished },
  cors: { methods: ['GET', 'PUT', 'DELETE'], headers: ['if-none-match'] },
  representError: ({ text }) => ({ message: text }),
  refusesUnknownParameters: false,
  async routes(api) {
    await api.register(accountRoutes);
    await api.register(listRoutes);
    await api.register(memberRoutes, { represent });
    await api.register(pullRequestRoutes, { represent: representPullRequest });
    await api.register(userRoutes, { hasTag: false });
  },
};
