import { hash, randomInt } from 'node:crypto';
import { crc32 } from 'node:zlib';

/*
 * `ps_`, 32 random base62 characters, and 6 characters with the CRC-32 of the rest: mistyped and made-up tokens are
 * refused without a query, and secret scanners recognise real ones. The layout is GitHub's
 * (https://github.blog/engineering/platform-security/behind-githubs-new-authentication-token-formats/).
 */

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const shape = /^ps_[0-9A-Za-z]{38}$/;

export const scopes = ['read', 'sync', 'delete', 'rules:read', 'rules:write'] as const;
export type Scope = (typeof scopes)[number];

function checksum(text: string): string {
  let remainder = crc32(text);
  let digits = '';
  for (let place = 0; place < 6; place += 1) {
    digits = alphabet.charAt(remainder % 62) + digits;
    remainder = Math.floor(remainder / 62);
  }
  return digits;
}

export function generateAccessToken(): string {
  const secret = Array.from({ length: 32 }, () => alphabet.charAt(randomInt(alphabet.length))).join('');
  return `ps_${secret}${checksum(`ps_${secret}`)}`;
}

export function isAccessToken(text: string): boolean {
  return shape.test(text) && checksum(text.slice(0, -6)) === text.slice(-6);
}

/** The form in which a token is stored: SHA-256 in hexadecimal. */
export const hashAccessToken = (token: string): string => hash('sha256', token, 'hex');
