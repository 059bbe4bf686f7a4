/** The page of `github connect`: it sends GitHub the manifest of an App, and takes the code that GitHub sends back. */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { finished } from 'node:stream/promises';
import { webhookPath } from '../config.ts';
import {
  createManifest,
  exchangeCode,
  githubWebsite,
  isManifestCode,
  type RegisteredApp,
} from '../github/app-manifest.ts';
import { type Html, html } from '../text/html.ts';
import { subscribedEvents } from '../webhooks/events.ts';
import { CommandError, type Context } from './context.ts';

/** How long the page is served, and how long the command waits for the installation. */
export const maxWaitMs = 10 * 60_000;

/**
 * Serves a page on loopback that sends the manifest to GitHub, and takes the code that GitHub sends back. The address
 * holds a secret, so that other users of this machine can't open it, and the page is for the browser that opens it first.
 */
export async function registerInBrowser(
  { config, interrupted, stderr }: Context,
  { organisation: login, port }: { organisation: string; port: number },
): Promise<RegisteredApp> {
  const [key, state, cookie] = [randomToken(), randomToken(), randomToken()];
  const web = githubWebsite(config.github.apiUrl);
  const server = createServer({ requestTimeout: 10_000 });
  await once(server.listen(port, '127.0.0.1'), 'listening').catch((error: NodeJS.ErrnoException) => {
    throw new CommandError(`Port ${port} can't be used: ${error.code}.`, 'Name another one with --port.');
  });
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}/${key}`;
  const urls = {
    service: config.publicUrl ?? '',
    webhook: `${config.publicUrl}${webhookPath}/${login}`,
    redirect: `${address}/done`,
  };
  const manifest = JSON.stringify(createManifest(login, urls, [...subscribedEvents.keys()]));
  const form = html`<form method="post" action="${web}/organizations/${login}/settings/apps/new?state=${state}"><input
type="hidden" name="manifest" value="${manifest}"><button>Create the App on GitHub</button></form>`;

  let isOpened = false;
  let isAnswered = false;
  const registered = new Promise<RegisteredApp>((resolve, reject) => {
    const waiting = AbortSignal.any([interrupted, AbortSignal.timeout(maxWaitMs)]);
    waiting.addEventListener('abort', () => {
      const reason = interrupted.aborted ? 'It was interrupted' : 'No answer came within ten minutes';
      reject(new CommandError(`${reason}. Nothing was written.`, 'Run the command again.'));
    });
    const handle = async (request: IncomingMessage, response: ServerResponse) => {
      const [path, query] = (request.url ?? '').split('?');
      const isForm = path === `/${key}`;
      if (request.method !== 'GET' || !(isForm || path === `/${key}/done`)) {
        return showPage(response, 404, 'This page does not exist.');
      }
      const isOwn = (request.headers.cookie ?? '').split('; ').some(each => isSame(each, `pullscore=${cookie}`));
      if (isForm) {
        if (isOpened && !isOwn) return showPage(response, 403, 'This page is open in another browser.');
        isOpened = true;
        response.setHeader('set-cookie', `pullscore=${cookie}; HttpOnly; SameSite=Lax; Path=/`);
        const text = `GitHub asks you for the name of an App that belongs to ${login}. It may read pull requests, issues, contents and members, and write check runs; it delivers webhooks to the service.`;
        return showPage(response, 200, text, form, web);
      }
      if (!isOwn) return showPage(response, 403, 'This is not the browser that opened the page.');
      const given = new URLSearchParams(query);
      const code = given.get('code') ?? '';
      if (!isSame(given.get('state') ?? '', state) || !isManifestCode(code)) {
        return showPage(response, 400, 'This answer is not from the page that you opened. Begin there again.');
      }
      if (isAnswered) return showPage(response, 410, 'GitHub has answered already.');
      isAnswered = true;
      const exchanged = exchangeCode(config.github, code);
      // The browser may be gone by now: the code counts only once, so the command goes on.
      await exchanged
        .then(
          ({ name, url }) => {
            const link = html`<p><a href="${url}/installations/new">Install it on ${login}</a></p>`;
            return showPage(response, 200, `GitHub has created the App ${name}.`, link);
          },
          () => showPage(response, 502, 'The App could not be connected. The command says why.'),
        )
        .catch(() => undefined);
      exchanged.then(resolve, reject);
    };
    server.on('request', (request, response) => void handle(request, response).catch(() => response.destroy()));
  });
  stderr.write(`Open this page in a browser, within ten minutes: ${address}\n`);
  try {
    return await registered;
  } finally {
    server.close();
    server.closeAllConnections();
  }
}

const randomToken = () => randomBytes(24).toString('base64url');

/** Compares in constant time, as hashes, because these have the same length. */
function isSame(given: string, expected: string): boolean {
  const [one, other] = [given, expected].map(text => createHash('sha256').update(text).digest()) as [Buffer, Buffer];
  return timingSafeEqual(one, other);
}

const style =
  'body{font:16px/1.5 system-ui,sans-serif;max-width:40em;margin:4em auto;padding:0 1em}button,a{font:inherit}';

/**
 * Resolves once the page is sent.
 *
 * @param formAction where its form may be sent
 */
async function showPage(
  response: ServerResponse,
  status: number,
  text: string,
  more: Html | false = false,
  formAction = "'none'",
): Promise<void> {
  response.writeHead(status, {
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy': `default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; form-action ${formAction}`,
    'cache-control': 'no-store',
    'referrer-policy': 'no-referrer',
  });
  const page = html`<!doctype html><html lang="en"><meta charset="utf-8"><title>pullscore</title><style>${style}</style><body><h1>pullscore</h1><p>${text}</p>${more}`;
  response.end(page.markup);
  await finished(response);
}
