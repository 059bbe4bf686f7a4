import { DrizzleQueryError } from 'drizzle-orm';
import { beforeEach, describe, expect, test } from 'vitest';
import { comparison } from '../../src/commands/doctor/background-checks.ts';
import * as configuration from '../../src/commands/doctor/configuration-checks.ts';
import * as database from '../../src/commands/doctor/database-checks.ts';
import { createReport, showFindings, type Verdicts } from '../../src/commands/doctor/findings.ts';
import * as remote from '../../src/commands/doctor/github-checks.ts';
import * as organisation from '../../src/commands/doctor/organisation-checks.ts';
import * as webhook from '../../src/commands/doctor/webhook-checks.ts';
import { loadConfig } from '../../src/config.ts';
import type { ServiceReport } from '../../src/database/service-reports.ts';
import { subscribedEvents } from '../../src/webhooks/events.ts';
import { entry, rule, rulesetOf } from '../scoring/support.ts';

/** Cases that doctor.test.ts can't create cheaply: each check is a function of its facts. */

const settings = 'https://github.com/organizations/acme/settings/hooks';

/** What any check is given, but for what only its questions need. */
const scopeWith = (environment: Record<string, string> = {}, organisation = {}) => ({
  program: 'pullscore',
  config: loadConfig({ GITHUB_TOKEN: 'ghp_x', PUBLIC_URL: 'https://scores.example', ...environment }),
  workers: 1,
  organisation: {
    ...{ login: 'acme', rulesetVersion: 1, webhooksEnabled: true },
    ...{ comparedAt: new Date(0), comparisonFailedAt: null, comparisonFailure: null },
    ...organisation,
  },
});

/** What a check says of these facts: `status: message → action` of each verdict. */
const judged = <Facts>(
  check: { judge(facts: Facts, scope: never): Verdicts },
  facts: Facts,
  scope: object = scopeWith(),
): string[] =>
  [check.judge(facts, scope as never)]
    .flat()
    .flatMap(each =>
      each === false ? [] : [`${each.status}: ${each.message}${each.action ? ` → ${each.action}` : ''}`],
    );

test('a query that fails is reported without its parameters, which may be private', async () => {
  const report = createReport();
  const ask = async () => {
    throw new DrizzleQueryError('select $1', ['a secret'], new Error('no such table'));
  };
  await report.check({ area: 'database', name: 'server', remedy: 'See the log.', ask, judge: () => [] }, {});
  expect(report.findings).toMatchObject([{ status: 'problem', message: 'Unexpected error: no such table' }]);
});

test('a database that fails during a check of something else is named', async () => {
  const report = createReport();
  const ask = async () => {
    throw Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' });
  };
  await report.check({ area: 'github', name: 'credentials', remedy: 'Check them.', ask, judge: () => [] }, {});
  expect(report.findings).toMatchObject([
    { message: 'The database failed: read ECONNRESET.', action: 'Check the database, then run this again.' },
  ]);
});

describe('the database server', () => {
  const server = {
    url: '',
    place: 'db:5432',
    version: 170_002,
    database: 'scores',
    encoding: 'UTF8',
    icu: true,
    milliseconds: 1.2,
    user: 'me',
    isReadOnly: false,
    mayMigrate: true,
    usedConnections: 10,
    maxConnections: 97,
    pendingMigrations: 0,
    refusal: undefined,
    holder: undefined,
    processId: 1,
  };
  const scope = scopeWith({ DATABASE_URL: 'postgres://me@db/scores' });

  test('is ok with the schema of this release', () => {
    expect(judged(database.server, server, scope)).toEqual([
      'ok: PostgreSQL 17.2 at db:5432, database scores, answers in 2 ms.',
      'ok: The schema is up to date.',
    ]);
  });

  test('is a problem with the schema of a later release, because nothing would start', () => {
    const refusal = ['It is newer.', 'Start that release.'] as const;
    expect(judged(database.server, { ...server, refusal }, scope)).toEqual([
      expect.any(String),
      'problem: It is newer. → Start that release.',
    ]);
  });

  test('has too few connections for another replica if nineteen are left', () => {
    expect(judged(database.server, { ...server, usedConnections: 77 }, scope)).toHaveLength(2);
    expect(judged(database.server, { ...server, usedConnections: 78 }, scope)).toContainEqual(
      /^warning: 78 of the server's 97 connections are in use; a replica needs up to 20\./,
    );
  });
});

