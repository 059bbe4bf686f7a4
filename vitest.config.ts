import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/support/database-server.ts'],
    // Real servers and processes take their time on a busy machine; what hangs is still told.
    testTimeout: process.env.CI ? 60_000 : 20_000,
    hookTimeout: 60_000,
    // Processes, sockets and time limits are real: a CI machine that stalls for a moment gets another try.
    retry: process.env.CI ? 2 : 0,
    // For two cores: some tests wait for time limits, and three files at once keep both busy.
    maxWorkers: 3,
  },
});
