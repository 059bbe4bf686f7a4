import { eq } from 'drizzle-orm';
import { beforeAll, describe, expect, test } from 'vitest';
import { members, pullRequests, repositories } from '../../src/database/schema.ts';
import { formatId, newId } from '../../src/ids.ts';
import type { Reviewer } from '../../src/pull-request.ts';
import type { StandingsDocument } from '../../src/reports/standings.ts';
import { rescoreAll } from '../support/rescore.ts';
import { insertPullRequests, type Tenant } from '../support/tenants.ts';
import { startWorld } from '../support/world.ts';
import { commandsWith, createFolder, ruleWith } from './support.ts';

const { service, executor, newTenant } = await startWorld();
/** Without credentials, and nothing listens where GitHub should be. */
const { run, runJson } = commandsWith({ DATABASE_URL: service.database.url, GITHUB_API_URL: 'http://127.0.0.1:1' });
const { write, writeRules } = createFolder();

/** One point for each line added, and one less for each line removed. */
const lineRules = writeRules('lines.yaml', ['Pays', 'true', 'additions - deletions']);

const rulesFile = (name: string, value: string) => writeRules(name, ['Pays', 'true', value]);

const unixSeconds = (text: string) => Date.parse(text) / 1000;

interface Added {
  by: string;
  /** The score by {@link lineRules}. */
  lines: number;
  in?: string;
  created?: string;
  merged?: string;
}

/**
 * An organisation whose scores are up to date.
 *
 * @param people names by login
 * @param rules the file that is applied, or an empty text for none
 */
async function newOrganisation(
  people: Record<string, string>,
  added: readonly Added[],
  rules = lineRules,
): Promise<Tenant & { login: string }> {
  const tenant = await newTenant();
  const { id: organisationId, login } = tenant.organisation;
  const memberIds = new Map(Object.keys(people).map(name => [name, newId()]));
  const repositoryIds = new Map(added.map(({ in: name = 'acme/web' }) => [name, newId()]));
  await executor.insert(members).values(
    Object.entries(people).map(([who, name], index) => ({
      ...{ organisationId, id: memberIds.get(who) ?? '', githubId: 100 + index },
      ...{ login: who, name, photoUrl: '' },
    })),
  );
  await executor.insert(repositories).values(
    [...repositoryIds].map(([name, id], index) => ({
      ...{ organisationId, id, githubId: 100 + index, nodeId: `R_${name}`, name },
    })),
  );
  const times = added.map(({ created = '2026-01-15T12:00:00Z' }) => unixSeconds(created));
  for (const [index, id] of (await insertPullRequests(service, tenant, times)).entries()) {
    const { by = '', lines = 0, in: repository = 'acme/web', merged } = added[index] ?? {};
    await executor
      .update(pullRequests)
      .set({
        memberId: memberIds.get(by) ?? '',
        repositoryId: repositoryIds.get(repository) ?? '',
        additions: Math.max(0, lines),
        deletions: Math.max(0, -lines),
        ...(merged !== undefined && { state: 'merged', mergedAt: unixSeconds(merged) }),
      })
      .where(eq(pullRequests.id, id));
  }
  if (rules !== '') await applyAndScore(login, organisationId, rules);
  return { ...tenant, login };
}

async function applyAndScore(login: string, organisationId: string, file: string): Promise<void> {
  await runJson('rules apply', file, '--organisation', login);
  await rescoreAll(service, organisationId);
}

const standingsJson = (login: string, ...options: string[]) =>
  runJson<StandingsDocument>('standings --organisation', login, ...options);

const standings = (login: string, ...options: string[]) => run('standings --organisation', login, ...options);

/** With `ID` for each id. */
async function csv(login: string, ...options: string[]): Promise<string> {
  const { stdout, ...ended } = await standings(login, ...options, '--csv');
  expect(ended).toEqual({ code: 0, stderr: '' });
  return stdout.replace(/(mem|repo)_\w{26}/g, 'ID');
}

/** `ada 2 30`: who, how many pull requests, which score. */
const rowsOf = (document: StandingsDocument) =>
  document.standings.map(({ login, name, pull_requests: count, score }) => `${login ?? name} ${count} ${score}`);

