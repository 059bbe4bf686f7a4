/** What happens on GitHub, and what becomes of the webhooks about it. */
import fc from 'fast-check';
import type { WebhookEvent } from '../test/support/github/events.ts';
import type { Organisation } from '../test/support/github/organisation.ts';
import type { PullRequest } from '../test/support/github/pull-request.ts';
import type { Account } from '../test/support/github/world.ts';
import { type GithubSide, people } from './github-side.ts';
import { type Arbitraries, at, favourite, kind, place } from './kinds.ts';
import { isLagging, isShown, type ModelPullRequest } from './model.ts';
import type { Scene } from './play.ts';
import { announce, fates } from './webhooks.ts';

const person = fc.constantFrom(...people);
/** Members write most pull requests. */
const author = fc.constantFrom('ada' as const, 'ada', 'ada', 'bert', 'bert', 'carl', 'robot');
const labels = fc.constantFrom('bug', 'fix', 'Feature');

/** Falsy if GitHub announces nothing, or the step is not possible now. */
type Event = WebhookEvent | false | undefined;

/** @param change gives the event, and the pull request whose time on GitHub was set, even to the same */
const onGithub = <Parts extends object>(
  name: string,
  weight: number,
  parts: Arbitraries<Parts>,
  change: (scene: Scene, step: Parts) => { event: Event; dated?: ModelPullRequest | undefined } | undefined,
) =>
  kind(name, weight, { ...parts, fate: fc.constantFrom(...fates) }, (scene, step) => {
    scene.side.turn += 1;
    const { event, dated } = change(scene, step as unknown as Parts) ?? {};
    scene.model.record(dated);
    return event && announce(scene, event, step.fate);
  });

const ofMembership = (name: string, change: (organisation: Organisation, account: Account) => Event) =>
  onGithub(name, 17, { person, organisation: place }, ({ side: { accounts, owners } }, step) => {
    const [account, organisation] = [accounts[step.person], at(owners, step.organisation)];
    return { event: account.type !== 'Bot' && organisation && change(organisation, account) };
  });

/** One that GitHub shows. */
const ofShown = <Parts extends object>(
  name: string,
  weight: number,
  parts: Arbitraries<Parts>,
  change: (source: PullRequest, side: GithubSide, step: Parts) => Event,
) =>
  onGithub(name, weight, { ...parts, pullRequest: favourite }, ({ side, model }, step) => {
    const there = model.pullRequests.filter(({ source }) => isShown(source));
    const pullRequest = at(there, step.pullRequest);
    if (pullRequest === undefined) return undefined;
    const { source } = pullRequest;
    // A webhook's floor has no more than the second to tell new states from old ones.
    if (isLagging(source)) side.tick(1);
    const { version } = source.repository;
    const event = change(source, side, step as unknown as Parts);
    // A pending review changes nothing that others see; a deleted comment, or label, may leave the time as it is.
    return { event, dated: source.repository.version > version ? pullRequest : undefined };
  });

export const open = onGithub(
  'open',
  56,
  { repository: favourite, author, draft: fc.boolean() },
  ({ side, model }, { repository: index, author: name, draft }) => {
    const repository = at(side.presentRepositories(), index);
    const account = side.accounts[name];
    if (repository === undefined) return undefined;
    const pullRequest = model.add(repository.openPullRequest({ author: account, draft, title: `fix ${side.turn}` }));
    return { event: pullRequest.source.opened, dated: pullRequest };
  },
);

export const githubSteps = [
  ofShown('push', 56, {}, (source, { turn }) =>
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
  ofShown('edit', 70, { part: fc.constantFrom('title', 'body', 'base') }, (source, { turn }, { part }) =>
    source.edit({ [part]: `${part} ${turn % 4}` }),
  ),
  ofShown(
    'review',
    56,
    { by: person, verdict: fc.constantFrom('APPROVED', 'CHANGES_REQUESTED', 'COMMENTED', 'PENDING') },
    (source, { accounts, turn }, { by, verdict }) => source.review(accounts[by], verdict, { comments: turn % 4 }),
  ),
  ofShown('label', 30, { label: labels }, (source, _, { label }) => source.label(label)),
  ofShown('unlabel', 22, { label: labels }, (source, _, { label }) => source.unlabel(label)),
  ofShown('merge', 13, {}, (source, { accounts }) => source.state === 'OPEN' && source.merge(accounts.ada)),
  ofShown('close', 13, {}, source => source.state === 'OPEN' && source.close()),
  ofShown('reopen', 13, {}, source => source.state === 'CLOSED' && source.reopen()),
  ofShown('ready', 13, {}, source => source.draft && source.state === 'OPEN' && source.markReady()),
  ofShown('comment', 13, {}, (source, { accounts }) => source.comment(accounts.ada)),
  // These do not change the time of the pull request, and GitHub sends no webhook for the first.
  ofShown('link issues', 13, {}, (source, { turn }) => void source.linkIssues(turn % 4)),
  ofShown('delete comment', 7, {}, (source, { accounts }) => source.comments > 0 && source.deleteComment(accounts.ada)),
  // In the whole repository.
  ofShown('rename label', 14, {}, ({ repository, labels: [label] }, { turn }) =>
    label === undefined ? undefined : repository.renameLabel(label, `renamed ${turn}`),
  ),
  ofShown('remove', 11, {}, source => void source.remove()),
  onGithub('rename repository', 22, { repository: place }, ({ side }, { repository }) => {
    const found = at(side.presentRepositories(), repository);
    return { event: found?.rename(`${found.name.split('-')[0]}-${side.turn % 2 === 0 ? 'moved' : side.turn}`) };
  }),
  onGithub('transfer', 22, { repository: place }, ({ side }, { repository }) => {
    const found = at(side.presentRepositories(), repository);
    const owner = side.owners.find(each => each !== found?.organisation);
    // A repository of the same name is in the way.
    const isTaken = owner?.repositories.some(({ name }) => name === found?.name);
    return { event: owner && !isTaken && found?.transfer(owner) };
  }),
  // To the one free login: later renamings swap logins, and the stranger takes them over.
  onGithub('rename organisation', 34, { organisation: place }, ({ side: { owners, logins } }, { organisation }) => {
    const free = logins.find(login => owners.every(owner => owner.login !== login));
    return { event: free !== undefined && at(owners, organisation)?.rename(free) };
  }),
  ofMembership('join', (organisation, account) => organisation.join(account)),
  ofMembership('leave', (organisation, account) => organisation.leave(account)),
  // Rare, because little can happen after it.
  onGithub('remove repository', 5, { repository: place }, ({ side }, { repository }) => ({
    event: at(side.presentRepositories(), repository)?.remove(),
  })),
];
