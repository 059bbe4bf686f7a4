import { sql } from 'drizzle-orm';
import { describe, expect } from 'vitest';
import { inspectOrganisation } from '../../src/commands/doctor/inspection.ts';
import { rescoreRanges } from '../../src/database/schema.ts';
import { formatId } from '../../src/ids.ts';
import { compareOrganisation } from '../../src/sync/compare.ts';
import { replacing } from '../support/github/faults.ts';
import type { Repository } from '../support/github/repository.ts';
import { deliver, makeDue, type SyncTenant, startSyncWorld, waitUntil, withTwoRepositories } from './support.ts';

const world = await startSyncWorld({ RECONCILE_INTERVAL: '900' });
const { service, executor, test } = world;

const twoRepositories = () => withTwoRepositories(world, 'lib');

/** Names of those that are marked, without the owner. */
async function leftRepositories(tenant: SyncTenant): Promise<string[]> {
  const rows = await tenant.storedRepositories();
  return rows.flatMap(({ name, leftAt }) => (leftAt === null ? [] : [name.split('/')[1] ?? '']));
}

const elsewhere = (repository: Repository) => repository.transfer(world.github.organisation('elsewhere'));

describe('a repository that has left the organisation', () => {
  test('is marked by the next comparison, with one more request, once', async () => {
    const { tenant, web } = await twoRepositories();
    elsewhere(web);
    expect(await tenant.compare()).toBe(2);
    expect(await leftRepositories(tenant)).toEqual(['web']);
    expect(await tenant.compare()).toBe(1);
  });

  test('is marked by the comparison that the webhook of its deletion asks for', async () => {
    const { tenant, web } = await twoRepositories();
    await makeDue(service);
    await deliver(service, web.remove());
    expect(await leftRepositories(tenant)).toEqual([]);
    expect(await compareOrganisation(service)).toBe(true);
    expect(await leftRepositories(tenant)).toEqual(['web']);
  });

  test('is marked among many on several pages', async () => {
    const { tenant, web } = await twoRepositories();
    for (let index = 0; index < 105; index += 1) tenant.acme.repository(`empty-${index}`);
    tenant.acme.repository('on-the-last-page').openPullRequest();
    await tenant.import();
    await tenant.compareLater();
    elsewhere(web);
    expect(await tenant.compare()).toBe(2 + 1);
    expect(await leftRepositories(tenant)).toEqual(['web']);
  });

  test('keeps its name and pull requests, which the API shows but does not sync', async () => {
    const { tenant, web, inWeb } = await twoRepositories();
    const before = await tenant.storedPullRequests();
    const id = formatId('pr', (await tenant.stored(inWeb))?.id ?? '');
    elsewhere(web);
    inWeb.edit({ title: 'Elsewhere' });
    await tenant.compare();
    expect(await tenant.storedPullRequests()).toEqual(before);
    const client = service.client;
    const { data } = (await client.get('/2025-04/pull-requests', tenant.token)).body as unknown as {
      data: { id: string }[];
    };
    expect(data.map(each => each.id)).toContain(id);
    expect(await client.put(`/2025-04/pull-requests/${id}/sync`, tenant.token)).toMatchObject({
      status: 404,
      body: {
        message:
          'The repository of this pull request no longer belongs to the organisation; the stored copy is unchanged.',
      },
    });
    expect(await leftRepositories(tenant)).toEqual(['web']);
  });

  test('is not fetched any more, and doctor does not miss it', async () => {
    const { tenant, web, inOther } = await twoRepositories();
    elsewhere(web);
    await tenant.compare();
    await tenant.makeSweepDue();
    await executor.execute(sql`update pull_requests set fetched_at = now() where github_id = ${inOther.id}`);
    expect(await inspectOrganisation(executor, tenant.id)).toMatchObject({ pullRequests: 2 });
    const { sinceOldestFetch } = await inspectOrganisation(executor, tenant.id);
    expect(sinceOldestFetch).toBeLessThan(86_400);
    await tenant.makeSweepDue();
    await tenant.compareOnly();
    expect((await tenant.waitingSyncs()).map(({ githubId }) => githubId)).toEqual([inOther.id]);
    await world.workOff();
  });

  test('is not marked by an answer that is older than what is known', async () => {
    const { tenant, web, inWeb } = await twoRepositories();
    elsewhere(web);
    const reply = world.github.hold('late', 'RepositoryOwners');
    const comparing = tenant.compare();
    await reply.begun;
    web.transfer(tenant.acme);
    web.rename('site');
    await tenant.sync(inWeb);
    reply.release();
    await comparing;
    expect(await leftRepositories(tenant)).toEqual([]);
  });

  test('stays marked if a fetch from before is saved later', async () => {
    const { tenant, web, inWeb } = await twoRepositories();
    inWeb.edit({ title: 'Edited before' });
    const early = await tenant.fetchedSync(inWeb);
    elsewhere(web);
    await tenant.compare();
    expect(await early.save()).toBe('saved');
    expect(await tenant.stored(inWeb)).toMatchObject({ title: 'Edited before' });
    expect(await leftRepositories(tenant)).toEqual(['web']);
  });
});

