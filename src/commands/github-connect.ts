import { randomBytes, timingSafeEqual } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { type Config, isLoopback, webhookUrl } from '../config.ts';
import { ServiceError } from '../errors.ts';
import {
  createManifest,
  exchangeCode,
  isManifestCode,
  type RegisteredApp,
  webAddress,
} from '../github/app-manifest.ts';
import { createInspection } from '../github/rest.ts';
import { html } from '../text/html.ts';
import { subscribedEvents } from '../webhooks/events.ts';
import type { Answer, PullscoreCommand } from './command.ts';
import { CommandError, type Context, confirm, UsageError } from './context.ts';
import { examine } from './doctor/doctor.ts';
import { hasProblem, showFindings } from './doctor/findings.ts';
import { readEnvFile, valueIn, withValues, writeEnvFile } from './env-file.ts';

/** How long the page is served, and how long the command waits for the installation. */
const maxWaitMs = 10 * 60_000;

const installationPollMs = 3_000;

interface ConnectOptions {
  organisation: string;
  port: number;
  code?: string;
  output: string;
  yes?: boolean;
}

export function githubCommands(program: PullscoreCommand, context: Context): void {
  program
    .command('github')
    .description('the GitHub App that this service uses')
    .command('connect')
    .description('create a GitHub App for an organisation, with all that the service needs')
    .requiredOption('--organisation <login>', "the organisation's login")
    .option('--port <number>', 'where the page is served on this machine (default: any free port)', parsePort, 0)
    .option('--code <code>', 'the code in the address to which GitHub sent the browser, if that page did not load')
    .option('--output <file>', 'where the credentials are written', '.env')
    .option('--yes', 'do not ask before values in the file are replaced')
    .addHelpText(
      'after',
      `
Prints an address. Open it in a browser where an owner of the organisation is signed in: GitHub asks once, creates the
App, and sends the browser back. The App's id, its key and the webhook's secret are written to the file, which only its
owner can read, and are never printed. Then install the App on the organisation; the command waits for that, and ends
with what doctor says. PUBLIC_URL must be set: GitHub delivers webhooks there.

Without a browser on this machine, forward the port from one that has it, such as: ssh -L 8123:127.0.0.1:8123 HOST
If the last page does not load there, copy "code" from its address, and run the command again with --code.`,
    )
    .examples('github connect --organisation acme', 'github connect --organisation acme --port 8123')
    .answer<ConnectOptions>(options => connect(context, options));
}

function parsePort(text: string): number {
  if (/^\d{1,5}$/.test(text) && Number(text) < 65_536) return Number(text);
  throw new UsageError(`"${text}" is not a valid port.`, 'Give a number such as 8123.');
}

async function connect(context: Context, options: ConnectOptions): Promise<Answer> {
  const { config } = context;
  const { organisation: login, code, output, yes } = options;
  requirePublicUrl(config);
  if (code !== undefined && !isManifestCode(code)) {
    throw new UsageError('This is not a valid code.', 'Copy what follows "code=" in the address, up to the next "&".');
  }
  const before = readEnvFile(output);
  const replaced = ['GITHUB_APP_ID', 'GITHUB_APP_PRIVATE_KEY', 'GITHUB_TOKEN'].filter(
    name => valueIn(before, name) !== undefined,
  );
  if (replaced.length > 0) {
    await confirm(context, `Replace ${replaced.join(', ')} in ${output}?`, 'yes', yes);
  }
  const say = (text: string) => void context.stderr.write(`${text}\n`);
  const app =
    code === undefined ? await registerInBrowser(context, options, say) : await exchangeCode(config.github, code);
  const settings = `${webAddress(config.github.apiUrl)}/organizations/${login}/settings/apps`;
  if (app.ownerLogin.toLowerCase() !== login.toLowerCase()) {
    throw new CommandError(
      `The App belongs to ${app.ownerLogin}, not to ${login}. Nothing was written.`,
      'Delete it on GitHub, and run the command again.',
    );
  }
  const secrets = [valueIn(before, 'GITHUB_WEBHOOK_SECRET'), app.webhookSecret];
  try {
    writeEnvFile(
      output,
      withValues(before, {
        GITHUB_TOKEN: '',
        GITHUB_APP_ID: app.id,
        GITHUB_APP_PRIVATE_KEY: app.privateKey.trim().replaceAll(/\r?\n/g, '\\n'),
        // A service may have others, of earlier webhooks.
        GITHUB_WEBHOOK_SECRET: secrets.filter(secret => secret !== undefined).join(','),
      }),
    );
  } catch (error) {
    throw new CommandError(
      `The App ${app.name} was created, but ${output} can't be written: ${(error as NodeJS.ErrnoException).code}.`,
      `Delete the App at ${settings}, and run the command again.`,
    );
  }
  say(`Wrote the credentials of the App ${app.name} to ${output}. The service uses them once it is started again.`);
  const connected = withApp(config, app);
  await waitForInstallation(context, connected, login, app, say);
  const findings = await examine({ ...contextOf(context), config: connected }, login);
  return {
    json: {
      organisation: login,
      app: { id: app.id, name: app.name, url: app.url },
      output,
      installed: true,
      ok: !hasProblem(findings),
      checks: findings,
    },
    text: showFindings(findings, context.columns),
    note: `The App is connected.${hasProblem(findings) ? ' Doctor found problems: see above for fixes.' : ''}`,
  };
}

