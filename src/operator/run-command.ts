/**
 * Runs our own commands for requests, each in a process of its own: however costly a rules file is, it holds up no page,
 * takes no memory of the service, and ends when the client goes away. What a command prints with `--json` is the reply.
 */
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { constants, setPriority } from 'node:os';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
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
  /** The only operand. It is never taken for an option. */
  operand: string | undefined;
  /** Standard input. */
  input: Buffer | undefined;
  /** Aborted if the client goes away. */
  signal: AbortSignal;
}

export type RunCommand = (request: CommandRequest) => Promise<string>;

/**
 * @returns a function that runs a command and returns its JSON document. Throws a ServiceError if the command fails, and
 * `rate_limited` if one of the organisation runs already, or two of others.
 */
export function createCommandRunner({ database, log }: Pick<Deps, 'database' | 'log'>): RunCommand {
  const underWay = new Set<string>();
  return async ({ organisationId, words, operand, input, signal }) => {
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
        ...(operand === undefined ? [] : ['--', operand]),
      ];
      const child = spawn(process.execPath, args, {
        env: { ...environmentOfDatabase(), DATABASE_URL: database.url, LOG_LEVEL: 'error' },
        stdio: ['pipe', 'pipe', 'pipe'],
        signal: AbortSignal.any([signal, AbortSignal.timeout(limits.maxMinutes * 60_000)]),
        killSignal: 'SIGKILL',
      });
      const { code, stdout, stderr } = await outputOf(child, input);
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

async function outputOf(child: ChildProcessByStdio<Writable, Readable, Readable>, input: Buffer | undefined) {
  // Pages come first.
  if (child.pid !== undefined) setPriority(child.pid, constants.priority.PRIORITY_LOW);
  const chunks: Buffer[] = [];
  let bytes = 0;
  let stderr = '';
  child.stdout.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > limits.maxReplyBytes) child.kill('SIGKILL');
    else chunks.push(chunk);
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr = (stderr + text).slice(-10_000);
  });
  // A command that ends early does not read it to the end.
  child.stdin.on('error', () => undefined).end(input);
  const code = await new Promise<number | null>(resolve => {
    child.once('error', () => undefined).once('close', resolve);
  });
  return { code, stdout: bytes > limits.maxReplyBytes ? '' : Buffer.concat(chunks).toString('utf8'), stderr };
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
