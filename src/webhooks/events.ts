import { type Static, type TSchema, Type } from '@sinclair/typebox';
import { type LabelOrMilestone, requestRefetchesWith } from '../database/background-requests.ts';
import type { Executor } from '../database/client.ts';
import { requestComparison } from '../database/comparisons.ts';
import { findGithubOrganisation, type Organisation } from '../database/organisations.ts';
import {
  type DeliveryOutcome,
  findCommentedPullRequest,
  type PullRequestDelivery,
  takeAppliedDelivery,
} from '../database/webhook-deliveries.ts';
import type { Deps } from '../deps.ts';
import { badRequest, unauthenticated } from '../errors.ts';
import { matches, optionalUnixSeconds, Reply } from '../github/decode.ts';
import { catchUpSeconds, settlingSeconds } from '../sync/decide-next-try.ts';

/*
 * What GitHub's webhooks ask for; see https://docs.github.com/en/webhooks/webhook-events-and-payloads. Deliveries come
 * late, twice and out of order, so nothing in a payload is ever stored as the truth: it says what to look up, and how
 * new the answer must be.
 */

const Id = Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER });
const NodeId = Type.String({ pattern: '^[\\w=+/-]{1,200}$' });
const Login = Type.String({ pattern: '^[\\w.\\[\\]-]{1,100}$' });
const Owner = Type.Object({ id: Id, login: Login });

/** The organisation of an event. */
const Origin = Type.Object({
  action: Type.Optional(Type.String({ pattern: '^[a-z0-9_]{1,100}$' })),
  organization: Type.Optional(Owner),
  repository: Type.Optional(Type.Object({ id: Type.Optional(Id), owner: Owner })),
});
const PullRequestPayload = Type.Object({
  pull_request: Type.Object({ id: Id, node_id: NodeId, updated_at: Type.Optional(Reply.Time) }),
});
const CommentPayload = Type.Object({
  issue: Type.Object({
    node_id: NodeId,
    number: Type.Integer({ minimum: 1, maximum: 2 ** 31 - 1 }),
    updated_at: Type.Optional(Reply.Time),
    /** Only comments on pull requests have it. */
    pull_request: Type.Optional(Type.Object({})),
  }),
  repository: Type.Object({ id: Id }),
});
const From = Type.Optional(Type.Object({ from: Type.String() }));
const LabelPayload = Type.Object({
  label: Type.Object({ name: Type.String() }),
  changes: Type.Optional(Type.Object({ name: From })),
  repository: Type.Object({ id: Id }),
});
const MilestonePayload = Type.Object({
  milestone: Type.Object({ title: Type.String() }),
  changes: Type.Optional(Type.Object({ title: From })),
  repository: Type.Object({ id: Id }),
});

export interface Delivery {
  event: string;
  /** `X-GitHub-Delivery` */
  guid: string;
  payload: object;
  /** The organisations that its secret speaks for; undefined: all. */
  logins: readonly string[] | undefined;
}

/** What was done, or why nothing was. */
export interface Receipt {
  taken: boolean;
  message: string;
}

const reasons: Record<DeliveryOutcome, string> = {
  taken: 'Accepted.',
  applied_before: 'Ignored: this delivery has already been applied.',
  unknown_organisation: 'Ignored: this organisation is not tracked here.',
  webhooks_disabled: 'Ignored: webhooks are disabled for this organisation.',
  ignored_repository: 'Ignored: this organisation does not track this repository.',
};
const receipt = (outcome: DeliveryOutcome): Receipt => ({ taken: outcome === 'taken', message: reasons[outcome] });
const ignored = (why: string): Receipt => ({ taken: false, message: `Ignored: ${why}` });

/** What any other event asks for, done in the transaction that records its delivery. */
type Effect = (executor: Executor, organisation: Organisation) => Promise<void>;

/** Undefined: this payload asks for nothing. */
type Reader = (payload: object) => Effect | undefined;

interface EventUse {
  /** In GitHub's settings. */
  title: string;
  /** What it asks for: to fetch the pull request that it names, or that it comments on; or, by action, another effect. */
  effect: 'pull request' | 'commented pull request' | Readonly<Record<string, Reader>>;
}

const compare: Effect = (executor, { id }) => requestComparison(executor, id, settlingSeconds);
const compareMembers: Effect = (executor, { id }) =>
  requestComparison(executor, id, settlingSeconds, { members: true });

/** @param formerNameOf the former name, if the payload is about one */
function refetch<Schema extends typeof LabelPayload | typeof MilestonePayload>(
  schema: Schema,
  formerNameOf: (payload: Static<Schema>) => LabelOrMilestone | undefined,
) {
  return (payload: object): Effect | undefined => {
    const known = requireShape(schema, payload);
    const former = formerNameOf(known);
    if (former === undefined) return undefined;
    return (executor, { id }) => requestRefetchesWith(executor, id, known.repository.id, former, catchUpSeconds);
  };
}

