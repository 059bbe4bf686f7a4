import { generateKeyPairSync } from 'node:crypto';

/** The keys of a GitHub App. Its private key comes as `pkcs1`. Short ones are found sooner. */
export const newAppKeys = (type: 'pkcs1' | 'pkcs8' = 'pkcs8', modulusLength = 1_024) =>
  generateKeyPairSync('rsa', {
    modulusLength,
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type, format: 'pem' },
  });
