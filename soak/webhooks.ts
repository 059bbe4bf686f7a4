import { randomUUID } from 'node:crypto';
import type { WebhookEvent } from '../test/support/github/events.ts';
import { signedRequest } from '../test/support/github/webhooks.ts';
import { webhookSecret } from '../test/support/service.ts';
import type { Scene } from './play.ts';

/** What becomes of the webhooks of a step: sent at once, once or twice; kept for a later step; or lost. */
export const fates = ['sent', 'sent', 'sent', 'sent', 'doubled', 'kept', 'kept', 'lost'] as const;

export interface Webhook {
  guid: string;
  event: WebhookEvent;
  tries: number;
}

/** GitHub announces something, and the webhook meets its fate. */
export async function announce(scene: Scene, event: WebhookEvent, fate: (typeof fates)[number]): Promise<void> {
  const webhook: Webhook = { guid: randomUUID(), event, tries: 0 };
  scene.webhooks.push(webhook);
  if (fate === 'kept') scene.kept.push(webhook);
  if (fate === 'sent') await deliver(scene, webhook);
  if (fate === 'doubled') {
    // Nobody knows which of them is first.
    webhook.tries += 1;
    await Promise.all([deliver(scene, webhook), deliver(scene, webhook)]);
  }
}

/** POSTs it. A wrong answer is a difference. */
export async function deliver({ arena, side, model, differences }: Scene, webhook: Webhook): Promise<void> {
  const { event, guid } = webhook;
  webhook.tries += 1;
  const { app } = await arena.replica();
  const request = { url: '/webhooks/github', ...signedRequest(webhookSecret, event, { guid }) };
  const { statusCode: status, body } = await app.inject(request);
  // From a replica that was killed: as good as no answer.
  if (status === 503) return;
  const { organization } = event.payload as { organization?: { id: number } };
  const isOwn = organization?.id === side.acme.id;
  const isApplied = webhook.tries > 1 && body.includes('already been applied');
  // What is not about a pull request may be of no use.
  const mayBeIgnored = !isOwn || isApplied || !event.event.startsWith('pull_request');
  if (!(status === 202 ? isOwn : status === 200 && mayBeIgnored)) {
    differences.push(`a delivery of ${event.event} ${event.action} was answered ${status} ${body}`);
  }
  if (status !== 202) return;
  model.acknowledged.add(guid);
  model.acknowledge(event);
}
