import { badRequest } from '../errors.ts';

/** GitHub's own payloads are less than ten levels deep. */
const maxDepth = 100;

/** @throws ServiceError `bad_request` if the bytes are not a JSON object that GitHub could have sent */
export function parsePayload(body: Buffer): object {
  let payload: unknown;
  try {
    // Without a byte order mark.
    payload = JSON.parse(new TextDecoder().decode(body));
  } catch (error) {
    throw badRequest('The payload is not JSON.', undefined, { cause: error });
  }
  if (typeof payload !== 'object' || payload === null || Array.isArray(payload)) {
    throw badRequest('The payload is not an object.');
  }
  requirePlain(payload, 1);
  return payload;
}

function requirePlain(value: object, depth: number): void {
  if (depth > maxDepth) throw badRequest('The payload is nested too deeply.');
  if (Object.hasOwn(value, '__proto__')) throw badRequest('The payload has a forbidden key.');
  for (const part of Object.values(value)) {
    if (typeof part === 'object' && part !== null) requirePlain(part, depth + 1);
  }
}
