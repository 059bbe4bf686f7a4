import { generateKeyPairSync } from 'node:crypto';

/** The keys of a GitHub App, whose private key comes as `pkcs1`. Short ones are found sooner. */
export const newAppKeys = (type: 'pkcs1' | 'pkcs8' = 'pkcs8') =>
  generateKeyPairSync('rsa', {
    modulusLength: 1024,
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type, format: 'pem' },
  });
