import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { WebhookEvent } from '../test/support/github/events.ts';
import type { PullRequest } from '../test/support/github/pull-request.ts';
import type { GithubStandIn } from '../test/support/github/server.ts';
import { type Delivery, deliver } from '../test/support/github/webhooks.ts';
import { login, webhookSecret } from './installation.ts';
import { count, startSteadily } from './reads.ts';

const firstPullRequests = 1_000;
/** More would only wait for connections. */
const maxUnderWay = 500;

/**
 * Each change of a pull request raises its version, which is in its title and is its number of added lines: so the
 * stored copy shows how new it is, and whether it mixes versions.
 */
interface Subject {
  pullRequest: PullRequest;
  version: number;
  /** The highest version in an acknowledged delivery; 0 before the first. */
  acknowledged: number;
}

export type Traffic = ReturnType<typeof startTraffic>;

interface TrafficOptions {
  github: GithubStandIn;
  urls: readonly string[];
  /** Webhooks a second, redeliveries not counted. */
  rate: number;
  random: () => number;
}

/** Changes pull requests on GitHub, and delivers each change once, to any of the replicas. */
export function startTraffic({ github, urls, rate, random }: TrafficOptions) {
  const organisation = github.organisation(login);
  const repositories = ['web', 'api', 'docs', 'infrastructure'].map(name => organisation.repository(name));
  const author = organisation.member('ada');
  const reviewer = organisation.member('grace');
  const subjects: Subject[] = [];
  /** By GUID. */
  const acknowledged = new Map<string, Subject>();
  /** Deliveries that were not acknowledged, counted by status or reason. */
  const refused = new Map<string, number>();
  let [sent, redelivered, heldBack, waiting] = [0, 0, 0, 0];
  let stopped = false;

  const pick = <Item>(items: readonly Item[], place = random()): Item => {
    const item = items[Math.min(Math.floor(place * items.length), items.length - 1)];
    if (item === undefined) throw new Error('there is nothing to pick from');
    return item;
  };
  const addPullRequest = (): Subject => {
    const pullRequest = pick(repositories).addPullRequest({ author });
    const subject = { pullRequest, version: 0, acknowledged: 0 };
    subjects.push(subject);
    return subject;
  };
  const pullRequests = Array.from({ length: firstPullRequests }, addPullRequest);

  /** What one webhook announces, and the version on GitHub at that moment. */
  function makeChange() {
    if (random() < 0.02) pullRequests.push(addPullRequest());
    // The latest ones change most often, so that many updates fold into one request.
    const subject = pick(pullRequests, 1 - random() ** 3);
    const { pullRequest } = subject;
    subject.version += 1;
    pullRequest.title = `Change ${subject.version}`;
    pullRequest.additions = subject.version;
    return { event: announce(pullRequest), subject, version: subject.version };
  }

  function announce(pullRequest: PullRequest): WebhookEvent {
    if (pullRequest.opened === undefined) return pullRequest.open();
    if (pullRequest.state === 'CLOSED') return pullRequest.reopen();
    const review = pullRequest.reviews.length < 5 ? pullRequest.review(reviewer) : undefined;
    const others = [
      () => pullRequest.push({ additions: 0 }),
      () => pullRequest.edit({ body: `Because of ${pullRequest.title}.` }),
      () => pullRequest.label('bug'),
      () => pullRequest.unlabel('bug'),
      () => pullRequest.close(),
    ];
    return review ?? pick(others)();
  }

  async function send(change: ReturnType<typeof makeChange>, guid: string, isAgain: boolean): Promise<void> {
    const { event, subject, version } = change;
    const delivery = await deliver(`${pick(urls)}/webhooks/github`, webhookSecret, event, { guid });
    if (isAcknowledged(delivery)) {
      acknowledged.set(guid, subject);
      subject.acknowledged = Math.max(subject.acknowledged, version);
    } else {
      const reason = delivery.status === 0 ? 'no answer' : `${delivery.status} ${delivery.answer}`;
      count(refused, reason);
    }
    // GitHub never redelivers on its own: people do, some of what failed, and at times what did not.
    const again = isAcknowledged(delivery) ? 0.02 : 0.25;
    if (isAgain || random() > again || stopped) return;
    waiting += 1;
    await delay(500 + random() * 4_000);
    waiting -= 1;
    if (stopped) return;
    redelivered += 1;
    await send(change, guid, true);
  }

  const stopSending = startSteadily(rate, async underWay => {
    if (underWay - waiting >= maxUnderWay) {
      heldBack += 1;
      return;
    }
    sent += 1;
    await send(makeChange(), randomUUID(), false);
  });

  return {
    subjects,
    acknowledged,
    refused,
    get sent() {
      return sent;
    },
    get redelivered() {
      return redelivered;
    },
    /** Not sent, because too many were under way. */
    get heldBack() {
      return heldBack;
    },
    /** Stops sending, and resolves when all deliveries are answered. */
    stop(): Promise<void> {
      stopped = true;
      return stopSending();
    },
  };
}

const isAcknowledged = ({ status, answer }: Delivery): boolean =>
  status === 202 || (status === 200 && answer.includes('already been applied'));
