import { createHmac } from 'node:crypto';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { text } from 'node:stream/consumers';
import { describe, expect, test } from 'vitest';
import { listen, start } from './support.ts';

interface Received {
  headers: Record<string, unknown>;
  body: string;
}

async function receiver() {
  const received: Received[] = [];
  const server = createServer((request, response) => {
    void text(request).then(body => {
      received.push({ headers: request.headers, body });
      response.writeHead(202).end('{"message": "taken"}');
    });
  });
  return { url: `${await listen(server)}/webhooks/github`, received };
}

type Json = Record<string, unknown>;
const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Paths at which `ours` differs from the example in type, or that the example does not have. */
function differences(ours: Json, example: Json, path = ''): string[] {
  return Object.keys(ours).flatMap(key => {
    const [mine, theirs] = [ours[key], example[key]];
    const here = `${path}${key}`;
    if (!(key in example)) return [`${here} is not in the example`];
    if (mine === null || theirs === null) return [];
    if (isObject(mine) && isObject(theirs)) return differences(mine, theirs, `${here}.`);
    return typeof mine === typeof theirs && Array.isArray(mine) === Array.isArray(theirs)
      ? []
      : [`${here} is of another type`];
  });
}

/** All keys of all published examples of an event, because they come from different years. */
function exampleOf(event: string, action: string): Json {
  const all: { name: string; examples: Json[] }[] = createRequire(import.meta.url)('@octokit/webhooks-examples');
  const fitting = all
    .filter(each => each.name === event)
    .flatMap(each => each.examples)
    .filter(each => each.action === action);
  const merge = (into: Json, from: Json): Json => {
    for (const [key, value] of Object.entries(from)) {
      const known = into[key];
      into[key] = isObject(known) && isObject(value) ? merge({ ...known }, value) : (value ?? known ?? null);
    }
    return into;
  };
  return fitting.reduce((merged, each) => merge(merged, each), {});
}

