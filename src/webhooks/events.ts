import { type Static, type TSchema, Type } from '@sinclair/typebox';
import { type TypeCheck, TypeCompiler } from '@sinclair/typebox/compiler';
import type { Executor } from '../database/client.ts';
import { saveMembership } from '../database/members.ts';
import type { Organisation } from '../database/organisations.ts';
import { findGithubOrganisation } from '../database/organisations.ts';
import { drawTicket } from '../database/pull-requests.ts';
import { requestComparison } from '../database/reconciliation.ts';
import { confirmNames, saveRepositories } from '../database/repositories.ts';
import { type DeliveryOutcome, type PullRequestDelivery, takeAppliedDelivery } from '../database/webhook-deliveries.ts';
import type { Deps } from '../deps.ts';
import { ServiceError } from '../errors.ts';

/*
 * The parts of GitHub's payloads that matter here; see
 * https://docs.github.com/en/webhooks/webhook-events-and-payloads. A pull request's own state and an
 * organisation's login are never taken from a payload: deliveries come late, twice and out of order, so that they only
 * say what must be fetched.
 */

const Id = Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER });
const NodeId = Type.String({ pattern: '^[\\w=+/-]{1,200}$' });
const Login = Type.String({ pattern: '^[\\w.\\[\\]-]{1,100}$' });
const Owner = Type.Object({ id: Id, login: Login });

/** Read before it is known whether there is anything to do. */
const Origin = Type.Object({
  action: Type.Optional(Type.String({ pattern: '^[a-z0-9_]{1,100}$' })),
  organization: Type.Optional(Owner),
  repository: Type.Optional(Type.Object({ owner: Owner })),
});
const PullRequestPayload = Type.Object({ pull_request: Type.Object({ id: Id, node_id: NodeId }) });
const MemberPayload = Type.Object({
  membership: Type.Object({
    user: Type.Object({ id: Id, login: Login, avatar_url: Type.String({ pattern: '^https?://[^\\u0000]{1,2000}$' }) }),
  }),
});
const RepositoryPayload = Type.Object({
  repository: Type.Object({
    id: Id,
    node_id: NodeId,
    full_name: Type.String({ pattern: '^[\\w.-]+/[\\w.-]{1,200}$' }),
  }),
});
const checks = {
  origin: TypeCompiler.Compile(Origin),
  pullRequest: TypeCompiler.Compile(PullRequestPayload),
  member: TypeCompiler.Compile(MemberPayload),
  repository: TypeCompiler.Compile(RepositoryPayload),
};

const pullRequestEvents = new Set([
  'pull_request',
  'pull_request_review',
  'pull_request_review_comment',
  'pull_request_review_thread',
]);

export interface Delivery {
  event: string;
  /** `X-GitHub-Delivery` */
  guid: string;
  payload: object;
}

/** What was done, or why nothing was. */
export interface Receipt {
  taken: boolean;
  message: string;
}

const reasons: Record<DeliveryOutcome, string> = {
  taken: 'Taken.',
  applied_before: 'Ignored: this delivery has been applied already.',
  unknown_organisation: 'Ignored: this organisation is not one that is tracked here.',
  webhooks_disabled: 'Ignored: webhooks are disabled for this organisation.',
};
const receipt = (outcome: DeliveryOutcome): Receipt => ({ taken: outcome === 'taken', message: reasons[outcome] });

/**
 * Does what a verified delivery asks for; it is durable when this returns.
 *
 * @param takePullRequest records a delivery about a pull request
 */
export async function receive(
  deps: Deps,
  takePullRequest: (delivery: PullRequestDelivery) => Promise<DeliveryOutcome>,
  { event, guid, payload }: Delivery,
): Promise<Receipt> {
  if (event === 'ping') return { taken: false, message: 'Pong: deliveries arrive and their signature matches.' };
  const action = 'action' in payload && typeof payload.action === 'string' ? payload.action : '';
  const readEffect = effects.get(`${event} ${action}`);
  if (readEffect === undefined && !pullRequestEvents.has(event)) {
    // GitHub adds events and changes their form without notice: nothing is expected of those that aren't used.
    const name = /^[a-z0-9_]{1,100}$/.test(action) ? `${event} ${action}` : event;
    return { taken: false, message: `Ignored: nothing depends on ${name}.` };
  }

  const { organization, repository } = expect(checks.origin, payload);
  const owner = organization ?? repository?.owner;
  if (owner === undefined) throw malformed();
  const origin = { githubId: owner.id, login: owner.login };
  if (readEffect === undefined) {
    const { pull_request: pullRequest } = expect(checks.pullRequest, payload);
    const outcome = await takePullRequest({
      guid,
      event,
      action,
      organisation: origin,
      pullRequest: { githubId: pullRequest.id, nodeId: pullRequest.node_id },
    });
    return receipt(outcome);
  }

  const apply = readEffect(payload);
  const outcome = await deps.database.transaction(async executor => {
    const organisation = await findGithubOrganisation(executor, origin);
    if (organisation === undefined) return 'unknown_organisation';
    const taken = await takeAppliedDelivery(executor, { guid, event, action }, organisation);
    if (taken === 'taken') await apply(executor, organisation);
    return taken;
  });
  return receipt(outcome);
}

type Effect = (executor: Executor, organisation: Organisation) => Promise<unknown>;

const followRepository = (payload: object): Effect => {
  const { id: githubId, node_id: nodeId, full_name: name } = expect(checks.repository, payload).repository;
  const repository = { githubId, nodeId, name };
  return async (executor, { id }) => {
    const ticket = await drawTicket(executor);
    await confirmNames(executor, id, ticket, [repository]);
    await saveRepositories(executor, id, ticket, [repository]);
  };
};

const followMember = (payload: object, change: 'came' | 'left'): Effect => {
  const { id: githubId, login, avatar_url: photoUrl } = expect(checks.member, payload).membership.user;
  return (executor, { id }) => saveMembership(executor, id, { githubId, login, photoUrl }, change);
};

/** What is done, or asked for, within the delivery of the small events; by event and action. */
const effects = new Map<string, (payload: object) => Effect>([
  [
    'organization renamed',
    () =>
      (executor, { id }) =>
        requestComparison(executor, id),
  ],
  ['organization member_added', payload => followMember(payload, 'came')],
  ['organization member_removed', payload => followMember(payload, 'left')],
  ['repository renamed', followRepository],
  ['repository transferred', followRepository],
]);

const malformed = () =>
  new ServiceError('bad_request', "The payload is not one of GitHub's: parts that every delivery has are missing.");

function expect<Schema extends TSchema>(check: TypeCheck<Schema>, payload: object): Static<Schema> {
  if (!check.Check(payload)) throw malformed();
  return payload;
}
