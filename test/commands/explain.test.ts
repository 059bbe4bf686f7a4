import { eq, sql } from 'drizzle-orm';
import { beforeEach, describe, expect, test } from 'vitest';
import { updateOrganisation } from '../../src/database/organisations.ts';
import { suspendRules } from '../../src/database/rules.ts';
import { organisations, pullRequests } from '../../src/database/schema.ts';
import { formatId } from '../../src/ids.ts';
import type { Definition } from '../../src/scoring/language/definitions.ts';
import type { RuleDefinition } from '../../src/scoring/rule.ts';
import { importPullRequests } from '../../src/sync/import.ts';
import { pruneOrganisation } from '../../src/sync/prune.ts';
import { entry, rule as ruleOf } from '../scoring/support.ts';
import { rescoreAll } from '../support/rescore.ts';
import { applyRules, createTenant, insertPullRequests } from '../support/tenants.ts';
import { type SyncTenant, startSyncWorld } from '../sync/support.ts';
import { createFolder, runHere } from './support.ts';

const { write, writeRules } = createFolder();
const world = await startSyncWorld({ RECONCILE_INTERVAL: '900' });
const { service, executor, github } = world;
let tenant: SyncTenant;
let login: string;
let id: string;

const rule = (name: string, ...logic: Parameters<typeof entry>[]) => ruleOf(name, ...logic.map(each => entry(...each)));

const rules: RuleDefinition[] = [
  rule('Merged', ['merged', '10']),
  rule('Size', ['merged && size <= 200', '5'], ['size > 400', 'min(20, per(size - 400, 100))', 'SUBTRACT']),
  rule('Quick', ['hours_to_merge <= 24 || has_label("priority: high")', '8']),
  rule('Tests', ['any_file("test/**") && !draft', 'hours_to_merge / 2']),
  { ...rule('Bots', ['author_is_bot', '10', 'SUBTRACT']), is_enabled: false },
];

async function explainIn(columns: number, ...operands: string[]): Promise<string> {
  const environment = { DATABASE_URL: service.database.url, COLUMNS: String(columns) };
  const { code, stdout, stderr } = await runHere(environment, 'explain', ...operands);
  if (code !== 0) throw new Error(stderr);
  return stdout;
}

const explain = (...operands: string[]) => explainIn(300, ...operands);

const explainJson = async (operand: string) => JSON.parse(await explain(operand, '--json'));

const apply = (rules: RuleDefinition[], definitions: Definition[] = []) =>
  applyRules(service, tenant.organisation.id, { rules, definitions });

async function applyAndScore(...given: Parameters<typeof apply>): Promise<void> {
  await apply(...given);
  await rescoreAll(service, tenant.organisation.id);
}

/** Changes the stored pull requests of the organisation. */
const change = (values: Partial<typeof pullRequests.$inferInsert>) =>
  executor.update(pullRequests).set(values).where(eq(pullRequests.organisationId, tenant.organisation.id));

beforeEach(async () => {
  tenant = await world.newTenant();
  ({ login } = tenant.acme);
  tenant.web.addPullRequest({
    author: tenant.acme.member('grace', { name: 'Grace' }),
    title: 'Answer 404 for unknown members',
    state: 'MERGED',
    createdAt: 1_767_571_200,
    mergedAt: 1_767_571_200 + 36 * 3600,
    closedAt: 1_767_571_200 + 36 * 3600,
    additions: 400,
    deletions: 312,
    labels: ['Bug', 'Priority: high'],
    files: [
      { path: 'src/members.ts', additions: 400, deletions: 312 },
      { path: 'test/members.test.ts', additions: 0, deletions: 0 },
    ],
  });
  await apply([rule('Merged', ['merged', '4'])]);
  await importPullRequests(service, tenant.organisation);
  await applyAndScore(rules);
  const [row] = await tenant.storedPullRequests();
  id = formatId('pr', row?.id ?? '');
});

/** The text without its id and times, of `acme`. */
const stable = (text: string) =>
  text
    .replaceAll(id, 'pr_1')
    .replaceAll(login, 'acme')
    .replace(/\d{4}-\d\d-\d\d \d\d:\d\d/g, 'TIME');

