import fc from 'fast-check';
import { vi } from 'vitest';

// The first counterexample is enough, and each run tries the same ones.
fc.configureGlobal({ endOnFailure: true, interruptAfterTimeLimit: 300, seed: 1 });

// Instrumented code is slower, so time limits do not count here.
vi.mock('../scoring/processor-time.ts', () => ({
  within: <Result>(_limitMs: number, run: () => Result) => run(),
  quickestMs: () => 0,
}));
