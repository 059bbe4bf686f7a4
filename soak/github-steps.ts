/** What happens on GitHub, and what becomes of the webhooks about it. */
import fc from 'fast-check';
import type { WebhookEvent } from '../test/support/github/events.ts';
import type { Organisation } from '../test/support/github/organisation.ts';
import type { PullRequest } from '../test/support/github/pull-request.ts';
import type { Repository } from '../test/support/github/repository.ts';
import type { Account } from '../test/support/github/world.ts';
import { type GithubSide, people } from './github-side.ts';
import { type Arbitraries, at, favourite, kind, place } from './kinds.ts';
import type { ModelPullRequest } from './model.ts';
import type { Scene } from './play.ts';
import { isLagging, isShown } from './versions.ts';
import { announce, fates } from './webhooks.ts';

const person = fc.constantFrom(...people);
/** Members write most pull requests. */
const author = fc.constantFrom('ada' as const, 'ada', 'ada', 'bert', 'bert', 'carl', 'robot');
const texts = fc.constantFrom('fix', 'Feature', '', 'nul \0 and lone \ud800', '𝒻ix 👩‍👩‍👧 \u202E', 'bug');
const labels = fc.constantFrom('bug', 'fix', 'Feature', '');

/** Falsy if GitHub announces nothing, or the step is not possible now. */
type Event = WebhookEvent | false | undefined;

interface Change {
  event: Event;
  /** The one that the event is about, if any. */
  pullRequest?: ModelPullRequest;
  /** Whether the change set the pull request's time, even to the same. */
  isDated?: boolean;
}

const onGithub = <Parts extends object>(
  weight: number,
  parts: Arbitraries<Parts>,
  change: (scene: Scene, step: Parts) => Change | undefined,
) =>
  kind(weight, { ...parts, fate: fc.constantFrom(...fates) }, (scene, step) => {
    scene.side.turn += 1;
    const { event, pullRequest, isDated } = change(scene, step as unknown as Parts) ?? {};
    scene.model.record(pullRequest && isDated ? [pullRequest] : [], scene.side.repositories);
    return event && announce(scene, event, pullRequest, step);
  });

/** Accounts, organisations and repositories. */
const elsewhere = <Parts extends object>(
  weight: number,
  parts: Arbitraries<Parts>,
  change: (side: GithubSide, step: Parts) => Event,
) => onGithub(weight, parts, ({ side }, step) => ({ event: change(side, step) }));

const ofRepository = <Parts extends object>(
  weight: number,
  parts: Arbitraries<Parts>,
  change: (repository: Repository, side: GithubSide, step: Parts) => Event,
) =>
  elsewhere(weight, { ...parts, repository: place }, (side, step) => {
    const repository = side.repositoryAt(step.repository);
    return repository && change(repository, side, step as unknown as Parts);
  });

const ofMembership = (weight: number, change: (organisation: Organisation, account: Account) => Event) =>
  elsewhere(weight, { person, organisation: favourite }, ({ accounts, tracked }, { person: name, organisation }) => {
    const [account, where] = [accounts[name], at(tracked, organisation)];
    return canBeMember(account) && where && change(where, account);
  });

const canBeMember = ({ deleted, type }: Account) => !deleted && type !== 'Bot';

const shownAt = ({ model }: Scene, index: number) =>
  at(
    model.pullRequests.filter(({ source }) => isShown(source)),
    index,
  );

/** What changes no pull request's time, such as its first label, or its milestone, in the whole repository. */
const undated = (weight: number, change: (source: PullRequest, name: string) => Event) =>
  onGithub(weight, { pullRequest: favourite }, (scene, { pullRequest }) => {
    const found = shownAt(scene, pullRequest);
    return found && { event: change(found.source, `renamed ${scene.side.turn}`) };
  });

const dated = <Parts extends object>(
  weight: number,
  parts: Arbitraries<Parts>,
  change: (source: PullRequest, side: GithubSide, step: Parts) => Event,
) =>
  onGithub(weight, { ...parts, pullRequest: favourite }, (scene, step) => {
    const { side } = scene;
    const pullRequest = shownAt(scene, step.pullRequest);
    if (pullRequest === undefined) return undefined;
    const { source } = pullRequest;
    // A webhook's floor has no more than the second to tell new states from old ones.
    if (isLagging(source)) side.tick(1);
    const { version } = source.repository;
    const event = change(source, side, step as unknown as Parts);
    // A pending review changes nothing that others see; a deleted comment may leave the time as it is.
    return { event, pullRequest, isDated: source.repository.version > version };
  });

export const opening = onGithub(
  56,
  { repository: favourite, author, draft: fc.boolean(), fromFork: fc.boolean() },
  ({ side, model }, { repository: index, author: name, draft, fromFork }) => {
    const repository = side.repositoryAt(index);
    const account = side.accounts[name];
    if (repository === undefined || account.deleted) return undefined;
    const title = `fix ${side.turn}`;
    const pullRequest = model.add(repository.openPullRequest({ author: account, draft, fromFork, title }));
    return { event: pullRequest.source.opened, pullRequest, isDated: true };
  },
);