let processes = 0;
const reportOf = (command: 'serve' | 'worker', report: Partial<ServiceReport> = {}): ServiceReport => {
  processes += 1;
  const variables = ['GITHUB_TOKEN', 'GITHUB_WEBHOOK_SECRET'];
  const place = `web, process ${processes}`;
  const facts = { startedAt: new Date(0), variables, salt: 's', fingerprint: 'f', refusedDeliveries: 0 };
  return { process: place, command, place, ...facts, ...report };
};

const withoutOk = (lines: string[]) => lines.filter(line => !line.startsWith('ok: '));
const complaints = (reports: ServiceReport[], shell: Record<string, string> = {}, fingerprint = 'f') =>
  withoutOk(judged(configuration.processes, { reports, fingerprint }, scopeWith(shell)));

describe('the processes of the service', () => {
  beforeEach(() => {
    processes = 0;
  });

  test('are one line if they set the same variables, else named by their place', () => {
    const lines = (...reports: ServiceReport[]) => judged(configuration.processes, { reports, fingerprint: '' });
    const set = 'GITHUB_TOKEN and GITHUB_WEBHOOK_SECRET (reported 1970-01-01 00:00 UTC).';
    expect(lines(reportOf('serve'), reportOf('worker'))).toEqual([
      `ok: Set for the service: ${set}`,
      `ok: Set for the worker: ${set}`,
    ]);
    expect(lines(reportOf('serve'), reportOf('serve'))).toEqual([`ok: Set for the service (2 processes): ${set}`]);
    const lacking = { variables: ['GITHUB_TOKEN'] };
    expect(lines(reportOf('serve'), reportOf('serve', lacking))).toEqual([
      `ok: Set for the service (web, process 5): ${set}`,
      'ok: Set for the service (web, process 6): GITHUB_TOKEN (reported 1970-01-01 00:00 UTC).',
      /^warning: GITHUB_WEBHOOK_SECRET is not set for the service \(web, process 6\): /,
    ]);
  });

  test('doctor shows how many webhook deliveries a process has refused', () => {
    expect(complaints([reportOf('serve', { refusedDeliveries: 1 }), reportOf('serve')])).toEqual([
      'warning: web, process 1 has refused 1 webhook delivery since 1970-01-01 00:00 UTC. → See Recent Deliveries of the ' +
        'webhook on GitHub, and the log of the service. Those that GitHub does not list came from others.',
    ]);
  });

  test('doctor reports a webhook secret whose login is not tracked, without showing a part of it', () => {
    const { config } = scopeWith({ GITHUB_WEBHOOK_SECRET: 'Acme:a secret of acme only,hush:a-secret-with-a-colon' });
    const organisations = [{ login: 'acme', removedAt: null }] as never;
    expect(judged(organisation.organisations, organisations, { ...scopeWith(), config })).toEqual([
      'ok: Tracked here: acme.',
      'warning: Secret 2 of GITHUB_WEBHOOK_SECRET begins with a login that is not tracked here. → Correct the login. If ' +
        'the colon belongs to the secret, use GITHUB_WEBHOOK_SECRET_FILE, with a colon before it.',
    ]);
  });

  test('are named if they set the same variables to other values', () => {
    const other = { fingerprint: 'another' };
    expect(complaints([reportOf('serve'), reportOf('worker')])).toEqual([]);
    expect(complaints([reportOf('serve'), reportOf('serve'), reportOf('serve', other)])).toEqual([
      'warning: Values differ between the service (web, process 3) and the service (web, process 5), which set the same ' +
        'variables. → Set the same values for all processes, and restart them.',
    ]);
    const files = ['PORT', 'GITHUB_TOKEN_FILE', 'GITHUB_WEBHOOK_SECRET'];
    expect(complaints([reportOf('serve'), reportOf('worker', { ...other, variables: files })])).toEqual([
      /^warning: Values differ between the service and the worker, /,
    ]);
    // The lists of their variables show the difference.
    expect(complaints([reportOf('serve'), reportOf('worker', { ...other, variables: ['GITHUB_TOKEN'] })])).toEqual([]);
    // The release before has none.
    expect(complaints([reportOf('serve', { fingerprint: '' }), reportOf('serve')])).toEqual([]);
  });

  test('are named if this shell sets the same variables to other values', () => {
    // What scopeWith sets.
    const variables = ['GITHUB_TOKEN', 'GITHUB_WEBHOOK_SECRET', 'PUBLIC_URL'];
    const reports = [reportOf('serve', { variables })];
    const shell = { GITHUB_WEBHOOK_SECRET: 'a secret of more than sixteen', PORT: '0' };
    expect(complaints(reports, shell)).toEqual([]);
    expect(complaints(reports, shell, 'another')).toEqual([
      'warning: Values differ between this shell and the service, which set the same variables: what is checked here may not ' +
        'hold there. → Run doctor in the environment of the service, or set the same values here.',
    ]);
    expect(complaints(reports, {}, 'another')).toEqual([]);
  });
});