describe('standings of members', () => {
  let acme: Tenant & { login: string };
  beforeAll(async () => {
    const people = { ada: 'Ada Lovelace', eva: 'eva', zola: 'Émile Zola', grace: 'Grace Hopper', zoe: '', idle: 'I' };
    acme = await newOrganisation(people, [
      { by: 'eva', lines: 5 },
      { by: 'ada', lines: 1_000 },
      { by: 'ada', lines: 234 },
      { by: 'ada', lines: 0 },
      { by: 'zola', lines: 5 },
      { by: 'grace', lines: -3 },
      { by: 'zoe', lines: 1 },
      { by: 'zoe', lines: 4 },
    ]);
    await executor.update(members).set({ leftAt: new Date() }).where(eq(members.login, 'grace'));
    // Not of this organisation.
    await newOrganisation({ ada: 'Ada Lovelace' }, [{ by: 'ada', lines: 7 }]);
  });

  test('the highest total comes first; equal ones share a rank, sorted as people sort names', async () => {
    const row = (rank: number, login: string, name: string, count: number, score: number, mean: number) => ({
      rank,
      id: /^mem_[0-9a-z]{26}$/,
      name,
      login,
      left: login === 'grace',
      pull_requests: count,
      score,
      mean,
      reviews: 0,
      review_score: 0,
      total: score,
      rules: [{ name: 'Pays', score, share: Math.sign(score) }],
    });
    expect(await standingsJson(acme.login)).toEqual({
      organisation: acme.login,
      of: 'members',
      by: 'created',
      since: null,
      until: null,
      file: null,
      ruleset_version: 1,
      outdated: 0,
      pull_requests: 8,
      score: 1_246,
      reviews: 0,
      review_score: 0,
      total: 1_246,
      ranked: 5,
      rules: [{ name: 'Pays', score: 1_246, share: 1 }],
      standings: [
        row(1, 'ada', 'Ada Lovelace', 3, 1_234, 411.33),
        row(2, 'zola', 'Émile Zola', 1, 5, 5),
        row(2, 'eva', 'eva', 1, 5, 5),
        row(2, 'zoe', '', 2, 5, 2.5),
        row(5, 'grace', 'Grace Hopper', 1, -3, -3),
      ],
    });
  });

  test('are a table with a note at former members, and a last line for all', async () => {
    expect(
      (await standings(acme.login)).stdout,
    ).toBe(`${acme.login}: all pull requests, scored by version 1 of the rules

RANK  MEMBER        LOGIN         PULL REQUESTS  TOTAL    MEAN
   1  Ada Lovelace  ada                       3  1,234  411.33
   2  Émile Zola    zola                      1      5    5.00
   2  eva           eva                       1      5    5.00
   2  zoe           zoe                       2      5    2.50
   5  Grace Hopper  grace (left)              1     −3   −3.00
      total                                   8  1,246  155.75
`);
  });

  test('--csv has a header line and plain numbers', async () => {
    expect(await csv(acme.login)).toBe(`rank,id,name,login,left,pull_requests,score,mean,reviews,review_score,total
1,"ID","Ada Lovelace","ada",false,3,1234,411.33,0,0,1234
2,"ID","Émile Zola","zola",false,1,5,5,0,0,5
2,"ID","eva","eva",false,1,5,5,0,0,5
2,"ID","","zoe",false,2,5,2.5,0,0,5
5,"ID","Grace Hopper","grace",true,1,-3,-3,0,0,-3
`);
  });
});

test('standings --csv quotes every text, and no name becomes a formula, whatever separates cells', async () => {
  const names = [
    ['Lovelace, Ada', '"Lovelace, Ada"'],
    ['Ada "Countess"', '"Ada ""Countess"""'],
    ['=1+1', `"'=1+1"`],
    ['+1', `"'+1"`],
    ['-1', `"'-1"`],
    ['@SUM(1,1)', `"'@SUM(1,1)"`],
    ['\t=1', `"' =1"`],
    ['\r\n=1', `"' =1"`],
    ['\u200f=1', `"'=1"`],
    ['＝1', `"'＝1"`],
    ['=HYPERLINK("x")', `"'=HYPERLINK(""x"")"`],
    ['one\r\ntwo\u001b[31m', '"one two [31m"'],
    ['a=1', '"a=1"'],
    ['a;=1', `"a;'=1"`],
    ['a; +1;-1', `"a;' +1;'-1"`],
    ['a;"=1', `"a;'""=1"`],
    ['a; b', '"a; b"'],
  ] as const;
  const people = Object.fromEntries(names.map(([name], index) => [`m${index}`, name]));
  const { login } = await newOrganisation(
    people,
    Object.keys(people).map((by, index) => ({ by, lines: 100 - index })),
  );
  const lines = (await csv(login)).trimEnd().split('\n').slice(1);
  expect(lines.map(line => /^\d+,"ID",(.*),"m\d+",false,1,\d+,\d+,0,0,\d+$/.exec(line)?.[1])).toEqual(
    names.map(([, cell]) => cell),
  );
});

