/** What happens on GitHub, and what becomes of the webhooks about it. */
import fc from 'fast-check';
import type { WebhookEvent } from '../test/support/github/events.ts';
import type { Organisation } from '../test/support/github/organisation.ts';
import type { PullRequest } from '../test/support/github/pull-request.ts';
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
  /** The one that the event is about. */
  about?: ModelPullRequest | undefined;
  /** The one whose time on GitHub was set, even to the same. */
  dated?: ModelPullRequest | undefined;
}

const onGithub = <Parts extends object>(
  weight: number,
  parts: Arbitraries<Parts>,
  change: (scene: Scene, step: Parts) => Change | undefined,
) =>
  kind(weight, { ...parts, fate: fc.constantFrom(...fates) }, (scene, step) => {
    scene.side.turn += 1;
    const { event, about, dated } = change(scene, step as unknown as Parts) ?? {};
    scene.model.record(dated ? [dated] : [], scene.side.repositories);
    return event && announce(scene, event, about, step);
  });

/** Accounts, organisations and repositories. */
const elsewhere = <Parts extends object>(
  weight: number,
  parts: Arbitraries<Parts>,
  change: (side: GithubSide, step: Parts) => Event,
) => onGithub(weight, parts, ({ side }, step) => ({ event: change(side, step) }));

const ofMembership = (weight: number, change: (organisation: Organisation, account: Account) => Event) =>
  elsewhere(weight, { person, organisation: favourite }, ({ accounts, tracked }, { person: name, organisation }) => {
    const [account, where] = [accounts[name], at(tracked, organisation)];
    return canBeMember(account) && where && change(where, account);
  });

const canBeMember = ({ deleted, type }: Account) => !deleted && type !== 'Bot';

/** One that GitHub shows. */
const ofShown = <Parts extends object>(
  weight: number,
  parts: Arbitraries<Parts>,
  change: (source: PullRequest, side: GithubSide, step: Parts) => Event,
) =>
  onGithub(weight, { ...parts, pullRequest: favourite }, ({ side, model }, step) => {
    const there = model.pullRequests.filter(({ source }) => isShown(source));
    const pullRequest = at(there, step.pullRequest);
    if (pullRequest === undefined) return undefined;
    const { source } = pullRequest;
    // A webhook's floor has no more than the second to tell new states from old ones.
    if (isLagging(source)) side.tick(1);
    const { version } = source.repository;
    const event = change(source, side, step as unknown as Parts);
    const isAbout = event && !['label', 'milestone'].includes(event.event);
    // A pending review changes nothing that others see; a deleted comment, or label, may leave the time as it is.
    const isDated = source.repository.version > version;
    return { event, about: isAbout ? pullRequest : undefined, dated: isDated ? pullRequest : undefined };
  });

const opening = onGithub(
  56,
  { repository: favourite, author, draft: fc.boolean(), fromFork: fc.boolean() },
  ({ side, model }, { repository: index, author: name, draft, fromFork }) => {
    const repository = side.repositoryAt(index);
    const account = side.accounts[name];
    if (repository === undefined || account.deleted) return undefined;
    const title = `fix ${side.turn}`;
    const pullRequest = model.add(repository.openPullRequest({ author: account, draft, fromFork, title }));
    return { event: pullRequest.source.opened, about: pullRequest, dated: pullRequest };
  },
);

