import fc from 'fast-check';
import { vi } from 'vitest';

// A change is noticed by the first counterexample, and the same ones are looked for each time.
fc.configureGlobal({ endOnFailure: true, interruptAfterTimeLimit: 300, seed: 1 });

// Instrumented code is slower: what tests say of time does not count here.
vi.mock('../scoring/processor-time.ts', () => ({ processorTime: () => 0 }));
