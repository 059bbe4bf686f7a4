import { parse } from 'secure-json-parse';
import { badRequest } from '../errors.ts';

/** GitHub's own payloads are less than ten levels deep. */
const maxDepth = 100;

/** GitHub's largest payloads are mostly text. Parsed values take up to fifty times the memory of their JSON. */
const maxValues = 1_000_000;

const [quote, backslash, comma, openBracket, closeBracket, openBrace, closeBrace] = Buffer.from('"\\,[]{}');

/** @throws ServiceError `bad_request` if the bytes are not a JSON object that GitHub could have sent */
export function parsePayload(body: Buffer): object {
  checkShape(body);
  let payload: unknown;
  try {
    payload = parse(body.toString('utf8'), undefined, { protoAction: 'error', constructorAction: 'ignore' });
  } catch (error) {
    throw badRequest('The payload is not JSON, or has a forbidden key.', undefined, { cause: error });
  }
  if (typeof payload !== 'object' || payload === null || Array.isArray(payload)) {
    throw badRequest('The payload is not an object.');
  }
  return payload;
}

/** Checks the bytes, before the parser creates objects from them. */
function checkShape(body: Buffer): void {
  let depth = 0;
  let values = 0;
  for (let index = 0; index < body.length; index += 1) {
    const byte = body[index];
    if (byte === quote) index = endOfString(body, index);
    else if (byte === comma) values += 1;
    else if (byte === openBracket || byte === openBrace) {
      values += 1;
      depth += 1;
      if (depth > maxDepth) throw badRequest('The payload is nested too deeply.');
    } else if (byte === closeBracket || byte === closeBrace) depth -= 1;
    if (values > maxValues) throw badRequest('The payload has too many values.');
  }
}

/** The index of the quote that closes the string opened at `start`. */
function endOfString(body: Buffer, start: number): number {
  for (let end = body.indexOf('"', start + 1); end !== -1; end = body.indexOf('"', end + 1)) {
    let backslashes = 0;
    while (body[end - 1 - backslashes] === backslash) backslashes += 1;
    if (backslashes % 2 === 0) return end;
  }
  return body.length;
}
