import { randomBytes, verify } from 'node:crypto';
import type { Organisation } from './organisation.ts';

/** Who asks: the App itself, with a token that it signed; or a reader, of one organisation or of all. */
type Authority = { kind: 'app' } | { kind: 'reader'; organisation: Organisation | undefined };

export type Authorities = ReturnType<typeof createAuthorities>;

const decode = (segment: string | undefined) => JSON.parse(Buffer.from(segment ?? '', 'base64url').toString());

/** GitHub's conditions: RS256, signed and issued by the App, valid for at most ten minutes. */
function isAppToken(token: string, app: { id: string; publicKey: string }): boolean {
  const [head, claims, signed] = token.split('.');
  if (signed === undefined) return false;
  try {
    const { iss, iat, exp } = decode(claims);
    const now = Date.now() / 1000;
    const current = iat <= now && exp > now && exp - iat <= 600;
    const whole = verify('sha256', Buffer.from(`${head}.${claims}`), app.publicKey, Buffer.from(signed, 'base64url'));
    return decode(head).alg === 'RS256' && String(iss) === app.id && current && whole;
  } catch {
    return false;
  }
}

export function createAuthorities(personal: string, app: { id: string; publicKey: string } | undefined) {
  const readers = new Map<string, Organisation | undefined>([[personal, undefined]]);
  const apps = app ? [app] : [];
  return {
    /** Undefined if GitHub would answer 401. */
    of(authorization: string | undefined): Authority | undefined {
      const token = /^(?:token|bearer) (\S+)$/i.exec(authorization ?? '')?.[1];
      if (token === undefined) return undefined;
      if (readers.has(token)) return { kind: 'reader', organisation: readers.get(token) };
      return apps.some(each => isAppToken(token, each)) ? { kind: 'app' } : undefined;
    },
    addApp: (added: { id: string; publicKey: string }) => void apps.push(added),
    tokenFor(organisation: Organisation): string {
      const token = `ghs_${randomBytes(18).toString('hex')}`;
      readers.set(token, organisation);
      return token;
    },
    revokeInstallation(organisation: Organisation) {
      for (const [token, reader] of readers) if (reader === organisation) readers.delete(token);
    },
    revokeAll: () => readers.clear(),
  };
}
