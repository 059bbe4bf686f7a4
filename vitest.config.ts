import { defineConfig } from 'vitest/config';

// Nothing may depend on the zone of the machine. This one is 5:45 ahead of UTC.
process.env.TZ = 'Asia/Kathmandu';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/support/database-server.ts'],
    setupFiles: ['test/support/statements.ts', 'test/support/patterns.ts'],
    // Real servers and processes take their time on a busy machine; what hangs is still reported.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // Polls end as soon as it is so; a second, the default, is little for a busy machine.
    expect: { poll: { timeout: 20_000 } },
    // Each worker loads the modules once, not once for each file: a third of the time.
    isolate: false,
    // For two cores: some tests wait for time limits, and four files at once keep both busy.
    maxWorkers: 4,
  },
});
