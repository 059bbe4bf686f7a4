import { userInfo } from 'node:os';
import { eq, type SQL, sql } from 'drizzle-orm';
import type { PgUpdateSetSource } from 'drizzle-orm/pg-core';
import { describe, expect, onTestFinished, test } from 'vitest';
import { connect, createMirror, follow } from '../../demo/client.ts';
import type { Caller } from '../../src/database/access-tokens.ts';
import { callerOf, recordAuditEvent } from '../../src/database/audit-log.ts';
import { beginRemoval, eraseMember, finishRemoval } from '../../src/database/erasure.ts';
import { findMembersByLogin } from '../../src/database/members.ts';
import {
  accessTokens,
  githubLimits,
  organisations,
  pullRequests,
  users,
  webhookDeliveries,
} from '../../src/database/schema.ts';
import { oneRow } from '../../src/database/statement.ts';
import { formatId, newId, parseId } from '../../src/ids.ts';
import { pruneOrganisation } from '../../src/sync/prune.ts';
import { entry, rule } from '../scoring/support.ts';
import type { PageBody, PullRequestBody } from '../support/client.ts';
import { waitUntilSettled } from '../support/settled.ts';
import { applyRules, createTenant, insertMembers } from '../support/tenants.ts';
import { addTrigger } from '../support/trigger.ts';
import { startWorld } from '../support/world.ts';
import { commandsWith, complaintOf, createFolder, type Environment, runHere } from './support.ts';

const world = await startWorld();
const { executor, shell: environment } = world;
const { run, runJson } = commandsWith(environment);
const { write, writeRules } = createFolder();

/** Rows that belong to the organisation, by table. */
async function rowsOf(organisationId: string): Promise<[table: string, rows: object[]][]> {
  const { rows: tables } = await executor.execute<{ name: string }>(sql`
    select table_name as name from information_schema.columns
    where column_name = 'organisation_id' and table_schema = 'public' order by 1`);
  const found: [string, object[]][] = [];
  for (const { name } of tables) {
    const isOfOrganisation = sql`from ${sql.identifier(name)} where organisation_id = ${organisationId}`;
    const { rows } = await executor.execute(sql`select * ${isOfOrganisation}`);
    if (rows.length > 0) found.push([name, rows]);
  }
  return found;
}

const countRows = async (organisationId: string): Promise<Record<string, number>> =>
  Object.fromEntries((await rowsOf(organisationId)).map(([table, { length }]) => [table, length]));

/** All that is stored of the organisation but its audit log, as JSON. */
const storedOf = async (organisationId: string) =>
  JSON.stringify((await rowsOf(organisationId)).filter(([table]) => table !== 'audit_events'));

/** An organisation on GitHub and here, with two people's pull requests, imported and scored. */
async function newTenant(login: string) {
  const github = world.github.organisation(login);
  const tenant = await createTenant(world.service, { login, githubId: github.id, nodeId: github.nodeId });
  const [ada, bert] = [github.member('ada'), github.member('bert')];
  const web = github.repository('web');
  for (const author of [ada, ada, bert]) {
    web.addPullRequest({ author, assignees: [ada, bert], state: 'MERGED', mergedBy: ada });
  }
  web.addPullRequest({ author: world.github.account('stranger') });
  await runJson('import --organisation', login);
  return { ...tenant, github, ada, bert };
}

