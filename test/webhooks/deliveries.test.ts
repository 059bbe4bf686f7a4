import { randomUUID } from 'node:crypto';
import { eq, sql } from 'drizzle-orm';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { getOrganisation, setWebhooksEnabled } from '../../src/database/organisations.ts';
import { organisations, pullRequests, syncRequests } from '../../src/database/schema.ts';
import { compareOrganisation } from '../../src/sync/compare.ts';
import type { PullRequestWebhook } from '../support/github/events.ts';
import { htmlError } from '../support/github/faults.ts';
import type { Repository } from '../support/github/repository.ts';
import { rescoreBatch } from '../support/rescore.ts';
import { closing, startReplica } from '../support/service.ts';
import { createTenant } from '../support/tenants.ts';
import { startWorld } from '../support/world.ts';
import { rule } from '../sync/support.ts';
import { countRows, post } from './support.ts';

const world = await startWorld();
const { service, executor, github, acme, web, organisation } = world;
beforeAll(async () => {
  github.clock.set(1_790_000_000);
  acme.member('ada', { name: 'Ada Lovelace' });
});
beforeEach(async () => {
  github.clock.advance(10);
  await executor.execute(sql`truncate webhook_deliveries, sync_requests`);
});

const taken = { status: 202, message: 'Accepted.' };
const appliedBefore = { status: 200, message: 'Ignored: this delivery has already been applied.' };

const titles = async () => (await world.listed()).map(({ title }) => title);
async function states() {
  const { rows } = await executor.execute<{ state: string }>(
    sql`select state from webhook_deliveries order by received_at`,
  );
  return rows.map(({ state }) => state);
}

