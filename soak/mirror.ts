import { setTimeout as delay } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { connect, createMirror as createCopy, follow, list } from '../demo/client.ts';
import type { Arena } from './arena.ts';

/** How long the transactions of other histories may hold up the feed. */
const maxWaitMs = 20_000;

/** A client that knows an organisation's pull requests from the feed of changes alone. */
export function createMirror({ replica }: Arena, token: string, differences: string[]) {
  const copy = createCopy();
  let pages = 0;

  /** Of any replica, for each request. */
  const client = connect('http://localhost', token, {
    async fetch(request) {
      const reply = await (await replica()).client.fetch(request);
      if (![200, 503].includes(reply.status)) {
        differences.push(`${request.url} was answered ${reply.status} ${await reply.clone().text()}`);
      }
      return reply;
    },
  });

  /** @returns undefined after an error that was answered: a replica was killed, or it is a difference */
  const answered = <Result>(work: Promise<Result>) =>
    work.catch((error: Error) => {
      if (error.cause === undefined) throw error;
      return undefined;
    });

  async function readPage() {
    const { cursor } = copy;
    const changes = await answered(follow(client, copy, 3));
    pages += 1;
    if (pages % 5 === 0) copy.cursor = cursor;
    return changes;
  }

  async function readList() {
    const listed: typeof copy.pullRequests = new Map();
    for await (const each of list(client)) listed.set(each.id, each);
    return listed;
  }

  let reading: Promise<unknown> = Promise.resolve();
  return {
    /** Reads a page, and now and then forgets that it did, as a client that is killed before it has stored the cursor. */
    follow(): Promise<unknown> {
      reading = reading.then(readPage);
      return reading;
    },
    /** Reads to the end. What differs from the list is a difference. */
    async compare(): Promise<void> {
      await reading;
      for (const until = performance.now() + maxWaitMs; differences.length === 0; await delay(20)) {
        while (differences.length === 0 && (await readPage())?.length !== 0);
        const listed = await answered(readList());
        if (isDeepStrictEqual(copy.pullRequests, listed)) break;
        if (performance.now() < until || listed === undefined) continue;
        differences.push(`by its changes it has ${show(copy.pullRequests)}, and the list ${show(listed)}`);
      }
    },
  };
}

const show = (items: ReadonlyMap<string, object>) => JSON.stringify([...items.values()]);
