import { sql } from 'drizzle-orm';
import { beforeEach, describe, expect, test } from 'vitest';
import { type SyncTenant, startSyncWorld } from '../sync/support.ts';
import { commandsWith, complaintOf } from './support.ts';

const world = await startSyncWorld();
const { executor } = world;
const { run, runJson } = commandsWith(world.shell);
let tenant: SyncTenant;
let login: string;
beforeEach(async () => {
  tenant = await world.newTenant();
  login = tenant.acme.login;
});

const settings = (...options: string[]) => run('organisation settings', login, ...options);

/** `action subject`, latest first. */
const auditLog = async () =>
  (await runJson<{ action: string; subject: string }[]>('audit-log --organisation', login)).map(
    ({ action, subject }) => `${action} ${subject}`,
  );

describe('organisation settings', () => {
  test('shows that all repositories are tracked, changes nothing, and asks for no comparison', async () => {
    const { code, stdout } = await settings();
    expect([code, stdout]).toEqual([0, `${login} tracks all repositories.\n`]);
    expect(await auditLog()).toEqual([]);
  });

  test('adds to what is ignored, takes back, and says what comes next', async () => {
    const { stdout } = await settings('--ignore', 'sandbox-*', '--ignore', `${login}/LAB`, '--ignore-archived');
    expect(stdout).toBe(
      `${login} ignores these repositories: archived ones, sandbox-*, lab.\n` +
        'This applies from the next comparison with GitHub, which is due now.\n' +
        `What is tracked again comes back. To fetch the rest: pullscore import --organisation ${login}\n`,
    );
    await settings('--ignore-forks', '--no-ignore-archived', '--unignore', 'lab', '--ignore', 'old');
    expect((await settings()).stdout).toBe(`${login} ignores these repositories: forks, sandbox-*, old.\n`);
    const ignore = { globs: ['sandbox-*', 'old'], archived: false, forks: true };
    expect(await runJson('organisation settings', login)).toEqual({
      organisation: login,
      ignore,
      ignored_repositories: [],
    });
    const listed = await runJson<{ login: string }[]>('organisation list');
    expect(listed).toContainEqual(expect.objectContaining({ login, ignore }));
  });

  test('asks for a comparison, and the audit log says what is ignored from then on; the same again does neither', async () => {
    const due = async () => {
      const { rows } = await executor.execute(
        sql`select comparison_requested as due from organisations where id = ${tenant.organisation.id}`,
      );
      return rows[0]?.due;
    };
    expect(await due()).toBe(false);
    await settings('--ignore', 'sandbox-*', '--ignore-forks');
    expect(await due()).toBe(true);
    await settings('--ignore', 'lab');
    await settings('--ignore', 'SANDBOX-*', '--ignore-forks');
    await settings('--unignore', 'sandbox-*', '--ignore', 'sandbox-*');
    await settings('--no-ignore-forks', '--unignore', 'sandbox-*', '--unignore', 'lab');
    expect((await auditLog()).toSorted()).toEqual([
      'organisation.settings ignores forks, sandbox-*',
      'organisation.settings ignores forks, sandbox-*, lab',
      'organisation.settings ignores nothing',
    ]);
  });

  test('says that an import is next if webhooks are disabled', async () => {
    await run('webhooks disable --organisation', login);
    expect((await settings('--ignore-archived')).stdout).toContain(
      'Webhooks are disabled, so there are no comparisons: this applies from the next import.',
    );
  });

  test('lists the ignored repositories with the reason', async () => {
    tenant.acme.repository('old').archived = true;
    tenant.acme.repository('Sandbox-1');
    await settings('--ignore', 'sandbox-*', '--ignore-archived');
    await tenant.compare();
    expect(await runJson('organisation settings', login)).toMatchObject({
      ignored_repositories: [
        { repository: `${login}/old`, reason: 'it is archived' },
        { repository: `${login}/Sandbox-1`, reason: 'its name matches sandbox-*' },
      ],
    });
    expect((await settings()).stdout).toMatch(/\nIGNORED +WHY\nacme-\d+\/old +because it is archived\n/);
  });

  test.each(['', 'a b', 'other/web', '{a,b', '\u001b[2J'])(
    'a glob that can match no name is wrong usage: %j',
    async glob => {
      expect(await complaintOf(settings('--ignore', glob), 2)).toMatch(/ Write it as sandbox-\*\.$/);
    },
  );

  test('more than 100 globs are wrong usage, and nothing is saved', async () => {
    const globs = Array.from({ length: 101 }, (_, index) => ['--ignore', `lab-${index}`]).flat();
    expect((await settings(...globs)).code).toBe(2);
    expect((await settings()).stdout).toBe(`${login} tracks all repositories.\n`);
  });

  test('a glob that is not ignored cannot be taken back', async () => {
    await settings('--ignore', 'sandbox-*');
    expect(await complaintOf(settings('--unignore', 'sandbox'))).toBe(
      `pullscore: ${login} does not ignore "sandbox". It ignores sandbox-*.`,
    );
  });
});