describe('a delivery about a pull request', () => {
  test('is taken, and its pull request is stored once the loop has run', async () => {
    const opened = web.openPullRequest({ title: 'Opened' }).open();
    expect(await post(service, opened)).toMatchObject(taken);
    expect(await states()).toEqual(['pending']);
    expect(await titles()).not.toContain('Opened');
    expect(await world.workOff()).toBe(1);
    expect(await titles()).toContain('Opened');
    expect(await states()).toEqual(['applied']);
    expect(await countRows(service)).toMatchObject({ requests: 0 });
  });

  test('deliveries of all five events are taken, and those for one pull request fold into one fetch', async () => {
    const bob = acme.member('bob');
    const source = web.openPullRequest({ title: 'Reviewed' });
    const events = [
      source.open(),
      source.push({ additions: 3 }),
      source.review(bob, 'APPROVED'),
      source.reviewComment(bob),
      source.resolveThread(bob),
      source.dismissReview(bob),
      source.label('bug'),
      source.comment(bob),
      source.deleteComment(bob),
      source.merge(),
    ];
    for (const event of events) expect(await post(service, event ?? source.open())).toMatchObject(taken);
    expect(new Set(events.map(event => event?.event)).size).toBe(5);
    expect(await countRows(service)).toMatchObject({ deliveries: 10, requests: 1 });
    const asked = github.count();
    // GitHub has had its time for the deleted comment.
    await executor.execute(sql`update sync_requests set due_at = now()`);
    await world.workOff();
    expect(github.count()).toBe(asked + 1);
    expect(new Set(await states())).toEqual(new Set(['applied']));
  });

  test('is applied once, however often it is sent', async () => {
    const guid = randomUUID();
    const opened = web.openPullRequest().open();
    expect(await post(service, opened, { guid })).toMatchObject(taken);
    await world.workOff();
    for (let again = 0; again < 3; again += 1) {
      expect(await post(service, opened, { guid })).toMatchObject(appliedBefore);
    }
    expect(await world.workOff()).toBe(0);
    expect(await states()).toEqual(['applied']);
  });

  test('deliveries with one GUID to two replicas at once are one delivery and one request', async () => {
    const replica = closing(await startReplica(service.database.url));
    for (let round = 0; round < 10; round += 1) {
      const guid = randomUUID();
      const opened = web.openPullRequest().open();
      const replies = await Promise.all([service, replica, service, replica].map(each => post(each, opened, { guid })));
      for (const { status } of replies) expect(status).toBe(202);
    }
    expect(await countRows(service)).toMatchObject({ deliveries: 10, requests: 10 });
    await world.workOff();
    const { rows } = await executor.execute<{ changes: number }>(sql`select count(*)::int as changes
      from score_changes where organisation_id = ${organisation.id} group by pull_request_id having count(*) > 1`);
    expect(rows).toEqual([]);
  });

  test('that is not yet applied is taken again, and applied after a failed first try', async () => {
    const guid = randomUUID();
    const opened = web.openPullRequest({ title: 'Second try' }).open();
    expect(await post(service, opened, { guid })).toMatchObject(taken);
    github.fault(htmlError(503));
    await world.workOff();
    expect(await titles()).not.toContain('Second try');
    expect(await states()).toEqual(['pending']);
    expect(await world.workOff()).toBe(0);
    expect(await post(service, opened, { guid })).toMatchObject(taken);
    await executor.update(syncRequests).set({ dueAt: sql`now()` });
    await world.workOff();
    expect(await titles()).toContain('Second try');
    expect(await post(service, opened, { guid })).toMatchObject(appliedBefore);
  });

  test('whose pull request GitHub did not show is taken again once it does', async () => {
    const guid = randomUUID();
    web.lag();
    const source = web.openPullRequest({ title: 'Out of reach' });
    expect(await post(service, source.open(), { guid })).toMatchObject(taken);
    await executor.update(syncRequests).set({ requestedAt: sql`now() - interval '2 hours'` });
    await world.workOff();
    expect(await states()).toEqual(['gone']);
    web.catchUp();
    expect(await post(service, source.open(), { guid })).toMatchObject(taken);
    expect(await states()).toEqual(['pending']);
    await world.workOff();
    expect(await titles()).toContain('Out of reach');
    expect(await states()).toEqual(['applied']);
  });

  const mistake = ({ event, payload }: PullRequestWebhook, nodeId: string) => ({
    event,
    payload: { ...payload, pull_request: { ...payload.pull_request, node_id: nodeId } },
  });

  test('with the wrong node id ends alone, before the genuine one or after it', async () => {
    const source = web.openPullRequest({ title: 'Genuine, first' });
    const later = web.openPullRequest({ title: 'Genuine, second' });
    const other = web.openPullRequest({ title: 'Another' });
    const guid = randomUUID();
    expect(await post(service, source.open())).toMatchObject(taken);
    expect(await post(service, mistake(source.open(), other.nodeId))).toMatchObject(taken);
    expect(await post(service, mistake(later.open(), other.nodeId), { guid })).toMatchObject(taken);
    expect(await post(service, later.open())).toMatchObject(taken);
    const asked = github.count();
    await world.workOff();
    expect(await titles()).toEqual(expect.arrayContaining(['Genuine, first', 'Genuine, second']));
    expect(github.count()).toBe(asked + 2);
    const { rows } = await executor.execute(sql`select guid from webhook_deliveries where state <> 'applied'`);
    expect(rows).toEqual([{ guid }]);
    expect(await countRows(service)).toMatchObject({ requests: 0 });
  });

  test('with an unknown node id keeps the genuine one waiting, but does not end it', async () => {
    const source = web.openPullRequest({ title: 'Shown in the end' });
    expect(await post(service, mistake(source.open(), 'PR_unknown'))).toMatchObject(taken);
    expect(await post(service, source.open())).toMatchObject(taken);
    await executor.update(syncRequests).set({ requestedAt: sql`now() - interval '2 hours'` });
    await world.workOff();
    expect(await titles()).toContain('Shown in the end');
    expect(await states()).toEqual(['gone', 'applied']);
  });

  test('is taken with an id over 2^31 and with the owner in place of an organisation', async () => {
    const payload = {
      action: 'opened',
      pull_request: { id: 2 ** 53 - 1, node_id: 'PR_x' },
      repository: { owner: { id: acme.id, login: 'acme' } },
    };
    expect(await post(service, { event: 'pull_request', payload })).toMatchObject(taken);
    const { rows } = await executor.execute(sql`select github_id from sync_requests`);
    expect(rows).toEqual([{ github_id: String(2 ** 53 - 1) }]);
  });

  test('gets 503 with Retry-After while the database is down', async () => {
    const orphan = closing(await startReplica('postgres://nobody@127.0.0.1:1/none'));
    for (const event of [web.openPullRequest().open(), web.rename('site')]) {
      const { status, headers } = await post(orphan, event);
      expect([status, headers['retry-after']]).toEqual([503, '1']);
    }
    web.rename('web');
  });
});

