import { createRequire } from 'node:module';
import { sql } from 'drizzle-orm';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { subscribedEvents } from '../../src/webhooks/events.ts';
import { createTenant } from '../support/tenants.ts';
import { countRows, nothing, post, startForAcme } from './support.ts';

const service = await startForAcme();

const organization = { id: 1, login: 'acme' };
const pullRequest = { action: 'opened', pull_request: { id: 5, node_id: 'PR_5' }, organization };
const events = ['pull_request', 'pull_request_review', 'pull_request_review_comment', 'pull_request_review_thread'];

describe('a signed payload', () => {
  const bodies: [string, string | Buffer][] = [
    ['nothing', ''],
    ['blanks', '  \n'],
    ['no JSON', 'payload={}'],
    ['JSON cut short', JSON.stringify(pullRequest).slice(0, -1)],
    ['two values', '{}{}'],
    ['null', 'null'],
    ['true', 'true'],
    ['a number', '5'],
    ['a text', '"{}"'],
    ['an array', '[{}]'],
    ['100,000 brackets', `${'['.repeat(100_000)}${']'.repeat(100_000)}`],
    ['100,000 nested objects', `${'{"a":'.repeat(100_000)}1${'}'.repeat(100_000)}`],
    [
      'a deeply nested value beside good ones',
      `{"a":${'['.repeat(5_000)}${']'.repeat(5_000)},${JSON.stringify(pullRequest).slice(1)}`,
    ],
    ['a __proto__ key', `{"__proto__":{"x":1},${JSON.stringify(pullRequest).slice(1)}`],
    ['a __proto__ key in escapes', `{"\\u005f_proto__":{"x":1},${JSON.stringify(pullRequest).slice(1)}`],
    ['a nested __proto__ key', JSON.stringify(pullRequest).replace('"id":5', '"id":5,"a":[{"__proto__":1}]')],
    ['a name that is not UTF-8', Buffer.from('{"\xff', 'latin1')],
  ];
  test.each(bodies)('that is or has %s is 400 and leaves no row', async (_, body) => {
    for (const event of ['pull_request', 'organization', 'push']) {
      expect((await post(service, { event }, { body })).status).toBe(400);
    }
    expect(await countRows(service)).toEqual(nothing);
  });

  const headers: [string, Record<string, string | string[] | undefined>][] = [
    ['no event', { 'x-github-event': undefined }],
    ['an empty event', { 'x-github-event': '' }],
    ['an event in capitals', { 'x-github-event': 'Pull_Request' }],
    ['two events', { 'x-github-event': ['pull_request', 'ping'] }],
    ['no delivery', { 'x-github-delivery': undefined }],
    ['an empty delivery', { 'x-github-delivery': '' }],
    ['a delivery of 101 characters', { 'x-github-delivery': 'a'.repeat(101) }],
    ['a delivery of odd characters', { 'x-github-delivery': "';--" }],
    ['two deliveries', { 'x-github-delivery': ['a', 'b'] }],
  ];
  test.each(headers)('with %s in its headers is 400', async (_, changed) => {
    const { status, message } = await post(
      service,
      { event: 'pull_request', payload: pullRequest },
      { headers: changed },
    );
    expect(status).toBe(400);
    expect(message).toMatch(/^The header x-github-(event|delivery) is missing or malformed\.$/);
    expect(await countRows(service)).toEqual(nothing);
  });

  const without = (change: object) => ({ ...pullRequest, ...change });
  const parts: [string, object][] = [
    ['no pull request', without({ pull_request: undefined })],
    ['a pull request that is null', without({ pull_request: null })],
    ['no id', without({ pull_request: { node_id: 'PR_5' } })],
    ['an id as text', without({ pull_request: { id: '5', node_id: 'PR_5' } })],
    ['an id of 0', without({ pull_request: { id: 0, node_id: 'PR_5' } })],
    ['an id past 2^53', without({ pull_request: { id: 2 ** 53, node_id: 'PR_5' } })],
    ['half an id', without({ pull_request: { id: 1.5, node_id: 'PR_5' } })],
    ['no node id', without({ pull_request: { id: 5 } })],
    ['an empty node id', without({ pull_request: { id: 5, node_id: '' } })],
    ['a node id with NUL', without({ pull_request: { id: 5, node_id: 'PR\u0000' } })],
    ['a node id of 201 characters', without({ pull_request: { id: 5, node_id: 'a'.repeat(201) } })],
    ['an action that is not a word', without({ action: '\u0000' })],
    ['an action that is an object', without({ action: {} })],
    ['an organisation that is a text', without({ organization: 'acme' })],
    ['an organisation without an id', without({ organization: { login: 'acme' } })],
    ['an organisation whose login has NUL', without({ organization: { id: 1, login: 'ac\u0000me' } })],
    ['a time that is not one', without({ pull_request: { id: 5, node_id: 'PR_5', updated_at: 'yesterday' } })],
    ['a time in month 13', without({ pull_request: { id: 5, node_id: 'PR_5', updated_at: '2026-13-01T00:00:00Z' } })],
    ['a day instead of a time', without({ pull_request: { id: 5, node_id: 'PR_5', updated_at: '2026-01-01' } })],
    ['neither organisation nor repository', without({ organization: undefined })],
    ['an owner without an id', without({ repository: { owner: { login: 'acme' } } })],
  ];
  test.each(parts)('of a pull request with %s is 400', async (_, payload) => {
    for (const event of events) expect((await post(service, { event, payload })).status).toBe(400);
    expect(await countRows(service)).toEqual(nothing);
  });

  test('of a comment, a label or a milestone without its fields is 400', async () => {
    const repository = { id: 1, owner: organization };
    const issue = { node_id: 'PR_5', number: 5, pull_request: {} };
    for (const [event, payload] of [
      ['issue_comment', { action: 'created', organization, issue }],
      ['issue_comment', { action: 'created', organization, repository }],
      ['issue_comment', { action: 'deleted', repository, issue: { ...issue, number: 2 ** 31 } }],
      ['issue_comment', { action: 'deleted', repository, issue: { ...issue, updated_at: 5 } }],
      ['issue_comment', { action: 'created', repository: { owner: organization }, issue }],
      ['label', { action: 'deleted', organization, repository }],
      ['label', { action: 'deleted', repository, label: {} }],
      ['label', { action: 'deleted', repository: { owner: organization }, label: { name: 'bug' } }],
      ['label', { action: 'edited', organization, label: { name: 'bug' } }],
      ['label', { action: 'edited', repository, label: { name: 'bug' }, changes: { name: 'bug' } }],
      ['label', { action: 'edited', repository, label: { name: 'bug' }, changes: { name: { from: 5 } } }],
      ['milestone', { action: 'deleted', repository, milestone: { title: null } }],
      ['milestone', { action: 'deleted', repository: { owner: organization }, milestone: { title: '1.0' } }],
      ['milestone', { action: 'edited', repository, milestone: { title: '1.0' }, changes: { title: { from: 5 } } }],
    ] as const) {
      expect([event, (await post(service, { event, payload })).status]).toEqual([event, 400]);
    }
    expect(await countRows(service)).toEqual(nothing);
  });

  test('may have any other keys, and the last of two equal ones counts, as in JSON.parse', async () => {
    const text = JSON.stringify({ ...pullRequest, constructor: { prototype: 1 }, toString: 1, '\u0000': '\ud800' });
    const doubled = text.replace('"id":5', '"id":"x","id":6');
    for (const body of [text, doubled]) {
      expect((await post(service, { event: 'pull_request' }, { body })).status).toBe(202);
    }
    expect(await countRows(service)).toMatchObject({ deliveries: 2, requests: 2 });
  });

  test('may name the first second of 1970', async () => {
    const first = { ...pullRequest.pull_request, updated_at: '1970-01-01T00:00:00Z' };
    const payload = { ...pullRequest, pull_request: first };
    expect((await post(service, { event: 'pull_request', payload })).status).toBe(202);
  });

  test('of any form never causes a 500', async () => {
    const id = fc.oneof(fc.integer(), fc.constantFrom(1, 5, 2 ** 40, 'x', null), fc.float());
    const word = fc.oneof(
      fc.string(),
      fc.constantFrom('acme', 'acme/web', 'PR_5', 'https://a.example/', '\u0000', '\ud800'),
    );
    const thing = fc.record(
      { id, node_id: word, login: word, full_name: word, avatar_url: word },
      { requiredKeys: [] },
    );
    const owned = fc.record({ id, node_id: word, full_name: word, owner: thing }, { requiredKeys: [] });
    const payload = fc.record(
      {
        action: fc.oneof(word, fc.constantFrom('opened', 'member_added', 'renamed', 'created', 'deleted', 'edited')),
        organization: fc.oneof(thing, fc.constant({ id: 1, login: 'acme' })),
        repository: owned,
        pull_request: thing,
        issue: fc.record({ number: id, node_id: word, updated_at: word, pull_request: thing }, { requiredKeys: [] }),
        label: fc.record({ name: word }),
        milestone: fc.record({ title: word }),
        changes: fc.record({ name: fc.record({ from: word }), title: fc.record({ from: word }) }),
      },
      { requiredKeys: [] },
    );
    const event = fc.constantFrom(...events, ...subscribedEvents.keys(), 'ping', 'push', 'anything_else');
    await fc.assert(
      fc.asyncProperty(event, fc.oneof(payload, payload, fc.object()), async (name, value) => {
        expect([200, 202, 400]).toContain((await post(service, { event: name, payload: value })).status);
      }),
      { numRuns: 200 },
    );
    // Refusals are logged, with their reason.
    expect(service.complaints.filter(({ status }) => status !== 400)).toEqual([]);
  });
});