/** A context has getters, which a spread would call. */
const contextOf = ({ log, program, interrupted, stdout, columns, stderr }: Context) => ({
  log,
  program,
  interrupted,
  stdout,
  columns,
  stderr,
});

function requirePublicUrl({ publicUrl }: Config): void {
  const action = 'Set it to the address at which GitHub reaches the service, such as https://pullscore.example.com.';
  if (publicUrl === undefined) throw new CommandError('PUBLIC_URL is not set.', action);
  if (isLoopback(new URL(publicUrl).hostname)) {
    throw new CommandError(`GitHub can't deliver webhooks to PUBLIC_URL, ${publicUrl}: that is this machine.`, action);
  }
}

/** The configuration of a service that has read the file. */
const withApp = (config: Config, { id, privateKey, webhookSecret }: RegisteredApp): Config => ({
  ...config,
  variables: [
    ...config.variables.filter(name => !/^GITHUB_(TOKEN|APP|WEBHOOK)/.test(name)),
    'GITHUB_APP_ID',
    'GITHUB_APP_PRIVATE_KEY',
    'GITHUB_WEBHOOK_SECRET',
  ],
  github: { ...config.github, token: undefined, app: { id, privateKey } },
  webhookSecrets: [...config.webhookSecrets, { login: undefined, secret: webhookSecret }],
});

async function waitForInstallation(
  { interrupted }: Context,
  { github }: Config,
  login: string,
  { name, url }: RegisteredApp,
  say: (text: string) => void,
): Promise<void> {
  const inspection = createInspection(github);
  const page = `${url}/installations/new`;
  say(`Now install it on ${login}: ${page}`);
  const deadline = performance.now() + maxWaitMs;
  for (;;) {
    try {
      if ((await inspection.findInstallation({ login })) !== undefined) return;
    } catch (error) {
      // Not all of GitHub's servers know a new App at once.
      if (!(error instanceof ServiceError)) throw error;
    }
    if (interrupted.aborted || performance.now() > deadline) {
      throw new CommandError(
        `The App ${name} is not installed on ${login} yet.`,
        `Install it at ${page}, then run doctor.`,
      );
    }
    await delay(installationPollMs, undefined, { signal: interrupted }).catch(() => undefined);
  }
}

/**
 * Serves a page on loopback that sends the manifest to GitHub, and takes the code that GitHub sends back. The address
 * holds a secret, so that other users of this machine can't open it, and the page is for the browser that opens it first.
 */
