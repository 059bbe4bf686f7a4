import { createServer } from 'node:http';
import { connect } from 'node:net';
import type { Duplex } from 'node:stream';
import { listenOn } from './raw-http.ts';

/**
 * An HTTP proxy that opens tunnels by CONNECT, all to one server, whatever their name.
 *
 * @param target URL of that server
 * @param authorization the `proxy-authorization` that it asks for
 */
export async function startConnectProxy(target: string, authorization?: string) {
  const { hostname, port } = new URL(target);
  const tunnels: string[] = [];
  const sockets = new Set<Duplex>();
  let silent = false;
  const server = createServer((_request, response) => response.writeHead(405).end());
  server.on('connect', (request, client, head) => {
    tunnels.push(request.url ?? '');
    sockets.add(client.on('error', () => undefined).once('close', () => sockets.delete(client)));
    if (silent) return;
    if (request.headers['proxy-authorization'] !== authorization) {
      client.end('HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\n\r\n');
      return;
    }
    const upstream = connect(Number(port), hostname, () => {
      client.write('HTTP/1.1 200 Connection Established\r\n\r\n');
      upstream.write(head);
      upstream.pipe(client).pipe(upstream);
    });
    upstream.on('error', () => client.destroy()).once('close', () => client.destroy());
    client.once('close', () => upstream.destroy());
  });
  const ownPort = await listenOn(server);

  return {
    url: `http://127.0.0.1:${ownPort}`,
    /** `host:port` of each tunnel that was asked for. */
    tunnels,
    /** Later tunnels get no answer. */
    hang() {
      silent = true;
    },
    async close() {
      for (const socket of sockets) socket.destroy();
      server.closeAllConnections();
      await new Promise(resolve => server.close(resolve));
    },
  };
}
