import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { syncMembers } from '../../src/sync/sync-members.ts';
import { rescoreBatch } from '../support/rescore.ts';
import { startWorld } from '../support/world.ts';
import { commandsWith, createFolder, ruleWith } from './support.ts';

/*
 * What commands show of points for reviews. A hostile login has a colour for the terminal, and markup.
 */
const world = await startWorld();
const { service, acme, web } = world;
const hostile = '\u001b[31m|<b>@eve';
const { run, runJson } = commandsWith({ DATABASE_URL: service.database.url, COLUMNS: '120' });
const organisation = ['--organisation', 'acme'];

const { folder, write } = createFolder();
const rules = [ruleWith('Opened', ['true', '10'])];

function file(name: string, reviews: [name: string, expression: string, value: string][]): string {
  const ofReviews = reviews.map(([name, ...parts]) => ruleWith(name, parts));
  return write(name, JSON.stringify({ rules, ...(reviews.length > 0 && { reviews: ofReviews }) }));
}

async function textOf(...operands: string[]): Promise<string> {
  const { code, stdout, stderr } = await run(...operands);
  expect([code, stderr]).toEqual([0, '']);
  return stdout;
}

/** The table rows without the width of their columns. */
const squeezed = (text: string) => text.replace(/ {2,}/g, '  ');

let without: string;
let first: string;
let second: string;

beforeAll(async () => {
  without = file('without.yaml', []);
  first = file('first.yaml', [['Verdict', 'verdict == "approved"', '3']]);
  second = file('second.yaml', [
    ['Verdict', 'verdict == "approved"', '2'],
    ['Comments', 'review_comments > 0', 'review_comments'],
  ]);
  const [ada, bob, eve] = [acme.member('ada'), acme.member('bob', { name: 'Bob' }), acme.member(hostile)];
  await syncMembers(service, world.organisation);
  const one = web.addPullRequest({ author: ada, number: 1 });
  one.review(bob, 'APPROVED');
  one.review(eve, 'COMMENTED', { comments: 4 });
  one.review(world.github.account('outsider'), 'APPROVED');
  await world.import();
  await runJson('rules apply', without, ...organisation);
  await runJson('rules apply', first, ...organisation);
  while ((await rescoreBatch(service, world.organisation.id)) > 0);
});

test('explain shows what each review is worth, entry by entry, and no login as it is', async () => {
  expect(await textOf('explain', 'acme/web#1')).toContain(`
    +10  Opened
         true

───────
     10  total

Review by bob:

     +3  Verdict
         verdict == "approved" → true   where verdict = "approved"

───────
      3  total

Review by [31m|<b>@eve:

      ·  Verdict: its condition is false
         verdict == "approved" → false   where verdict = "commented"

───────
      0  total

Review by somebody who is not a member:

     +3  Verdict
         verdict == "approved" → true   where verdict = "approved"

───────
      3  total

CHANGED`);
  const document = await runJson<{ reviews: object[] }>('explain acme/web#1');
  expect(document.reviews).toMatchObject([
    { reviewer: 'bob', score: 3 },
    { reviewer: hostile, score: 0 },
    { reviewer: null, member: null, score: 3 },
  ]);
});

