import { randomInt } from 'node:crypto';
import { createServer, type Socket } from 'node:net';
import pg from 'pg';
import { listenOn } from './raw-http.ts';

type Mode = 'session' | 'transaction';

/** Start-up parameters that PgBouncer passes on; it refuses all others. */
const passed = ['user', 'database', 'client_encoding', 'application_name'];

interface Upstream {
  client: pg.Client;
  stream: Socket;
}

/**
 * Stands between clients and a server as PgBouncer does: it has process ids of its own, refuses settings at the start,
 * and gives a session to a client, or, in transaction mode, to each of its transactions.
 */
export async function startPooler(targetUrl: string, mode: Mode) {
  const idle: Upstream[] = [];
  const all = new Set<Upstream>();

  const open = async (): Promise<Upstream> => {
    const found = idle.pop();
    if (found !== undefined) return found;
    const client = new pg.Client({ connectionString: targetUrl });
    client.on('error', () => undefined);
    await client.connect();
    const { stream } = (client as unknown as { connection: { stream: Socket } }).connection;
    stream.removeAllListeners('data');
    const upstream = { client, stream };
    all.add(upstream);
    return upstream;
  };

  const server = createServer(socket => {
    let isStarted = false;
    let upstream: Promise<Upstream> | undefined;
    let unanswered = 0;
    socket.on('error', () => undefined);
    const release = async () => {
      const held = await upstream;
      upstream = undefined;
      if (held === undefined) return;
      held.stream.removeAllListeners('data');
      idle.push(held);
    };
    const attach = async () => {
      const held = await open();
      const answers = framed(({ type, frame }) => {
        socket.write(frame);
        if (type !== 'Z') return;
        unanswered -= 1;
        // The state is the last byte: `I` outside a transaction.
        if (mode === 'transaction' && unanswered === 0 && frame.at(-1) === 'I'.charCodeAt(0)) void release();
      });
      held.stream.on('data', answers);
      return held;
    };
    const messages = framed(({ type, frame }) => {
      if (type === 'X') return;
      // Both end with "ready for query".
      if (type === 'Q' || type === 'S') unanswered += 1;
      upstream ??= attach();
      void upstream.then(({ stream }) => stream.write(frame));
    });
    socket.on('data', data => {
      if (isStarted) return messages(data);
      isStarted = true;
      const [, ...rest] = data.subarray(8, -2).toString().split('\0');
      const names = [data.subarray(8).toString().split('\0')[0] ?? '', ...rest.filter((_, index) => index % 2 === 1)];
      const refused = names.find(name => name !== '' && !passed.includes(name));
      if (refused !== undefined) {
        socket.end(message('E', `SFATAL\0C08P01\0Munsupported startup parameter: ${refused}\0\0`));
        return;
      }
      const key = Buffer.alloc(8);
      key.writeInt32BE(randomInt(1, 2 ** 31 - 1));
      socket.write(Buffer.concat([message('R', Buffer.alloc(4)), message('K', key), message('Z', 'I')]));
    });
    socket.on('close', () => void release());
  });
  const port = await listenOn(server);
  const url = new URL(targetUrl);
  return {
    url: `postgres://${url.username}@127.0.0.1:${port}${url.pathname}`,
    async close() {
      server.close();
      for (const { stream } of all) stream.destroy();
    },
  };
}

/** In PostgreSQL's protocol. */
export function message(type: string, content: string | Buffer): Buffer {
  const bytes = Buffer.from(content);
  const head = Buffer.alloc(5);
  head.write(type);
  head.writeInt32BE(4 + bytes.length, 1);
  return Buffer.concat([head, bytes]);
}

/** Splits a stream into the messages of PostgreSQL's protocol. */
function framed(take: (message: { type: string; frame: Buffer }) => void) {
  let pending = Buffer.alloc(0);
  return (data: Buffer) => {
    pending = Buffer.concat([pending, data]);
    while (pending.length >= 5) {
      const length = 1 + pending.readInt32BE(1);
      if (pending.length < length) return;
      take({ type: pending.toString('latin1', 0, 1), frame: pending.subarray(0, length) });
      pending = pending.subarray(length);
    }
  };
}