test('explain shows the value of every part of each entry, and why it counts or does not', async () => {
  expect(stable(await explain(id))).toBe(`acme/web#1  Answer 404 for unknown members
merged, by grace  https://github.com/acme/web/pull/1  pr_1

Score 33 under version 2 of the rules, which is in force.

    +10  Merged
         merged = true

      ·  Size, entry 1: its condition is false
         merged && size <= 200 → false
           merged = true
           size <= 200 → false   where size = 712 (additions 400 + deletions 312)

     −3  Size, entry 2
         size > 400 → true   where size = 712 (additions 400 + deletions 312)
         min(20, per(size - 400, 100)) → 3
           per(size - 400, 100) → 3
             size - 400 → 312   where size = 712

     +8  Quick
         hours_to_merge <= 24 || has_label("priority: high") → true
           hours_to_merge <= 24 → false   where hours_to_merge = 36
           has_label("priority: high") → true   where labels = ["Bug", "Priority: high"]

    +18  Tests
         any_file("test/**") && !draft → true
           any_file("test/**") → true (1 of 2 files: test/members.test.ts)
           !draft → true   where draft = false
         hours_to_merge / 2 → 18   where hours_to_merge = 36

      ·  Bots: the rule is disabled

───────
     33  total

CHANGED (UTC)     FROM  TO  CAUSE
TIME     -   4  first seen; scored by version 1
TIME     4  33  scored again by version 2
`);
});

test('explain shows the value of each definition and the whole condition of a rule', async () => {
  await applyAndScore(
    [{ ...rule('Effort', ['effort > 10', 'min(effort, limit)']), when: 'merged && !draft' }],
    [
      { name: 'effort', expression: 'sqrt(changed - 36)' },
      { name: 'changed', expression: 'additions + deletions' },
      { name: 'limit', expression: '20' },
    ],
  );
  expect(await explain(id)).toContain(`
    +20  Effort
         (merged && !draft) && (effort > 10) → true
           merged = true
           !draft → true   where draft = false
           effort > 10 → true
             effort → 26
               sqrt(changed - 36) → 26
                 changed - 36 → 676
                   changed → 712
                     additions + deletions → 712   where additions = 400, deletions = 312
         min(effort, limit) → 20
           effort → 26
             sqrt(changed - 36) → 26
               changed - 36 → 676
                 changed → 712
                   additions + deletions → 712   where additions = 400, deletions = 312
           limit → 20
`);
  const [entry] = (await explainJson(id)).rules[0].entries;
  expect(entry).toMatchObject({ expression: '(merged && !draft) && (effort > 10)', value: 'min(effort, limit)' });
  const [stored] = await tenant.storedPullRequests();
  expect(JSON.parse(stored?.scoreBreakdown ?? '')).toEqual([
    { name: 'Effort', action: 'ADD', effect: 20, expression: '(merged && !draft) && (effort > 10)' },
  ]);
});

test('in a narrow terminal the entries of explain fit, and lose nothing', async () => {
  const entriesIn = async (columns: number) => {
    const text = await explainIn(columns, id);
    return text.slice(text.indexOf('in force.'), text.indexOf('CHANGED'));
  };
  const wide = await entriesIn(300);
  for (const columns of [60, 80]) {
    const narrow = await entriesIn(columns);
    for (const line of narrow.split('\n')) expect([line, line.length <= columns]).toEqual([line, true]);
    expect(narrow.replace(/\s+/g, '')).toBe(wide.replace(/\s+/g, ''));
  }
});