describe('what is not used', () => {
  test('an event that is not used is acknowledged with 200 and the reason, and leaves no row', async () => {
    const pings = await post(service, { event: 'ping', payload: { zen: 'Design for failure.' } });
    expect([pings.status, pings.message]).toEqual([200, 'Pong: deliveries arrive and their signature matches.']);
    for (const [event, action, reason] of [
      ['issues', 'opened', 'issues opened'],
      ['an_event_of_tomorrow', undefined, 'an_event_of_tomorrow'],
      ['organization', 'member_invited', 'organization member_invited'],
      ['repository', 'publicized', 'repository publicized'],
      ['push', undefined, 'push'],
      ['push', 'On-demand test', 'push'],
      ['push', 'test on demand', 'push'],
      ['push', 5, 'push'],
      ['pull_request_target', 'opened', 'pull_request_target opened'],
      ['a_pull_request', 'opened', 'a_pull_request opened'],
      ['issue_comment', 'edited', 'issue_comment edited'],
    ] as const) {
      const { status, message } = await post(service, { event, payload: { action, organization } });
      expect([status, message]).toEqual([200, `Ignored: pullscore does not use ${reason}.`]);
    }
    expect(await countRows(service)).toEqual(nothing);
  });

  test('a change of a label or a milestone other than its name is ignored with the reason', async () => {
    const repository = { id: 1, owner: organization };
    const things = { label: { name: 'bug' }, milestone: { title: '1.0' } };
    for (const event of ['label', 'milestone']) {
      for (const changes of [undefined, {}, { description: { from: 'Before' } }]) {
        const payload = { action: 'edited', repository, ...things, changes };
        const { status, message } = await post(service, { event, payload });
        expect([status, message]).toEqual([200, `Ignored: pullscore does not need this change to a ${event}.`]);
      }
    }
    expect(await countRows(service)).toEqual(nothing);
  });

  test('an event of an organisation that is not tracked is ignored with the reason', async () => {
    const repository = { id: 1, owner: { id: 2, login: 'other' } };
    const comment = { action: 'created', repository, issue: { node_id: 'PR_5', number: 5, pull_request: {} } };
    for (const { event, payload } of [
      { event: 'issue_comment', payload: comment },
      { event: 'repository', payload: { action: 'renamed', repository } },
    ]) {
      const { status, message } = await post(service, { event, payload });
      expect([status, message]).toEqual([200, 'Ignored: this organisation is not tracked here.']);
    }
  });
});

