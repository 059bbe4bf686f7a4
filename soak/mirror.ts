import { setTimeout as delay } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { connect, createMirror as createCopy, follow, list } from '../demo/client.ts';
import type { Arena } from './arena.ts';
import type { ModelOrganisation } from './model.ts';

/** How long the transactions of other histories may hold up the feed. */
const maxWaitMs = 20_000;

/** A client that knows an organisation's pull requests from the feed of changes alone. */
export function createMirror({ replica }: Arena, { token, github }: ModelOrganisation) {
  const copy = createCopy();
  let pages = 0;
  const differences: string[] = [];

  const clientOf = (via: number) =>
    connect('http://localhost', token, {
      async fetch({ url, headers }) {
        const { app } = await replica(via);
        const { statusCode, body } = await app.inject({ url, headers: Object.fromEntries(headers) });
        if (![200, 503].includes(statusCode)) {
          differences.push(`${github.login}: ${url} was answered ${statusCode} ${body}`);
        }
        return new Response(body, { status: statusCode });
      },
    });

  /** @returns undefined after an error that was answered: a replica was killed, or it is a difference */
  const answered = <Result>(work: Promise<Result>) =>
    work.catch((error: Error) => {
      if (error.cause === undefined) throw error;
      return undefined;
    });

  async function readPage(via: number) {
    const { cursor } = copy;
    const changes = await answered(follow(clientOf(via), copy, 3));
    pages += 1;
    if (pages % 5 === 0) copy.cursor = cursor;
    return changes;
  }

  /** From the replica's memory, if it was asked before: a page is kept once it was asked for again. */
  async function readList(via: number) {
    const listed: typeof copy.pullRequests = new Map();
    for (let times = 0; times < 2; times += 1) {
      listed.clear();
      for await (const each of list(clientOf(via))) listed.set(each.id, each);
    }
    return listed;
  }

  let reading = Promise.resolve();
  return {
    /** Reads a page, and now and then forgets that it did, as a client that is killed before it has stored the cursor. */
    follow(via: number): Promise<void> {
      reading = reading.then(() => readPage(via)).then(() => undefined);
      return reading;
    },
    /** Reads to the end. @returns how it differs from the list, as each replica shows it */
    async compare(): Promise<string[]> {
      await reading;
      for (const via of [0, 1, 2]) {
        const until = performance.now() + maxWaitMs;
        for (;;) {
          while (differences.length === 0 && (await readPage(0))?.length !== 0);
          const listed = await answered(readList(via));
          if (differences.length > 0) return differences.splice(0);
          if (isDeepStrictEqual(copy.pullRequests, listed)) break;
          if (performance.now() > until && listed !== undefined) {
            return [`${github.login}: by its changes it has ${show(copy.pullRequests)}, and the list ${show(listed)}`];
          }
          await delay(20);
        }
      }
      return [];
    },
  };
}

const show = (items: ReadonlyMap<string, object>) => JSON.stringify([...items.values()]);
