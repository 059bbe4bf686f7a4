import { setTimeout as delay } from 'node:timers/promises';
import { styleText } from 'node:util';
import { formatInteger, signed } from '../src/text/number-formats.ts';
import type { PullRequest as GithubPullRequest } from '../test/support/github/pull-request.ts';
import type { Account } from '../test/support/github/world.ts';
import { type Api, type PullRequest, Refusal } from './client.ts';
import { describeChange, explanation, reviewBy, type SampleData } from './sample-data.ts';
import { cell, freeColumns, print } from './screen.ts';
import { liveTitles } from './titles.ts';

/** What can happen to a pull request. */
type Step = 'opened' | 'pushed' | 'described' | 'ready' | 'approved' | 'merged' | 'closed';

/** A pull request, undefined until it is opened, and its remaining steps. */
interface Work {
  pullRequest: GithubPullRequest | undefined;
  steps: Step[];
}

const courses: readonly (readonly Step[])[] = [
  ['opened', 'pushed', 'approved', 'merged'],
  ['opened', 'approved', 'pushed', 'approved', 'merged'],
  ['opened', 'described', 'pushed', 'approved', 'merged'],
  ['opened', 'pushed', 'merged'],
  ['opened', 'pushed', 'pushed', 'closed'],
];
const maxInProgress = 3;
/** How long to wait until the service has saved a change. */
const showTimeoutMs = 10_000;
/** An approval that no rule counts changes no page. */
const approvalTimeoutMs = 2_000;

interface LiveEvent {
  step: Step;
  pullRequest: GithubPullRequest;
  before: PullRequest | undefined;
  /** Undefined if the change did not arrive. */
  after: PullRequest | undefined;
}

/** Makes one change after another on GitHub, and waits each time until the service has saved it. */
export function createLiveEvents({ organisation, members, random }: SampleData, api: Api) {
  const waiting = organisation.repositories
    .flatMap(({ pullRequests }) => pullRequests)
    .filter(({ state, reviews }) => state === 'OPEN' && reviews.length === 0);
  const queue: Work[] = [
    { pullRequest: waiting.findLast(({ draft }) => !draft), steps: ['approved', 'merged'] },
    { pullRequest: waiting.findLast(({ draft }) => draft), steps: ['ready', 'pushed', 'approved', 'merged'] },
  ];
  let started = 0;

  function open(): GithubPullRequest {
    const [repository = '', title = ''] = liveTitles[started % liveTitles.length] ?? [];
    started += 1;
    const author = members[(started * 3) % members.length] as Account;
    const { body: _, ...options } = describeChange(title, random);
    return organisation.repository(repository).openPullRequest({ ...options, author, comments: 0, commits: 1 });
  }

  function take(work: Work, step: Step): GithubPullRequest {
    work.pullRequest ??= open();
    const { pullRequest } = work;
    const file = pullRequest.files[0]?.path ?? 'src/index.ts';
    if (step === 'pushed') {
      const lines = { additions: random.between(3, 40), deletions: random.between(0, 15) };
      const test = { path: file.replace(/^src\/([\w-]+)\/.*$/, 'test/$1.test.ts'), additions: 12, deletions: 0 };
      pullRequest.push({ files: [{ path: file, ...lines }, test] });
    }
    if (step === 'described') pullRequest.edit({ body: explanation });
    if (step === 'ready') pullRequest.markReady();
    if (step === 'approved') reviewBy(pullRequest, members, random, 'APPROVED');
    if (step === 'merged') pullRequest.merge();
    if (step === 'closed') pullRequest.close();
    return pullRequest;
  }

  return async function next(signal: AbortSignal): Promise<LiveEvent> {
    const begun = queue.length < maxInProgress ? undefined : queue.shift();
    const work = begun ?? { pullRequest: undefined, steps: [...(courses[started % courses.length] ?? [])] };
    const step = work.steps.shift() ?? 'closed';
    const before = work.pullRequest && (await find(api, work.pullRequest));
    const pullRequest = take(work, step);
    if (work.steps.length > 0) queue.push(work);

    const isApproval = step === 'approved';
    const deadline = Date.now() + (isApproval ? approvalTimeoutMs : showTimeoutMs);
    for (; Date.now() < deadline; await delay(30, undefined, { signal })) {
      const after = await find(api, pullRequest);
      if (after?.tag !== before?.tag) return { step, pullRequest, before, after };
    }
    return { step, pullRequest, before, after: isApproval ? before : undefined };
  };
}

/** With the `ETag` of its page: it changes with each save, even if the page stays the same. */
async function find({ GET }: Api, { repository, number }: GithubPullRequest) {
  const query = { repository: repository.fullName, number };
  const { data, error, response } = await GET('/2026-12/pull-requests', { params: { query } });
  if (data === undefined) throw new Refusal(error?.message, { cause: error });
  const [found] = data.data;
  return found && { ...found, tag: response.headers.get('etag') };
}

type Formats = Partial<Record<Step, Parameters<typeof styleText>[0]>>;
const stepFormats: Formats = { opened: 'cyan', merged: 'magenta', closed: 'dim', approved: 'green' };

/** Such as `merged   acme/website#42  "Fix login"  score 18 → 28  (+10 Merged)`. */
export function printEvent({ step, pullRequest, before, after }: LiveEvent): void {
  const { repository, number, title } = pullRequest;
  const name = styleText(stepFormats[step] ?? 'yellow', step.padEnd(9));
  const room = freeColumns(78);
  const what = room < 16 ? '' : `${cell(`"${title}"`, Math.min(room, 48))}  `;
  const start = `${name}  ${cell(`${repository.fullName}#${number}`, 18)}  ${what}score`;
  if (after === undefined) {
    print(`${start}  not updated within ${showTimeoutMs / 1000} s: are webhooks enabled?`);
    return;
  }
  const from = before === undefined ? 'new' : formatInteger(before.score);
  const to = styleText('bold', formatInteger(after.score).padStart(3));
  print(`${start} ${from.padStart(3)} → ${to}  ${styleText('dim', `(${explainChange(before, after)})`)}`);
}

/** `+10 Merged, −5 Reviewed` */
function explainChange(before: PullRequest | undefined, after: PullRequest): string {
  const change = new Map<string, number>();
  const count = (pullRequest: PullRequest | undefined, sign: 1 | -1) => {
    for (const { name, action, effect } of pullRequest?.score_breakdown ?? []) {
      change.set(name, (change.get(name) ?? 0) + sign * (action === 'ADD' ? effect : -effect));
    }
  };
  count(after, 1);
  count(before, -1);
  const parts = [...change].filter(([, points]) => points !== 0);
  if (parts.length === 0) return before === undefined ? 'no rule counts yet' : 'unchanged';
  return parts.map(([name, points]) => `${signed(points)} ${name}`).join(', ');
}
