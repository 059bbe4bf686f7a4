import { connectionErrorCode, GithubError } from './errors.ts';

const mebibyte = 1024 * 1024;
const redirectStatuses = new Set([301, 302, 303, 307, 308]);
const maxRedirects = 3;

/** Enough of an error page for the log. */
const maxErrorBytes = 16 * 1024;

const lostConnection = new Set(['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET']);

/** A kept-alive connection may have died unnoticed, so a request that breaks before the reply is sent once more. */
async function fetchOnceMore(url: string, init: RequestInit): Promise<Response> {
  try {
    return await fetch(url, init);
  } catch (error) {
    if (init.signal?.aborted || !lostConnection.has(connectionErrorCode(error) ?? '')) throw error;
    return fetch(url, init);
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
      throw new GithubError(
        'github_failed',
        `GitHub's reply is larger than ${Math.round(maxReplyBytes / mebibyte)} MiB.`,
        { action: 'Check GITHUB_API_URL, or try again later.', tooMuch: true },
      );
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/**
 * A `fetch` for Octokit that reads the whole reply, refuses one that is too large, and follows redirects only to the
 * same scheme and host, which the credentials are meant for.
 * @param maxReplyBytes of a successful reply, decompressed
 */
export function createGuardedFetch(maxReplyBytes: number): typeof fetch {
  return async (input, init = {}) => {
    let url = String(input);
    for (let hops = 0; ; hops++) {
      const response = await fetchOnceMore(url, { ...init, redirect: 'manual' });
      const location = response.headers.get('location');
      if (redirectStatuses.has(response.status) && location !== null) {
        await response.body?.cancel();
        const action = 'Check GITHUB_API_URL.';
        const target = URL.canParse(location, url) ? new URL(location, url) : undefined;
        if (target?.origin !== new URL(url).origin) {
          throw new GithubError(
            'github_failed',
            `GitHub redirects to another address (${target?.origin ?? 'unreadable'}), where credentials are not sent.`,
            { action },
          );
        }
        if (hops === maxRedirects) {
          throw new GithubError('github_failed', 'GitHub redirected too often.', { action });
        }
        url = target.href;
        continue;
      }
      const body = await readBody(response, maxReplyBytes);
      return new Response(body.byteLength === 0 ? null : body, { status: response.status, headers: response.headers });
    }
  };
}