describe('what other commands say of ignored repositories', () => {
  beforeEach(async () => {
    const { acme } = tenant;
    acme.repository('web').openPullRequest();
    acme.repository('sandbox-1').openPullRequest();
    acme.repository('sandbox-2');
    acme.repository('old').archived = true;
  });

  test('import counts what it leaves out by reason, and so does its estimate', async () => {
    await settings('--ignore', 'sandbox-*', '--ignore-archived');
    const note = 'Left out 3 ignored repositories: 2 because its name matches sandbox-*, 1 because it is archived.';
    expect((await run('import --organisation', login, '--dry-run')).stdout).toContain(note);
    expect((await run('import --organisation', login)).stdout).toContain(`1 saved`);
    const { stdout } = await run('import --organisation', login);
    expect(stdout).toContain(note);
    for (const options of [[], ['--dry-run']]) {
      const document = await runJson('import --organisation', login, ...options);
      expect(document).not.toHaveProperty('ignored');
      expect(document.ignored_repositories).toContainEqual({ repository: `${login}/old`, reason: 'it is archived' });
    }
  });

  test('explain says why the repository is ignored instead of that it has left, and standings do not count it', async () => {
    await run('import --organisation', login);
    await settings('--ignore', 'sandbox-*');
    await tenant.compare();
    const page = `${login}/sandbox-1#1`;
    expect(await runJson('explain', page)).toMatchObject({
      repository_left_at: null,
      repository_ignored_because: 'its name matches sandbox-*',
    });
    const { stdout } = await run('explain', page);
    expect(stdout).toContain(
      'ignores the repository, because its name matches sandbox-*: the pull request does not count',
    );
    expect(stdout).not.toContain('has left');
    expect(await runJson('standings --organisation', login)).toMatchObject({ pull_requests: 1 });
  });

  test('doctor says what is ignored, and warns of a glob that ignores nothing once a comparison has seen it', async () => {
    const findings = async () => {
      const { stdout } = await run('doctor --organisation', login, '--json');
      const { checks } = JSON.parse(stdout) as { checks: { name: string; status: string; message: string }[] };
      return checks.flatMap(({ name, status, message }) => (name === 'ignored' ? [`${status}: ${message}`] : []));
    };
    expect(await findings()).toEqual([]);
    await settings('--ignore', 'sandbox-*', '--ignore', 'playground', '--ignore-archived');
    const see = `To see them: pullscore organisation settings ${login}`;
    expect(await findings()).toEqual([
      `ok: Ignored: archived ones, sandbox-*, playground; 0 repositories so far. ${see}`,
    ]);
    // The comparison that the command asked for, and its repetition.
    await tenant.compare();
    await executor.execute(sql`
      update organisations set comparison_again_at = now() where id = ${tenant.organisation.id}`);
    await tenant.compare();
    expect(await findings()).toEqual([
      `ok: Ignored: archived ones, sandbox-*, playground; 3 repositories so far. ${see}`,
      'warning: The glob playground ignores no repository that is not ignored anyway.',
    ]);
  });

  test('doctor tries a pull request of a repository that is tracked', async () => {
    await settings('--ignore', 'web', '--ignore', 'sandbox-*');
    const { stdout } = await run('doctor --organisation', login, '--json');
    expect(stdout).toContain('GitHub shows the repositories. None that is tracked has a pull request yet.');
  });
});