describe('a period', () => {
  let login: string;
  beforeAll(async () => {
    ({ login } = await newOrganisation({ ada: 'Ada' }, [
      { by: 'ada', lines: 1, created: '2025-12-31T23:59:59Z', merged: '2026-01-01T00:00:00Z' },
      { by: 'ada', lines: 10, created: '2026-01-01T00:00:00Z', merged: '2026-01-31T23:59:59Z' },
      { by: 'ada', lines: 100, created: '2026-01-31T23:59:59Z', merged: '2026-02-01T00:00:00Z' },
      { by: 'ada', lines: 1_000, created: '2026-02-01T00:00:00Z' },
    ]));
  });

  test.each([
    [[], 1_111, 'all pull requests'],
    [['--since', '2026-01-01'], 1_110, 'pull requests created since 2026-01-01 (UTC)'],
    [['--until', '2026-01-31'], 111, 'pull requests created until 2026-01-31 (UTC)'],
    [
      ['--since', '2026-01-01', '--until', '2026-01-31'],
      110,
      'pull requests created from 2026-01-01 to 2026-01-31 (UTC)',
    ],
    [['--since', '2026-01-31', '--until', '2026-01-31'], 100, 'pull requests created on 2026-01-31 (UTC)'],
    [
      ['--since', '0000-01-01', '--until', '9999-12-31'],
      1_111,
      'pull requests created from 0000-01-01 to 9999-12-31 (UTC)',
    ],
    [['--by', 'merged'], 111, 'all merged pull requests'],
    [['--by', 'merged', '--since', '2026-02-01'], 100, 'pull requests merged since 2026-02-01 (UTC)'],
    [
      ['--by', 'merged', '--since', '2026-01-01', '--until', '2026-01-31'],
      11,
      'pull requests merged from 2026-01-01 to 2026-01-31 (UTC)',
    ],
  ])('with %j standings count both days, from midnight to midnight UTC', async (options, total, words) => {
    expect((await standingsJson(login, ...options)).score).toBe(total);
    expect((await standings(login, ...options)).stdout).toMatch(`${login}: ${words}, scored by version 1`);
    const again = await standingsJson(login, ...options, '--rules', rulesFile('double.yaml', 'additions * 2'));
    expect(again.score).toBe(2 * total);
  });

  test('standings of a period without any pull request have no rows', async () => {
    const empty = ['--since', '2024-01-01', '--until', '2024-12-31'];
    expect(await standingsJson(login, ...empty)).toMatchObject({ pull_requests: 0, score: 0, standings: [] });
    expect(await csv(login, ...empty)).toBe(
      'rank,id,name,login,left,pull_requests,score,mean,reviews,review_score,total\n',
    );
    expect((await standings(login, ...empty, '--rules', lineRules)).stdout).toBe(
      `${login}: pull requests created from 2024-01-01 to 2024-12-31 (UTC), scored by ${lineRules}\n\nNo pull requests in this period.\n`,
    );
    const { organisation } = await newTenant();
    expect((await standings(organisation.login)).stdout).toContain(': all pull requests\n\nNo pull requests.\n');
  });
});

