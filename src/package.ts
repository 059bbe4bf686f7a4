import { createRequire } from 'node:module';

/** From package.json, which is beside the sources and the build. */
export const { version, license } = createRequire(import.meta.url)('#package.json') as {
  version: string;
  license: string;
};