describe('organisation remove', () => {
  test('deletes all that is stored for the organisation, and nothing of others', async () => {
    const [{ organisation, token, user }, other] = [await newTenant('leaving'), await newTenant('staying')];
    const before = await countRows(other.organisation.id);
    expect(await countRows(organisation.id)).toMatchObject({
      pull_requests: 3,
      members: 2,
      score_changes: 3,
      changes: 3,
    });
    const clientOf = (bearer: string) => connect('http://localhost', bearer, { fetch: world.client.fetch });
    const [mirror, staying] = [createMirror(), createMirror()];
    await waitUntilSettled(world.service.database);
    while ((await follow(clientOf(token), mirror)).length > 0);
    while ((await follow(clientOf(other.token), staying)).length > 0);
    await executor.insert(githubLimits).values({ credential: `App:${organisation.id}` });
    expect(await runJson('organisation remove LEAVING --yes')).toEqual({
      organisation: 'leaving',
      removed: true,
      pull_requests: 3,
      members: 2,
      users: 1,
    });
    expect(await countRows(organisation.id)).toEqual({ audit_events: 2 });
    expect(await executor.$count(githubLimits, eq(githubLimits.credential, `App:${organisation.id}`))).toBe(0);
    expect(await countRows(other.organisation.id)).toEqual(before);
    expect((await world.client.get('/2025-04/account', token)).status).toBe(401);
    await expect(follow(clientOf(token), mirror)).rejects.toMatchObject({ cause: { code: 'unauthenticated' } });
    await waitUntilSettled(world.service.database);
    const cursor = staying.cursor;
    expect(await follow(clientOf(other.token), staying)).toEqual([]);
    expect([staying.cursor, staying.pullRequests.size]).toEqual([cursor, 3]);
    expect(user.email).toContain('leaving');
    expect(await run('organisation remove leaving --yes')).toMatchObject({ code: 1 });
    expect(await runJson('audit-log --organisation leaving')).toMatchObject([
      { action: 'import', subject: 'leaving' },
      { action: 'organisation.remove', subject: 'leaving', actor: userInfo().username, request_id: null },
    ]);
  });

  test('a removal that fails midway locks out users and workers of the organisation, and can be repeated', async () => {
    const { organisation, token } = await newTenant('stuck');
    const end = await addTrigger(executor, 'before delete on pull_requests for each row', "raise exception 'injected'");
    expect((await run('organisation remove stuck --yes')).code).toBe(1);
    await end();
    expect((await world.client.get('/2025-04/account', token)).status).toBe(401);
    const { rows } = await executor.execute(sql`
      select webhooks_enabled, removed_at is not null as removed from organisations where id = ${organisation.id}`);
    expect(rows).toEqual([{ webhooks_enabled: false, removed: true }]);
    expect((await run('organisation list')).stdout).toMatch(/stuck +being removed since /);
    expect((await run('doctor')).stdout).toContain('The removal of stuck began at ');
    expect(await complaintOf(run('token create --user ada@stuck.example'))).toContain('removed');
    expect(await complaintOf(run('import --organisation stuck'))).toContain('stuck is being removed.');
    expect(await complaintOf(run('organisation add stuck'))).toContain('stuck is being removed.');
    await runJson('organisation remove stuck --yes');
    expect(await countRows(organisation.id)).toEqual({ audit_events: 2 });
  });

  test('two processes that remove an organisation share its rows, and leave few to the last statement', async () => {
    const { organisation } = await createTenant(world.service, { login: 'shared' });
    const { database } = world.service;
    await executor.execute(sql`
      insert into webhook_deliveries (organisation_id, guid, event, action, state, ticket)
      select ${organisation.id}::uuid, gen_random_uuid(), 'pull_request', 'edited', 'applied', 0
      from generate_series(1, 40000)`);
    await insertMembers(world.service, { organisation }, 5_000);
    for (const table of ['webhook_deliveries', 'members']) {
      await addTrigger(
        executor,
        'before delete on organisations for each row',
        `if (select count(*) from ${table} where organisation_id = old.id) > 2000 then
          raise exception 'most rows are left';
        end if`,
      );
    }
    await database.transaction(executor => beginRemoval(executor, organisation.id));
    const steps: number[] = [];
    const finish = () => finishRemoval(database, organisation.id, deleted => steps.push(deleted));
    await Promise.all([finish(), finish()]);
    expect(steps.reduce((sum, deleted) => sum + deleted, 0)).toBeGreaterThan(38_000);
    expect(await countRows(organisation.id)).toEqual({});
  });

  test('an import says so if its organisation is removed meanwhile', async () => {
    const tenant = await world.newTenant();
    tenant.acme.repository('web').openPullRequest();
    const reply = world.github.hold('hold', 'PullRequests');
    const importing = run('import --organisation', tenant.acme.login);
    await reply.begun;
    await runJson('organisation remove', tenant.acme.login, '--yes');
    reply.release();
    expect(await complaintOf(importing)).toContain('The organisation has been removed.');
  });

  test('a sync ends with 404 if its organisation is removed meanwhile', async () => {
    const { token } = await newTenant('going');
    const { body } = await world.client.get<PageBody<PullRequestBody>>('/2025-04/pull-requests', token);
    const reply = world.github.hold('hold');
    const syncing = world.client.put(`/2025-04/pull-requests/${body.data[0]?.id}/sync`, token);
    await reply.begun;
    await runJson('organisation remove going --yes');
    reply.release();
    expect(await syncing).toMatchObject({ status: 404, body: { message: 'The organisation has been removed.' } });
  });
});

