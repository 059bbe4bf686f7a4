import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { closing, startReplica } from './support/service.ts';

test('the document of 2025-04 is the one from before there was a second version', () => {
  const bytes = readFileSync('openapi/openapi.json');
  expect(createHash('sha256').update(bytes).digest('hex')).toBe(
    '130535dd9cea559e5ba2b81333be55100f6babee3b947aea28f5e53536daec5f',
  );
});

test('the committed OpenAPI document is the one that the service serves', async () => {
  const { app } = closing(await startReplica('postgres://nobody@127.0.0.1:1/none'));
  const committed = JSON.parse(readFileSync('openapi/openapi.json', 'utf8'));
  expect((await app.inject('/openapi.json')).json()).toEqual(committed);
});
