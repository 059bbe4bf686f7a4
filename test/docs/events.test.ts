import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { subscribedEvents } from '../../src/webhooks/events.ts';

test('docs/github.md lists exactly the subscribed events, with the titles on GitHub', () => {
  const [, section = ''] = /^## With a token\n([\s\S]*?)^## /m.exec(readFileSync('docs/github.md', 'utf8')) ?? [];
  expect([...section.matchAll(/^- (.*)$/gm)].map(([, name]) => name)).toEqual([...subscribedEvents.values()]);
});