test('explain --json has the same facts as the text', async () => {
  const answer = await explainJson(id);
  expect(answer).toMatchObject({
    id,
    url: `https://github.com/${login}/web/pull/1`,
    organisation: login,
    repository: `${login}/web`,
    number: 1,
    score: 33,
    ruleset_version: 2,
    ruleset_version_in_force: 2,
    outdated: false,
    score_in_force: 33,
    explained_score: 33,
    sum: 33,
    history: [
      { changed_at: expect.any(Number), from: null, to: 4, cause: 'pull_request', ruleset_version: 1 },
      { changed_at: expect.any(Number), from: 4, to: 33, cause: 'ruleset', ruleset_version: 2 },
    ],
  });
  const outcomes = answer.rules.map(({ name, entries }: { name: string; entries: { outcome: string }[] }) => [
    name,
    ...entries.map(({ outcome }) => outcome),
  ]);
  expect(outcomes).toEqual([
    ['Merged', 'counted'],
    ['Size', 'condition_false', 'counted'],
    ['Quick', 'counted'],
    ['Tests', 'counted'],
    ['Bots', 'disabled'],
  ]);
  expect(answer.rules[1].entries[0].condition.parts[1]).toEqual({
    ...{ source: 'size <= 200', kind: 'operation', value: false, note: '', chosen: true },
    parts: [
      { source: 'size', kind: 'fact', value: 712, note: 'additions 400 + deletions 312', chosen: true, parts: [] },
    ],
  });
});

describe('a pull request', () => {
  test('explain finds a pull request by the address of its page', async () => {
    const upper = login.toUpperCase();
    const addresses = [
      `https://github.com/${login}/web/pull/1`,
      `https://github.com/${upper}/WEB/pull/1/`,
      `https://github.com/${login}/web/pull/1/files?w=1#diff-0`,
      `http://GitHub.com/${login}/web/pull/001`,
      `${upper}/web#1`,
    ];
    for (const url of addresses) expect((await explainJson(url)).id).toBe(id);
  });

  test('explain refuses an unknown pull request, and what is neither an id nor an address', async () => {
    const names: [name: string, message: string][] = [
      ['pr_01jz8k3v5xe2ksn5q0w4g7h9ab', 'There is no pull request pr_01jz8k3v5xe2ksn5q0w4g7h9ab here'],
      ['pr_no', 'There is no pull request pr_no here'],
      [
        'https://github.com/acme/web/pull/2',
        'There is no pull request https://github.com/acme/web/pull/2 here. If the repository was renamed, give its new name. Otherwise import it: pullscore import --organisation LOGIN --repository acme/web',
      ],
      ['https://github.com/acme/api/pull/1', 'There is no pull request'],
      ['https://ghe.acme.example/acme/web/pull/1', 'There is no pull request'],
      ['https://github.com/acme/web/issues/1', 'is neither a pull request'],
      ['https://github.com/acme/web/pull/12345678901', 'is neither a pull request'],
      ['ftp://github.com/acme/web/pull/1', 'is neither a pull request'],
      ['acme/web#2', 'There is no pull request acme/web#2 here. If the repository was renamed'],
      ['acme/web/1#1', 'is neither a pull request'],
      ['', 'is neither a pull request'],
      ['\u001b[31m', '"[31m" is neither a pull request'],
      ['mem_01jz8k3v5xe2ksn5q0w4g7h9ab', 'is neither a pull request'],
    ];
    for (const [name, message] of names) await expect(explain(name)).rejects.toThrow(message);
  });

  test('explain finds a pull request by the new address of a renamed repository', async () => {
    const isOurs = sql`organisation_id = ${tenant.organisation.id}`;
    await executor.execute(sql`update repositories set name = ${`${login}/website`} where ${isOurs}`);
    expect((await explainJson(`https://github.com/${login}/website/pull/1`)).id).toBe(id);
    await expect(explain(`https://github.com/${login}/web/pull/1`)).rejects.toThrow('There is no pull request');
  });

  test('explain needs the id of a pull request if two organisations have one with its address', async () => {
    const ids: string[] = [];
    for (const name of ['one', 'other']) {
      const [added] = await insertPullRequests(service, await createTenant(service, { login: name }), [1_700_000_000]);
      ids.push(formatId('pr', added ?? ''));
    }
    const [one = '', otherId = ''] = ids;
    await expect(explain('https://github.com/acme/web/pull/1')).rejects.toThrow(
      `is stored more than once. Name one by its id: ${one} (one), ${otherId} (other).`,
    );
    expect((await explainJson(otherId)).organisation).toBe('other');
    expect(await explain(otherId)).toContain(
      'Score 0: no rules have been applied yet. Apply some: pullscore rules apply FILE --organisation other\n\nThere are no rules',
    );
  });
});