test.each<[change: Record<string, string>, complaint: string]>([
  [{}, ''],
  [{ PORTT: '3000' }, 'PORTT is not read. → If you mean PORT, rename it.'],
  [{ GITHUB_WEBHOOK_SECRET: '' }, 'GITHUB_WEBHOOK_SECRET is not set for this shell: webhooks are refused. → Choose'],
  [{ PUBLIC_URL: '', HOST: '0.0.0.0' }, 'PUBLIC_URL is not set for this shell, but HOST is'],
  [{ PUBLIC_URL: 'http://scores.example' }, 'PUBLIC_URL is not https'],
  [{ GITHUB_API_URL: 'http://github.example/api/v3' }, 'GITHUB_API_URL is not https'],
  [{ RECONCILE_INTERVAL: '0' }, 'RECONCILE_INTERVAL is 0'],
])('doctor has this warning for the configuration %o: %s', (change, complaint) => {
  const shell = { GITHUB_WEBHOOK_SECRET: 'a secret of more than sixteen', ...change };
  const found = [...withoutOk(judged(configuration.environment, scopeWith(shell).config)), ...complaints([], shell)];
  expect(found).toEqual(complaint === '' ? [] : [expect.stringContaining(`warning: ${complaint}`)]);
});

test.each([
  ['0.0.0.0', ['HOST'], true],
  ['0.0.0.0', ['HOST', 'PUBLIC_URL'], false],
  // The service listens on its default, or its HOST is not known here.
  ['0.0.0.0', [], false],
  ['127.0.0.1', ['HOST'], false],
])(
  'with HOST=%s here and %j set for the service, a missing PUBLIC_URL is reported: %j',
  (HOST, variables, expected) => {
    const found = complaints([reportOf('serve', { variables })], { HOST });
    expect(found.join().includes('PUBLIC_URL is not set for the service, but HOST is: links contain')).toBe(expected);
  },
);

test('doctor names a rule that this release refuses', () => {
  const ruleset = rulesetOf([rule('Old', entry('nonsense(', '1'))]);
  expect(judged(organisation.rules, { ...ruleset, suspension: null, source: '' })).toEqual([
    /^warning: A rule is not valid in this release, so it does not count: .* → Fix and apply the rules\. /,
  ]);
});

test('a comparison is late after two minutes', () => {
  const facts = { untilComparison: -119, pullRequests: 0, sinceOldestFetch: null, sharers: 1 };
  expect(judged(comparison, facts as never)).toEqual([
    'ok: Repositories are about to be compared. Last compared with GitHub: 1970-01-01 00:00 UTC.',
  ]);
  expect(judged(comparison, { ...facts, untilComparison: -120 } as never)).toEqual([
    /^warning: The comparison with GitHub has been overdue for 2 min\. → See the log/,
  ]);
});