describe('member export', () => {
  test('prints all that erasing would delete, and what names the person elsewhere', async () => {
    const { organisation, ada, bert } = await newTenant('exporting');
    await executor.execute(
      sql`insert into untracked_pull_requests values (${organisation.id}, 98, 'untracked', ${ada.id}, now())`,
    );
    const command = ['member', 'export', 'Ada', '--organisation', 'exporting'];
    const data = await runJson<Record<string, Record<string, unknown>[]>>(...command);
    expect(Object.fromEntries(Object.entries(data).map(([name, rows]) => [name, rows.length]))).toEqual({
      organisation: 'exporting'.length,
      login: 'Ada'.length,
      members: 1,
      pull_requests: 2,
      score_changes: 2,
      check_runs: 0,
      sync_requests: 0,
      webhook_deliveries: 0,
      untracked_pull_requests: 1,
      assigned_to: 1,
      merged: 1,
      reviewed: 0,
      audit_events: 1,
    });
    const [profile] = data.members ?? [];
    expect(profile).toMatchObject({ login: 'ada', github_id: ada.id });
    const columns = await executor.execute<{ name: string }>(sql`
      select column_name as name from information_schema.columns
      where table_name = 'pull_requests' and column_name not in ('organisation_id', 'reviewers', 'review_scores')`);
    expect(Object.keys(data.pull_requests?.[0] ?? {}).sort()).toEqual(columns.rows.map(({ name }) => name).sort());
    expect(data.pull_requests?.map(({ member_id: member }) => member)).toEqual([profile?.id, profile?.id]);
    const { id, repository_id: repository, created_at: createdAt } = data.pull_requests?.[0] ?? {};
    expect([profile?.id, id, repository]).toEqual(
      ['mem', 'pr', 'repo'].map(prefix => expect.stringMatching(`^${prefix}_[0-9a-z]{26}$`)),
    );
    expect([createdAt, profile?.created_at, data.score_changes?.[0]?.changed_at]).toEqual(
      Array(3).fill(expect.any(Number)),
    );
    expect(data.score_changes?.[0]?.pull_request_id).toMatch(/^pr_/);
    expect(JSON.stringify(data.members)).not.toContain(String(bert.id));
    const printed = await run('member export ada --organisation exporting');
    expect(JSON.parse(printed.stdout)).toEqual({
      ...data,
      login: 'ada',
      audit_events: ['Ada', 'ada'].map(subject => expect.objectContaining({ action: 'member.export', subject })),
    });
  });

  test('lists the reviews that the person gave with their points, and not those of others', async () => {
    const { organisation, github, ada, bert } = await newTenant('reviewing');
    await applyRules(world.service, organisation.id, { reviews: [rule('Review', entry('true', '4'))] });
    const carl = github.member('carl');
    for (const pullRequest of github.repository('web').pullRequests) {
      for (const reviewer of [ada, bert, carl]) pullRequest.review(reviewer, 'APPROVED', { comments: 2 });
    }
    for (const command of ['members sync', 'import']) {
      await runJson(...command.split(' '), '--organisation', 'reviewing');
    }
    const given = async (login: string) => {
      const printed = await runJson('member export', login, '--organisation', 'reviewing');
      return printed as unknown as Record<'members' | 'pull_requests' | 'reviewed', Record<string, unknown>[]>;
    };
    const { members, pull_requests: own, reviewed } = await given('ada');
    // One of bert's: those of the stranger are not stored.
    expect(reviewed).toEqual([
      {
        id: /^pr_/,
        url: expect.stringContaining('/reviewing/web/pull/3'),
        review: expect.objectContaining({ member: members[0]?.id, login: 'ada', verdict: 'approved', comments: 2 }),
        points: expect.objectContaining({ member: members[0]?.id, reviewer: 'ada', score: 4 }),
      },
    ]);
    expect(JSON.stringify([own, reviewed])).not.toContain('carl');
    expect((await given('carl')).reviewed).toHaveLength(3);
    const erased = await runJson('member erase carl --organisation reviewing --yes');
    expect(erased).toMatchObject({ reviews: 3 });
    expect(await storedOf(organisation.id)).not.toMatch(new RegExp(`carl|${carl.id}`));
  });
});

