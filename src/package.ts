import { createRequire } from 'node:module';
import { dirname } from 'node:path';

const require = createRequire(import.meta.url);

/** From package.json, which is beside the sources and the build. */
export const { version, license } = require('#package.json') as { version: string; license: string };

export const packageFolder = dirname(require.resolve('#package.json'));
