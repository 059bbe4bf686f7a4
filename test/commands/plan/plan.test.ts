import { readFileSync, statSync, truncateSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { sql } from 'drizzle-orm';
import stringWidth from 'string-width';
import { afterAll, describe, expect, test } from 'vitest';
import { newId } from '../../../src/ids.ts';
import type { PlanDocument } from '../../../src/reports/plan.ts';
import { listenOn } from '../../support/raw-http.ts';
import { insertPullRequests, type Tenant } from '../../support/tenants.ts';
import { startWorld } from '../../support/world.ts';
import { commandsWith, complaintOf, createFolder, ruleWith, runHere, runWith } from '../support.ts';

const { service, executor, newTenant } = await startWorld();
const { folder, write, writeRules: rulesFile } = createFolder();
let calls = 0;
// No credentials, and every call of GitHub is counted.
const github = createServer(socket => {
  calls += 1;
  socket.destroy();
});
const environment = {
  DATABASE_URL: service.database.url,
  GITHUB_API_URL: `http://127.0.0.1:${await listenOn(github)}`,
};
const { run, runJson } = commandsWith(environment);
afterAll(async () => {
  expect(calls).toBe(0);
  github.close();
});

/** Pull requests number 1 to `count`: as many additions as their number, every other one by Ada. */
async function newOrganisation(count: number): Promise<Tenant & { login: string }> {
  const tenant = await newTenant();
  const { id, login } = tenant.organisation;
  if (count > 0) {
    await insertPullRequests(service, tenant, count);
    await executor.execute(sql`
      with ada as (
        insert into members (organisation_id, id, github_id, login, name, photo_url)
        values (${id}, ${newId()}, 2, 'ada', 'Ada Lovelace', '') returning id
      )
      update pull_requests set additions = number, deletions = 0,
        member_id = case number % 2 when 0 then (select id from ada) else member_id end
      where organisation_id = ${id}`);
  }
  return { ...tenant, login };
}

const plan = (login: string, file: string, ...options: string[]) =>
  run('rules plan', file, '--organisation', login, ...options);

const planJson = (login: string, file: string) => runJson<PlanDocument>('rules plan', file, '--organisation', login);

async function applyAndScore(login: string, file: string): Promise<void> {
  await runJson('rules apply', file, '--organisation', login);
  await runJson('rescore --organisation', login);
}

const stored = async ({ organisation }: Tenant) => {
  const { rows } = await executor.execute<{ login: string; total: number; changed: number }>(sql`
    select login, sum(score)::int as total, count(*)::int as pull_requests from pull_requests
    join members on members.id = member_id where pull_requests.organisation_id = ${organisation.id}
    group by 1 order by 2 desc`);
  return rows;
};

describe('a plan', () => {
  test('shows what applying the file then does', async () => {
    const tenant = await newOrganisation(20);
    const before = rulesFile('before.yaml', ['Size', 'size > 10', '5'], ['Even', 'number % 2 == 0', '1']);
    const after = rulesFile('after.yaml', ['Size', 'size > 15', 'size'], ['Odd', 'number % 2 == 1', '2']);
    await applyAndScore(tenant.login, before);
    const document = await planJson(tenant.login, after);
    expect(document).toMatchObject({
      organisation: tenant.login,
      file: after,
      ruleset_version: 1,
      changes: true,
      rule_changes: { added: 1, removed: 1, changed: 1, unchanged: 0, reordered: false },
      definition_changes: { added: 0, removed: 0, changed: 0 },
      pull_requests: { total: 20, changed: 20, raised: 10, lowered: 10, breakdown_only: 0, outdated: 0 },
      scores: { before: { sum: 60, mean: 3, maximum: 6 }, after: { sum: 110, mean: 5.5, maximum: 21 } },
    });
    expect(document.rules.map(({ name, status, after: side }) => [name, status, side?.pull_requests])).toEqual([
      ['Size', 'changed', 5],
      ['Odd', 'added', 10],
      ['Even', 'removed', undefined],
    ]);
    expect(document.movers.raised[0]).toEqual({
      id: /^pr_[0-9a-z]{26}$/,
      repository: 'acme/web',
      number: 19,
      title: 'Pull request 19',
      url: 'https://github.com/acme/web/pull/19',
      member: 'grace',
      from: 5,
      to: 21,
    });
    expect(document.histogram.reduce((sum, bucket) => sum + bucket.after, 0)).toBe(20);

    await applyAndScore(tenant.login, after);
    expect(document.members.map(({ login, after: total }) => ({ login, total, pull_requests: 10 }))).toEqual(
      await stored(tenant),
    );
    const [first] = document.members;
    expect(first?.id).toMatch(/^mem_/);
    expect(Object.keys(first ?? {}).join(' ')).toBe(
      'id login name pull_requests changed before after rank_before rank_after',
    );
    expect(document.members.map(({ name, rank_before, rank_after }) => [name, rank_before, rank_after])).toEqual([
      ['Grace Hopper', 2, 1],
      ['Ada Lovelace', 1, 2],
    ]);
  });

  test('shows what a changed definition and a new condition of a rule do', async () => {
    const tenant = await newOrganisation(20);
    const definedFile = (name: string, limit: number, when: string) => {
      const logic = '[{ expression: large, effect: { action: ADD, value: 3 } }]';
      return write(
        name,
        `define: { large: size > limit, limit: ${limit} }\nrules:\n- { name: Large, logic: ${logic} }\n- { name: Other, ${when}logic: ${logic.replace('large', '"true"')} }\n`,
      );
    };
    const before = definedFile('defined.yaml', 10, '');
    await runJson('rules apply', before, '--organisation', tenant.login);
    expect(await planJson(tenant.login, before)).toMatchObject({ changes: false });
    const after = definedFile('redefined.yaml', 15, 'when: size > 5, ');
    const document = await planJson(tenant.login, after);
    expect(document).toMatchObject({
      changes: true,
      rule_changes: { added: 0, removed: 0, changed: 2, unchanged: 0 },
      definition_changes: { added: 0, removed: 0, changed: 1 },
    });
    expect(document.rules.map(({ changes, entries }) => [changes, entries.map(entry => entry.expression)])).toEqual([
      [['definitions'], ['large', 'large']],
      [['when'], ['(size > 5) && (true)', 'true']],
    ]);
    const { stdout } = await plan(tenant.login, after);
    expect(stdout).toContain('2 changed; definitions: 1 changed');
    expect(stdout).toContain('~ Large (definitions changed)');
    expect(stdout).toContain('~ Other (when changed)');
    await applyAndScore(tenant.login, after);
    expect((await stored(tenant)).reduce((sum, { total }) => sum + total, 0)).toBe(document.scores.after.sum);
  });

  test('saves nothing', async () => {
    const tenant = await newOrganisation(3);
    const contents = async () => {
      const { rows } = await executor.execute(sql`
        select (select md5(string_agg(p::text || xmin, '' order by id)) from pull_requests p) as pull_requests,
          (select count(*) from rulesets) as rulesets, (select count(*) from rules) as rules,
          (select count(*) from score_changes) as score_changes, (select count(*) from rescore_ranges) as ranges`);
      return rows;
    };
    const before = await contents();
    expect(await planJson(tenant.login, rulesFile('any.yaml', ['One', 'true', '1']))).toMatchObject({ changes: true });
    expect(await contents()).toEqual(before);
  });

  test('compares with the rules in force even if stored scores are older', async () => {
    const { login } = await newOrganisation(4);
    const one = rulesFile('one.yaml', ['One', 'true', '1']);
    await runJson('rules apply', one, '--organisation', login);
    const same = await planJson(login, one);
    expect(same.changes).toBe(false);
    expect(same.pull_requests).toMatchObject({ total: 4, changed: 0, outdated: 4 });
    const two = await planJson(login, rulesFile('two.yaml', ['One', 'true', '2']));
    expect(two.scores).toMatchObject({ before: { sum: 4 }, after: { sum: 8 } });
  });
});

describe('a plan without rules in force', () => {
  test('shows no earlier scores or ranks, even with rules switched off', async () => {
    const { login } = await newOrganisation(6);
    const first = rulesFile('first.yaml', ['Even', 'number % 2 == 0', '2'], ['Odd', 'number % 2 == 1', '0 - number']);
    const path = join(folder, 'first.html');
    const { stdout } = await plan(login, first, '--report', path);
    expect(stdout).toContain('6 of 6 get a score (100%): 3 above 0, 3 below 0');
    expect(stdout).toMatch(/^ +1 {2}Ada Lovelace +3 +6$/m);
    const page = readFileSync(path, 'utf8');
    const text = page.replace(/<style>[^<]*|<[^>]*>/g, '');
    for (const shown of [stdout, text]) expect(shown).not.toMatch(/▲|▼|→|change rank|before/i);
    expect(page).not.toMatch(/class="(ranks|outline)"/);
    expect(text).toContain('6 of 6 pull requests get a score');

    const off = write('off.yaml', readFileSync(first, 'utf8').replaceAll('"logic"', '"enabled":"false","logic"'));
    await runJson('rules apply', off, '--organisation', login);
    expect((await plan(login, first)).stdout).not.toMatch(/▲|▼|→|change rank|BEFORE/);
  });

  test('a plan calls the file standard input if it comes from there', async () => {
    const { login } = await newOrganisation(0);
    const input = 'rules: [{ name: One, logic: [{ expression: merged, effect: { action: ADD, value: 1 } }] }]';
    const path = join(folder, 'input.html');
    const operands = ['rules', 'plan', '-', '--organisation', login, '--report', path];
    const { code, stdout } = runWith({ input }, environment, ...operands);
    expect(code).toBe(0);
    expect(stdout).toContain(`${login}: standard input, compared with no rules: none are in force yet`);
    expect(stdout).toContain('none are stored yet');
    expect(stdout).toContain(`The report is in ${path}.`);
    expect(stdout).toContain(`pullscore rules apply - --organisation ${login}`);
    expect(readFileSync(path, 'utf8')).toContain('<bdi>standard input</bdi>');
  });
});

test('rules plan --detailed-exitcode ends with 3 for a change, 0 for none, and 1 for a failure', async () => {
  const { login } = await newOrganisation(2);
  const one = rulesFile('code.yaml', ['One', 'true', '1']);
  expect((await plan(login, one, '--detailed-exitcode')).code).toBe(3);
  expect((await plan(login, one)).code).toBe(0);
  await runJson('rules apply', one, '--organisation', login);
  const nothing = await plan(login, one, '--detailed-exitcode');
  expect(nothing).toMatchObject({ code: 0, stdout: expect.stringContaining('Nothing would change.') });
  // The score does not change, but the answer of GET /rules does.
  const other = rulesFile('renamed.yaml', ['Other', 'true', '1']);
  const renamed = await plan(login, other, '--detailed-exitcode', '--json');
  expect(renamed.code).toBe(3);
  expect(JSON.parse(renamed.stdout)).toMatchObject({ pull_requests: { changed: 0, breakdown_only: 2 } });
  expect((await plan(login, other)).stdout).toContain('2 pull requests keep their scores, but from other entries.');
  expect((await plan(login, one, '--detailed-exitcodes')).code).toBe(2);
  expect((await plan('nobody', one, '--detailed-exitcode')).code).toBe(1);
  expect((await plan(login, join(folder, 'missing.yaml'), '--detailed-exitcode')).code).toBe(1);
  const broken = rulesFile('broken.yaml', ['One', 'title > 5', '1']);
  expect(await plan(login, broken, '--detailed-exitcode')).toMatchObject({ code: 1, stdout: '' });
});

test('rules plan --format markdown prints the plan in Markdown', async () => {
  const { login } = await newOrganisation(2);
  const file = rulesFile('markdown.yaml', ['Size', 'size > 0', '5']);
  const { code, stdout } = await plan(login, file, '--format', 'markdown');
  expect([code, stdout]).toEqual([0, /^### .*\n\n- \*\*Rules:\*\* 1 added\n/]);
  expect(stdout).toContain('| `+ Size` | 2 | 100.0% | +10 |');
  expect((await plan(login, 'rules.yaml', '--format', 'html')).code).toBe(2);
});

test('rules plan --audit says which ways to game the rules are new, worse and gone, and which rule pays', async () => {
  const { login } = await newOrganisation(10);
  const before = rulesFile('paying.yaml', ['Commits', 'commits > 5', '5'], ['Words', 'length(body) > 400', '1']);
  await runJson('rules apply', before, '--organisation', login);
  const after = rulesFile(
    'other.yaml',
    ['Prefix', 'starts_with(title, "fix: ")', '3'],
    ['Words', 'length(body) > 400', '2'],
  );
  const plan = ['rules', 'plan', after, '--organisation', login];
  const { audit } = await runJson<PlanDocument>(...plan, '--audit');
  const statuses = Object.fromEntries(audit?.ways.map(({ way, status }) => [way, status]) ?? []);
  expect(statuses).toMatchObject({ title: 'new', body: 'worse', commits: 'gone', reopen: 'none' });
  const { stdout } = await run(...plan, '--audit', '--format', 'markdown');
  expect(stdout).toContain('| `another prefix of the title` | `+ new` | 0.0% |  | 100.0% | +3.00 | `Prefix` |');
  expect(stdout).toContain('| `ten more commits` | `- gone` | 100.0% | +5.00 | 0.0% |  |  |');
  expect((await run(...plan)).stdout).not.toContain('GAME');
});

describe('--report', () => {
  test('replaces an earlier report, and any other file only with --force', async () => {
    const { login } = await newOrganisation(1);
    const file = rulesFile('page.yaml', ['One', 'true', '1']);
    const path = write('notes.html', `<p>My notes</p>${' '.repeat(4_096)}<meta name="generator" content="pullscore">`);
    // More than can be read at once.
    truncateSync(path, 3e9);
    expect(await complaintOf(plan(login, file, '--report', path))).toBe(
      `pullscore: ${path} exists, and is not a report. Name another file, or add --force to replace it.`,
    );
    expect(statSync(path).size).toBe(3e9);
    expect((await plan(login, file, '--report', path, '--force')).code).toBe(0);
    expect((await plan(login, file, '--report', path)).code).toBe(0);
    expect((await plan(login, file, '--report', folder)).stderr).toContain('EISDIR');
  });

  test('fails at once if it cannot write the page, or would overwrite the rules', async () => {
    const { login } = await newOrganisation(1);
    const file = rulesFile('kept.yaml', ['One', 'true', '1']);
    await executor.execute(sql`update organisations set removed_at = now() where login = ${login}`);
    const wrong: [string, string][] = [
      [join(folder, 'none', 'plan.html'), 'ENOENT'],
      [join(folder, 'x'.repeat(300)), 'ENAMETOOLONG'],
      [`${folder}/none/`, 'EISDIR'],
      ['', 'ENOENT'],
    ];
    for (const [path, reason] of wrong) {
      expect(await complaintOf(plan(login, file, '--force', '--report', path))).toContain(
        `can't be written (${reason})`,
      );
    }
    expect(await complaintOf(plan(login, file, '--report', join(folder, '.', 'kept.yaml')))).toContain('overwrite');
    expect(readFileSync(file, 'utf8')).toContain('One');
  });
});

test.each([
  [undefined, 80],
  ['110', 110],
  ['240', 240],
  ['300', 300],
])('with COLUMNS=%s a plan cuts expressions at column %i, and nowhere else', async (columns, edge) => {
  const { login } = await newOrganisation(3);
  const long = (letter: string) => `title != "${letter.repeat(40)}" && title != "${letter.repeat(140)}"`;
  const rule = ruleWith('Wide', [long('x'), '1'], ['additions > 1', '1']);
  const path = write('wide.yaml', JSON.stringify({ rules: [rule] }));
  const sized = { ...environment, COLUMNS: columns ?? '' };
  const { stdout } = await runHere(sized, 'rules plan', path, '--organisation', login);
  const lines = stdout.split('\n');
  const cut = lines.find(line => line.includes('title !=')) ?? '';
  expect([cut.includes('…'), stringWidth(cut) < edge]).toEqual(edge < 300 ? [true, false] : [false, true]);
  const prose = lines.filter(line => !line.includes('To put it in force') && !line.includes(path));
  for (const line of prose) expect([line, stringWidth(line) <= edge]).toEqual([line, true]);
});