describe('standings of repositories', () => {
  let login: string;
  beforeAll(async () => {
    ({ login } = await newOrganisation({ ada: 'Ada', bert: 'Bert' }, [
      { by: 'ada', lines: 10, in: 'acme/web' },
      { by: 'bert', lines: 20, in: 'acme/web' },
      { by: 'ada', lines: 30, in: 'acme/API' },
      { by: 'ada', lines: 500, in: 'acme/gone' },
      { by: 'bert', lines: 7, in: 'acme/bin' },
    ]));
    await executor.update(repositories).set({ leftAt: new Date() }).where(eq(repositories.name, 'acme/gone'));
  });

  test('repositories with equal totals are sorted by name, and one that has left is not listed', async () => {
    const document = await standingsJson(login, '--of', 'repositories');
    expect(document).toMatchObject({ pull_requests: 4, score: 67 });
    expect(document.standings[0]).toEqual({
      rank: 1,
      id: /^repo_[0-9a-z]{26}$/,
      name: 'acme/API',
      pull_requests: 1,
      score: 30,
      mean: 30,
      reviews: 0,
      review_score: 0,
      total: 30,
      rules: [{ name: 'Pays', score: 30, share: 1 }],
    });
    expect(document.standings.map(({ rank, name }) => [rank, name])).toEqual([
      [1, 'acme/API'],
      [1, 'acme/web'],
      [3, 'acme/bin'],
    ]);
    expect((await standings(login, '--of', 'repositories')).stdout).toContain(`
RANK  REPOSITORY  PULL REQUESTS  TOTAL   MEAN
   1  acme/API                1     30  30.00
   1  acme/web                2     30  15.00
   3  acme/bin                1      7   7.00
      total                   4     67  16.75
`);
    expect(await csv(login, '--of', 'repositories')).toMatch(
      /^rank,id,name,pull_requests,score,mean,reviews,review_score,total\n1,"ID","acme\/API",1,30,30,0,0,30\n/,
    );
  });

  test('pull requests of a repository that has left do not count for their authors either', async () => {
    expect(rowsOf(await standingsJson(login))).toEqual(['ada 2 40', 'bert 2 27']);
    const byFile = await standingsJson(login, '--rules', rulesFile('one.yaml', '1'));
    expect(rowsOf(byFile)).toEqual(['ada 2 2', 'bert 2 2']);
  });
});

test('standings --by-rule shows what each rule gave and took, of stored scores as of a file', async () => {
  const entry = (expression: string, action: string, value: string) => ({ expression, effect: { action, value } });
  const rules = [
    { name: 'Lines', logic: [entry('true', 'ADD', 'additions'), entry('additions > 5', 'ADD', '1')] },
    { name: '=Large', logic: [entry('additions > 5', 'SUBTRACT', '3')] },
  ];
  const path = write('two.yaml', JSON.stringify({ rules }));
  const added = [
    { by: 'ada', lines: 8 },
    { by: 'ada', lines: 1 },
  ];
  const withoutPoints = { by: 'bob', lines: 0 };
  const { login } = await newOrganisation({ ada: 'Ada', bob: 'Bob' }, [...added, withoutPoints], path);
  const byRule = [
    { name: 'Lines', score: 10, share: 10 / 13 },
    { name: '=Large', score: -3, share: -3 / 13 },
  ];
  const { standings: stored } = await standingsJson(login);
  expect(stored).toMatchObject([
    { score: 7, mean: 3.5, rules: byRule },
    { score: 0, rules: [] },
  ]);
  expect((await standingsJson(login, '--rules', path)).standings).toEqual(stored);
  expect((await standings(login, '--by-rule')).stdout).toContain(`
RANK  MEMBER    LOGIN  PULL REQUESTS  TOTAL  MEAN OR SHARE
   1  Ada       ada                2      7           3.50
        Lines                            10          76.9%
        =Large                           −3         −23.1%
`);
  expect(
    await csv(login, '--by-rule'),
  ).toBe(`rank,id,name,login,left,pull_requests,score,mean,rule,rule_score,rule_share,reviews,review_score,total
1,"ID","Ada","ada",false,2,7,3.5,"Lines",10,0.77,0,0,7
1,"ID","Ada","ada",false,2,7,3.5,"'=Large",-3,-0.23,0,0,7
2,"ID","Bob","bob",false,1,0,0,,,,0,0,0
`);
});

