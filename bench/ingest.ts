import { randomUUID } from 'node:crypto';
import type autocannon from 'autocannon';
import type { Organisation } from '../test/support/github/organisation.ts';
import { signedRequest } from '../test/support/github/webhooks.ts';
import { load, rateAgainst, summarise } from './load.ts';
import { secret, startProcess } from './processes.ts';
import { atLeast, takeTurns } from './report.ts';
import { openGithub } from './world.ts';

const rounds = 5;
const seconds = 5;

const payloadBytes = 25_000;
/** Each delivery has a GUID of its own; the pull requests come again after so many. */
const pullRequests = 4_000;

/**
 * Webhooks accepted a second, each durable before its answer, against the same application with nothing to store in.
 * The loops are off: what deliveries bring about later is not part of accepting them.
 */
export async function measure(): Promise<void> {
  await using world = await openGithub('bench/.data/ingest');
  const { onGithub } = await world.add('bench');
  const request = makeDeliveries(onGithub, pullRequests);
  await using own = await world.startIdle();
  await using bare = await startProcess(['--import', 'tsx', 'bench/webhook-server.ts'], world.environment);
  const accept = (origin: string, duration: number) =>
    load({ url: `${origin}/webhooks/github`, connections: 32, requests: [request()], duration });

  const warm = await accept(own.origin, 2);
  await accept(bare.origin, 2);
  const origins = { own: own.origin, bare: bare.origin };
  const measured = await takeTurns(rounds, origins, origin => accept(origin, seconds));
  const answered = [warm, ...measured.own].reduce((sum, result) => sum + result['2xx'], 0);
  const stored = await world.count('webhook_deliveries');
  if (stored < answered) throw new Error(`of ${answered} acknowledged only ${stored} are stored`);
  const what = `accepting webhooks of ${payloadBytes / 1000} KB, durable before the answer, WORKER=false`;
  const figures = rateAgainst(summarise(measured.own), summarise(measured.bare));
  atLeast(0.8, what, 'the same application without a database', figures);
}

/**
 * Payloads as GitHub's, each of another pull request.
 *
 * @returns makes a request that sends them one after the other, each time as a delivery of its own
 */
export function makeDeliveries(organisation: Organisation, count: number): () => autocannon.Request {
  const repository = organisation.repository('web');
  const deliveries = Array.from({ length: count }, () => {
    const event = repository.addPullRequest({ author: organisation.member('ada') }).open();
    const { payload } = event;
    const missing = payloadBytes - Buffer.byteLength(JSON.stringify(payload));
    const text = `## Why\n"${'because '.repeat(missing)}`.slice(0, missing - 4);
    const body = Buffer.from(JSON.stringify({ ...payload, pull_request: { ...payload.pull_request, body: text } }));
    return signedRequest(secret, event, { body });
  });
  return () => {
    let next = 0;
    return {
      method: 'POST',
      setupRequest: request => {
        const delivery = deliveries[next % deliveries.length];
        next += 1;
        const headers = { ...delivery?.headers, 'x-github-delivery': randomUUID() };
        return { ...request, headers, body: delivery?.body ?? '' };
      },
    };
  };
}
