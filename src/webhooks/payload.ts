import { parse } from 'secure-json-parse';
import { ServiceError } from '../errors.ts';

/** GitHub's own payloads are less than ten levels deep. */
const deepest = 100;

/** Its largest ones are mostly text. Parts take up to fifty times the memory that they take in JSON. */
const mostParts = 1_000_000;

const [quote, backslash, comma, openBracket, closeBracket, openBrace, closeBrace] = Buffer.from('"\\,[]{}');

/** @throws ServiceError `bad_request` where the bytes are no JSON object that GitHub could have sent */
export function parsePayload(body: Buffer): object {
  refuseShape(body);
  let payload: unknown;
  try {
    payload = parse(body.toString('utf8'), undefined, { protoAction: 'error', constructorAction: 'ignore' });
  } catch (error) {
    throw new ServiceError('bad_request', 'The payload is not JSON, or has a forbidden key.', { cause: error });
  }
  if (typeof payload !== 'object' || payload === null || Array.isArray(payload)) {
    throw new ServiceError('bad_request', 'The payload is not an object.');
  }
  return payload;
}

/** Told from the bytes, before the parser makes objects of them. */
function refuseShape(body: Buffer): void {
  let depth = 0;
  let parts = 0;
  for (let index = 0; index < body.length; index += 1) {
    const byte = body[index];
    if (byte === quote) index = endOfText(body, index);
    else if (byte === comma) parts += 1;
    else if (byte === openBracket || byte === openBrace) {
      parts += 1;
      depth += 1;
      if (depth > deepest) throw new ServiceError('bad_request', 'The payload is nested too deeply.');
    } else if (byte === closeBracket || byte === closeBrace) depth -= 1;
    if (parts > mostParts) throw new ServiceError('bad_request', 'The payload has too many parts.');
  }
}

/** The place of the quote that ends the text that the one at `start` begins. */
function endOfText(body: Buffer, start: number): number {
  for (let end = body.indexOf('"', start + 1); end !== -1; end = body.indexOf('"', end + 1)) {
    let backslashes = 0;
    while (body[end - 1 - backslashes] === backslash) backslashes += 1;
    if (backslashes % 2 === 0) return end;
  }
  return body.length;
}