describe('a comment', () => {
  test('on a pull request that waits to be fetched raises the floor of that fetch', async () => {
    const source = web.openPullRequest({ title: 'New and talked about' });
    expect(await post(service, source.open())).toMatchObject(taken);
    github.clock.advance(5);
    expect(await post(service, source.comment(acme.member('bob')))).toMatchObject(taken);
    const { rows } = await executor.execute(
      sql`select github_id, extract(epoch from min_source_updated_at)::float8 as floor from sync_requests`,
    );
    expect(rows).toEqual([{ github_id: String(source.id), floor: source.updatedAt }]);
  });

  test('on an issue, or on a pull request that is not stored, is ignored with the reason', async () => {
    const comment = web.openPullRequest().comment(acme.member('bob'));
    expect(await post(service, comment)).toMatchObject({
      status: 200,
      message: 'Ignored: this pull request is not stored here.',
    });
    const { issue, ...payload } = comment.payload as { issue: object };
    const onIssue = { ...payload, issue: { ...issue, pull_request: undefined } };
    expect(await post(service, { event: 'issue_comment', payload: onIssue })).toMatchObject({
      status: 200,
      message: 'Ignored: the comment is not on a pull request.',
    });
    expect(await countRows(service)).toMatchObject({ deliveries: 0, requests: 0 });
  });
});

describe('a label or a milestone', () => {
  // PostgreSQL cannot hold NUL, which is stored as U+FFFD.
  const bug = 'bug \0';
  const first = '1.0 \0';
  test.each([
    ['a renamed label', (web: Repository) => web.renameLabel(bug, 'defect'), { labels: ['defect', 'urgent'] }],
    ['a deleted label', (web: Repository) => web.deleteLabel(bug), { labels: ['urgent'] }],
    ['a renamed milestone', (web: Repository) => web.renameMilestone(first, '2.0'), { milestone: '2.0' }],
    ['a deleted milestone', (web: Repository) => web.deleteMilestone(first), { milestone: null }],
  ])('%s makes every pull request with it be fetched again, and no other', async (name, change, expected) => {
    const repository = acme.repository(name.replaceAll(' ', '-'));
    const carrier = repository.addPullRequest({ labels: [bug, 'urgent'], milestone: first });
    repository.addPullRequest({ labels: ['bug'], milestone: '1.0' });
    acme.repository('elsewhere').addPullRequest({ labels: [bug], milestone: first });
    await world.import();
    expect(await post(service, change(repository))).toMatchObject(taken);
    await executor.update(syncRequests).set({ dueAt: sql`now()` });
    github.requests.length = 0;
    await world.workOff();
    expect(github.requests.map(({ variables }) => variables.ids)).toEqual([[carrier.nodeId]]);
    const [row] = await executor.select().from(pullRequests).where(eq(pullRequests.githubId, carrier.id));
    expect(row).toMatchObject(expected);
  });
});