test('a plan shows what rules for reviews would change, beside what those of pull requests would', async () => {
  const document = await runJson<{ reviews: object }>('rules plan', second, '--audit', ...organisation);
  expect(document).toMatchObject({
    changes: true,
    rule_changes: { added: 0, removed: 0, changed: 0, unchanged: 1 },
    pull_requests: { total: 1, changed: 0 },
    reviews: {
      rule_changes: { added: 1, removed: 0, changed: 1, unchanged: 0, reordered: false },
      pull_requests: { total: 3, changed: 3, raised: 1, lowered: 2 },
      scores: { before: { sum: 6 }, after: { sum: 8 } },
      rules: [
        { name: 'Verdict', status: 'changed', after: { pull_requests: 2, points: 4 } },
        { name: 'Comments', status: 'added', before: null, after: { pull_requests: 1, points: 4 } },
      ],
      members: [
        { login: hostile, pull_requests: 1, before: 0, after: 4, rank_before: 2, rank_after: 1 },
        { login: 'bob', name: 'Bob', pull_requests: 1, before: 3, after: 2, rank_before: 1, rank_after: 2 },
      ],
      audit: { pull_requests: 1, ways: expect.arrayContaining([expect.objectContaining({ way: 'rubber_stamp' })]) },
    },
  });
  const text = squeezed(await textOf('rules', 'plan', second, '--audit', ...organisation));
  expect(text).toContain(
    '  Review rules  1 added, 1 changed\n  Reviews  3 of 3 change their score (100%): 1 up, 2 down',
  );
  expect(text).toMatch(/^ {2}sum {2}6 {2}8 {2}\+2$/m);
  expect(text).toMatch(
    /^ {2}RANK {2}MOVE {2}MEMBER {2}REVIEWS {2}BEFORE {2}AFTER {2}CHANGE\n {2}1 {2}▲ 1 {2}\[31m\|<b>@eve {2}1/m,
  );
  expect(text).toContain('  a friend approves at once, without a comment');
  const markdown = await textOf('rules', 'plan', second, '--format', 'markdown', ...organisation);
  expect(markdown).toContain('- **Review rules:** 1 added, 1 changed\n- **Reviews:** 3 of 3 change their score');
  expect(markdown).toContain('` [31m\\|<b>@eve`');
  const report = join(folder, 'plan.html');
  await textOf('rules', 'plan', second, '--report', report, ...organisation);
  const page = readFileSync(report, 'utf8');
  expect(page).toContain('<h2 id="review-rules-heading">How often each rule for reviews counts</h2>');
  expect(page).toContain('|&lt;b&gt;@eve');
});

test('a plan without rules for reviews on either side says nothing of them', async () => {
  const tenant = await world.newTenant();
  const place = ['--organisation', tenant.organisation.login];
  expect(await runJson('rules plan', without, ...place)).toMatchObject({ reviews: null });
  for (const options of [[], ['--format', 'markdown']]) {
    expect(await textOf('rules', 'plan', without, ...place, ...options)).not.toMatch(/review/i);
  }
});

test('an audit shows how points for reviews can be gained, and fails if one of these ways is over the limit', async () => {
  type Audit = { reviews: { ways: object[] } };
  const document = await runJson<Audit>('rules audit', first, ...organisation);
  expect(document.reviews.ways[0]).toMatchObject({
    ...{ way: 'rubber_stamp', share: 1, median_gain: 3, rules: [{ name: 'Verdict', share: 1 }] },
    example: { url: /\/acme\/web\/pull\/1$/, before: 6, after: 9 },
  });
  const text = squeezed(await textOf('rules', 'audit', first, ...organisation));
  expect(text).toContain('\n\nBy reviews:\n\nWAY');
  expect(text).toContain('\na friend approves at once, without a comment  100.0%  +3.00  +3\n  paid by Verdict 100%');
  // No way gains from nothing but reviews on other rules.
  expect(await run('rules audit', first, ...organisation, '--max-share', '50%')).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('a friend approves at once, without a comment (100%)'),
  });
  expect(await runJson('rules audit', without, ...organisation)).toMatchObject({ reviews: null });
});

test('rules check, apply, history, diff and export count and show the rules for reviews', async () => {
  expect(await textOf('rules', 'check', second)).toBe(`${second} is valid: 1 rule, 2 rules for reviews; no tests.\n`);
  const applied = await run('rules apply', second, ...organisation);
  expect(applied.stdout).toMatch(/^Version 3 is in force: 1 rule, 2 rules for reviews\. No service is running\./);
  const history = squeezed(await textOf('rules', 'history', ...organisation));
  expect(history).toMatch(
    /^VERSION .* DEFINITIONS {2}REVIEWS\n3 \(in force\) .* 1 {2}0 {2}0 {2}0 {2}- {2}1 added, 1 changed$/m,
  );
  expect(history).toMatch(/^1 .* 1 {2}1 {2}0 {2}0 {2}- {2}-$/m);
  const versions = await runJson<object[]>('rules history', ...organisation);
  expect(versions[0]).toMatchObject({ reviews: { added: ['Comments'], changed: ['Verdict'], removed: [] } });
  expect(await textOf('rules', 'diff', '2', '3', ...organisation)).toContain('+  - name: Comments');
  const diff = await runJson('rules diff 1 2', ...organisation);
  expect(diff).toMatchObject({ added: [], reviews: { added: [{ name: 'Verdict' }], changed: [], removed: [] } });
  const exported = await runJson('rules export', ...organisation);
  expect(exported).toMatchObject({ rules: [{ name: 'Opened' }], reviews: [{ name: 'Verdict' }, { name: 'Comments' }] });
});
