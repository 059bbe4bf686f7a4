import type { Organisation } from '../test/support/github/organisation.ts';
import type { ChangedFile, PullRequest, PullRequestOptions } from '../test/support/github/pull-request.ts';
import type { GithubStandIn } from '../test/support/github/server.ts';
import type { Account } from '../test/support/github/world.ts';
import { createRandom } from '../test/support/random.ts';
import { pastTitles } from './titles.ts';

const day = 86_400;
const hour = 3_600;

const people = [
  ['aokafor', 'Amara Okafor'],
  ['clara-b', 'Clara Beaumont'],
  ['jlindqvist', 'Jonas Lindqvist'],
  ['luciah', 'Lucía Herrera'],
  ['meitanaka', 'Mei Tanaka'],
  ['priyaraman', 'Priya Raman'],
  ['sosei', 'Samuel Osei'],
  ['tnowak', 'Tomasz Nowak'],
] as const;

/** Updates by a bot. It is not a member, so the import leaves them out. */
const updates = ['undici from 6.21.1 to 6.21.2', 'vite from 6.0.7 to 6.0.11', 'pg from 8.13.1 to 8.13.3'];

/** Picks the same data on every machine. */
function createPicker(seed: number) {
  const next = createRandom(seed);
  return {
    between: (min: number, max: number) => min + Math.floor(next() * (max - min + 1)),
    happens: (probability: number) => next() < probability,
    pick: <Item>(items: readonly Item[]): Item => items[Math.floor(next() * items.length)] as Item,
  };
}
export type Random = ReturnType<typeof createPicker>;

/** Min and max changed lines for each kind of change. */
const sizes: Record<string, readonly [number, number]> = {
  feat: [60, 620],
  fix: [4, 140],
  docs: [6, 120],
  chore: [2, 90],
  refactor: [80, 720],
  test: [30, 260],
};
const labels: Record<string, string> = { feat: 'enhancement', fix: 'bug', docs: 'documentation' };

/** Invents the details of a change from a title such as `fix(cart): round totals once`. */
export function describeChange(title: string, random: Random): PullRequestOptions & { title: string } {
  const [, kind = 'feat', scope = 'app'] = /^(\w+)\(([\w-]+)\): /.exec(title) ?? [];
  const [min, max] = sizes[kind] ?? [20, 300];
  const lines = random.between(min, max);
  const label = labels[kind];
  const urgent = kind === 'fix' && random.happens(0.3);
  return {
    title,
    body: random.happens(0.6) ? explanation : '',
    head: title
      .toLowerCase()
      .replace(/[^a-z]+/g, '-')
      .slice(0, 40),
    files: filesOf(kind, scope, lines, random),
    commits: random.between(1, kind === 'feat' || kind === 'refactor' ? 9 : 3),
    comments: random.between(0, 4),
    linkedIssues: kind === 'fix' && random.happens(0.6) ? 1 : 0,
    labels: [...(label === undefined ? [] : [label]), ...(urgent ? ['priority: high'] : [])],
  };
}

export const explanation =
  'What changes, and why: support has had several questions about this in the last weeks. ' +
  'The old behaviour stays behind the flag until the next release; the steps to try it are in the issue.';

function filesOf(kind: string, scope: string, lines: number, random: Random): ChangedFile[] {
  const split = (path: string, share: number): ChangedFile => {
    const additions = Math.ceil(lines * share * (kind === 'refactor' ? 0.55 : 0.8));
    return { path, additions, deletions: Math.max(0, Math.round(lines * share) - additions) };
  };
  if (kind === 'docs') return [split(`docs/${scope}.md`, 1)];
  if (kind === 'test') return [split(`test/${scope}.test.ts`, 1)];
  if (kind === 'chore') return [split('package.json', 0.2), split('package-lock.json', 0.8)];
  if (!random.happens(0.6)) return [split(`src/${scope}/index.ts`, 0.7), split(`src/${scope}/model.ts`, 0.3)];
  return [split(`src/${scope}/index.ts`, 0.6), split(`test/${scope}.test.ts`, 0.4)];
}

export interface SampleData {
  organisation: Organisation;
  members: readonly Account[];
  /** For live events. */
  random: Random;
}

/** Builds an organisation with five months of history, without webhooks. */
export function buildSampleData(github: GithubStandIn): SampleData {
  const { clock } = github;
  const random = createPicker(2025_04);
  const now = clock.now();
  clock.set(now - 400 * day);
  const organisation = github.organisation('acme', { name: 'Acme Corporation' });
  const members = people.map(([login, name]) => organisation.member(login, { name }));
  const bot = github.account('dependabot', { type: 'Bot' });

  const works = Object.entries(pastTitles).flatMap(([repository, titles]) =>
    titles.map((title, index) => {
      // Spread evenly, with some randomness; the newest is hours old.
      const age = (titles.length - index) * 3.7 * day - random.between(0, 3 * day);
      return {
        repository,
        title,
        author: random.pick(members),
        at: now - Math.floor(age),
        newest: titles.length - index,
      };
    }),
  );
  const byBot = updates.map((update, index) => ({
    repository: random.pick(Object.keys(pastTitles)),
    title: `chore(deps): bump ${update}`,
    author: bot,
    at: now - (20 + 31 * index) * day,
    newest: Number.POSITIVE_INFINITY,
  }));
  for (const { repository, title, author, at, newest } of [...works, ...byBot].sort((a, b) => a.at - b.at)) {
    clock.set(at);
    const draft = newest === 2;
    const pullRequest = organisation
      .repository(repository)
      .openPullRequest({ ...describeChange(title, random), author, draft });
    if (newest > 4) reviewAndClose(pullRequest, members, random, github);
    else if (newest === 3) reviewBy(pullRequest, members, random, 'CHANGES_REQUESTED');
  }
  clock.run();
  return { organisation, members, random };
}

/** Reviews a pull request, and merges or closes it. */
function reviewAndClose(
  pullRequest: PullRequest,
  members: readonly Account[],
  random: Random,
  { clock }: GithubStandIn,
): void {
  const wait = (min: number, max: number) => clock.advance(random.between(min, max));
  wait(hour / 2, 20 * hour);
  if (random.happens(0.06)) {
    pullRequest.close();
    return;
  }
  if (random.happens(0.2)) {
    const reviewer = reviewBy(pullRequest, members, random, 'CHANGES_REQUESTED');
    wait(hour, 9 * hour);
    pullRequest.push({ additions: random.between(1, 30), deletions: random.between(0, 12) });
    wait(hour / 4, 3 * hour);
    pullRequest.review(reviewer, 'APPROVED');
  } else if (random.happens(0.85)) {
    reviewBy(pullRequest, members, random, 'APPROVED');
  }
  if (random.happens(0.3)) reviewBy(pullRequest, members, random, 'APPROVED');
  wait(60, 5 * hour);
  pullRequest.merge();
}

export function reviewBy(
  pullRequest: PullRequest,
  members: readonly Account[],
  random: Random,
  verdict: 'APPROVED' | 'CHANGES_REQUESTED',
): Account {
  const before = new Set(pullRequest.reviews.map(({ author }) => author));
  const reviewer = random.pick(members.filter(member => member !== pullRequest.author && !before.has(member)));
  pullRequest.review(reviewer, verdict, { comments: pullRequest.number % 3 });
  return reviewer;
}
