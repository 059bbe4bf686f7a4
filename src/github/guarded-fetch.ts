import type { Config } from '../config.ts';
import { connectionErrorCode, githubFailed, proxyError } from './github-error.ts';

const mebibyte = 1024 * 1024;
const redirectStatuses = new Set([301, 302, 303, 307, 308]);
const maxRedirects = 3;

/** Enough of an error page for the log. */
const maxErrorBytes = 16 * 1024;

const lostConnection = new Set(['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET']);

type Send = (url: string, init: RequestInit) => Promise<Response>;

/** Node's own `fetch` ignores proxies before Node 24. */
function sendThrough(proxyUrl: string): Send {
  const loading = async () => {
    const { fetch: send, ProxyAgent } = await import('undici');
    return { send, dispatcher: new ProxyAgent(proxyUrl) };
  };
  let loaded: ReturnType<typeof loading> | undefined;
  return async (url, init) => {
    loaded ??= loading();
    const { send, dispatcher } = await loaded;
    // Node's types are those of another version.
    return (await send(url, { ...(init as object), dispatcher })) as unknown as Response;
  };
}

/** A kept-alive connection may have died unnoticed, so a request that breaks before the reply is sent once more. */
async function sendOnceMore(send: Send, url: string, init: RequestInit): Promise<Response> {
  try {
    return await send(url, init);
  } catch (error) {
    if (init.signal?.aborted || !lostConnection.has(connectionErrorCode(error) ?? '')) throw error;
    return send(url, init);
  }
}

/** The whole body; of an error page its beginning. */
async function readBody({ body, ok }: Response, maxReplyBytes: number): Promise<Buffer<ArrayBuffer>> {
  const chunks: Uint8Array[] = [];
  let room = ok ? maxReplyBytes : maxErrorBytes;
  for await (const chunk of body ?? []) {
    room -= chunk.byteLength;
    if (room < 0) {
      if (!ok) break;
      const message = `GitHub's reply is larger than ${Math.round(maxReplyBytes / mebibyte)} MiB.`;
      throw githubFailed(message, 'Check GITHUB_API_URL, or try again later.', { tooMuch: true });
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/**
 * A `fetch` for Octokit that reads the whole reply, refuses one that is too large, and follows redirects only to the
 * same scheme and host, which the credentials are meant for.
 *
 * @param maxReplyBytes of a successful reply, decompressed
 * @param proxy undefined: requests are sent directly
 */
export function createGuardedFetch(maxReplyBytes: number, proxy: Config['github']['proxy']): typeof fetch {
  const send = proxy === undefined ? fetch : sendThrough(proxy.url);
  return async (input, init = {}) => {
    let url = String(input);
    for (let hops = 0; ; hops++) {
      const response = await sendOnceMore(send, url, { ...init, redirect: 'manual' }).catch(error => {
        throw proxy === undefined || init.signal?.aborted ? error : proxyError(error, proxy);
      });
      const location = response.headers.get('location');
      if (redirectStatuses.has(response.status) && location !== null) {
        await response.body?.cancel();
        const action = 'Check GITHUB_API_URL.';
        const target = URL.canParse(location, url) ? new URL(location, url) : undefined;
        if (target?.origin !== new URL(url).origin) {
          throw githubFailed(
            `GitHub redirects to another address (${target?.origin ?? 'unreadable'}), where credentials are not sent.`,
            action,
            { isLasting: true },
          );
        }
        if (hops === maxRedirects) throw githubFailed('GitHub redirected too often.', action, { isLasting: true });
        url = target.href;
        continue;
      }
      const body = await readBody(response, maxReplyBytes);
      return new Response(body.byteLength === 0 ? null : body, { status: response.status, headers: response.headers });
    }
  };
}
