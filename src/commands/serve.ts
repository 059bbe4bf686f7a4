import { lookup } from 'node:dns/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import closeWithGrace from 'close-with-grace';
import type { App } from '../app.ts';
import { serviceUrl } from '../config.ts';
import type { ServiceProcess } from '../database/service-reports.ts';
import { createDeps } from '../deps.ts';
import { startLoops } from '../sync/start-loops.ts';
import type { PullscoreCommand } from './command.ts';
import { CommandError, type Context, endingSignals } from './context.ts';
import { describeSteps, type NextStep, nextSteps } from './next-steps.ts';
import { startReporting } from './report-process.ts';

/** Time for load balancers to notice that the service is stopping. */
const drainMs = 1_000;

/** How long the process may take to stop. */
const graceMs = 10_000;

/** Clients that have not sent or read all by then are cut off, so that the rest is closed in order. */
const maxAnsweringMs = 9_000;

/** A crash sends them. If close-with-grace listened, the instruction that failed would run again, for ever. */
const crashSignals: closeWithGrace.Signals[] = ['SIGILL', 'SIGTRAP', 'SIGABRT', 'SIGBUS', 'SIGFPE', 'SIGSEGV'];

export function serveCommands(program: PullscoreCommand, context: Context): void {
  program
    .command('serve')
    .description('answer HTTP requests, and do the background work unless WORKER=false')
    .option('--json', 'once it is ready, print its address and what to set up next as a line of JSON')
    .addHelpText('after', `\nExample:\n  PORT=8080 ${context.program} serve`)
    .action((options: { json?: boolean }) => run(context, 'serve', options));
  program
    .command('worker')
    .description('do only the background work: keep pull requests and scores up to date')
    .option('--json', 'once it is ready, say so as a line of JSON')
    .examples('worker')
    .action((options: { json?: boolean }) => run(context, 'worker', options));
}

async function run(context: Context, command: ServiceProcess['command'], { json }: { json?: boolean }): Promise<void> {
  const { config } = context;
  const isEmbedded = config.databaseUrl === undefined;
  if (isEmbedded) ignoreSignals();
  const { interrupted } = context;
  const isService = command === 'serve';
  for (const [name, meant] of config.misspeltVariables) context.log.warn(`${name} is not read; ${meant} is`);
  // By default, V8 collects the whole heap three times a second while large bodies come and go, and each time holds up all
  // requests for 5 to 15 ms. Now it waits until the heap has doubled. NODE_OPTIONS refuses this flag.
  if (isService) setFlagsFromString('--heap-growing-percent=100');
  if (config.envFile) context.log.info(`read ${config.envFile}; what is set elsewhere wins`);
  // A worker has nothing to serve but its metrics and health.
  const [portName, port] = isService ? ['PORT', config.port] : ['METRICS_PORT', config.metricsPort];
  // Imported here, because other commands start in half the time without Fastify.
  const started = await Promise.all([
    createDeps(config, context.log, { create: true, upgrade: true, signal: interrupted, scorer: 'processes' }),
    port === undefined ? undefined : import('../app.ts'),
  ]).catch(error => {
    if (!interrupted.aborted) throw error;
  });
  if (started === undefined) return;
  const [deps, http] = started;
  let app: App | undefined;
  let stopReporting = async () => {};
  let steps: NextStep[] = [];
  try {
    stopReporting = await startReporting(deps, command);
    if (isService) steps = await nextSteps(context, deps);
    if (http !== undefined && port !== undefined) {
      app = await http.buildApp(deps, { isHealthOnly: !isService });
      await listen(app, config.host, port, portName);
    }
  } catch (error) {
    await app?.close();
    await stopReporting();
    await deps.close();
    throw error;
  }
  const loops = config.worker || !isService ? startLoops(deps) : undefined;
  closeOnSignal(context, async signal => {
    if (isEmbedded) ignoreSignals();
    app?.drain();
    setTimeout(() => app?.server.closeAllConnections(), maxAnsweringMs);
    const stopAnswering = async () => {
      // After SIGTERM a load balancer may still send requests; after Ctrl-C a person waits.
      if (isService && signal === 'SIGTERM') await delay(drainMs);
      await app?.close();
    };
    // The loops stop at once, because a fetch may take most of the grace period.
    await Promise.all([loops?.stop(), stopAnswering()]);
    await stopReporting();
    await deps.close();
  });
  if (interrupted.aborted) return;
  const address = app?.server.address();
  const url = serviceUrl(config, typeof address === 'object' && address !== null ? address.port : undefined);
  const ready = isService
    ? {
        json: { url, next_steps: steps },
        text: `pullscore is ready at ${url} (API documentation: ${url}/docs)\n${describeSteps(steps)}`,
      }
    : { json: { ready: true }, text: 'The pullscore worker is ready.\n' };
  context.stdout.write(json ? `${JSON.stringify(ready.json)}\n` : ready.text);
}

/** A signal that ended the process would leave the embedded server running. Closing takes ten seconds at most. */
function ignoreSignals(): void {
  for (const name of endingSignals) {
    const others = process.listeners(name);
    // First, because a signal that comes while nobody listens ends the process.
    process.on(name, () => undefined);
    for (const other of others) process.off(name, other);
  }
}

function closeOnSignal(context: Context, close: (signal: string | undefined) => Promise<void>): void {
  const closing = closeWithGrace(
    { delay: graceMs, logger: context.log, skip: crashSignals },
    async ({ err, signal }) => {
      if (err) context.log.fatal({ err }, 'stopping after an unexpected error');
      else context.log.info({ signal }, 'stopping');
      await close(signal);
    },
  );
  // The signal came during start-up.
  if (context.interrupted.aborted) void closing.close();
}

/** @throws CommandError if the address can't be used */
async function listen(app: App, host: string, port: number, variable: string): Promise<void> {
  try {
    // For "localhost" Fastify would start a second server, without our listeners for connections.
    const { address } = await lookup(host);
    await app.listen({ host: address, port });
  } catch (error) {
    const notOurAddress = [
      `HOST ${host} is not an address of this machine.`,
      'Set it to 127.0.0.1, or to 0.0.0.0 for all addresses.',
    ] as const;
    const failures: Readonly<Record<string, readonly [message: string, action: string]>> = {
      EADDRINUSE: [`Port ${port} on ${host} is in use.`, `Stop the other program, or set ${variable} to another port.`],
      EACCES: [`You don't have permission to listen on port ${port}.`, `Set ${variable} to a port above 1023.`],
      EADDRNOTAVAIL: notOurAddress,
      ENOTFOUND: notOurAddress,
      EAI_AGAIN: notOurAddress,
    };
    const failure = failures[(error as NodeJS.ErrnoException).code ?? ''];
    throw failure === undefined ? error : new CommandError(...failure);
  }
}