describe('a webhook of the stand-in', () => {
  test("has GitHub's published form", async () => {
    const { github, acme, web } = await start();
    const alice = acme.member('alice');
    const bob = github.account('bob');
    const joined = acme.join(bob);
    const pullRequest = web.openPullRequest({ author: alice, body: 'Text' });
    const events = [
      pullRequest.opened,
      pullRequest.push(),
      pullRequest.review(bob, 'APPROVED'),
      pullRequest.convertToDraft(),
      pullRequest.markReady(),
      pullRequest.merge(),
      pullRequest.comment(bob),
      pullRequest.deleteComment(bob),
      joined,
      web.renameLabel('bug', 'defect'),
      web.deleteLabel('defect'),
      web.deleteMilestone('v1'),
      web.rename('site'),
    ];
    // Keys that are newer than the examples or in none of them, and our own names of hooks.
    const newer = new RegExp(
      [
        'custom_properties|web_commit_signoff_required|before|after|organization is not in|changes.name is not in',
        'issue.pull_request is not in|reactions|performed_via_github_app|timeline_url|state_reason',
      ].join('|'),
    );
    for (const each of events) {
      if (!each) throw new Error('no event');
      const example = exampleOf(each.event, String(each.action));
      expect(Object.keys(example).length, `${each.event} ${each.action}`).toBeGreaterThan(0);
      const wrong = differences(each.payload as unknown as Json, example).filter(path => !newer.test(path));
      expect(wrong, `${each.event} ${each.action}`).toEqual([]);
    }
  });

  test('identifies its pull request as GitHub does', async () => {
    const { acme, web } = await start();
    const alice = acme.member('alice');
    const pullRequest = web.openPullRequest({ author: alice, title: 'Fix' });
    expect(pullRequest.opened).toMatchObject({
      event: 'pull_request',
      action: 'opened',
      payload: {
        action: 'opened',
        number: 1,
        pull_request: { id: pullRequest.id, node_id: pullRequest.nodeId, title: 'Fix', state: 'open', merged: false },
        repository: { id: web.id, node_id: web.nodeId, full_name: 'acme/web' },
        organization: { id: acme.id, login: 'acme' },
        sender: { id: alice.id, login: 'alice' },
      },
    });
    expect(JSON.stringify(pullRequest.opened?.payload).length).toBeGreaterThan(15_000);
  });

  test('a stand-in webhook about a comment is an event of an issue; a deletion changes no time', async () => {
    const { github, acme, web } = await start();
    github.clock.set(1_700_000_000);
    const bob = acme.member('bob');
    const pullRequest = web.openPullRequest({ comments: 4 });
    github.clock.advance(10);
    const created = pullRequest.comment(bob);
    github.clock.advance(10);
    const deleted = pullRequest.deleteComment(bob);
    const issue = {
      id: pullRequest.issueId,
      node_id: pullRequest.nodeId,
      number: 1,
      updated_at: '2023-11-14T22:13:30Z',
      pull_request: { html_url: pullRequest.url, merged_at: null },
    };
    expect([created, deleted]).toMatchObject([
      { event: 'issue_comment', action: 'created', payload: { action: 'created', issue: { ...issue, comments: 5 } } },
      { event: 'issue_comment', action: 'deleted', payload: { action: 'deleted', issue: { ...issue, comments: 4 } } },
    ]);
    expect(created.payload).not.toHaveProperty('pull_request');
    expect(pullRequest.issueId).not.toBe(pullRequest.id);
    expect(pullRequest).toMatchObject({ comments: 4, updatedAt: 1_700_000_010 });
  });

  test('the stand-in changes a label or milestone on all its pull requests, without a new time', async () => {
    const { github, web } = await start();
    github.clock.set(1_700_000_000);
    const tagged = web.openPullRequest({ labels: ['bug', 'big'], milestone: 'v1' });
    const other = web.openPullRequest({ labels: ['big'], milestone: 'v2' });
    const { labels, milestone } = tagged.opened?.payload.pull_request ?? {};
    github.clock.advance(10);
    expect(web.renameLabel('bug', 'defect')).toMatchObject({
      event: 'label',
      action: 'edited',
      payload: {
        action: 'edited',
        label: { id: labels?.[0]?.id, node_id: labels?.[0]?.node_id, name: 'defect', color: 'ededed' },
        changes: { name: { from: 'bug' } },
        repository: { id: web.id },
        organization: { login: 'acme' },
      },
    });
    expect(web.renameMilestone('v1', 'v1.0')).toMatchObject({
      event: 'milestone',
      action: 'edited',
      payload: {
        action: 'edited',
        milestone: { id: milestone?.id, node_id: milestone?.node_id, number: 1, title: 'v1.0' },
        changes: { title: { from: 'v1' } },
        repository: { id: web.id },
      },
    });
    expect([tagged, other]).toMatchObject([
      { labels: ['defect', 'big'], milestone: 'v1.0', updatedAt: 1_700_000_000 },
      { labels: ['big'], milestone: 'v2', updatedAt: 1_700_000_000 },
    ]);

    expect([web.deleteLabel('big'), web.deleteMilestone('v2')]).toMatchObject([
      { event: 'label', action: 'deleted', payload: { action: 'deleted', label: { name: 'big' } } },
      { event: 'milestone', action: 'deleted', payload: { action: 'deleted', milestone: { title: 'v2', number: 2 } } },
    ]);
    expect([tagged, other]).toMatchObject([
      { labels: ['defect'], milestone: 'v1.0', updatedAt: 1_700_000_000 },
      { labels: [], milestone: null, updatedAt: 1_700_000_000 },
    ]);
    expect(() => web.renameLabel('defect', 'defect')).toThrow('The label defect already exists');
  });

  test('the stand-in delivers a ping and each webhook once, signed over their exact bytes', async () => {
    const { github, acme, web } = await start();
    const { url, received } = await receiver();
    github.webhookTo(url, 'It is a secret', acme);
    const pullRequest = web.openPullRequest({ title: 'Ünïcode 👩‍💻' });
    pullRequest.push();
    github.organisation('other').repository('web').openPullRequest();
    await github.delivered();
    expect(received.map(each => each.headers['x-github-event']).sort()).toEqual([
      'ping',
      'pull_request',
      'pull_request',
    ]);
    for (const { headers, body } of received) {
      const digest = createHmac('sha256', 'It is a secret').update(body).digest('hex');
      expect(headers).toMatchObject({ 'x-hub-signature-256': `sha256=${digest}`, 'content-type': 'application/json' });
      expect(headers['user-agent']).toMatch(/^GitHub-Hookshot\//);
    }
    expect(new Set(received.map(each => each.headers['x-github-delivery'])).size).toBe(3);
    expect(github.deliveries.map(each => each.status)).toEqual([202, 202, 202]);
  });

  test('that nobody accepts fails alone', async () => {
    const { github, web } = await start();
    await github.close();
    const { opened } = web.openPullRequest();
    if (!opened) throw new Error('no event');
    const delivery = await github.deliver(`${github.apiUrl}/webhooks`, 's', opened);
    expect(delivery).toMatchObject({ status: 0, event: 'pull_request', action: 'opened' });
  });
});
