import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { closing, startService } from './support/service.ts';

test('the committed OpenAPI document is the one that the service serves', async () => {
  const { app } = closing(await startService());
  const committed = JSON.parse(readFileSync('openapi/openapi.json', 'utf8'));
  expect((await app.inject('/openapi.json')).json()).toEqual(committed);
  expect(committed.info.version).toBe('0.0.1');
  expect(committed.paths['/2025-04/members/{member}/pull-requests'].get.operationId).toBe(
    'v202504.members.pull-requests.index',
  );
});
