import { existsSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { type Config, isLoopback, loadConfig } from '../config.ts';
import { ServiceError } from '../errors.ts';
import { exchangeCode, githubWebsite, isManifestCode, type RegisteredApp } from '../github/app-manifest.ts';
import { createInspection } from '../github/rest.ts';
import type { Answer, PullscoreCommand } from './command.ts';
import { CommandError, type Context, confirm, parseNumber, UsageError } from './context.ts';
import { examine } from './doctor/doctor.ts';
import { hasProblem, showFindings } from './doctor/findings.ts';
import { readEnvFile, valueIn, withValues, writeEnvFile } from './env-file.ts';
import { maxWaitMs, registerInBrowser } from './manifest-page.ts';

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
    .option('--port <number>', 'where the page is served on this machine; 0 is any free port', parsePort, 0)
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

const parsePort = (text: string): number => parseNumber(text, /^\d{1,5}$/, 'port', 'a number such as 8123', 65_535);

async function connect(context: Context, options: ConnectOptions): Promise<Answer> {
  const { config } = context;
  const { organisation: login, code, output, yes } = options;
  requirePublicUrl(config);
  if (code !== undefined && !isManifestCode(code)) {
    throw new UsageError('This is not a valid code.', 'Copy what follows "code=" in the address, up to the next "&".');
  }
  const before = readEnvFile(output);
  const earlier = valueIn(before, 'GITHUB_WEBHOOK_SECRET');
  const { GITHUB_WEBHOOK_SECRET } = loadConfig({ GITHUB_WEBHOOK_SECRET: earlier }).settings;
  const valueBefore = (name: string) =>
    name === 'GITHUB_WEBHOOK_SECRET' ? GITHUB_WEBHOOK_SECRET : valueIn(before, name)?.trim();
  const overriding = config.variables.filter(
    name =>
      /^GITHUB_(TOKEN|APP_|WEBHOOK_)/.test(name) &&
      (name.endsWith('_FILE') || valueBefore(name) !== config.settings[name]),
  );
  if (overriding.length > 0) {
    throw new CommandError(
      `A service would not use what this command writes to ${output} beside ${overriding.join(', ')}.`,
      'Unset these, and run the command again.',
    );
  }
  // A service may have others, of earlier webhooks.
  const withSecret = (secret: string) => [...(earlier ? [earlier] : []), `${login}:${secret}`].join();
  // Throws if there are so many that no service would start.
  loadConfig({ GITHUB_WEBHOOK_SECRET: withSecret('x'.repeat(40)) });
  const replaced = ['GITHUB_APP_ID', 'GITHUB_APP_PRIVATE_KEY', 'GITHUB_TOKEN'].filter(
    name => valueIn(before, name) !== undefined,
  );
  if (replaced.length > 0) {
    await confirm(context, `Replace ${replaced.join(', ')} in ${output}?`, 'yes', yes);
  }
  const app = await (code === undefined ? registerInBrowser(context, options) : exchangeCode(config.github, code));
  const settings = `${githubWebsite(config.github.apiUrl)}/organizations/${login}/settings/apps`;
  if (app.ownerLogin.toLowerCase() !== login.toLowerCase()) {
    throw new CommandError(
      `The App belongs to ${app.ownerLogin}, not to ${login}. Nothing was written.`,
      'Delete it on GitHub, and run the command again.',
    );
  }
  try {
    writeEnvFile(
      output,
      withValues(before, {
        GITHUB_TOKEN: '',
        GITHUB_APP_ID: app.id,
        GITHUB_APP_PRIVATE_KEY: app.privateKey.trim().replaceAll(/\r?\n/g, '\\n'),
        GITHUB_WEBHOOK_SECRET: withSecret(app.webhookSecret),
      }),
    );
  } catch (error) {
    throw new CommandError(
      `The App ${app.name} was created, but ${output} can't be written: ${(error as NodeJS.ErrnoException).code}.`,
      `Delete the App at ${settings}, and run the command again.`,
    );
  }
  context.stderr.write(
    `Wrote the credentials of the App ${app.name} to ${output}. The service uses them once it is started again.\n`,
  );
  const connected = withApp(config, app, output);
  await waitForInstallation(context, connected, login, app);
  // In the order of Docker's set-up, its database comes later and elsewhere.
  const hasDatabase = config.databaseUrl !== undefined || existsSync(config.home);
  const findings = hasDatabase ? await examine({ ...context, config: connected }, login) : [];
  return {
    json: {
      organisation: login,
      app: { id: app.id, name: app.name, url: app.url },
      output,
      installed: true,
      ok: !hasProblem(findings),
      checks: findings,
    },
    text: hasDatabase ? showFindings(findings, context.columns) : `The App ${app.name} is installed on ${login}.`,
    note: hasDatabase
      ? `The App is connected.${hasProblem(findings) ? ' Doctor found problems: see above for fixes.' : ''}`
      : 'Next, start the service, with npm start or docker compose up -d: it says what else to set up.',
  };
}

function requirePublicUrl({ publicUrl }: Config): void {
  const action = 'Set it to the address at which GitHub reaches the service, such as https://pullscore.example.com.';
  if (publicUrl === undefined) throw new CommandError('PUBLIC_URL is not set.', action);
  if (isLoopback(new URL(publicUrl).hostname)) {
    throw new CommandError(`GitHub can't deliver webhooks to PUBLIC_URL, ${publicUrl}: that is this machine.`, action);
  }
}

/** The configuration of a service that has read the file. */
const withApp = (
  config: Config,
  { id, privateKey, ownerLogin, webhookSecret }: RegisteredApp,
  envFile: string,
): Config => ({
  ...config,
  variables: [
    ...config.variables.filter(name => !/^GITHUB_(TOKEN|APP|WEBHOOK)/.test(name)),
    'GITHUB_APP_ID',
    'GITHUB_APP_PRIVATE_KEY',
    'GITHUB_WEBHOOK_SECRET',
  ],
  envFile,
  github: { ...config.github, token: undefined, app: { id, privateKey } },
  webhookSecrets: [...config.webhookSecrets, { login: ownerLogin.toLowerCase(), secret: webhookSecret }],
});

async function waitForInstallation(
  { interrupted, stderr }: Context,
  { github }: Config,
  login: string,
  { name, url }: RegisteredApp,
): Promise<void> {
  const inspection = createInspection(github);
  const page = `${url}/installations/new`;
  stderr.write(`Now install it on ${login}: ${page}\n`);
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
    await delay(3_000, undefined, { signal: interrupted }).catch(() => undefined);
  }
}
