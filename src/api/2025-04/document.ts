import { introduction } from '../openapi.ts';
import type { Version } from '../version.ts';

const description = introduction({
  scopes: '`read` for every GET, `sync` for PUT and `delete` for DELETE',
  errors: 'Each has a `message` that says what is wrong and what to do.',
  versions: `The paths have the version of the interface, \`2025-04\`; this document has its own, \`0.0.1\`. The program's is
what \`pullscore --version\` prints.`,
  caching: `Pages of pull requests have an \`ETag\`: send it as \`If-None-Match\`, and the reply is 304, without a body, if
nothing has changed. All other replies have \`Cache-Control: no-store\`.`,
});

export const document: Version['document'] = {
  path: '/openapi.json',
  info: { title: 'pullscore', description, version: '0.0.1' },
  tags: [
    { name: 'Account', description: 'The user who holds the token' },
    { name: 'Members', description: "The organisation's members on GitHub, whose pull requests are tracked" },
    { name: 'Pull requests', description: 'Stored copies of pull requests, with score and breakdown' },
    { name: 'Rules', description: 'How pull requests are scored' },
    { name: 'Users', description: 'The people who may hold access tokens' },
  ],
};
