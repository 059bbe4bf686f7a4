import { lookup } from 'node:dns/promises';
import { setTimeout as delay } from 'node:timers/promises';
import closeWithGrace from 'close-with-grace';
import type { Command } from 'commander';
import { listAccessTokens } from '../database/access-tokens.ts';
import { listOrganisations } from '../database/organisations.ts';
import { listUsers } from '../database/users.ts';
import { createDeps, type Deps } from '../deps.ts';
import { startLoops } from '../sync/loops.ts';
import { CommandError, type Context } from './context.ts';

/** Time for load balancers to notice that the service is stopping. */
const drainMs = 1_000;

export function serveCommands(program: Command, context: Context): void {
  program
    .command('serve')
    .description('answer HTTP requests, and do the background work unless WORKER=false')
    .addHelpText('after', `\nExample:\n  PORT=8080 ${context.program} serve`)
    .action((options: { json?: boolean }) => serve(context, options));
  program
    .command('worker')
    .description('do only the background work: keep pull requests and scores up to date')
    .addHelpText('after', `\nExample:\n  ${context.program} worker`)
    .action((options: { json?: boolean }) => work(context, options));
}

async function serve(context: Context, options: { json?: boolean }): Promise<void> {
  const { config, interrupted } = context;
  // Imported here, because other commands start in half the time without Fastify.
  const [deps, { buildApp }] = await Promise.all([
    createDeps(config, context.log, { upgrade: true }),
    import('../app.ts'),
  ]);
  const app = await buildApp(deps);
  let steps: NextStep[];
  try {
    steps = await nextSteps(context, deps);
    // For "localhost" Fastify would start a second server, without our listeners for connections.
    const { address: host } = await lookup(config.host);
    await app.listen({ host, port: config.port });
  } catch (error) {
    await app.close();
    await deps.close();
    throw listenError(error, config);
  }
  const loops = config.worker ? startLoops(deps) : undefined;
  closeOnSignal(context, async signal => {
    app.drain();
    const stopAnswering = async () => {
      // After SIGTERM a load balancer may still send requests; after Ctrl-C a person waits.
      if (signal === 'SIGTERM') await delay(drainMs);
      await app.close();
    };
    // The loops stop at once, because a fetch may take most of the grace period.
    await Promise.all([loops?.stop(), stopAnswering()]);
    await deps.close();
  });
  if (interrupted.aborted) return;

  const address = app.server.address();
  const port = typeof address === 'object' && address !== null ? address.port : config.port;
  const host = config.host.includes(':') ? `[${config.host}]` : config.host;
  const url = config.publicUrl ?? `http://${['0.0.0.0', '[::]'].includes(host) ? 'localhost' : host}:${port}`;
  context.stdout.write(
    options.json
      ? `${JSON.stringify({ url, next_steps: steps })}\n`
      : `pullscore is ready at ${url} (its documentation: ${url}/docs)\n${describeSteps(steps)}`,
  );
}

async function work(context: Context, options: { json?: boolean }): Promise<void> {
  const { interrupted } = context;
  const deps = await createDeps(context.config, context.log, { upgrade: true });
  const loops = startLoops(deps);
  closeOnSignal(context, async () => {
    await loops.stop();
    await deps.close();
  });
  if (interrupted.aborted) return;
  context.stdout.write(options.json ? `${JSON.stringify({ ready: true })}\n` : 'The pullscore worker is ready.\n');
}

function closeOnSignal(context: Context, close: (signal: string | undefined) => Promise<void>): void {
  const closing = closeWithGrace({ delay: 10_000, logger: context.log }, async ({ err, signal }) => {
    if (err) context.log.fatal({ err }, 'stopping after an unexpected error');
    else context.log.info({ signal }, 'stopping');
    await close(signal);
  });
  // The signal came during start-up.
  if (context.interrupted.aborted) void closing.close();
}

function listenError(error: unknown, { host, port }: Context['config']): unknown {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  if (code === 'EADDRINUSE') {
    return new CommandError(`Port ${port} on ${host} is in use: stop the other program, or set PORT to another port.`);
  }
  if (code === 'EACCES') {
    return new CommandError(`This user may not listen on port ${port}: set PORT to a port above 1023.`);
  }
  if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND') {
    return new CommandError(
      `HOST ${host} is not an address of this machine: set it to 127.0.0.1, or to 0.0.0.0 for all addresses.`,
    );
  }
  return error;
}

/** What the operator still has to set up, with commands. */
async function nextSteps({ program, config }: Context, { database, github }: Deps): Promise<NextStep[]> {
  const [organisations, users, tokens] = await Promise.all([
    listOrganisations(database.executor),
    listUsers(database.executor),
    listAccessTokens(database.executor),
  ]);
  const login = organisations[0]?.login ?? 'LOGIN';
  const without = organisations.filter(({ rulesetVersion }) => rulesetVersion === 0);
  const steps: (NextStep | false)[] = [
    !github.configured && {
      what: 'set GitHub credentials (or GITHUB_APP_ID and GITHUB_APP_PRIVATE_KEY), and start the service again',
      command: setting(program, 'GITHUB_TOKEN'),
    },
    config.webhookSecrets.length === 0 && {
      what: "set the secret of the organisation's webhook, and start the service again",
      command: setting(program, 'GITHUB_WEBHOOK_SECRET'),
    },
    organisations.length === 0 && { what: 'add the organisation', command: `${program} organisation add LOGIN` },
    users.length === 0 && {
      what: 'add a user',
      command: `${program} user add --organisation ${login} --name NAME --email EMAIL`,
    },
    tokens.length === 0 && {
      what: 'create an access token',
      command: `${program} token create --user ${users[0]?.email ?? 'EMAIL'} --scopes read,sync`,
    },
    (organisations.length === 0 || without.length > 0) && {
      what: 'apply rules, such as those of rules.example.yaml',
      command: `${program} rules apply rules.example.yaml --organisation ${without[0]?.login ?? login}`,
    },
    organisations.length === 0 && {
      what: 'import members and pull requests',
      command: `${program} members sync --organisation ${login} && ${program} import --organisation ${login}`,
    },
  ];
  return steps.filter(step => step !== false);
}

/** How to set a variable: in the shell of a checkout, or in the environment file of a container. */
const setting = (program: string, variable: string): string =>
  program.startsWith('npx ')
    ? `export ${variable}=…`
    : `${variable}=…   (with docker compose: in .env, then docker compose up -d)`;

interface NextStep {
  what: string;
  command: string;
}

const describeSteps = (steps: readonly NextStep[]): string =>
  steps.length === 0
    ? ''
    : `\nWhat to do next:\n${steps.map(({ what, command }) => `  - ${what}:\n      ${command}\n`).join('')}`;