export const githubSteps = {
  open: opening,
  push: ofShown(56, {}, (source, { turn }) =>
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
  edit: ofShown(
    56,
    { part: fc.constantFrom('title', 'body', 'base'), text: texts },
    (source, { turn }, { part, text }) =>
      source.edit({ [part]: part === 'base' ? `base-${turn % 3}` : `${text} ${turn % 4}` }),
  ),
  review: ofShown(
    45,
    { by: person, verdict: fc.constantFrom('APPROVED', 'CHANGES_REQUESTED', 'COMMENTED', 'PENDING') },
    (source, { accounts, turn }, { by, verdict }) => source.review(accounts[by], verdict, { comments: turn % 4 }),
  ),
  dismiss: ofShown(11, { by: person }, (source, { accounts }, { by }) => {
    const hasReviewed = source.reviews.some(({ author, state }) => author === accounts[by] && state !== 'PENDING');
    return hasReviewed && source.dismissReview(accounts[by]);
  }),
  'request review': ofShown(11, { by: person }, (source, { accounts, turn }, { by }) =>
    source.requestReview(turn % 3 === 0 ? null : accounts[by]),
  ),
  assign: ofShown(11, { by: author }, (source, { accounts }, { by }) => source.assign(accounts[by])),
  label: ofShown(15, { text: labels }, (source, _, { text }) => source.label(text)),
  unlabel: ofShown(15, { text: labels }, (source, _, { text }) => source.unlabel(text)),
  milestone: ofShown(15, { text: labels }, (source, _, { text }) => source.setMilestone(text === '' ? null : text)),
  comment: ofShown(13, {}, (source, { accounts }) => source.comment(accounts.ada)),
  merge: ofShown(13, {}, (source, { accounts }) => source.state === 'OPEN' && source.merge(accounts.ada)),
  close: ofShown(13, {}, source => source.state === 'OPEN' && source.close()),
  reopen: ofShown(13, {}, source => source.state === 'CLOSED' && source.reopen()),
  draft: ofShown(13, {}, source => !source.draft && source.state === 'OPEN' && source.convertToDraft()),
  ready: ofShown(13, {}, source => source.draft && source.state === 'OPEN' && source.markReady()),
  // GitHub sends no webhook.
  'link issues': ofShown(13, {}, (source, { turn }) => void source.linkIssues(turn % 4)),
  'delete comment': ofShown(7, {}, (source, { accounts }) => source.comments > 0 && source.deleteComment(accounts.ada)),
  // The pull request's first label, or its milestone, in the whole repository.
  'rename label': ofShown(7, {}, ({ repository, labels: [label] }, { turn }) =>
    label === undefined ? undefined : repository.renameLabel(label, `renamed ${turn}`),
  ),
  'delete label': ofShown(7, {}, ({ repository, labels: [label] }) =>
    label === undefined ? undefined : repository.deleteLabel(label),
  ),
  'rename milestone': ofShown(7, {}, ({ repository, milestone }, { turn }) =>
    milestone === null ? undefined : repository.renameMilestone(milestone, `renamed ${turn}`),
  ),
  'delete milestone': ofShown(7, {}, ({ repository, milestone }) =>
    milestone === null ? undefined : repository.deleteMilestone(milestone),
  ),
  remove: ofShown(11, {}, source => void source.remove()),
  'rename repository': elsewhere(22, { repository: place }, ({ repositoryAt, turn }, { repository }) => {
    const found = repositoryAt(repository);
    return found?.rename(`${found.name.split('-')[0]}-${turn % 2 === 0 ? 'moved' : turn}`);
  }),
  transfer: elsewhere(22, { repository: place, to: place }, ({ repositoryAt, owners }, { repository, to }) => {
    const found = repositoryAt(repository);
    const others = owners.filter(each => each !== found?.organisation);
    const owner = at(others, to);
    // A repository of the same name is in the way.
    const isTaken = owner?.repositories.some(({ name }) => name === found?.name);
    return owner && !isTaken && found?.transfer(owner);
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
  'remove repository': elsewhere(5, { repository: place }, (side, step) =>
    side.repositoryAt(step.repository)?.remove(),
  ),
  'delete account': elsewhere(5, { person }, ({ accounts, owners }, { person: who }) => {
    const account = accounts[who];
    if (!canBeMember(account)) return;
    for (const owner of owners) owner.leave(account);
    account.deleted = true;
    return undefined;
  }),
};