describe('a repository that a list does not have', () => {
  test('is not marked if GitHub says that the organisation still has it', async () => {
    const { tenant, web } = await twoRepositories();
    type Page = { node: { repositories: { edges: { node: { id: string } }[] } } };
    const change = ({ data }: { data?: unknown }) => {
      const { repositories } = (data as Page).node;
      repositories.edges = repositories.edges.filter(({ node }) => node.id !== web.nodeId);
    };
    world.github.fault({ kind: 'alter', change }, { when: 'Repositories' });
    expect(await tenant.compare()).toBe(2);
    expect(await leftRepositories(tenant)).toEqual([]);
  });

  test('is not marked if GitHub does not let the credentials read it; a hundred of these hide no other one', async () => {
    const { tenant, web } = await twoRepositories();
    await executor.execute(sql`
      insert into repositories (organisation_id, id, github_id, node_id, name)
      select ${tenant.id}::uuid, gen_random_uuid(), 900000000000 + place, 'R_refused_' || place, 'acme/' || place
      from generate_series(1, 100) as place`);
    world.github.fault(replacing(/NOT_FOUND/g, 'FORBIDDEN'), { times: 20, when: 'RepositoryOwners' });
    elsewhere(web);
    await waitUntil(async () => {
      await tenant.compare();
      return (await leftRepositories(tenant)).length > 0;
    }, 5_000);
    expect(await leftRepositories(tenant)).toEqual(['web']);
  });

  test('is not marked if GitHub fails: the comparison goes on, and the next one asks again', async () => {
    const { tenant, web } = await twoRepositories();
    const grace = tenant.acme.member(`grace-${tenant.acme.login}`);
    elsewhere(web);
    world.github.fault({ kind: 'reply', status: 500 }, { when: 'RepositoryOwners' });
    await tenant.compare();
    expect(await leftRepositories(tenant)).toEqual([]);
    expect(await tenant.memberLogins()).toContain(grace.login);
    await tenant.compare();
    expect(await leftRepositories(tenant)).toEqual(['web']);
  });
});

describe('a repository that comes back', () => {
  async function transferredAway() {
    const parts = await twoRepositories();
    elsewhere(parts.web);
    await parts.tenant.compare();
    expect(await leftRepositories(parts.tenant)).toEqual(['web']);
    return parts;
  }

  test('loses its mark with the next comparison, which reads its changes', async () => {
    const { tenant, web, inWeb } = await transferredAway();
    inWeb.edit({ title: 'Edited elsewhere' });
    web.rename('site');
    web.transfer(tenant.acme);
    await tenant.compareLater();
    expect(await leftRepositories(tenant)).toEqual([]);
    expect(await tenant.stored(inWeb)).toMatchObject({ title: 'Edited elsewhere' });
    await tenant.makeSweepDue();
    await tenant.compareOnly();
    expect(await tenant.waitingSyncs()).toHaveLength(2);
    await world.workOff();
  });

  test('loses its mark with a fetch, and no score is calculated again', async () => {
    const { tenant, web, inWeb } = await transferredAway();
    web.transfer(tenant.acme);
    const event = inWeb.edit({ title: 'Back' });
    await deliver(service, event);
    await world.workOff();
    expect(await tenant.stored(inWeb)).toMatchObject({ title: 'Back' });
    expect(await leftRepositories(tenant)).toEqual([]);
    expect(await tenant.rowsOf(rescoreRanges)).toEqual([]);
  });

  test('loses its mark with an import', async () => {
    const { tenant, web } = await transferredAway();
    web.transfer(tenant.acme);
    await tenant.import();
    expect(await leftRepositories(tenant)).toEqual([]);
  });

  test('brings pull requests whose author has joined meanwhile', async ({ tenant }) => {
    const author = world.github.account(`stranger-${tenant.acme.login}`);
    const { web } = tenant;
    const early = web.openPullRequest({ author });
    await tenant.compare();
    expect(await tenant.sync(early)).toEqual(['untracked']);
    elsewhere(web);
    await tenant.joined(author);
    await world.workOff();
    expect([await tenant.storedPullRequests(), await leftRepositories(tenant)]).toEqual([[], ['web']]);
    web.transfer(tenant.acme);
    await tenant.compare();
    expect(await tenant.storedPullRequests()).toMatchObject([{ githubId: early.id }]);
    expect(await leftRepositories(tenant)).toEqual([]);
  });
});
