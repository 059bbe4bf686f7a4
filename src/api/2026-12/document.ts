import examples from '../../../openapi/2026-12.examples.json' with { type: 'json' };
import { introduction } from '../openapi.ts';
import type { Version } from '../version.ts';

const description = introduction({
  scopes: `\`read\` for every GET, \`sync\` for PUT and \`delete\` for DELETE; rules files need \`rules:read\`, and \`rules:write\` to
apply one`,
  errors: `Each has a \`message\` that says what is wrong and what to do, a \`code\` for programs, and a \`parameter\` if one is to
blame.`,
  versions: `The paths have the version of the interface, \`2026-12\`. Within it, fields and endpoints are added, and nothing
else changes: ignore fields that you don't know. The program's version is what \`pullscore --version\` prints.`,
  caching: `Lists have an \`ETag\`: send it as \`If-None-Match\`, and the reply is 304, without a body, if nothing has
changed. All other replies have \`Cache-Control: no-store\`.`,
});

export const document: Version['document'] = {
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
  examples,
};