/** All that the service uses. */
const uses: Record<string, EventUse> = {
  pull_request: { title: 'Pull requests', effect: 'pull request' },
  pull_request_review: { title: 'Pull request reviews', effect: 'pull request' },
  pull_request_review_thread: { title: 'Pull request review threads', effect: 'pull request' },
  pull_request_review_comment: { title: 'Pull request review comments', effect: 'pull request' },
  issue_comment: { title: 'Issue comments', effect: 'commented pull request' },
  label: {
    title: 'Labels',
    effect: {
      edited: refetch(LabelPayload, ({ changes }) => changes?.name && { label: changes.name.from }),
      deleted: refetch(LabelPayload, ({ label }) => ({ label: label.name })),
    },
  },
  milestone: {
    title: 'Milestones',
    effect: {
      edited: refetch(MilestonePayload, ({ changes }) => changes?.title && { milestone: changes.title.from }),
      deleted: refetch(MilestonePayload, ({ milestone }) => ({ milestone: milestone.title })),
    },
  },
  organization: {
    title: 'Organizations',
    effect: { renamed: () => compare, member_added: () => compareMembers, member_removed: () => compareMembers },
  },
  repository: {
    title: 'Repositories',
    effect: {
      archived: () => compare,
      deleted: () => compare,
      renamed: () => compare,
      transferred: () => compare,
      unarchived: () => compare,
    },
  },
};
const events: ReadonlyMap<string, EventUse> = new Map(Object.entries(uses));

/** By name, with their titles. `docs/github.md`, `doctor` and `github connect` list them. */
export const subscribedEvents: ReadonlyMap<string, string> = new Map(
  [...events].map(([name, { title }]) => [name, title]),
);

/** Undefined if the service does not use this action. An edited comment changes no fact. */
function useOf(event: string, action: string): Exclude<EventUse['effect'], object> | Reader | undefined {
  const { effect } = events.get(event) ?? {};
  if (typeof effect === 'object') return Object.hasOwn(effect, action) ? effect[action] : undefined;
  const isUsed = effect === 'pull request' || action === 'created' || action === 'deleted';
  return isUsed ? effect : undefined;
}

/**
 * Does what a verified delivery asks for; it is durable when this returns.
 *
 * @param takePullRequest records a delivery about a pull request
 */
export async function receive(
  deps: Deps,
  takePullRequest: (delivery: PullRequestDelivery) => Promise<DeliveryOutcome>,
  { event, guid, payload, logins }: Delivery,
): Promise<Receipt> {
  if (event === 'ping') return { taken: false, message: 'Pong: deliveries arrive and their signature matches.' };
  const action = 'action' in payload && typeof payload.action === 'string' ? payload.action : '';
  const use = useOf(event, action);
  if (use === undefined) {
    // GitHub adds and changes events without notice, so unused ones are not checked.
    return ignored(`pullscore does not use ${/^[a-z0-9_]{1,100}$/.test(action) ? `${event} ${action}` : event}.`);
  }
  const { organization, repository } = requireShape(Origin, payload);
  const owner = organization ?? repository?.owner;
  if (owner === undefined) throw malformed();
  const organisation = { githubId: owner.id, login: owner.login };
  const { executor } = deps.database;
  if (logins !== undefined) {
    // The payload only claims an organisation: the one that it would change is what counts.
    const addressed = await findGithubOrganisation(executor, organisation);
    if (addressed === undefined) return receipt('unknown_organisation');
    if (!logins.includes(addressed.login.toLowerCase())) {
      throw unauthenticated(
        'This webhook secret is for another organisation.',
        'If the organisation was renamed, change its entry in GITHUB_WEBHOOK_SECRET, and the address of its webhook.',
      );
    }
  }

  const take = async (ids: { githubId: number; nodeId: string }, updatedAt: string | undefined) => {
    const pullRequest = { ...ids, minSourceUpdatedAt: optionalUnixSeconds(updatedAt) };
    // Only comments are deleted, which changes no time.
    const delaySeconds = action === 'deleted' ? catchUpSeconds : 0;
    const target = { organisation, repositoryGithubId: repository?.id, pullRequest };
    return receipt(await takePullRequest({ guid, event, action, ...target, delaySeconds }));
  };
  if (use === 'pull request') {
    const { pull_request: changed } = requireShape(PullRequestPayload, payload);
    return take({ githubId: changed.id, nodeId: changed.node_id }, changed.updated_at);
  }
  if (use === 'commented pull request') {
    const { issue, repository: issueRepository } = requireShape(CommentPayload, payload);
    if (issue.pull_request === undefined) return ignored('the comment is not on a pull request.');
    const tracked = await findGithubOrganisation(executor, organisation);
    if (tracked === undefined) return receipt('unknown_organisation');
    const reference = { repositoryGithubId: issueRepository.id, number: issue.number, nodeId: issue.node_id };
    const found = await findCommentedPullRequest(executor, tracked.id, reference);
    if (found === undefined) return ignored('this pull request is not stored here.');
    return take(found, issue.updated_at);
  }
  const effect = use(payload);
  if (effect === undefined) return ignored(`pullscore does not need this change to a ${event}.`);
  const outcome = await deps.database.transaction(async transaction => {
    const tracked = await findGithubOrganisation(transaction, organisation);
    if (tracked === undefined) return 'unknown_organisation';
    const taken = await takeAppliedDelivery(transaction, { guid, event, action }, tracked);
    if (taken === 'taken') await effect(transaction, tracked);
    return taken;
  });
  return receipt(outcome);
}

const malformed = () =>
  badRequest('This is not a valid GitHub webhook payload: required fields are missing or malformed.');

function requireShape<Schema extends TSchema>(schema: Schema, payload: object): Static<Schema> {
  if (!matches(schema, payload)) throw malformed();
  return payload;
}