test('standings --rules gives what applying the file then gives, and saves nothing', async () => {
  const { login, organisation } = await newOrganisation({ ada: 'Ada', bert: 'Bert' }, [
    { by: 'ada', lines: 10 },
    { by: 'bert', lines: 40 },
    { by: 'ada', lines: -20, merged: '2026-01-20T00:00:00Z' },
  ]);
  const file = rulesFile('merged.yaml', 'merged ? 100 : additions');
  const before = await standingsJson(login);
  const planned = await standingsJson(login, '--rules', file);
  expect(planned).toMatchObject({ file, ruleset_version: null, outdated: 0, pull_requests: 3, score: 150 });
  expect(rowsOf(planned)).toEqual(['ada 2 110', 'bert 1 40']);
  expect(rowsOf(before)).toEqual(['bert 1 40', 'ada 2 -10']);
  expect(await standingsJson(login)).toEqual(before);
  await applyAndScore(login, organisation.id, file);
  expect(await standingsJson(login)).toEqual({ ...planned, file: null, ruleset_version: 2 });
});

describe('points for reviews', () => {
  const rulesWith = (name: string, reviews: object[], value = '5') =>
    write(name, JSON.stringify({ rules: [ruleWith('Pays', ['true', value])], reviews }));
  const review = [ruleWith('=Comments', ['true', 'review_comments'])];
  let acme: Tenant & { login: string };
  let file: string;

  beforeAll(async () => {
    file = rulesWith('reviews.yaml', review);
    // Cleo only reviews; Dan does neither.
    const people = { ada: 'Ada', bob: '=Bob', 'cleo;=1': '', dan: 'Dan' };
    const added = [
      { by: 'ada', lines: 1, in: 'acme/web' },
      { by: 'ada', lines: 1, in: 'acme/api', created: '2026-02-01T00:00:00Z' },
      { by: 'bob', lines: 1, in: 'acme/api' },
    ];
    acme = await newOrganisation(people, added, '');
    const { id } = acme.organisation;
    const all = await executor.select().from(members).where(eq(members.organisationId, id));
    const by = (login: string | null, comments: number): Reviewer => {
      const member = all.find(each => each.login === login);
      const rest = { verdict: 'commented', firstReviewAt: 1, requestedAt: null, mayWrite: true } as const;
      return { member: member ? formatId('mem', member.id) : null, login, isBot: false, comments, ...rest };
    };
    const reviewersOf = [
      [by('bob', 4), by(null, 99)],
      [by('bob', 1), by('cleo;=1', 30)],
      [by('ada', 2), by('cleo;=1', 3)],
    ];
    const rows = await executor
      .select({ id: pullRequests.id })
      .from(pullRequests)
      .where(eq(pullRequests.organisationId, id))
      .orderBy(pullRequests.githubId);
    for (const [index, { id }] of rows.entries()) {
      const reviewers = reviewersOf[index] ?? [];
      await executor.update(pullRequests).set({ reviewers, factsVersion: 3 }).where(eq(pullRequests.id, id));
    }
    await executor.update(members).set({ leftAt: new Date() }).where(eq(members.login, 'bob'));
    await applyAndScore(acme.login, id, file);
  });

  test('count in the total by which members are ranked, also of those who only review or have left', async () => {
    const { standings: rows, ...document } = await standingsJson(acme.login);
    expect(document).toMatchObject({ pull_requests: 3, score: 15, reviews: 5, review_score: 40, total: 55, ranked: 3 });
    const row = (rank: number, login: string, [count, score, reviews, points]: [number, number, number, number]) => ({
      ...{ rank, login, pull_requests: count, score, mean: count && 5 },
      ...{ reviews, review_score: points, total: score + points },
    });
    expect(rows).toMatchObject([
      row(1, 'cleo;=1', [0, 0, 2, 33]),
      row(2, 'ada', [2, 10, 1, 2]),
      row(3, 'bob', [1, 5, 2, 5]),
    ]);
    expect(rows[0]).toMatchObject({ rules: [{ name: '=Comments', score: 33, share: 1 }] });
    expect(rows.map(({ rules }) => rules?.map(({ name, score }) => `${name} ${score}`))).toEqual([
      ['=Comments 33'],
      ['Pays 10', '=Comments 2'],
      ['=Comments 5', 'Pays 5'],
    ]);
  });

  test('count for a repository, and only with the pull requests of a period', async () => {
    const ofRepositories = await standingsJson(acme.login, '--of', 'repositories');
    expect(ofRepositories).toMatchObject({ reviews: 5, review_score: 40, total: 55 });
    expect(ofRepositories.standings).toMatchObject([
      { name: 'acme/api', pull_requests: 2, reviews: 4, review_score: 36, total: 46 },
      { name: 'acme/web', pull_requests: 1, reviews: 1, review_score: 4, total: 9 },
    ]);
    const ofJanuary = await standingsJson(acme.login, '--until', '2026-01-31');
    expect(ofJanuary).toMatchObject({ pull_requests: 2, reviews: 3, review_score: 9, total: 19 });
  });

  test('of a file are those that applying it gives', async () => {
    for (const options of [[], ['--of', 'repositories'], ['--since', '2026-02-01']]) {
      const stored = await standingsJson(acme.login, ...options);
      const planned = await standingsJson(acme.login, ...options, '--rules', file);
      expect(planned).toEqual({ ...stored, file, ruleset_version: null });
    }
  });

  test('are columns of the table and of --csv, in which no login becomes a formula', async () => {
    expect((await standings(acme.login)).stdout).toContain(`
RANK  MEMBER   LOGIN       PULL REQUESTS  SCORE  MEAN  REVIEWS  REVIEW SCORE  TOTAL
   1  cleo;=1  cleo;=1                 0      0  0.00        2            33     33
   2  Ada      ada                     2     10  5.00        1             2     12
   3  =Bob     bob (left)              1      5  5.00        2             5     10
      total                            3     15  5.00        5            40     55
`);
    expect((await csv(acme.login, '--by-rule')).split('\n')).toEqual([
      'rank,id,name,login,left,pull_requests,score,mean,rule,rule_score,rule_share,reviews,review_score,total',
      `1,"ID","","cleo;'=1",false,0,0,0,"'=Comments",33,1,2,33,33`,
      `2,"ID","Ada","ada",false,2,10,5,"Pays",10,0.83,1,2,12`,
      `2,"ID","Ada","ada",false,2,10,5,"'=Comments",2,0.17,1,2,12`,
      `3,"ID","'=Bob","bob",true,1,5,5,"'=Comments",5,0.5,2,5,10`,
      `3,"ID","'=Bob","bob",true,1,5,5,"Pays",5,0.5,2,5,10`,
      '',
    ]);
  });

  test('that the rules in force no longer give do not count, even if they are still stored', async () => {
    const organisation = ['--organisation', acme.login];
    await runJson('rules apply', rulesWith('none.yaml', []), ...organisation);
    const without = await standingsJson(acme.login);
    expect(without).toMatchObject({ outdated: 3, score: 15, reviews: 0, review_score: 0, total: 15, ranked: 2 });
    expect((await standings(acme.login)).stdout).not.toContain('REVIEW');
  });
});