describe('a score', () => {
  test('explain uses the version of an outdated score, and gives the score by the version in force', async () => {
    await apply([rule('Merged', ['merged', '7'])]);
    expect(stable(await explain(id))).toContain(
      'Score 33 under version 2 of the rules. Version 3, in force, gives 7. No service is running. To update the scores: pullscore rescore --organisation acme',
    );
    expect(await explainJson(id)).toMatchObject({
      score: 33,
      ruleset_version: 2,
      ruleset_version_in_force: 3,
      outdated: true,
      score_in_force: 7,
    });
    await applyAndScore(rules);
    // The row keeps version 2, which gave the same score.
    expect(await explainJson(id)).toMatchObject({ score: 33, ruleset_version: 4, outdated: false });
  });

  test('explain says that the version in force gives the same as an outdated score', async () => {
    await apply([rule('Thirty-three', ['merged', '33'])]);
    expect(await explain(id)).toContain('\nScore 33 under version 2 of the rules. Version 3, in force, gives 33. ');
  });

  test('explain says that a score by the former name of its repository is outdated', async () => {
    await applyAndScore([rule('Web', ['ends_with(repository, "/web")', '5'])]);
    tenant.web.rename('site');
    await tenant.compareOnly();
    const text = await explain(id);
    expect(text).toContain('\nScore 5 under version 3 of the rules. Version 3, in force, gives 0. ');
    expect(text).not.toContain('The next sync');
  });

  test('explain --rules explains the score by a rules file, and saves nothing', async () => {
    const file = writeRules('next.yaml', ['Merged', 'merged', '7']);
    const before = await explainJson(id);
    const text = await explain(id, '--rules', file);
    expect(text).toContain(`\nScore 7 by ${file}. The stored score is 33.\n\n     +7  Merged\n`);
    expect(JSON.parse(await explain(id, '--rules', file, '--json'))).toMatchObject({
      file,
      ruleset_version: null,
      score: 33,
      explained_score: 7,
      rules: [{ name: 'Merged' }],
      history: before.history,
    });
    expect(await explainJson(id)).toEqual(before);
    expect(before).toMatchObject({ file: null, ruleset_version: 2 });
    write('next.yaml', 'rules: [{ name: A }]');
    await expect(explain(id, '--rules', file)).rejects.toThrow('next.yaml:1: ');
  });

  test('explain --rules explains an outdated score by a rules file that replaces suspended rules', async () => {
    await apply([rule('Slow', ['true', '1'])]);
    await suspendRules(executor, tenant.organisation.id, 3, 'entry 1 of "Slow"');
    const file = writeRules('next.yaml', ['Merged', 'merged', '7']);
    await expect(explain(id)).rejects.toThrow('The rules in force are suspended');
    expect(JSON.parse(await explain(id, '--rules', file, '--json'))).toMatchObject({
      outdated: true,
      score_in_force: null,
      explained_score: 7,
    });
    expect(await explain(id, '--rules', file)).toContain(`Score 7 by ${file}. The stored score is 33.`);
  });

  test('explain compares a score by another release with what this release calculates', async () => {
    await change({ score: 34 });
    expect(await explain(id)).toContain(
      'This release calculates 33, as shown below. The next sync of the pull request updates the stored score.',
    );
  });

  test('is limited to 32 bits, and its explanation names rules that are no longer valid', async () => {
    const max = '2147483647';
    await applyAndScore([rule('Old', ['title.length > 3', '1']), rule('Max', ['merged', max], ['merged', max])]);
    const text = await explain(id);
    expect(text).toContain(`      ·  Old: the rule is no longer valid, so it does not count
         Rule "Old", entry 1, expression: `);
    expect(text).toContain('\n2,147,483,647  total: the sum 4,294,967,294, limited to 32 bits\n');
  });

  test('explain shows the latest changes of a score, and counts earlier ones, which are folded by month', async () => {
    for (let points = 1; points <= 21; points += 1) await applyAndScore([rule('Merged', ['merged', String(points)])]);
    const isOurs = sql`organisation_id = ${tenant.organisation.id}`;
    await executor.execute(sql`update score_changes set changed_at = '2026-01-15Z' where ${isOurs}`);
    const { history: before } = await explainJson(id);
    expect(before).toHaveLength(23);
    expect(before.at(-1)).toMatchObject({ from: 20, to: 21, cause: 'ruleset' });
    const note = '… and 3 earlier changes; --json shows them, the oldest by month';
    expect(await explain(id)).toContain(note);
    await executor.update(organisations).set({ pruneDueAt: sql`now() + interval '1 hour'` });
    await updateOrganisation(executor, tenant.organisation.id, { pruneDueAt: sql`now()` });
    expect(await pruneOrganisation(service)).toBe(true);
    const { history } = await explainJson(id);
    expect(history.slice(1)).toEqual(before.slice(-20));
    expect(history[0]).toEqual({ ...before[2], from: null, changes: 3 });
    expect(await explain(id)).toContain(note);
  });
});

