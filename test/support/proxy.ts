import { connect, createServer, type Socket } from 'node:net';
import { listenOn } from './raw-http.ts';

export type TcpProxy = Awaited<ReturnType<typeof startProxy>>;

interface Pair {
  client: Socket;
  server: Socket;
  stalled: boolean;
}

/** Stands between a client, over TCP, and a server, and fails as networks and dying servers do. */
export async function startProxy(targetUrl: string) {
  const { hostname, port, searchParams } = new URL(targetUrl);
  const folder = searchParams.get('host');
  const target = folder === null ? { host: hostname, port: Number(port) } : { path: `${folder}/.s.PGSQL.5432` };
  const pairs = new Set<Pair>();
  let connections = 0;
  let opening: 'accepted' | 'held' | 'refused' = 'accepted';
  let lost: string | undefined;

  const destroy = (pair: Pair) => {
    pair.client.destroy();
    pair.server.destroy();
    pairs.delete(pair);
  };
  // An end is passed on, unless the connection is silent.
  const proxy = createServer({ allowHalfOpen: true }, client => {
    if (opening === 'refused') {
      client.resetAndDestroy();
      return;
    }
    connections += 1;
    const pair: Pair = { client, server: connect(target), stalled: false };
    pairs.add(pair);
    if (opening === 'held') client.pause();
    let loses = false;
    client.on('data', data => {
      if (pair.stalled) return;
      if (lost !== undefined && data.includes(lost)) {
        loses = true;
        lost = undefined;
      }
      pair.server.write(data);
    });
    pair.server.on('data', data => {
      if (loses) destroy(pair);
      else if (!pair.stalled) client.write(data);
    });
    client.on('end', () => pair.stalled || destroy(pair));
    for (const end of [client, pair.server]) {
      end.setNoDelay(true);
      end.on('error', () => destroy(pair));
      end.on('close', () => destroy(pair));
    }
  });
  const ownPort = await listenOn(proxy);

  return {
    /** The same URL, through the proxy. */
    through(url: string): string {
      const changed = new URL(url);
      changed.hostname = '127.0.0.1';
      changed.port = String(ownPort);
      changed.searchParams.delete('host');
      return changed.href;
    },
    /** Number of connections made so far. */
    get connections() {
      return connections;
    },
    /** Open connections go silent, as when a firewall forgets them; new ones work. */
    stall() {
      for (const pair of pairs) pair.stalled = true;
    },
    /** Breaks open connections, of which the server does not hear. */
    abandon() {
      for (const pair of pairs) {
        pair.stalled = true;
        pair.client.removeAllListeners('close').destroy();
      }
    },
    /** Breaks open connections. */
    cut() {
      for (const pair of pairs) destroy(pair);
    },
    /** The next message that contains `text` reaches the server, but the connection breaks before the answer. */
    loseReplyTo(text: string) {
      lost = text;
    },
    /** New connections are refused until {@link TcpProxy.accept}. */
    refuse() {
      opening = 'refused';
    },
    /** New connections are accepted, but what they send waits until {@link TcpProxy.accept}. */
    hold() {
      opening = 'held';
    },
    accept() {
      opening = 'accepted';
      for (const { client } of pairs) client.resume();
    },
    async close() {
      for (const pair of pairs) destroy(pair);
      await new Promise(resolve => proxy.close(resolve));
    },
  };
}
