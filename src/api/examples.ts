import { type ErrorCode, errorStatuses, ServiceError } from '../errors.ts';
import type { GeneratedDocument, Version } from './version.ts';

type Example = [code: ErrorCode, text: string, parameter?: string];

/** One for each status that the document names. */
const errors: Example[] = [
  ['bad_request', 'colour is not a known parameter.', 'colour'],
  ['unauthenticated', 'Unauthenticated. Send a valid token in the header Authorization: Bearer TOKEN.'],
  ['forbidden', 'This action is unauthorized.'],
  ['cursor_expired', 'Changes after this cursor may be missing here. Start again without a cursor.', 'cursor'],
  ['precondition_failed', 'Version 8 of the rules is in force, not 7.', 'if-match'],
  ['precondition_required', 'If-Match is missing. Send the version of the rules, such as "7".', 'if-match'],
  ['rate_limited', 'Too many requests with this token. Slow down.'],
  ['internal', 'Something went wrong on our side. It has been logged.'],
  ['github_failed', 'GitHub answers 502. Try again later.'],
  ['database_unavailable', 'The database is not available. Try again shortly.'],
  ['github_timeout', 'GitHub did not answer within 10 seconds. Try again later.'],
];

const otherError: Example = ['payload_too_large', 'The request body is too large.'];

const requestId = '01996b8e-3c00-7000-8000-0000000000ff';

function exampleError(version: Version, path: string, status: string): object {
  const object = path.includes('{pullRequest}') ? 'pull request' : 'member';
  const all: Example[] = [...errors, ['not_found', `There is no ${object} with this id.`]];
  const found = all.find(([code]) => String(errorStatuses[code]) === status);
  const [code, text, parameter] = found ?? otherError;
  return version.representError(new ServiceError(code, text, { parameter }), requestId);
}

interface OpenApiDocument {
  paths?: Record<string, Record<string, Operation>>;
}

interface Operation {
  operationId: string;
  responses: Record<string, { content?: Record<string, { example?: unknown }> }>;
}

/** Gives an example to each reply in a document. */
export function addExamples(document: object, version: Version, { examples }: GeneratedDocument): object {
  for (const [path, operations] of Object.entries((document as OpenApiDocument).paths ?? {})) {
    for (const { operationId, responses } of Object.values(operations)) {
      for (const [status, { content = {} }] of Object.entries(responses)) {
        const example = status === '200' ? examples[operationId] : exampleError(version, path, status);
        for (const media of Object.values(content)) media.example = example;
      }
    }
  }
  return document;
}