test('explain shows only the beginning of a long body', async () => {
  await change({ body: `${'a'.repeat(999)}${'\u{1F642}'.repeat(30_000)}` });
  await applyAndScore([rule('Explained', ['lower(body) != "x"', '1'])]);
  expect(await explain(id)).toContain(`body = "${'a'.repeat(79)}…" (30,999 characters)`);
  const [lower] = (await explainJson(id)).rules[0].entries[0].condition.parts;
  expect(lower).toMatchObject({ source: 'lower(body)', value: `${'a'.repeat(999)}…`, note: 'shortened' });
});

test('titles, labels and paths cannot control the terminal', async () => {
  const hostile = 'a\u001b]0;owned\u0007\n\u202eb\u009b31m';
  await change({ title: hostile, labels: [hostile], files: [hostile], author: hostile });
  await applyAndScore([
    rule(`Rule ${hostile}`.replace('\n', ' '), ['has_label("a") || any_file("**") || title == "x"', '1']),
  ]);
  const text = await explain(id);
  expect(text).toMatch(/^[\n\P{C}]*$/u);
  expect(text).toContain('a ]0;owned b 31m');
});

describe('the page of a repository that was transferred away', () => {
  /** Two pull requests with one page: the first has left with its repository. */
  async function takeName() {
    const { acme } = tenant;
    const author = acme.member('ada');
    const gone = acme.repository('site');
    const before = gone.addPullRequest({ author });
    await importPullRequests(service, tenant.organisation);
    gone.transfer(github.organisation(`elsewhere-${login}`));
    const present = acme.repository('site').addPullRequest({ author });
    await importPullRequests(service, tenant.organisation);
    const rows = await Promise.all([before, present].map(wanted => tenant.stored(wanted)));
    expect(rows.map(row => row?.url)).toEqual(Array(2).fill(present.url));
    return { url: present.url, ids: rows.map(row => formatId('pr', row?.id ?? '')) };
  }

  test('the address of a transferred repository leads to its successor, before and after a comparison', async () => {
    const { url, ids } = await takeName();
    for (const compare of [() => tenant.compareOnly(), () => undefined]) {
      expect(await explainJson(url)).toMatchObject({ id: ids[1], repository_left_at: null });
      await compare();
    }
  });

  test('explain says that a repository has left, once a comparison has found that', async () => {
    const { ids } = await takeName();
    const left = ids[0] ?? '';
    expect((await explainJson(left)).repository_left_at).toBeNull();
    await tenant.compareOnly();
    expect((await explainJson(left)).repository_left_at).toBeCloseTo(Date.now() / 1000, -2);
    const text = await explain(left);
    expect(stable(text)).toContain('\nThe repository has left the organisation, as seen on TIME UTC: ');
    expect(await explain(ids[1] ?? '')).not.toContain('has left');
    // No other has its name.
    tenant.web.transfer(github.organisation(`elsewhere-${login}`));
    await tenant.compareOnly();
    expect(await explain(`https://github.com/${login}/web/pull/1`)).toContain('has left the organisation');
  });
});