describe('a comparison that failed', () => {
  const facts = { untilComparison: 60, pullRequests: 0, sinceOldestFetch: null, sharers: 1 } as never;
  const minutesAgo = (minutes: number) => new Date(Date.now() - minutes * 60_000);
  const failedSince = (comparedAt: Date | null, failedAt: Date, environment = {}) => {
    const organisation = { comparedAt: comparedAt, comparisonFailedAt: failedAt, comparisonFailure: 'GitHub failed.' };
    const lines = withoutOk(judged(comparison, facts, scopeWith(environment, organisation)));
    return lines.map(line => line.replace(/, \d{4}-.{11} UTC:/, ','));
  };
  const found = (status: string) =>
    expect.stringMatching(`^${status}: The comparison with GitHub failed, GitHub failed\\. → The service tries again`);

  test('is a warning for an hour or two intervals after a success, then a problem', () => {
    expect(failedSince(minutesAgo(59), minutesAgo(1))).toEqual([found('warning')]);
    expect(failedSince(minutesAgo(61), minutesAgo(1))).toEqual([found('problem')]);
    expect(failedSince(minutesAgo(119), minutesAgo(1), { RECONCILE_INTERVAL: '3600' })).toEqual([found('warning')]);
    expect(failedSince(minutesAgo(121), minutesAgo(1), { RECONCILE_INTERVAL: '3600' })).toEqual([found('problem')]);
    expect(failedSince(null, minutesAgo(1))).toEqual([found('problem')]);
  });

  test('is a warning until a later one succeeds, if it failed in part', () => {
    const moment = minutesAgo(1);
    expect(failedSince(moment, moment)).toEqual([found('warning')]);
    expect(failedSince(minutesAgo(1), minutesAgo(2))).toEqual([]);
  });

  test('is reported, too, while only webhooks ask for comparisons', () => {
    expect(failedSince(minutesAgo(59), minutesAgo(1), { RECONCILE_INTERVAL: '0' })).toEqual([
      'skipped: Repositories are compared only if a webhook asks for it: RECONCILE_INTERVAL is 0.',
      found('warning'),
    ]);
  });
});

