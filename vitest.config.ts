import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/support/database-server.ts'],
    // Real servers and processes take their time on a busy machine; what hangs is still reported.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // Polls end as soon as it is so; a second, the default, is little for a busy machine.
    expect: { poll: { timeout: 20_000 } },
    // Processes, sockets and time limits are real: a CI machine that stalls for a moment gets another try. Not so if
    // fast-check has found a counterexample: another try draws other cases, and it would be lost.
    retry: process.env.CI ? { count: 2, condition: /^(?!Property failed after )/ } : 0,
    // For two cores: some tests wait for time limits, and three files at once keep both busy.
    maxWorkers: 3,
  },
});
