import { syncBuiltinESMExports } from 'node:module';
import os from 'node:os';
import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import { expect, onTestFinished, test, vi } from 'vitest';
import { type Context, confirm, operatorName } from '../../src/commands/context.ts';

/** Asks on a terminal on which this is typed. @returns what it shows, and the refusal if there is one */
async function ask(typed: string) {
  const terminal = () => Object.assign(new PassThrough(), { isTTY: true, setRawMode: () => undefined });
  const [stdin, stderr] = [terminal(), terminal()];
  const reading = vi.spyOn(process, 'stdin', 'get').mockReturnValue(stdin as never);
  try {
    const asking = confirm({ stderr } as unknown as Context, 'Remove acme?', 'acme');
    stdin.write(typed);
    const refusal = await asking.catch((error: Error) => error.message);
    return { refusal, shown: await text(stderr.end()) };
  } finally {
    reading.mockRestore();
  }
}

test('a removal goes on if the operator types the login, in upper or lower case', async () => {
  const { refusal, shown } = await ask(' ACME\r');
  expect(refusal).toBeUndefined();
  expect(shown).toContain("Remove acme? This can't be undone. Type acme to go on: ");
});

test.each([
  ['another text', 'emca\r'],
  ['an empty line', '\r'],
  ['Ctrl-C', 'ac\u0003'],
  ['Ctrl-D', '\u0004'],
])('%s instead of the login removes nothing, and the command ends on a new line', async (_name, typed) => {
  const { refusal, shown } = await ask(typed);
  expect(refusal).toBe('Nothing was changed.');
  expect(shown).toMatch(/[^\n]\r?\n$/);
});

test('an operator without a name falls back to the uid', () => {
  const asking = vi.spyOn(os, 'userInfo').mockImplementation(() => {
    throw new Error('A system error occurred: uv_os_get_passwd returned ENOENT (no such file or directory)');
  });
  syncBuiltinESMExports();
  onTestFinished(() => {
    asking.mockRestore();
    syncBuiltinESMExports();
  });
  expect(operatorName()).toBe(`user ${process.getuid?.()}`);
});
