/** What one client does, or an attacker, in a process of its own: what others do delays no measurement. */
import { connect, type Socket } from 'node:net';
import { setPriority } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { percentile } from '../bench/report.ts';
import { generateAccessToken } from '../src/access-token.ts';
import { repeat } from './background.ts';
import { startReads } from './reads.ts';

const [name = '', origin = '', token = ''] = process.argv.slice(2);
const authorization = { authorization: `Bearer ${token}` };

/** What an attack reports when it ends. */
let report = '';

/** What the service answers is its business. */
const send = (path: string, init: RequestInit = {}) =>
  fetch(origin + path, init)
    .then(reply => reply.arrayBuffer())
    .catch(() => undefined);

/** Without end, some at once. */
function flood(lanes: number, pauseMs: number, work: () => Promise<unknown>): void {
  for (let lane = 0; lane < lanes; lane += 1) repeat(pauseMs, work);
}

/** As it is on the wire. */
const head = (line: string, ...headers: string[]) => [`${line} HTTP/1.1`, 'Host: a', ...headers, '', ''].join('\r\n');

/** Opens a connection on which this is sent. */
const open = (begin: string) => (): Socket => {
  const { hostname, port } = new URL(origin);
  const socket = connect(Number(port), hostname, () => socket.write(begin));
  return socket.on('error', () => undefined);
};

/**
 * Keeps many connections open, and does something with each at intervals.
 *
 * @param pauseMs between two that are opened
 */
function hold(
  count: number,
  pauseMs: number,
  opening: () => Socket,
  act: (socket: Socket) => void,
  intervalMs = 1_000,
) {
  let held = 0;
  setInterval(() => {
    if (held >= count) return;
    held += 1;
    const socket = opening();
    const timer = setInterval(() => act(socket), intervalMs);
    socket.on('close', () => {
      clearInterval(timer);
      held -= 1;
    });
  }, pauseMs);
}

const trickle = (count: number, begin: string, pauseMs = 2) =>
  hold(count, pauseMs, open(begin), socket => void socket.write('a'));

/**
 * 10,000 requests a second with tokens that look right, so that each takes a look-up, two in one packet; or as many as
 * are answered.
 */
function floodTokens(): void {
  const request = () => head('GET /2025-04/account', `Authorization: Bearer ${generateAccessToken()}`);
  const packets = Array.from({ length: 2_500 }, () => request() + request());
  const waiting = new WeakMap<Socket, number>();
  let [sent, answered] = [0, 0];
  const opening = () => {
    const socket = open('')().setEncoding('latin1');
    return socket.on('data', (text: string) => {
      const replies = text.split('HTTP/1.1 ').length - 1;
      waiting.set(socket, (waiting.get(socket) ?? 0) - replies);
      answered += replies;
    });
  };
  const act = (socket: Socket) => {
    if ((waiting.get(socket) ?? 0) > 0) return;
    waiting.set(socket, 2);
    socket.write(packets[sent++ % packets.length] ?? '');
  };
  hold(100, 2, opening, act, 20);
  setInterval(() => {
    report = `${answered} requests a second`;
    answered = 0;
  }, 1_000);
}

const upload = { 'content-type': 'application/json', 'x-github-event': 'pull_request', 'x-github-delivery': 'a' };
const wrongSignature = { 'x-hub-signature-256': `sha256=${'0'.repeat(64)}` };
const largeBody = { method: 'POST', headers: { ...upload, ...wrongSignature }, body: 'a'.repeat(5_000_000) };
const announced = head('POST /webhooks/github', 'Content-Type: application/json', 'Content-Length: 5000000');
const authorized = `Authorization: Bearer ${token}`;
const maxSizePage = head('GET /2025-04/pull-requests?per_page=100', authorized);
const openPaused = () => open(maxSizePage)().pause();
/** Of each page, 2 KB in 20 s. */
const bytesOfPage = 100;
const ofPlan = [authorized, 'Content-Type: application/yaml', 'Content-Length: 2000000'];
const unfinished = head('POST /2026-12/rules/plan', ...ofPlan) + 'a'.repeat(1_900_000);

const plan = (signal: AbortSignal | null = null) =>
  send('/2026-12/rules/plan?audit=true', {
    method: 'POST',
    headers: { ...authorization, 'content-type': 'application/yaml' },
    body: `rules:
  - name: Long
    logic: [{ expression: 'contains(body, "tests")', effect: { action: ADD, value: 'length(body)' } }]
`,
    signal,
  });

const read = (path: string) => send(`/2025-04/${path}`, { headers: authorization });

const attacks: Record<string, () => void> = {
  'bad tokens': floodTokens,
  'long ids': () => flood(4, 20, () => read(`members/${'a'.repeat(10_000)}`)),
  'lists of all members': () => flood(4, 0, () => read('members')),
  'bodies of 5 MB': () => flood(2, 0, () => send('/webhooks/github', largeBody)),
  'slow requests': () => trickle(1_000, 'GET / HTTP/1.1\r\nHost: a\r\nX-Slow: '),
  'slow uploads': () => trickle(50, announced),
  'slow pages': () => hold(100, 20, openPaused, socket => void socket.read(bytesOfPage)),
  'large pages': () => flood(7, 1_000, () => read(`pull-requests?per_page=100&unseen=${Math.random()}`)),
  'unfinished files': () => trickle(590, unfinished, 20),
  plans: () => flood(1, 0, () => plan()),
  'left plans': () => flood(5, 0, () => plan(AbortSignal.timeout(2_000))),
};

/** Reads at a steady rate. */
async function startReading() {
  // Numbers of processes before this one are lower: no page comes from memory.
  let unseen = Date.now();
  const begin = () =>
    startReads({ nextUrl: () => `${origin}/2025-04/pull-requests?unseen=${unseen++}`, token, rate: 50 });
  // The first ones compile this program and open connections.
  const first = begin();
  await delay(1_500);
  await first.stop();
  const reads = begin();
  return async () => {
    await reads.stop();
    return { p99: percentile(reads.latencies, 0.99), failures: reads.failures };
  };
}

function startAttack(attack = attacks[name]) {
  if (attack === undefined) throw new Error(`"${name}" is not an attack`);
  // Others' machines attack: this one's processors are for the service.
  setPriority(19);
  attack();
  return async () => report;
}

const stop = await (name === 'reads' ? startReading() : startAttack());
// The parent's first message ends it, or the parent's death.
process.once('message', async () => process.send?.(await stop(), () => process.exit()));
process.once('disconnect', () => process.exit());
process.send?.('at work');
