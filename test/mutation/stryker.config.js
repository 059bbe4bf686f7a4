/** `npm run mutation`: changes the pure code in small ways, and shows which of the changes no test notices. See README.md. */
export default {
  mutate: [
    'src/scoring/**/*.ts',
    'src/api/{error-handlers,pagination}.ts',
    'src/github/{decode,further-pages,github-error,organisation,pages,pull-request,reply-entries}.ts',
    'src/sync/decide-turn.ts',
    'src/config.ts',
    'src/webhooks/events.ts',
  ],
  plugins: ['@stryker-mutator/vitest-runner'],
  testRunner: 'vitest',
  vitest: { configFile: 'test/mutation/vitest.config.ts', related: false },
  // Stryker would rewrite it with TypeScript's own reader, which TypeScript 7 no longer has.
  tsconfigFile: 'none',
  coverageAnalysis: 'perTest',
  // Below this, tests were lost.
  thresholds: { high: 95, low: 85, break: 80 },
  concurrency: 1,
  ignorePatterns: ['bench', 'dist', 'soak'],
  reporters: ['clear-text', 'progress-append-only', 'html', 'json'],
  clearTextReporter: { logTests: false, reportTests: false },
  tempDirName: '.mutation/sandbox',
  htmlReporter: { fileName: '.mutation/report.html' },
  jsonReporter: { fileName: '.mutation/report.json' },
};
