import { createRequire } from 'node:module';
import { dirname } from 'node:path';

const require = createRequire(import.meta.url);

/** The folder of package.json, which is beside the sources and the build. */
export const packageFolder = dirname(require.resolve('#package.json'));

export const { version, license } = require('#package.json') as {
  version: string;
  license: string;
};
