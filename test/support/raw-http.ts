import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server } from 'node:net';
import { onTestFinished } from 'vitest';
import type { App } from '../../src/app.ts';

const portOf = (server: Server) => (server.address() as AddressInfo).port;

/** Makes the service listen on a free loopback port. @returns the port */
export async function listen(app: App): Promise<number> {
  await app.listen({ host: '127.0.0.1', port: 0 });
  return portOf(app.server);
}

/** Makes another server listen on one. */
export async function listenOn(server: Server): Promise<number> {
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return portOf(server);
}

/** Below those that systems give to everybody who asks for any: nobody else is given it meanwhile. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(10_000, 30_000);
    const server = createServer();
    try {
      await once(server.listen(port, '127.0.0.1'), 'listening');
    } catch {
      continue;
    }
    await once(server.close(), 'close');
    return port;
  }
}

export interface RawReply {
  /** 0 if the connection ended without a reply. */
  status: number;
  /** Names in lower case. */
  headers: Record<string, string>;
  body: string;
  /** Everything received. */
  text: string;
  milliseconds: number;
}

/** Sends these bytes, which no HTTP client would, and reads until the other side closes. */
export function exchange(port: number, bytes: string | Buffer): Promise<RawReply> {
  const began = performance.now();
  return new Promise((resolve, reject) => {
    let text = '';
    const socket = connect(port, '127.0.0.1', () => socket.write(bytes));
    socket.setEncoding('latin1');
    socket.setTimeout(15_000, () => socket.destroy(new Error(`the connection stayed open: ${text}`)));
    socket.on('data', chunk => {
      text += chunk;
    });
    let failure: Error | undefined;
    socket.on('error', error => {
      failure = error;
    });
    // A reset may follow the reply if the service did not read everything.
    socket.on('close', () => {
      if (failure !== undefined && text === '') reject(failure);
      else resolve({ ...parseReply(text), text, milliseconds: performance.now() - began });
    });
  });
}

/** A connection that sends these bytes and then nothing. It resolves once the service has seen the request. */
export async function stall({ server }: App, port: number, bytes: string | Buffer) {
  const known = once(server, 'request');
  const received = { text: '' };
  const socket = connect(port, '127.0.0.1', () => socket.write(bytes));
  socket.setEncoding('latin1').on('data', chunk => {
    received.text += chunk;
  });
  socket.on('error', () => undefined);
  onTestFinished(async () => {
    if (socket.destroyed) return;
    socket.destroy();
    await once(socket, 'close');
  });
  await known;
  return { socket, received };
}

function parseReply(text: string): Pick<RawReply, 'status' | 'headers' | 'body'> {
  const [head = '', ...rest] = text.split('\r\n\r\n');
  const [statusLine = '', ...lines] = head.split('\r\n');
  const headers = lines.map(line => {
    const colon = line.indexOf(':');
    return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()];
  });
  return {
    status: Number(/^HTTP\/1\.1 (\d{3})/.exec(statusLine)?.[1] ?? 0),
    headers: Object.fromEntries(headers),
    body: rest.join('\r\n\r\n'),
  };
}
