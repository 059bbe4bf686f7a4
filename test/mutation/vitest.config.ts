import { defineConfig } from 'vitest/config';

/** The tests of the pure code: those of webhook events have a database. */
export default defineConfig({
  test: {
    include: [
      'test/scoring/**/*.test.ts',
      'test/github/{decode,further-pages,github-error,pull-request,reply-entries}.test.ts',
      'test/sync/decide-next-try.test.ts',
      'test/api/{error-handlers,paginate,requests}.test.ts',
      'test/docs/**/*.test.ts',
      'test/config.test.ts',
      'test/webhooks/{deliveries,payloads,signature}.test.ts',
    ],
    // Measures time, which instrumented code takes more of.
    exclude: ['test/scoring/hostile.test.ts'],
    // It reads the sources in a process of its own, which finds none in Stryker's folder.
    testNamePattern: /^(?!.*would hurt the process)/,
    globalSetup: ['test/support/database-server.ts'],
    setupFiles: ['test/mutation/setup.ts', 'test/support/patterns.ts'],
    isolate: false,
    testTimeout: 60_000,
  },
});