describe('a requested comparison', () => {
  test.each([
    ['organization', 'renamed', 'at once'],
    ['repository', 'renamed', 'at once'],
    ['repository', 'transferred', 'at once'],
    ['repository', 'deleted', 'at once'],
    ['repository', 'archived', 'at once'],
    ['repository', 'unarchived', 'at once'],
    ['organization', 'member_added', 'once members may be listed again'],
    ['organization', 'member_removed', 'once members may be listed again'],
  ])('becomes due after %s %s: %s', async (event, action, due) => {
    const { organisation } = await createTenant(service, { login: `${event}-${action}` });
    await service.database.executor.execute(
      "update organisations set comparison_due_at = now() + interval '2 hours', members_due_at = now() + interval '1 hour'",
    );
    const payload = { action, organization: { id: 9, login: organisation.login } };
    expect((await post(service, { event, payload })).status).toBe(202);
    const { rows } = await service.database.executor.execute<{ minutes: number }>(sql`
      select round(extract(epoch from comparison_due_at - now()) / 60)::int as minutes from organisations
      where id = ${organisation.id}`);
    expect(rows).toEqual([{ minutes: due === 'at once' ? 0 : 60 }]);
  });
});

describe("GitHub's published examples", () => {
  const require = createRequire(import.meta.url);
  const published: { name: string; examples: object[] }[] = require('@octokit/webhooks-examples');

  test('are all acknowledged with 200 and a reason', async () => {
    const reasons = new Map<string, number>();
    for (const { name, examples } of published) {
      for (const payload of examples) {
        const { status, message } = await post(service, { event: name, payload });
        expect([name, status]).toEqual([name, 200]);
        const reason = message.replace(/does not (use|need) .*/, 'does not $1 …');
        reasons.set(reason, (reasons.get(reason) ?? 0) + 1);
      }
    }
    expect([...reasons.keys()].toSorted()).toEqual([
      'Ignored: pullscore does not need …',
      'Ignored: pullscore does not use …',
      'Ignored: the comment is not on a pull request.',
      'Ignored: this organisation is not tracked here.',
      'Pong: deliveries arrive and their signature matches.',
    ]);
    expect(await countRows(service)).toEqual(nothing);
  });

  test('of pull requests are taken if their owner is tracked', async () => {
    const { pull_request: examples = [] } = Object.fromEntries(published.map(each => [each.name, each.examples]));
    await createTenant(service, { login: 'Codertocat', githubId: 21_031_067 });
    await createTenant(service, { login: 'octo-org' });
    const statuses = [];
    for (const payload of examples) statuses.push((await post(service, { event: 'pull_request', payload })).status);
    expect(statuses.filter(status => status === 202).length).toBeGreaterThan(10);
    expect(statuses.filter(status => status !== 202 && status !== 200)).toEqual([]);
  });
});
