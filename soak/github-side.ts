import type { WebhookEvent } from '../test/support/github/events.ts';
import type { Organisation } from '../test/support/github/organisation.ts';
import type { PullRequest } from '../test/support/github/pull-request.ts';
import type { Repository } from '../test/support/github/repository.ts';
import type { GithubStandIn } from '../test/support/github/server.ts';
import { type Account, createClock } from '../test/support/github/world.ts';
import type { Model, ModelPullRequest } from './model.ts';
import { type GithubStep, type Person, people } from './steps.ts';
import { isShown } from './versions.ts';

/** What GitHub told of, and which pull request it was about. */
export interface Told {
  event: WebhookEvent;
  pullRequest: ModelPullRequest | undefined;
}

/** GitHub as one history sees it: two organisations and a stranger, four accounts that change, and a clock of its own. */
export interface GithubSide {
  readonly acme: Organisation;
  readonly other: Organisation;
  readonly repositories: readonly Repository[];
  /** Carries the step out. Undefined where it can't happen as things are. */
  take(step: GithubStep, model: Model): Told | undefined;
  now(): number;
  tick(seconds: number): void;
}

export function createGithubSide(github: GithubStandIn, name: string, startsAt: number): GithubSide {
  const clock = createClock();
  clock.set(startsAt);
  const acme = github.organisation(`acme-${name}`);
  const other = github.organisation(`other-${name}`);
  const accounts = {
    ada: acme.member(`ada-${name}`, { name: 'Ada' }),
    bert: acme.member(`bert-${name}`),
    carl: github.account(`carl-${name}`, { name: 'Carl' }),
    robot: github.account(`robot-${name}`, { type: 'Bot' }),
  } satisfies Record<Person, Account>;
  other.join(accounts.ada);
  // What is its own is nobody's whom the service knows, whatever its login is.
  const stranger = github.organisation(`stranger-${name}`);
  stranger.join(accounts.ada);
  const outsider = stranger.member(`eve-${name}`);
  for (const author of [accounts.ada, outsider]) stranger.repository('web').openPullRequest({ author });
  const owners = [acme, other, stranger];
  for (const owner of owners) owner.clock = clock;
  const logins = [...owners.map(({ login }) => login), `free-${name}`];
  const repositories = [acme.repository('web'), acme.repository('lib'), other.repository('ext')];
  let turn = 0;

  const repositoryAt = (place: number) => {
    const there = repositories.filter(({ removed }) => !removed);
    return there[place % there.length];
  };

  function change(step: GithubStep, source: PullRequest): WebhookEvent | undefined | false {
    const { draft, state } = source;
    const isOpen = state === 'OPEN';
    const by = 'by' in step ? accounts[step.by] : accounts.ada;
    switch (step.kind) {
      case 'push':
        return source.push({
          commits: 1 + (turn % 3),
          files: [{ path: `${turn % 2 === 0 ? 'src' : 'docs'}/${turn}.ts`, additions: turn, deletions: turn % 5 }],
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
        return source.review(by, step.verdict);
      case 'dismiss': {
        const hasReviewed = source.reviews.some(({ author, state: given }) => author === by && given !== 'PENDING');
        return hasReviewed ? source.dismissReview(by) : false;
      }
      case 'assign':
        return source.assign(by);
      case 'comment':
        return source.comment(by);
      case 'link issues':
        source.linkIssues(turn % 4);
        return undefined;
      case 'merge':
        return isOpen && source.merge();
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

  function changePerson(kind: GithubStep['kind'], person: Person): WebhookEvent | undefined | false {
    const account = accounts[person];
    // Bots are members of nothing.
    if (account.deleted || (account.type === 'Bot' && kind !== 'rename account')) return false;
    switch (kind) {
      case 'join':
        return acme.join(account) ?? false;
      case 'leave':
        return acme.leave(account) ?? false;
      case 'rename account':
        // GitHub tells nobody.
        account.login = `${person}${turn}-${name}`;
        if (account.name !== null) account.name = `${people.indexOf(person)} ${turn}`;
        return undefined;
      default:
        acme.leave(account);
        other.leave(account);
        account.deleted = true;
        return undefined;
    }
  }

  function renameOrganisation(place: number): WebhookEvent | undefined {
    const free = logins.find(login => owners.every(owner => owner.login !== login));
    return free === undefined ? undefined : owners[place % owners.length]?.rename(free);
  }

  function changeRepository(kind: GithubStep['kind'], repository: Repository): WebhookEvent | undefined {
    if (kind === 'transfer') return repository.transfer(repository.organisation === acme ? other : acme);
    if (kind === 'remove repository') return repository.remove();
    return repository.rename(`${repository.name.split('-')[0]}-${turn % 2 === 0 ? 'moved' : turn}`);
  }

  return {
    acme,
    other,
    repositories,
    take(step, model) {
      turn += 1;
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
      if ('person' in step) {
        const event = changePerson(step.kind, step.person);
        model.record([], repositories);
        return event ? { event, pullRequest: undefined } : undefined;
      }
      if (step.kind === 'rename organisation') {
        const event = renameOrganisation(step.organisation);
        model.record([], repositories);
        return event && { event, pullRequest: undefined };
      }
      if ('repository' in step) {
        const repository = repositoryAt(step.repository);
        const event = repository && changeRepository(step.kind, repository);
        model.record([], repositories);
        return event && { event, pullRequest: undefined };
      }
      const there = model.pullRequests.filter(({ source }) => isShown(source));
      const pullRequest = there[step.pullRequest % there.length];
      if (pullRequest === undefined) return undefined;
      const { source } = pullRequest;
      if (step.kind === 'remove') {
        source.remove();
        model.record([], repositories);
        return undefined;
      }
      const event = change(step, source);
      // A pending review is seen by nobody else, and changes nothing.
      const isUnseen = event === false || (step.kind === 'review' && step.verdict === 'PENDING');
      model.record(isUnseen ? [] : [pullRequest], repositories);
      return event ? { event, pullRequest } : undefined;
    },
    now: clock.now,
    tick: clock.advance,
  };
}
