import { setTimeout as delay } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { Arena } from './arena.ts';
import type { ModelOrganisation } from './model.ts';

type Item = Readonly<Record<string, unknown>> & { id: string };
type Change = { type: 'pull_request'; pull_request: Item } | { type: 'deletion'; id: string };

/** How long the transactions of other histories may hold up the feed. */
const maxWaitMs = 20_000;

/** A client that knows an organisation's pull requests from the feed of changes alone. */
export interface Mirror {
  /** Reads a page, and now and then forgets that it did, as a client that is killed before it has stored the cursor. */
  follow(via: number): Promise<void>;
  /** Reads to the end. @returns how it differs from the list */
  compare(): Promise<string[]>;
}

export function createMirror({ replica }: Arena, { token, github }: ModelOrganisation): Mirror {
  const known = new Map<string, Item>();
  let cursor: string | undefined;
  let pages = 0;
  const differences: string[] = [];

  async function get(path: string, via: number) {
    const { app } = await replica(via);
    const { statusCode, body } = await app.inject({
      url: `/2026-12/${path}`,
      headers: { authorization: `Bearer ${token}` },
    });
    return { statusCode, body: JSON.parse(body) };
  }

  /** @returns whether something came; undefined without an answer, because a replica was killed */
  async function readPage(via: number): Promise<boolean | undefined> {
    const { statusCode, body } = await get(`changes?per_page=3${cursor === undefined ? '' : `&cursor=${cursor}`}`, via);
    if (statusCode === 503) return undefined;
    if (statusCode !== 200) {
      differences.push(`${github.login}: changes were answered ${statusCode} ${JSON.stringify(body)}`);
      return false;
    }
    for (const change of body.data as Change[]) {
      if (change.type === 'deletion') known.delete(change.id);
      else known.set(change.pull_request.id, change.pull_request);
    }
    pages += 1;
    if (pages % 5 > 0) cursor = body.meta.next_cursor;
    return body.data.length > 0;
  }

  /** @returns undefined if a replica was killed meanwhile */
  async function readList(): Promise<Map<string, Item> | undefined> {
    const listed = new Map<string, Item>();
    for (let next: string | null = ''; next !== null; ) {
      const { statusCode, body } = await get(`pull-requests?per_page=100${next && `&cursor=${next}`}`, 0);
      if (statusCode !== 200) return undefined;
      for (const item of body.data as Item[]) listed.set(item.id, item);
      next = body.meta.next_cursor;
    }
    return listed;
  }

  let reading = Promise.resolve();
  return {
    follow(via) {
      reading = reading.then(() => readPage(via)).then(() => undefined);
      return reading;
    },
    async compare() {
      await reading;
      const until = performance.now() + maxWaitMs;
      for (;;) {
        while ((await readPage(0)) !== false);
        const listed = await readList();
        if (differences.length > 0) return differences.splice(0);
        if (isDeepStrictEqual(known, listed)) return [];
        if (performance.now() > until && listed !== undefined) {
          return [`${github.login}: by its changes it has ${show(known)}, and the list ${show(listed)}`];
        }
        await delay(20);
      }
    },
  };
}

const show = (items: ReadonlyMap<string, Item>) => JSON.stringify([...items.values()]);