describe('member erase', () => {
  test('deletes the person, until --allow', async () => {
    const { organisation, github, ada } = await newTenant('erasing');
    await executor.execute(
      sql`insert into untracked_pull_requests values (${organisation.id}, 98, 'untracked', ${ada.id}, now())`,
    );
    await executor.execute(sql`
      insert into sync_requests (organisation_id, github_id, node_id, ticket)
      select organisation_id, github_id, node_id, nextval('tickets')
      from pull_requests where organisation_id = ${organisation.id} and author = 'ada'`);
    const before = await countRows(organisation.id);
    expect(before).toMatchObject({ untracked_pull_requests: 2, sync_requests: 2 });
    expect(before).not.toHaveProperty('rescore_ranges');
    expect(await runJson('member erase ADA --organisation erasing --yes')).toEqual({
      organisation: 'erasing',
      login: 'ADA',
      pull_requests: 2,
      assignments: 1,
      reviews: 0,
      had_left: false,
    });
    const after = await countRows(organisation.id);
    expect(after).toMatchObject({
      members: 1,
      pull_requests: 1,
      score_changes: 1,
      deleted_pull_requests: 2,
      untracked_pull_requests: 1,
      rescore_ranges: expect.any(Number),
    });
    expect(after).not.toHaveProperty('sync_requests');
    const { rows } = await executor.execute<{ row: string }>(
      sql`select row_to_json(${pullRequests})::text as row from ${pullRequests} where organisation_id = ${organisation.id}`,
    );
    expect(rows.map(({ row }) => row).join()).not.toContain('"ada"');
    // She is still a member on GitHub, opens another one, and merges and is assigned to those of others.
    github.repository('web').openPullRequest({ author: ada });
    const [others] = github.repository('web').pullRequests.filter(({ author }) => author !== ada);
    others?.edit({ title: 'Merged by her, and assigned to her' });
    expect(await runJson('members sync --organisation erasing')).toMatchObject({ members: 1 });
    await runJson('import --organisation erasing');
    expect(await countRows(organisation.id)).toMatchObject({ members: 1, pull_requests: 1 });
    const { rows: kept } = await executor.execute(sql`
      select assignees, merged_by from pull_requests where organisation_id = ${organisation.id}`);
    expect(kept).toEqual([{ assignees: ['bert'], merged_by: 'ghost' }]);
    expect(await storedOf(organisation.id)).not.toMatch(new RegExp(`"ada"|${ada.id}`));
    await runJson('member erase ada --organisation erasing --allow');
    await runJson('members sync --organisation erasing');
    expect(await countRows(organisation.id)).toMatchObject({ members: 2 });
  });

  test('marks the deliveries about what it deletes as applied', async () => {
    const { organisation, github, ada } = await newTenant('pending');
    const isOfOrganisation = eq(webhookDeliveries.organisationId, organisation.id);
    for (const author of ['ada', 'bert']) {
      await executor.execute(sql`
        insert into webhook_deliveries (organisation_id, guid, event, action, state, pull_request_github_id, ticket)
        select organisation_id, ${`of ${author}`}, 'pull_request', 'edited', 'pending', github_id, nextval('tickets')
        from pull_requests where organisation_id = ${organisation.id} and author = ${author} order by id limit 1`);
    }
    github.leave(ada);
    await runJson('members sync --organisation pending');
    expect(await runJson('member erase ada --organisation pending --yes')).toMatchObject({ had_left: true });
    const deliveries = await executor.select().from(webhookDeliveries).where(isOfOrganisation);
    expect(deliveries.map(({ guid, state }) => `${guid}: ${state}`).sort()).toEqual([
      'of ada: applied',
      'of bert: pending',
    ]);
  });

  test('the service finishes an interrupted erasure, and saves nothing that an import fetches meanwhile', async () => {
    const { organisation, github, ada } = await newTenant('halfway');
    const { database } = world.service;
    const people = await findMembersByLogin(database.executor, organisation.id, 'ada');
    const stop = new Error('a power cut');
    // Once it has begun, every later transaction fails.
    let begun = 0;
    const failing: typeof database = {
      ...database,
      transaction: (work, options) => (begun++ === 0 ? database.transaction(work, options) : Promise.reject(stop)),
    };
    await expect(eraseMember(failing, organisation.id, oneRow(people))).rejects.toThrow(stop);
    const { checks } = JSON.parse((await run('doctor --organisation halfway --json')).stdout);
    expect(checks).toContainEqual(
      expect.objectContaining({ name: 'people', message: 'ada is being erased; a running service finishes that.' }),
    );
    github.repository('web').openPullRequest({ author: ada });
    await runJson('import --organisation halfway');
    expect(await countRows(organisation.id)).toMatchObject({ members: 2, pull_requests: 3 });
    await database.executor.execute(sql`update organisations set prune_due_at = now() + interval '1 hour'`);
    await database.executor.execute(sql`update organisations set prune_due_at = now() where id = ${organisation.id}`);
    expect(await pruneOrganisation(world.service)).toBe(true);
    expect(await countRows(organisation.id)).toMatchObject({ members: 1, pull_requests: 1 });
  });

  test('finds a person by a former login, and deletes all logins that they had', async () => {
    const { organisation, ada } = await newTenant('renaming');
    ada.login = 'countess';
    onTestFinished(() => {
      ada.login = 'ada';
    });
    await runJson('members sync --organisation renaming');
    expect(await storedOf(organisation.id)).toContain('"ada"');
    expect(await runJson('member erase ada --organisation renaming --yes')).toMatchObject({ pull_requests: 2 });
    expect(await storedOf(organisation.id)).not.toMatch(/"ada"|countess/);
  });
});

test.each([
  ['remove', 'kept', ['organisation', 'remove', 'kept'], 'Remove kept with 3 pull requests?'],
  ['erase', 'unconfirmed', ['member', 'erase', 'ada', '--organisation', 'unconfirmed'], 'Erase ada from unconfirmed?'],
])('without --yes and without a terminal, %s deletes nothing', async (_, login, command, question) => {
  const { organisation } = await newTenant(login);
  const before = await countRows(organisation.id);
  expect(await complaintOf(run(...command), 2)).toBe(
    `pullscore: ${question} This can't be undone. Add --yes to go on.`,
  );
  expect(await countRows(organisation.id)).toEqual(before);
});

