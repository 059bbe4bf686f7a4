import type { WebhookEvent } from '../test/support/github/events.ts';
import type { PullRequest } from '../test/support/github/pull-request.ts';
import type { Repository } from '../test/support/github/repository.ts';
import type { GithubStandIn } from '../test/support/github/server.ts';
import { type Account, createClock } from '../test/support/github/world.ts';
import type { Model, ModelPullRequest } from './model.ts';
import { type GithubStep, type Person, people } from './steps.ts';
import { isLagging, isShown } from './versions.ts';

/** What GitHub announced, and the pull request that it was about. */
export interface Announcement {
  event: WebhookEvent;
  pullRequest: ModelPullRequest | undefined;
}

/**
 * GitHub as one history sees it: three organisations of different sizes and a stranger, five accounts that change, and
 * its own clock. Most steps are about the middle one.
 */
export function createGithubSide(github: GithubStandIn, name: string, startsAt: number) {
  const clock = createClock();
  clock.set(startsAt);
  const middle = github.organisation(`acme-${name}`);
  const small = github.organisation(`other-${name}`);
  const large = github.organisation(`giant-${name}`);
  const accounts = {
    ada: middle.member(`ada-${name}`, { name: 'Ada' }),
    bert: middle.member(`bert-${name}`),
    carl: github.account(`carl-${name}`, { name: 'Carl' }),
    robot: github.account(`robot-${name}`, { type: 'Bot' }),
    rita: middle.member(`rita-${name}`),
  } satisfies Record<Person, Account>;
  small.join(accounts.ada);
  large.join(accounts.ada);
  // The service tracks nothing of the stranger, whatever its login is.
  const stranger = github.organisation(`stranger-${name}`);
  stranger.join(accounts.ada);
  const outsider = stranger.member(`eve-${name}`);
  for (const author of [accounts.ada, outsider]) stranger.repository('web').openPullRequest({ author });
  const owners = [middle, small, large, stranger];
  for (const owner of owners) owner.clock = clock;
  const logins = [...owners.map(({ login }) => login), `free-${name}`];
  const changing = [
    middle.repository('web'),
    middle.repository('lib'),
    small.repository('ext'),
    large.repository('mono'),
  ];
  const repositories = [...changing];
  let turn = 0;
  let lags: { end(): void; until: number }[] = [];

  const repositoryAt = (place: number) => {
    const there = changing.filter(({ removed }) => !removed);
    return there[place % there.length];
  };

  function tick(seconds: number): void {
    clock.advance(seconds);
    const over = lags.filter(({ until }) => until <= clock.now());
    lags = lags.filter(({ until }) => until > clock.now());
    for (const { end } of over) end();
  }

  function change(step: GithubStep, source: PullRequest): WebhookEvent | undefined | false {
    const { draft, state } = source;
    const isOpen = state === 'OPEN';
    const by = 'by' in step ? accounts[step.by] : accounts.ada;
    switch (step.kind) {
      case 'push':
        return source.push({
          commits: 1 + (turn % 3),
          // Now and then more than GitHub has on a page.
          files: Array.from({ length: turn % 8 === 0 ? 130 : 1 }, (_, index) => ({
            path: `${turn % 2 === 0 ? 'src' : 'docs'}/${turn + index}.ts`,
            additions: turn,
            deletions: turn % 5,
          })),
        });
      case 'edit':
        return source.edit({ [step.part]: step.part === 'base' ? `base-${turn % 3}` : `${step.text} ${turn % 4}` });
      case 'label':
        return source.label(step.text);
      case 'unlabel':
        return source.unlabel(step.text);
      case 'milestone':
        return source.setMilestone(step.text === '' ? null : step.text);
      case 'review':
        return source.review(by, step.verdict, { comments: turn % 4 });
      case 'request review':
        return source.requestReview(turn % 3 === 0 ? null : by);
      case 'dismiss': {
        const hasReviewed = source.reviews.some(({ author, state: given }) => author === by && given !== 'PENDING');
        return hasReviewed ? source.dismissReview(by) : false;
      }
      case 'assign':
        return source.assign(by);
      case 'comment':
        return source.comment(by);
      case 'delete comment':
        return source.comments > 0 && source.deleteComment(by);
      case 'link issues':
        source.linkIssues(turn % 4);
        return undefined;
      case 'merge':
        return isOpen && source.merge(by);
      case 'close':
        return isOpen && source.close();
      case 'reopen':
        return state === 'CLOSED' && source.reopen();
      case 'draft':
        return !draft && isOpen && source.convertToDraft();
      case 'ready':
        return draft && isOpen && source.markReady();
      default:
        return false;
    }
  }

  /** What changes no pull request's time. False if nothing is announced, undefined if it is another step. */
  function changeWithoutTime(kind: GithubStep['kind'], source: PullRequest): WebhookEvent | false | undefined {
    const {
      repository,
      labels: [label],
      milestone,
    } = source;
    const name = `renamed ${turn}`;
    switch (kind) {
      case 'remove':
        source.remove();
        return false;
      case 'rename label':
        return label !== undefined && repository.renameLabel(label, name);
      case 'delete label':
        return label !== undefined && repository.deleteLabel(label);
      case 'rename milestone':
        return milestone !== null && repository.renameMilestone(milestone, name);
      case 'delete milestone':
        return milestone !== null && repository.deleteMilestone(milestone);
      default:
        return undefined;
    }
  }

  function changePerson(step: Extract<GithubStep, { person: Person }>): WebhookEvent | undefined {
    const { kind, person } = step;
    const account = accounts[person];
    // Bots can't be members.
    if (account.deleted || (account.type === 'Bot' && kind !== 'rename account')) return undefined;
    const organisation = 'organisation' in step ? owners[step.organisation % 3] : undefined;
    switch (kind) {
      case 'join':
        return organisation?.join(account);
      case 'leave':
        return organisation?.leave(account);
      case 'rename account':
        // GitHub sends no webhook.
        account.login = `${person}${turn}-${name}`;
        if (account.name !== null) account.name = `${people.indexOf(person)} ${turn}`;
        return undefined;
      default:
        for (const each of owners) each.leave(account);
        account.deleted = true;
        return undefined;
    }
  }

  function renameOrganisation(place: number): WebhookEvent | undefined {
    const free = logins.find(login => owners.every(owner => owner.login !== login));
    return free === undefined ? undefined : owners[place % owners.length]?.rename(free);
  }

  function changeRepository(
    step: Extract<GithubStep, { repository: number }>,
    repository: Repository,
  ): WebhookEvent | undefined {
    if (step.kind === 'transfer') {
      const others = owners.filter(owner => owner !== repository.organisation);
      const to = others[step.to % others.length];
      // A repository of the same name is in the way.
      return to?.repositories.some(({ name: taken }) => taken === repository.name)
        ? undefined
        : to && repository.transfer(to);
    }
    if (step.kind === 'remove repository') return repository.remove();
    return repository.rename(`${repository.name.split('-')[0]}-${turn % 2 === 0 ? 'moved' : turn}`);
  }

  /** Accounts, organisations and repositories. */
  function changeElsewhere(step: Exclude<GithubStep, { kind: 'open' } | { pullRequest: number }>) {
    if ('person' in step) return changePerson(step);
    if (step.kind === 'rename organisation') return renameOrganisation(step.organisation);
    const repository = repositoryAt(step.repository);
    return repository && changeRepository(step, repository);
  }

  return {
    middle,
    small,
    large,
    repositories,
    /** A member of the middle one who only reviews. */
    rita: accounts.rita,
    /** Carries the step out. Undefined if it is not possible now. */
    take(step: GithubStep, model: Model): Announcement | undefined {
      turn += 1;
      /** What is about no pull request, if anything. */
      const announce = (event?: WebhookEvent | false) => {
        model.record([], repositories);
        return event ? { event, pullRequest: undefined } : undefined;
      };
      if (step.kind === 'open') {
        const repository = repositoryAt(step.repository);
        const author = accounts[step.author];
        if (repository === undefined || author.deleted) return undefined;
        const { draft, fromFork } = step;
        const pullRequest = model.add(repository.openPullRequest({ author, draft, fromFork, title: `fix ${turn}` }));
        model.record([pullRequest], repositories);
        const event = pullRequest.source.opened;
        return event && { event, pullRequest };
      }
      if (!('pullRequest' in step)) return announce(changeElsewhere(step));
      const there = model.pullRequests.filter(({ source }) => isShown(source));
      const pullRequest = there[step.pullRequest % there.length];
      if (pullRequest === undefined) return undefined;
      const { source } = pullRequest;
      const undated = changeWithoutTime(step.kind, source);
      if (undated !== undefined) return announce(undated);
      // A webhook's floor has no more than the second to tell new states from old ones.
      if (isLagging(source)) tick(1);
      const event = change(step, source);
      // A pending review changes nothing that others see; a deleted comment may leave the time as it is.
      const isUndated =
        event === false || step.kind === 'delete comment' || ('verdict' in step && step.verdict === 'PENDING');
      model.record(isUndated ? [] : [pullRequest], repositories);
      return event ? { event, pullRequest } : undefined;
    },
    /** For that many seconds, GraphQL keeps showing the pull request, or its whole repository, as it is now. */
    lag(source: PullRequest, whole: boolean, seconds: number): void {
      const lagging = whole ? source.repository : source;
      lagging.lag();
      lags.push({ end: () => lagging.catchUp(), until: clock.now() + seconds });
    },
    /** Ends all lags. */
    catchUp(): void {
      for (const { end } of lags.splice(0)) end();
    },
    now: clock.now,
    tick,
  };
}
