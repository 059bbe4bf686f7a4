import { generateKeyPairSync } from 'node:crypto';

/** The keys of a GitHub App. GitHub gives the private key as `pkcs1`. Short keys take less time to make. */
export const newAppKeys = (type: 'pkcs1' | 'pkcs8' = 'pkcs8', modulusLength = 1_024) =>
  generateKeyPairSync('rsa', {
    modulusLength,
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type, format: 'pem' },
  });