describe('a note of standings', () => {
  test('says once, on standard error, that stored scores are outdated', async () => {
    const { login } = await newOrganisation({ ada: 'Ada' }, [
      { by: 'ada', lines: 10 },
      { by: 'ada', lines: 20 },
    ]);
    const file = rulesFile('new.yaml', 'additions * 3');
    await runJson('rules apply', file, '--organisation', login);
    const note = `2 stored scores of ${login} have yet to be recalculated. No service is running. To update the scores: pullscore rescore --organisation ${login}\n`;
    expect(await standingsJson(login)).toMatchObject({ ruleset_version: 2, outdated: 2, score: 30 });
    const table = await standings(login);
    expect([table.stderr, table.stdout]).toEqual([note, expect.not.stringContaining('recalculated')]);
    const csv = await standings(login, '--csv');
    expect([csv.stderr, csv.stdout.split('\n')]).toEqual([note, expect.objectContaining({ length: 3 })]);
    // Those of a file are not.
    expect(await standingsJson(login, '--rules', file)).toMatchObject({ outdated: 0, score: 90 });
    expect((await standings(login, '--rules', file)).stderr).toBe('');
  });

  test('says that there are no rules yet', async () => {
    const { login } = await newOrganisation({ ada: 'Ada' }, [{ by: 'ada', lines: 10 }], '');
    const { stdout, stderr } = await standings(login);
    expect(stdout).toMatch(new RegExp(`^${login}: all pull requests\n`));
    expect(stderr).toBe(
      `No rules have been applied yet. Apply some: pullscore rules apply FILE --organisation ${login}\n`,
    );
    expect(await standingsJson(login)).toMatchObject({ ruleset_version: 0, score: 0 });
  });
});
