/**
 * Runs our own commands for requests, each in a process of its own: however costly a rules file is, it holds up no page,
 * takes no memory of the service, and ends when the client goes away. What a command prints with `--json` is the reply.
 */
import { execFile } from 'node:child_process';
import { constants, setPriority } from 'node:os';
import { join } from 'node:path';
import type { Deps } from '../deps.ts';
import { badRequest, type ErrorCode, errorStatuses, overloaded, rateLimited, ServiceError } from '../errors.ts';
import { formatId } from '../ids.ts';
import { packageFolder } from '../package.ts';

const limits = { maxUnderWay: 2, maxMinutes: 10, maxReplyBytes: 32_000_000, maxHeapMegabytes: 512 };

const busy = (message: string) => rateLimited(message, 'Try again shortly.', { retryAfter: 5 });

export interface CommandRequest {
  organisationId: string;
  /** Words and options as in a shell, but no shell reads them. */
  words: readonly string[];
  /** Standard input. */
  input: Buffer | undefined;
  /** Aborted if the client goes away. */
  signal: AbortSignal;
}

/**
 * @returns a function that runs a command and returns its JSON document. Throws a ServiceError if the command fails, and
 * `rate_limited` if one of the organisation runs already, or two of others.
 */
export function createCommandRunner({ database, log }: Pick<Deps, 'database' | 'log'>) {
  const underWay = new Set<string>();
  return async ({ organisationId, words, input, signal }: CommandRequest): Promise<string> => {
    if (underWay.has(organisationId)) throw busy('Another request of this organisation is under way.');
    if (underWay.size >= limits.maxUnderWay) throw busy('Requests of other organisations are under way.');
    underWay.add(organisationId);
    try {
      const args = [
        `--max-old-space-size=${limits.maxHeapMegabytes}`,
        join(packageFolder, 'dist/main.js'),
        ...words,
        `--organisation=${formatId('org', organisationId)}`,
        '--json',
      ];
      const env = { ...environmentOfDatabase(), DATABASE_URL: database.url, LOG_LEVEL: 'error' };
      const { code, stdout, stderr } = await run(args, env, input, signal);
      if (signal.aborted) throw badRequest('The client broke off its request.');
      const document = documentOf(stdout);
      if (document !== undefined && !('error' in document)) return stdout;
      const failure = failureOf(document?.error);
      if (failure !== undefined) throw failure;
      log.error({ command: words.slice(0, 2), code, stderr: stderr.slice(-1_000) }, 'a command for a request failed');
      throw overloaded(
        'This took too much memory or time.',
        'Try it with fewer or simpler rules, or run the command beside the database.',
      );
    } finally {
      underWay.delete(organisationId);
    }
  };
}

/** Of our own variables a command gets only the database's address: no secret that it does not need. */
const environmentOfDatabase = () =>
  Object.fromEntries(
    Object.entries(process.env).filter(([name]) => /^(PG[A-Z]*|PATH|HOME|NODE_EXTRA_CA_CERTS)$/.test(name)),
  );

function run(args: string[], env: NodeJS.ProcessEnv, input: Buffer | undefined, signal: AbortSignal) {
  return new Promise<{ code: unknown; stdout: string; stderr: string }>(resolve => {
    const timeout = limits.maxMinutes * 60_000;
    const options = { env, timeout, maxBuffer: limits.maxReplyBytes, killSignal: 'SIGKILL' } as const;
    const child = execFile(process.execPath, args, options, (error, stdout, stderr) => {
      signal.removeEventListener('abort', kill);
      resolve({ code: error === null ? 0 : error.code, stdout, stderr });
    });
    // Not execFile's own `signal`: it sends SIGTERM, calls back before the process has ended, and drops the time limit.
    const kill = () => void child.kill('SIGKILL');
    signal.addEventListener('abort', kill);
    if (signal.aborted) kill();
    // Pages come first.
    if (child.pid !== undefined) setPriority(child.pid, constants.priority.PRIORITY_LOW);
    // A command that ends early does not read it to the end.
    child.stdin?.on('error', () => undefined).end(input);
  });
}

function documentOf(stdout: string): { error?: { code: string; message: string } } | undefined {
  try {
    return JSON.parse(stdout);
  } catch {
    return undefined;
  }
}

/** The codes of commands that are no codes of ours. */
const badRequests = ['failed', 'rules_invalid', 'usage'];

/** What to do next is left out: it names commands. @returns undefined if the command has a bug */
function failureOf(error: { code: string; message: string } | undefined): ServiceError | undefined {
  if (error === undefined) return undefined;
  if (badRequests.includes(error.code)) return badRequest(error.message);
  const isOurs = error.code in errorStatuses && error.code !== 'internal';
  return isOurs ? new ServiceError(error.code as ErrorCode, error.message) : undefined;
}