describe('a delivery that is ignored', () => {
  const rowsOf = async (work: () => Promise<unknown>) => {
    const before = await countRows(service);
    await work();
    expect(await countRows(service)).toEqual(before);
  };

  test('comes while webhooks are disabled for its organisation, and not after', async () => {
    const disabled = { status: 200, message: 'Ignored: webhooks are disabled for this organisation.' };
    await setWebhooksEnabled(executor, organisation.id, false);
    const joined = acme.join(github.account('newcomer'));
    const events = [web.openPullRequest().open(), web.rename('site'), web.rename('web'), joined ?? web.rename('web')];
    await rowsOf(async () => {
      for (const event of events) expect(await post(service, event)).toMatchObject(disabled);
    });
    await setWebhooksEnabled(executor, organisation.id, true);
    for (const event of events) expect((await post(service, event)).status).toBe(202);
  });

  test('comes from an untracked organisation, even if it has taken a tracked login', async () => {
    const unknown = { status: 200, message: 'Ignored: this organisation is not tracked here.' };
    const other = github.organisation('other').repository('web').openPullRequest().open();
    const squatter = {
      ...other,
      payload: { ...other.payload, organization: { ...other.payload.organization, login: 'acme' } },
    };
    const left = {
      event: 'organization',
      payload: {
        action: 'member_removed',
        organization: { id: 99, login: 'acme' },
        membership: { user: { id: 1, login: 'ada', avatar_url: 'https://a.example/' } },
      },
    };
    await rowsOf(async () => {
      for (const event of [other, squatter, left]) expect(await post(service, event)).toMatchObject(unknown);
    });
  });
});

describe('an organisation', () => {
  test('known only by its login is found by it, in any case', async () => {
    await createTenant(service, { login: 'Beta-Corp' });
    const beta = github.organisation('beta-corp').repository('x').openPullRequest().open();
    expect(await post(service, beta)).toMatchObject(taken);
  });

  test('that shares a GUID with another does not take its delivery away', async () => {
    const gamma = github.organisation('gamma');
    await createTenant(service, { login: 'gamma', githubId: gamma.id });
    const guid = randomUUID();
    expect(await post(service, web.openPullRequest().open(), { guid })).toMatchObject(taken);
    expect(await post(service, gamma.repository('x').openPullRequest().open(), { guid })).toMatchObject(taken);
  });

  test('that is renamed is due for a comparison, once; nothing is taken from the payload', async () => {
    const delta = github.organisation('delta');
    const { organisation } = await createTenant(service, { login: 'delta', githubId: delta.id });
    const later = { comparisonDueAt: new Date(Date.now() + 3_600_000) };
    const put = () => executor.update(organisations).set(later).where(eq(organisations.id, organisation.id));
    await put();
    const renamed = delta.rename('delta-two');
    const guid = randomUUID();
    expect(await post(service, renamed, { guid })).toMatchObject(taken);
    const due = await getOrganisation(executor, organisation.id);
    expect(due.login).toBe('delta');
    expect(due.comparisonDueAt.getTime()).toBeLessThanOrEqual(Date.now() + 1_000);
    await put();
    expect(await post(service, renamed, { guid })).toMatchObject(appliedBefore);
    expect(await getOrganisation(executor, organisation.id)).toMatchObject(later);
  });
});

describe('a repository', () => {
  test('that is renamed triggers a comparison, which scores its pull requests by the new name', async () => {
    await world.applyRules([rule('5', 'repository == "acme/handbook"', 'Docs')]);
    const docs = acme.repository('docs');
    const source = docs.addPullRequest();
    await world.import();
    await executor.update(organisations).set({ comparisonDueAt: sql`now() + interval '1 hour'` });
    expect(await post(service, docs.rename('handbook'))).toMatchObject(taken);
    expect(await compareOrganisation(service)).toBe(true);
    expect(await compareOrganisation(service)).toBe(false);
    while ((await rescoreBatch(service)) > 0);
    expect((await world.find(source)).score_breakdown).toEqual([
      { name: 'Docs', action: 'ADD', effect: 5, expression: 'repository == "acme/handbook"' },
    ]);
  });
});