test('a clock is wrong if it differs by more than thirty seconds in either direction', () => {
  const lines = (clockAhead: number | null) => judged(remote.reach, { milliseconds: 1, clockAhead });
  for (const fine of [null, 30, -30]) expect(lines(fine)).toHaveLength(1);
  expect(lines(31)[1]).toMatch(/^warning: The clock of this machine is 31 s behind GitHub's/);
  expect(lines(-31)[1]).toMatch(/^warning: The clock of this machine is 31 s ahead of GitHub's/);
});

test('outdated scores are a warning only if no process updates them', () => {
  const facts = { outdated: 1_200, total: 120_000 };
  const message = '1,200 of 120,000 scores are not up to date with the rules in force.';
  expect(judged(organisation.scores, facts)).toEqual([`ok: ${message}`]);
  expect(judged(organisation.scores, facts, { ...scopeWith(), workers: 0 })).toEqual([
    `warning: ${message} → Run: pullscore rescore --organisation acme`,
  ]);
});

test('a tenth of the points is enough, and a GitHub without a rate limit needs none', () => {
  const lines = (remaining: number) =>
    judged(remote.points, { expiresAt: null, limit: { limit: 5_000, remaining, resetAt: 0 } });
  expect(judged(remote.points, { expiresAt: null, limit: null })).toEqual(['ok: This GitHub has no rate limit.']);
  expect(lines(500)).toEqual(['ok: 500 of 5,000 points of the rate limit are left, until 00:00 UTC.']);
  expect(lines(499)).toEqual([/^warning: Only 499 of 5,000 points .* → Wait/]);
});

test('a suspended installation of the App is a problem', () => {
  expect(judged(remote.installation, { id: 1, suspended_at: '2026-01-01T00:00:00Z' })).toEqual([
    "problem: The App's installation is suspended. → Unsuspend it in the settings of the organisation on GitHub.",
  ]);
});

test('an organisation that has taken the login of the tracked one is a problem', () => {
  const profile = { githubId: 2, nodeId: 'O_2', login: 'acme', name: '', photoUrl: '', repositories: 1 };
  const lines = (githubId: number) => judged(remote.profile, profile, scopeWith({}, { githubId }));
  expect(lines(1)).toEqual([expect.stringContaining('problem: On GitHub, this login now belongs to another')]);
  expect(lines(2)).toEqual(['ok: GitHub shows the organisation, with 1 repository.']);
});

test('an organisation without repositories is a warning, and one without pull requests is ok', () => {
  const lines = (repositories: number) => judged(remote.pullRequests, { repositories, latest: undefined });
  expect(lines(0)).toEqual([/^warning: GitHub shows no repositories\. → /]);
  expect(lines(1)).toEqual(['ok: GitHub shows the repositories. None that is tracked has a pull request yet.']);
});

test('doctor names three lost repositories, and says that more may be lost', () => {
  const lost = ['a', 'b', 'c'].map(name => ({ nodeId: name, name: `acme/${name}`, pullRequests: 2 }));
  expect(judged(remote.repositories, lost)).toEqual([
    / acme\/a, acme\/b, acme\/c and perhaps more: 6 stored pull requests stay /,
  ]);
});

describe('the webhook', () => {
  const hook = {
    id: 7,
    url: 'https://scores.example/webhooks/github',
    active: true,
    events: ['*'],
    contentType: 'json',
    hasSecret: true,
  };
  const linesFor = (change: Partial<Parameters<typeof webhook.hook.judge>[0]>, environment = {}) =>
    judged(
      webhook.hook,
      { settings, hooks: { shown: [hook], mayHideMore: true }, hook, deliveries: [], ...change },
      scopeWith(environment),
    );
  const delivery = (statusCode: number) => ({ event: 'ping', statusCode, status: 'x', deliveredAt: Date.now() / 1000 });

  test('is ok if it goes here, even if others may be hidden', () => {
    expect(linesFor({})).toEqual([
      'ok: GitHub delivers to https://scores.example/webhooks/github.',
      'ok: GitHub has made no deliveries in the last few days.',
    ]);
  });

  test('is not ok if it goes to another port than the service has, unless PUBLIC_URL says so', () => {
    const url = 'http://127.0.0.1:4000/webhooks/github';
    const firstLine = (environment: Record<string, string>) =>
      linesFor({ hook: { ...hook, url } }, { PUBLIC_URL: '', ...environment })[0];
    expect(firstLine({})).toBe(
      `warning: GitHub delivers to ${url}, and PORT is 3000 here. → If a proxy passes deliveries on from port 4000, set PUBLIC_URL to its address. Otherwise fix the address at ${settings}/7.`,
    );
    expect(firstLine({ PORT: '4000' })).toMatch(/^ok: GitHub delivers to /);
    expect(firstLine({ PUBLIC_URL: 'http://127.0.0.1:4000' })).toMatch(/^ok: GitHub delivers to /);
    // A proxy has it.
    expect(linesFor({}, { PUBLIC_URL: '' })[0]).toMatch(/^ok: GitHub delivers to https:\/\/scores\.example/);
  });

  const without = (...events: string[]) => ({
    events: [...subscribedEvents.keys()].filter(event => !events.includes(event)),
  });
  test.each<[string, Partial<typeof hook>, RegExp]>([
    ['is not active', { active: false }, /^problem: The webhook on GitHub is not active\. → Set it to Active at/],
    [
      'does not send pull requests',
      without('pull_request'),
      /^problem: The webhook on GitHub does not send pull_request\. → Choose Pull requests at/,
    ],
    [
      'does not send reviews and renamings',
      without('pull_request_review', 'repository'),
      /^warning: The webhook on GitHub does not send pull_request_review and repository\. → Choose Pull request reviews and Repositories at/,
    ],
    [
      'is from a release that did not read comments, labels and milestones',
      without('issue_comment', 'label', 'milestone'),
      /^warning: The webhook on GitHub does not send issue_comment, label and milestone\. → Choose Issue comments, Labels and Milestones at/,
    ],
  ])('doctor reports a webhook that %s', (_, change, expected) => {
    expect(linesFor({ hook: { ...hook, ...change } })[0]).toMatch(expected);
  });

  test.each([
    [401, /Set the same secret/],
    [404, /check the proxy in front of it\.$/],
    [413, /accept bodies of up to 5 MB\.$/],
    [415, /content type application\/json/],
    [502, /Make sure that GitHub can reach PUBLIC_URL.*pullscore serve/],
    [503, /Check that GITHUB_WEBHOOK_SECRET is set/],
    [504, /Make sure that GitHub can reach PUBLIC_URL/],
    [500, /See the answer at .*\/settings\/hooks\/7, tab Recent Deliveries\.$/],
  ])('doctor has an action for the answer %d to the last delivery of the webhook', (statusCode, action) => {
    const [, answer] = linesFor({ deliveries: [delivery(statusCode), delivery(202)] });
    expect(answer).toMatch(/^problem: GitHub's latest delivery failed \(ping, 1 s ago: /);
    expect(answer).toMatch(action);
  });
});

test('a wide terminal is not filled: long lines are hard to read', () => {
  const report = createReport();
  report.skip('github', 'rights', 'word '.repeat(60));
  const lines = showFindings(report.findings, 300).split('\n');
  expect(Math.max(...lines.map(line => line.length))).toBeLessThanOrEqual(120);
  expect(lines.filter(line => line.includes('word'))).toHaveLength(3);
});