async function registerInBrowser(
  { config, interrupted }: Context,
  { organisation: login, port }: ConnectOptions,
  say: (text: string) => void,
): Promise<RegisteredApp> {
  const [key, state, cookie] = [randomToken(), randomToken(), randomToken()];
  const web = webAddress(config.github.apiUrl);
  const server = createServer({ requestTimeout: 10_000 });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(port, '127.0.0.1', resolve);
  }).catch((error: NodeJS.ErrnoException) => {
    throw new CommandError(`Port ${port} can't be used: ${error.code}.`, 'Name another one with --port.');
  });
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}/${key}`;
  const urls = { service: config.publicUrl ?? '', webhook: webhookUrl(config), redirect: `${address}/done` };
  const manifest = JSON.stringify(createManifest(login, urls, [...subscribedEvents.keys()]));

  let isOpened = false;
  let isAnswered = false;
  const registered = new Promise<RegisteredApp>((resolve, reject) => {
    const handle = async (request: IncomingMessage, response: ServerResponse) => {
      const { origin, pathname, searchParams } = new URL(request.url ?? '/', address);
      const isOwn = (request.headers.cookie ?? '').split('; ').some(each => isSame(each, `pullscore=${cookie}`));
      if (request.method !== 'GET' || origin !== new URL(address).origin || !pathname.startsWith(`/${key}`)) {
        return showPage(response, 404, 'There is no such page.');
      }
      if (pathname === `/${key}`) {
        if (isOpened && !isOwn) return showPage(response, 403, 'This page is open in another browser.');
        isOpened = true;
        response.setHeader('set-cookie', `pullscore=${cookie}; HttpOnly; SameSite=Lax; Path=/`);
        return showForm(response, web, login, state, manifest);
      }
      if (pathname !== `/${key}/done`) return showPage(response, 404, 'There is no such page.');
      const code = searchParams.get('code') ?? '';
      if (!isOwn) return showPage(response, 403, 'This is not the browser that opened the page.');
      if (!isSame(searchParams.get('state') ?? '', state) || !isManifestCode(code)) {
        return showPage(response, 400, 'This answer is not from the page that you opened. Begin there again.');
      }
      if (isAnswered) return showPage(response, 410, 'GitHub has answered already.');
      isAnswered = true;
      try {
        const app = await exchangeCode(config.github, code);
        showPage(response, 200, `GitHub has created the App ${app.name}.`, {
          text: `Install it on ${login}`,
          url: `${app.url}/installations/new`,
        });
        response.once('close', () => resolve(app));
      } catch (error) {
        showPage(response, 502, 'The App could not be connected. The command says why.');
        response.once('close', () => reject(error));
      }
    };
    server.on('request', (request, response) => void handle(request, response).catch(reject));
  });
  say(`Open this page in a browser, within ten minutes: ${address}`);
  try {
    const waiting = AbortSignal.any([interrupted, AbortSignal.timeout(maxWaitMs)]);
    const given = new Promise<never>((_, reject) => {
      waiting.addEventListener('abort', () => {
        const reason = interrupted.aborted ? 'It was interrupted' : 'No answer came within ten minutes';
        reject(new CommandError(`${reason}. Nothing was written.`, 'Run the command again.'));
      });
    });
    return await Promise.race([registered, given]);
  } finally {
    server.close();
    server.closeAllConnections();
  }
}

const randomToken = () => randomBytes(24).toString('base64url');

const isSame = (given: string, expected: string): boolean =>
  given.length === expected.length && timingSafeEqual(Buffer.from(given), Buffer.from(expected));

const style =
  'body{font:16px/1.5 system-ui,sans-serif;max-width:40em;margin:4em auto;padding:0 1em}button,a{font:inherit}';

function send(response: ServerResponse, status: number, policy: string, body: ReturnType<typeof html>): void {
  response.writeHead(status, {
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy': `default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; ${policy}`,
    'cache-control': 'no-store',
    'referrer-policy': 'no-referrer',
  });
  const page = html`<!doctype html><html lang="en"><meta charset="utf-8"><title>pullscore</title><style>${style}</style><body>${body}`;
  response.end(page.markup);
}

const showPage = (response: ServerResponse, status: number, text: string, link?: { text: string; url: string }): void =>
  send(
    response,
    status,
    "form-action 'none'",
    html`<h1>pullscore</h1><p>${text}</p>${link !== undefined && html`<p><a href="${link.url}">${link.text}</a></p>`}`,
  );

const showForm = (response: ServerResponse, web: string, login: string, state: string, manifest: string): void =>
  send(
    response,
    200,
    `form-action ${web}`,
    html`<h1>pullscore</h1><p>GitHub asks you for the name of an App that belongs to ${login}. It may read pull requests,
issues, contents and members, and write check runs; it delivers webhooks to the service.</p>
<form method="post" action="${web}/organizations/${login}/settings/apps/new?state=${state}"><input type="hidden"
name="manifest" value="${manifest}"><button>Create the App on GitHub</button></form>`,
  );