test.each(['export', 'erase'])('member %s says if nobody has the login', async name => {
  expect(await complaintOf(run('member', name, 'nobody', '--organisation', 'acme'))).toBe(
    'pullscore: No member of acme has the login nobody. Check its spelling. It may have been erased before.',
  );
});

describe('deleted pull requests', () => {
  /** An organisation with two repositories, all of whose three pull requests are deleted but one. */
  async function newDeletions(login: string) {
    const tenant = await newTenant(login);
    tenant.github.repository('api').addPullRequest({ author: world.github.account('stranger') });
    await runJson('import --organisation', login);
    const { body } = await world.client.get<PageBody<PullRequestBody>>('/2025-04/pull-requests', tenant.token);
    for (const { id } of body.data.slice(1)) await world.client.delete(`/2025-04/pull-requests/${id}`, tenant.token);
    return tenant;
  }

  test('an import counts deleted pull requests, and --restore-deleted brings them back', async () => {
    const { organisation } = await newDeletions('restoring');
    const restoring = ['--organisation', 'restoring'];
    expect(await runJson('import', ...restoring)).toMatchObject({ seen: 5, saved: 1, untracked: 2, deleted: 2 });
    const { stdout } = await run('import', ...restoring);
    expect(stdout).toContain(
      '1 saved, 2 skipped because the author is not a member, 2 stay deleted (--restore-deleted brings them back).\n',
    );
    expect(await runJson('import', ...restoring, '--restore-deleted')).toMatchObject({ saved: 3, deleted: 0 });
    expect(await countRows(organisation.id)).toMatchObject({ pull_requests: 3 });
    expect(await countRows(organisation.id)).not.toHaveProperty('deleted_pull_requests');
    expect((await run('import', ...restoring)).stdout).not.toContain('deleted');
    const log = await runJson<{ subject: string }[]>('audit-log', ...restoring);
    expect(log.at(-2)?.subject).toBe('restoring with deleted ones');
  });

  test('import --restore-deleted includes repositories that an interrupted import has finished', async () => {
    const { organisation } = await newDeletions('interrupted');
    await executor.execute(sql`
      update repositories set import_cursor = '' where organisation_id = ${organisation.id} and name like '%/api'`);
    const interrupted = ['--organisation', 'interrupted', '--restore-deleted'];
    expect(await runJson('import', ...interrupted, '--dry-run')).toMatchObject({ total: { pull_requests: 5 } });
    expect(await runJson('import', ...interrupted)).toMatchObject({ repositories: 2, saved: 3, deleted: 0 });
  });
});

test('webhooks status counts and lists the failures of one organisation, not those of another', async () => {
  const [failing, calm] = [await newTenant('troubled'), await newTenant('calm')];
  await executor.execute(sql`
    insert into sync_requests (organisation_id, github_id, node_id, ticket, last_error, due_at)
    select organisation_id, github_id, node_id, 0, 'It failed.', null
    from pull_requests where organisation_id = ${failing.organisation.id}`);
  await executor.execute(sql`
    insert into check_runs (organisation_id, pull_request_id, row_version, ruleset_version, is_final, last_error)
    select organisation_id, id, '0', 0, false, 'It failed.'
    from pull_requests where organisation_id = ${failing.organisation.id}`);
  type Backlog = { failing: number; parked: number; failures: unknown[] };
  const countsOf = async ({ login }: { login: string }) => {
    const status = await runJson<Backlog & { waiting: number; checks: Backlog }>(
      'webhooks status --organisation',
      login,
    );
    const [requests, checks] = [status, status.checks].map(each => [each.failing, each.parked, each.failures.length]);
    return { waiting: status.waiting, requests, checks };
  };
  expect(await countsOf(failing.organisation)).toEqual({ waiting: 3, requests: [3, 3, 3], checks: [0, 3, 3] });
  expect(await countsOf(calm.organisation)).toEqual({ waiting: 0, requests: [0, 0, 0], checks: [0, 0, 0] });
  await executor.execute(sql`delete from sync_requests where organisation_id = ${failing.organisation.id}`);
});

test('token list shows the organisation, and only its tokens if asked', async () => {
  const tenants = [await newTenant('lister'), await newTenant('listed')];
  for (const { organisation, user } of tenants) {
    const list = (...options: string[]) => runHere({ ...environment, COLUMNS: '200' }, 'token list', ...options);
    const own = await list('--organisation', organisation.login);
    const isOwn = new RegExp(`^tok_\\w+ +${organisation.login} +${user.email} `);
    expect(own.stdout.trim().split('\n').slice(1)).toEqual([expect.stringMatching(isOwn)]);
    expect((await list()).stdout.split('\n').filter(line => isOwn.test(line))).toHaveLength(1);
  }
  expect((await run('token list --organisation nosuch')).code).toBe(1);
});