export const githubSteps = {
  open: opening,
  push: dated(56, {}, (source, { turn }) =>
    source.push({
      commits: 1 + (turn % 3),
      // Now and then more than GitHub has on a page.
      files: Array.from({ length: turn % 8 === 0 ? 130 : 1 }, (_, index) => ({
        path: `${turn % 2 === 0 ? 'src' : 'docs'}/${turn + index}.ts`,
        additions: turn,
        deletions: turn % 5,
      })),
    }),
  ),
  edit: dated(56, { part: fc.constantFrom('title', 'body', 'base'), text: texts }, (source, { turn }, { part, text }) =>
    source.edit({ [part]: part === 'base' ? `base-${turn % 3}` : `${text} ${turn % 4}` }),
  ),
  review: dated(
    45,
    { by: person, verdict: fc.constantFrom('APPROVED', 'CHANGES_REQUESTED', 'COMMENTED', 'PENDING') },
    (source, { accounts, turn }, { by, verdict }) => source.review(accounts[by], verdict, { comments: turn % 4 }),
  ),
  dismiss: dated(11, { by: person }, (source, { accounts }, { by }) => {
    const hasReviewed = source.reviews.some(({ author, state }) => author === accounts[by] && state !== 'PENDING');
    return hasReviewed && source.dismissReview(accounts[by]);
  }),
  'request review': dated(11, { by: person }, (source, { accounts, turn }, { by }) =>
    source.requestReview(turn % 3 === 0 ? null : accounts[by]),
  ),
  assign: dated(11, { by: author }, (source, { accounts }, { by }) => source.assign(accounts[by])),
  label: dated(15, { text: labels }, (source, _, { text }) => source.label(text)),
  unlabel: dated(15, { text: labels }, (source, _, { text }) => source.unlabel(text)),
  milestone: dated(15, { text: labels }, (source, _, { text }) => source.setMilestone(text === '' ? null : text)),
  comment: dated(13, {}, (source, { accounts }) => source.comment(accounts.ada)),
  merge: dated(13, {}, (source, { accounts }) => source.state === 'OPEN' && source.merge(accounts.ada)),
  close: dated(13, {}, source => source.state === 'OPEN' && source.close()),
  reopen: dated(13, {}, source => source.state === 'CLOSED' && source.reopen()),
  draft: dated(13, {}, source => !source.draft && source.state === 'OPEN' && source.convertToDraft()),
  ready: dated(13, {}, source => source.draft && source.state === 'OPEN' && source.markReady()),
  // GitHub sends no webhook.
  'link issues': dated(13, {}, (source, { turn }) => void source.linkIssues(turn % 4)),
  'delete comment': dated(7, {}, (source, { accounts }) => source.comments > 0 && source.deleteComment(accounts.ada)),
  'rename label': undated(
    7,
    ({ repository, labels: [label] }, name) => label !== undefined && repository.renameLabel(label, name),
  ),
  'delete label': undated(7, ({ repository, labels: [label] }) => label !== undefined && repository.deleteLabel(label)),
  'rename milestone': undated(
    7,
    ({ repository, milestone }, name) => milestone !== null && repository.renameMilestone(milestone, name),
  ),
  'delete milestone': undated(
    7,
    ({ repository, milestone }) => milestone !== null && repository.deleteMilestone(milestone),
  ),
  remove: undated(11, source => void source.remove()),
  'rename repository': ofRepository(22, {}, (repository, { turn }) =>
    repository.rename(`${repository.name.split('-')[0]}-${turn % 2 === 0 ? 'moved' : turn}`),
  ),
  transfer: ofRepository(22, { to: place }, (repository, { owners }, { to }) => {
    const owner = at(
      owners.filter(each => each !== repository.organisation),
      to,
    );
    // A repository of the same name is in the way.
    const isTaken = owner?.repositories.some(({ name }) => name === repository.name);
    return owner && !isTaken && repository.transfer(owner);
  }),
  // To the one free login: later renamings swap logins, and a stranger takes them over.
  'rename organisation': elsewhere(34, { organisation: place }, ({ owners, logins }, { organisation }) => {
    const free = logins.find(login => owners.every(owner => owner.login !== login));
    return free !== undefined && at(owners, organisation)?.rename(free);
  }),
  // GitHub sends no webhook.
  'rename account': elsewhere(11, { person }, ({ accounts, name, turn }, { person: who }) => {
    const account = accounts[who];
    if (account.deleted) return;
    account.login = `${who}${turn}-${name}`;
    if (account.name !== null) account.name = `${people.indexOf(who)} ${turn}`;
    return undefined;
  }),
  join: ofMembership(17, (organisation, account) => organisation.join(account)),
  leave: ofMembership(17, (organisation, account) => organisation.leave(account)),
  // Rare, because little can happen after these.
  'remove repository': ofRepository(5, {}, repository => repository.remove()),
  'delete account': elsewhere(5, { person }, ({ accounts, owners }, { person: who }) => {
    const account = accounts[who];
    if (!canBeMember(account)) return;
    for (const owner of owners) owner.leave(account);
    account.deleted = true;
    return undefined;
  }),
};
