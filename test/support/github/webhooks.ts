import { createHmac, randomUUID } from 'node:crypto';
import type { WebhookEvent } from './events.ts';
import type { Organisation } from './organisation.ts';

export interface Delivery {
  guid: string;
  event: string;
  action: string | undefined;
  /** 0 if no answer came. */
  status: number;
  /** The answer's text, or why there was none. */
  answer: string;
}

interface DeliveryOptions {
  guid?: string;
  /** Override GitHub's own headers, to forge or break them. */
  headers?: Record<string, string>;
  /** The exact body, instead of the event's payload as JSON; it is what gets signed. */
  body?: string | Buffer;
}

const firstHookId = 400_000_001;
/** As GitHub does. */
const timeoutMs = 10_000;

export const signature = (secret: string, body: string | Buffer) =>
  `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`;

/** A webhook as GitHub sends it, for `fetch` and for `inject`. */
export function signedRequest(
  secret: string,
  { event, payload }: { event: string; payload: unknown },
  { guid = randomUUID(), headers = {}, body = JSON.stringify(payload) }: DeliveryOptions = {},
) {
  const own = {
    accept: '*/*',
    'content-type': 'application/json',
    'user-agent': 'GitHub-Hookshot/044aadd',
    'x-github-delivery': guid,
    'x-github-event': event,
    'x-github-hook-id': String(firstHookId),
    'x-github-hook-installation-target-id': '90000001',
    'x-github-hook-installation-target-type': 'organization',
    'x-hub-signature-256': signature(secret, body),
  };
  return { method: 'POST' as const, headers: { ...own, ...headers }, body };
}

/** Signs and POSTs a webhook as GitHub does. It never throws: a failed delivery has status 0. */
export async function deliver(
  url: string,
  secret: string,
  event: WebhookEvent,
  { guid = randomUUID(), ...options }: DeliveryOptions = {},
): Promise<Delivery> {
  const delivery = { guid, event: event.event, action: event.action };
  try {
    const request = signedRequest(secret, event, { guid, ...options });
    const response = await fetch(url, { ...request, signal: AbortSignal.timeout(timeoutMs) });
    return { ...delivery, status: response.status, answer: await response.text() };
  } catch (error) {
    return { ...delivery, status: 0, answer: String(error instanceof Error ? (error.cause ?? error) : error) };
  }
}

/** The settings of a webhook on GitHub. */
export interface HookSettings {
  /** Undefined: all. */
  events?: readonly string[];
  active?: boolean;
  contentType?: 'form' | 'json';
  /** The App's own webhook, which gets the events of the organisations that have it installed. */
  ofApp?: boolean;
}

export interface Hook extends HookSettings {
  url: string;
  secret: string;
  /** Undefined: all organisations. */
  organisation: Organisation | undefined;
}

export interface KnownHook extends Hook {
  id: number;
  /** Latest first, as GitHub lists them. */
  deliveries: { delivery: Delivery; deliveredAt: Date; seconds: number }[];
}

export type Hooks = ReturnType<typeof createHooks>;

const maxDeliveries = 1_000;
const maxConcurrent = 10;

/** Sends each event to the hooks as it happens, and records the deliveries. Like GitHub, it never repeats one. */
export function createHooks() {
  let hooks: KnownHook[] = [];
  let nextId = firstHookId;
  const deliveries: Delivery[] = [];
  const queue: { hook: KnownHook; event: WebhookEvent }[] = [];
  const running = new Set<Promise<void>>();

  async function work() {
    for (let next = queue.shift(); next; next = queue.shift()) {
      const { hook, event } = next;
      const deliveredAt = new Date();
      const delivery = await deliver(hook.url, hook.secret, event, formOf(hook, event));
      deliveries.push(delivery);
      if (deliveries.length > maxDeliveries) deliveries.shift();
      hook.deliveries.unshift({ delivery, deliveredAt, seconds: (Date.now() - deliveredAt.getTime()) / 1000 });
    }
  }

  function start() {
    if (running.size >= maxConcurrent) return;
    const worker = work().finally(() => running.delete(worker));
    running.add(worker);
  }

  return {
    /** @param ping creates the event that is sent only to the new hook */
    add(hook: Hook, ping: (known: KnownHook) => WebhookEvent | undefined) {
      const known = { ...hook, id: nextId++, deliveries: [] };
      hooks.push(known);
      const event = ping(known);
      if (!event) return;
      queue.push({ hook: known, event });
      start();
    },
    clear() {
      hooks = [];
      queue.length = 0;
    },
    get all(): readonly KnownHook[] {
      return hooks;
    },
    send(event: WebhookEvent, organisation: Organisation) {
      for (const hook of hooks) {
        if (hook.organisation !== undefined && hook.organisation !== organisation) continue;
        if (hook.ofApp && organisation.installationId === undefined) continue;
        if (hook.active === false || hook.events?.includes(event.event) === false) continue;
        queue.push({ hook, event });
        start();
      }
    },
    /** Settles when all events sent so far are answered or given up. */
    async settled() {
      while (running.size > 0) await Promise.all(running);
    },
    /** The last thousand, oldest first. */
    deliveries: deliveries as readonly Delivery[],
  };
}

function formOf({ contentType = 'json' }: Hook, { payload }: WebhookEvent): DeliveryOptions {
  if (contentType === 'json') return {};
  return {
    body: new URLSearchParams({ payload: JSON.stringify(payload) }).toString(),
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
  };
}