test('in a narrow terminal lists fit, with what other commands take whole', async () => {
  const { organisation, user } = await newTenant('narrow-organisation-with-a-long-login');
  const { login } = organisation;
  const named = { name: 'A name that is far longer than the line of a narrow terminal would be' };
  await executor.update(organisations).set(named).where(eq(organisations.login, login));
  await executor.update(users).set(named).where(eq(users.email, user.email));
  const scope = ['--organisation', organisation.login];
  const file = writeRules('narrow.yaml', ['One', 'merged', '1']);
  await runJson('rules apply', file, '--by', 'somebody with quite a long name', ...scope);
  for (const [words, whole] of [
    [['token', 'list', ...scope], 'tok_\\w{26}'],
    [['rules', 'history', ...scope], '1 \\(in force\\)'],
    [['user', 'list'], user.email],
    [['organisation', 'list'], login],
  ] as const) {
    const { code, stdout } = await runHere({ ...environment, COLUMNS: '80' }, ...words);
    expect([code, stdout]).toEqual([0, expect.stringMatching(new RegExp(`^${whole} .*\\w`, 'm'))]);
    for (const line of stdout.split('\n')) expect([line, line.length <= 80]).toEqual([line, true]);
  }
});

test('the name of a user reaches the terminal in one line, without control characters', async () => {
  const options = ['--organisation', world.organisation.login, '--name', 'Eve\n::error::\u001b[2J'];
  const added = await run('user add', ...options, '--email', 'eve@acme.example');
  const removed = await run('user remove eve@acme.example --yes');
  for (const { stdout } of [added, removed]) expect(stdout).toMatch(/^\w+ Eve ::error:: \[2J\. .*\n$/);
});

test('organization is understood for the commands of organisations, too', async () => {
  const listed = await run('organization list');
  expect(listed).toEqual(await run('organisation list'));
});

describe('token create --link', () => {
  const create = ['token', 'create', '--user', world.user.email, '--link'];

  test('gives an address that opens the page signed in', async () => {
    type Created = { token: string; link: string };
    const { runJson } = commandsWith({ ...environment, PUBLIC_URL: 'https://scores.example/' });
    const created = await runJson<Created>(...create);
    expect(created.link).toBe(`https://scores.example/#token=${created.token}`);
    const { stdout } = await runHere({ ...environment, HOST: '0.0.0.0', PORT: '8080' }, ...create);
    expect(stdout).toMatch(/^http:\/\/localhost:8080\/#token=ps_\w{38}\n$/);
  });

  test('is refused if the page is turned off', async () => {
    const refused = complaintOf(runHere({ ...environment, WEB: 'false' }, ...create), 2);
    expect(await refused).toContain('WEB=false turns the page off.');
  });
});

describe('token rotate', () => {
  type Token = { id: string; token: string; expires_at: number | null; state: string };
  const statusWith = async (token: string) => (await world.client.get('/2025-04/account', token)).status;
  const rotate = (id: string, ...options: string[]) => runJson<Token>('token rotate', id, ...options);
  const newToken = (...options: string[]) =>
    runJson<Token>('token create --scopes read,sync --user', world.user.email, ...options);
  const change = (id: string, values: PgUpdateSetSource<typeof accessTokens>) =>
    executor
      .update(accessTokens)
      .set(values)
      .where(eq(accessTokens.id, parseId('tok', id) ?? ''));
  /** As the list has it. */
  const listed = async (wanted: string) => (await runJson<Token[]>('token list')).find(({ id }) => id === wanted);
  /** In Unix seconds, as tokens have it. */
  const now = () => Date.now() / 1000;
  const day = 86_400;

  test('gives a new token with the same name and scopes, and ends the old one after a day', async () => {
    const old = await newToken('--name', 'for CI');
    const rotated = await rotate(old.id);
    expect(rotated).toMatchObject({ scopes: ['read', 'sync'], expires_at: null });
    expect(await Promise.all([old.token, rotated.token].map(statusWith))).toEqual([200, 200]);
    expect(await listed(rotated.id)).toMatchObject({ name: 'for CI' });
    expect((await listed(old.id))?.expires_at).toBeCloseTo(now() + day, -2);
  });

  test('says the new id and when the old token ends, beside the new token', async () => {
    const old = await newToken();
    const { stdout, stderr } = await run('token rotate', old.id);
    expect(stdout).toMatch(/^ps_\w{38}\n$/);
    expect(stderr).toMatch(
      /^The new token has the id tok_\w{26}\. The old one, tok_\w{26}, is valid until \d{4}-\d\d-\d\d \d\d:\d\d UTC\.\n$/,
    );
    expect(stderr).toContain(`The old one, ${old.id},`);
    const [, id = ''] = /the id (tok_\w+)/.exec(stderr) ?? [];
    const ended = await run('token rotate', id, '--grace', '0', '--json');
    expect(ended.stderr).toBe('');
    expect(JSON.parse(ended.stdout).replaced).toEqual({ id, ends_at: expect.closeTo(now(), -2) });
  });

  test('--grace 0 ends the old token at once, and keeps the lifetime', async () => {
    const old = await newToken('--expires', '90d');
    const rotated = await rotate(old.id, '--grace', '0');
    expect(await Promise.all([old.token, rotated.token].map(statusWith))).toEqual([401, 200]);
    expect(rotated.expires_at).toBeCloseTo(Number(old.expires_at), -2);
  });

  test('gives the whole lifetime again when most of it has passed, but not beyond the year 9999', async () => {
    const old = await newToken('--expires', '90d');
    const days = (count: number) => sql`now() + ${`${count} days`}::interval`;
    const rotatedIfItExpires = async (expiresAt: SQL) => {
      await change(old.id, { createdAt: days(-60), expiresAt, revokedAt: null });
      return (await rotate(old.id)).expires_at;
    };
    expect(await rotatedIfItExpires(days(30))).toBeCloseTo(now() + 90 * day, -3);
    expect(await rotatedIfItExpires(sql`'9999-12-31'`)).toBe(Date.parse('9999-12-31T23:59:59Z') / 1000);
  });

  test('a second token rotate gives the same lifetime again, and ends the old token no later', async () => {
    for (const { id, expires_at: end } of [await newToken(), await newToken('--expires', '90d')]) {
      await rotate(id);
      const { token, expires_at: again } = await rotate(id, '--grace', '1w');
      expect(again).toEqual(end === null ? null : expect.closeTo(end, -2));
      expect(await statusWith(token)).toBe(200);
      expect(await listed(id)).toMatchObject({ state: 'valid', expires_at: expect.closeTo(now() + day, -2) });
    }
  });

  test('does not prolong an old token that expires sooner', async () => {
    const old = await newToken('--expires', '1h');
    await rotate(old.id, '--grace', '1w');
    expect(await listed(old.id)).toMatchObject({ expires_at: old.expires_at });
  });

  test.each(['revoked', 'expired', 'unknown'])('refuses a token that is %s', async kind => {
    const { id } = await newToken();
    if (kind === 'revoked') await runJson('token revoke', id);
    if (kind === 'expired') await change(id, { expiresAt: new Date(0) });
    const given = kind === 'unknown' ? formatId('tok', newId()) : id;
    expect((await run('token rotate', given)).code).toBe(1);
    expect((await listed(given))?.state).toBe(kind === 'unknown' ? undefined : kind);
  });

  test.each(['1', '1x', 'never', '-1d', '', '9000y'])('refuses the grace %j', async grace => {
    expect((await run('token rotate tok_1 --grace', grace)).code).toBe(2);
  });
});

test('the audit log of an organisation has what happened under all its logins', async () => {
  const github = world.github.organisation('former');
  await runJson('organisation add former');
  github.rename('latter');
  await runJson('members sync --organisation former');
  await runJson('webhooks disable --organisation latter');
  const logOf = async (login: string) => {
    const events = await runJson<{ action: string }[]>('audit-log --organisation', login);
    return events.map(({ action }) => action);
  };
  const before = ['organisation.add', 'members.sync', 'webhooks.disable'];
  for (const login of ['latter', 'former']) expect(await logOf(login)).toEqual(before);
  await runJson('organisation remove latter --yes');
  expect(await logOf('FORMER')).toEqual([...before, 'organisation.remove']);
});

test('the audit log keeps the actions of a removed user', async () => {
  const { database } = world.service;
  const { organisation } = await createTenant(world.service, { login: 'abandoned' });
  const caller = { organisationId: organisation.id, userId: newId() } as Caller;
  await recordAuditEvent(database.executor, organisation.id, callerOf(caller, 'req'), 'pull_request.delete', 'pr');
  expect(await runJson('audit-log --organisation abandoned')).toMatchObject([
    { action: 'pull_request.delete', subject: 'pr', actor: 'a removed user', request_id: 'req' },
  ]);
});

test('the audit log says if no organisation has or had the login', async () => {
  expect(await complaintOf(run('audit-log --organisation nosuch'))).toBe(
    'pullscore: No organisation has the login nosuch here, or had it. List them: pullscore organisation list',
  );
});

test('the audit log shows each action with its actor, by organisation and since a day', async () => {
  const email = 'ada@audited.example';
  const audited = ['--organisation', 'audited'];
  const github = world.github.organisation('audited');
  github.repository('web').addPullRequest({ author: github.member('bert') });
  await runJson('organisation add audited');
  await runJson('members sync', ...audited);
  await runJson('import --dry-run', ...audited);
  await runJson('import', ...audited);
  await runJson('import --repository audited/web --since 2026-01-31', ...audited);
  expect((await run('import --repository audited/none', ...audited)).code).not.toBe(0);
  await runJson('member erase bert --yes', ...audited);
  await executor.execute(sql`
    insert into sync_requests (organisation_id, github_id, node_id, ticket, last_error)
    select id, 1, 'PR_1', 0, 'It failed.' from organisations where login = 'audited'`);
  for (const retried of [1, 0]) {
    expect(await runJson('webhooks retry', ...audited)).toMatchObject({ retried });
  }
  await runJson('user add', ...audited, '--name', 'Ada', '--email', email);
  const { id } = await runJson('token create --user', email);
  await runJson('rules apply rules.example.yaml', ...audited);
  await runJson('rules apply rules.example.yaml', ...audited);
  await runJson('webhooks disable', ...audited);
  await runJson('webhooks enable', ...audited);
  const { id: next } = await runJson('token rotate', String(id));
  await runJson('token revoke', String(next));
  await runJson('token revoke', String(next));
  await runJson('user remove', email, '--yes');
  const log = await runJson<{ action: string; subject: string; actor: string }[]>('audit-log', ...audited);
  expect(log.map(({ action, subject }) => [action, subject])).toEqual([
    ['organisation.add', 'audited'],
    ['members.sync', 'audited'],
    ['import', 'audited'],
    ['import', 'audited/web since 2026-01-31'],
    ['member.erase', 'bert'],
    ['webhooks.retry', 'audited'],
    ['user.add', email],
    ['token.create', id],
    ['rules.apply', 'version 1'],
    ['webhooks.disable', 'audited'],
    ['webhooks.enable', 'audited'],
    ['token.rotate', `${id} replaced by ${next}`],
    ['token.revoke', next],
    ['user.remove', email],
  ]);
  expect(new Set(log.map(({ actor }) => actor))).toEqual(new Set([userInfo().username]));
  expect(await runJson('audit-log', ...audited, '--since', '2999-01-01')).toEqual([]);
  expect(await runJson('audit-log', ...audited, '--limit', '2')).toEqual(log.slice(-2));
  expect((await run('audit-log --limit 0')).code).toBe(2);
  expect((await run('audit-log --since 2999-01-01')).stdout).toBe('Nothing is recorded since that day.\n');
  // As many syncs as one event may stand for.
  await executor.execute(sql`
    update audit_events set count = 500 where organisation = 'audited' and action = 'members.sync'`);
  expect(await runJson('audit-log', ...audited)).toMatchObject(
    log.map(({ action }) => ({ action, count: action === 'members.sync' ? 500 : 1 })),
  );
  const { stdout } = await run('audit-log --since 2020-01-01');
  expect(stdout).toMatch(/^TIME \(UTC\) +ORGANISATION +ACTOR +ACTION +SUBJECT +COUNT +REQUEST\n/);
  expect(stdout).toMatch(/ members\.sync +audited +500 +-\n/);
  expect((await run('audit-log --since 0000-01-01')).code).toBe(0);
  expect(await complaintOf(run('audit-log --since yesterday'), 2)).toBe(
    'pullscore: "yesterday" is not a valid day. Write it as 2026-01-31.',
  );
});

test.each(['ftp://x.example/a.png', 'javascript:alert(1)', 'photo.png', 'https://', 'https:///x', 'https://h/"on='])(
  'the photo %s is refused',
  async url => {
    const user = ['user', 'add', '--organisation', 'acme', '--name', 'A', '--email', 'a@b.example'];
    for (const command of [user, ['organisation', 'add', 'other']]) {
      expect((await run(...command, '--photo-url', url)).code).toBe(2);
    }
  },
);

test("an organisation that is added with an empty photo has GitHub's, also without credentials", async () => {
  const { avatarUrl } = world.github.organisation('bare');
  const photoOf = async (login: string, changes: Environment) => {
    const { runJson } = commandsWith({ ...environment, ...changes });
    return (await runJson('organisation add', login, '--photo-url', '')).photo_url;
  };
  expect(await photoOf('bare', {})).toBe(avatarUrl);
  for (const [login, api, page] of [
    ['of-server', 'https://github.example/api/v3', 'https://github.example'],
    ['of-cloud', 'https://api.github.com', 'https://github.com'],
  ] as const) {
    expect(await photoOf(login, { GITHUB_TOKEN: '', GITHUB_API_URL: api })).toBe(`${page}/${login}.png`);
  }
});

test('what a rules file says reaches the terminal without control characters and without lines of its own', async () => {
  const logic = '[{expression: "draft \\e[31m \\n::error::x", effect: {action: "A\\n::warning::y", value: "1 2"}}]';
  const file = write('rules.yaml', `rules:\n- {name: "R\\e]0;title\\a", logic: ${logic}}\n`);
  for (const command of ['check', 'apply --organisation acme', 'plan --organisation acme']) {
    const { stderr, ...ended } = await run(`rules ${command}`, file);
    expect(ended).toEqual({ code: 1, stdout: '' });
    for (const line of stderr.trimEnd().split('\n')) {
      expect(line).toMatch(/^(pullscore: |\/)/);
      expect(line).toMatch(/^\P{Cc}*$/u);
    }
  }
});
