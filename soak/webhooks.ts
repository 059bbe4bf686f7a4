import { randomUUID } from 'node:crypto';
import type { WebhookEvent } from '../test/support/github/events.ts';
import { type ModelOrganisation, type ModelPullRequest, standingOf } from './model.ts';
import type { Scene } from './play.ts';

/** What becomes of the webhooks of a step: sent at once, once or twice; kept for a later step; or lost. */
export const fates = ['sent', 'sent', 'sent', 'sent', 'doubled', 'kept', 'kept', 'lost'] as const;

export interface Webhook {
  guid: string;
  event: WebhookEvent;
  /** Undefined if the organisation is not tracked. */
  organisation: ModelOrganisation | undefined;
  /** The one that it is about, if any. */
  pullRequest: ModelPullRequest | undefined;
  tries: number;
}

/** GitHub announces something, and the webhook meets its fate. */
export async function announce(
  scene: Scene,
  event: WebhookEvent,
  pullRequest: ModelPullRequest | undefined,
  { fate, via }: { fate: (typeof fates)[number]; via: number },
): Promise<void> {
  const { organization } = event.payload as { organization?: { id: number } };
  const organisation = scene.organisations.find(({ github }) => github.id === organization?.id);
  const webhook: Webhook = { guid: randomUUID(), event, organisation, pullRequest, tries: 0 };
  scene.webhooks.push(webhook);
  scene.arena.count(`webhooks ${fate}`);
  if (fate === 'kept') scene.kept.push(webhook);
  if (fate === 'sent') await deliver(scene, webhook, via);
  if (fate === 'doubled') {
    // Nobody knows which of them is first.
    webhook.tries += 1;
    await Promise.all([deliver(scene, webhook, via), deliver(scene, webhook, via + 1)]);
  }
}

/** Events that the service acts on; it ignores comments on unknown pull requests. */
const interesting =
  /^(pull_request(_review|_review_comment|_review_thread)? \w+|issue_comment (created|deleted)|(label|milestone) (edited|deleted)|organization (member_added|member_removed|renamed)|repository (renamed|transferred|deleted))$/;

/** What it may be answered, as a pattern. */
function expectedAnswer({ event, organisation, pullRequest, tries }: Webhook): string {
  if (organisation === undefined) return 'is not tracked here|pullscore does not use';
  if (!interesting.test(`${event.event} ${event.action}`)) return 'pullscore does not use';
  const isStored = pullRequest !== undefined && standingOf(pullRequest, organisation).seen !== undefined;
  if (event.event === 'issue_comment' && !isStored) {
    return 'Accepted|already been applied|not stored here|webhooks are disabled';
  }
  if (!organisation.webhooksEnabled) return 'webhooks are disabled';
  return tries > 1 ? 'Accepted|already been applied' : 'Accepted';
}

/** POSTs it, to the replica chosen by `via`. A wrong answer is a difference. */
export async function deliver({ arena, model, differences }: Scene, webhook: Webhook, via: number): Promise<void> {
  const { event, guid, organisation, pullRequest } = webhook;
  webhook.tries += 1;
  const { status, body } = await arena.deliver(via, event, guid);
  arena.count(`deliveries answered ${status}`);
  // From a replica that was killed: as good as no answer.
  if (status === 503) return;
  const expected = expectedAnswer(webhook);
  if (!new RegExp(expected).test(body) || (status === 202) !== body.includes('Accepted')) {
    differences.push(`a delivery of ${event.event} ${event.action} was answered ${status} ${body}, not “${expected}”`);
  }
  if (status !== 202 || organisation === undefined) return;
  organisation.acknowledged.add(guid);
  model.acknowledge(organisation, event, pullRequest);
}
