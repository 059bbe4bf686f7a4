import createClient, { type Client } from 'openapi-fetch';
import { createContext } from 'preact';
import { useContext, useEffect, useMemo, useState } from 'preact/hooks';
import type { components, paths } from '../openapi/2026-12.d.ts';

export type Schemas = components['schemas'];
export type Api = Client<paths>;

/** Asks only the service that served this page, also below a path of a proxy. */
export const createApi = (token: string): Api =>
  createClient<paths>({
    baseUrl: new URL('.', location.href).href,
    headers: { authorization: `Bearer ${token}` },
    credentials: 'omit',
    redirect: 'error',
  });

export interface Session {
  api: Api;
  account: Schemas['Account'] | undefined;
  may: (scope: string) => boolean;
  /** @param reason told on the page for signing in */
  end: (reason?: string) => void;
}

export const SessionContext = createContext<Session | undefined>(undefined);

export function useSession(): Session {
  const session = useContext(SessionContext);
  if (session === undefined) throw new Error('There is no session.');
  return session;
}

export class ApiError extends Error {
  readonly status: number;
  readonly code: string | undefined;
  readonly requestId: string | undefined;

  constructor({ status, headers }: Response, body: unknown) {
    const { message, code, request_id: requestId } = Object(body) as Partial<Schemas['Error']>;
    super(message ?? `The service answered with status ${status}.`);
    this.status = status;
    this.code = code;
    this.requestId = requestId ?? headers.get('x-request-id') ?? undefined;
  }
}

/** What openapi-fetch gives. */
interface Reply<Data> {
  data?: Data;
  error?: unknown;
  response: Response;
}

export const tokenEnded = 'Your token is no longer valid. Use another one.';
const maxWaitSeconds = 30;
const isTransient = (status: number) => [429, 502, 503, 504].includes(status);

/**
 * Asks until there is an answer: while the service is away or overloaded, it tries again with growing waits.
 *
 * @param onWait told why, and for how many seconds
 * @throws ApiError
 */
async function read<Data>(
  ask: () => Promise<Reply<Data>>,
  signal: AbortSignal,
  onWait: (reason: string, seconds: number) => void,
): Promise<Data> {
  for (let tries = 0; ; tries += 1) {
    let seconds = Math.min(2 ** tries, maxWaitSeconds);
    let reason = 'The service cannot be reached.';
    try {
      const { data, error, response } = await ask();
      if (response.ok) return data as Data;
      const problem = new ApiError(response, error);
      if (!isTransient(response.status)) throw problem;
      reason = problem.message;
      seconds = Math.max(seconds, Number(response.headers.get('retry-after')) || 0);
    } catch (error) {
      if (signal.aborted || !(error instanceof TypeError)) throw error;
    }
    onWait(reason, seconds);
    await new Promise(resolve => setTimeout(resolve, seconds * 1000));
    signal.throwIfAborted();
  }
}

export interface Loading<Data> {
  /** Also while newer data is on its way. */
  data: Data | undefined;
  failure: Error | undefined;
  /** Why there is no answer yet, and what happens next. */
  waiting: string | undefined;
  isLoading: boolean;
  reload: () => void;
}

/** @param key says what is asked for: another key asks again */
export function useData<Data>(
  key: string,
  ask: (api: Api, signal: AbortSignal) => Promise<Reply<Data>>,
): Loading<Data> {
  const { api, end } = useSession();
  const [round, setRound] = useState(0);
  const [state, setState] = useState<Partial<Loading<Data>> & { key?: string }>({});
  const present = `${key} ${round}`;
  useEffect(() => {
    const stopping = new AbortController();
    const { signal } = stopping;
    const onWait = (reason: string, seconds: number) =>
      setState(({ data }) => ({ data, waiting: `${reason} The next try is in ${seconds} s.` }));
    read(() => ask(api, signal), signal, onWait).then(
      data => signal.aborted || setState({ key: present, data }),
      (failure: Error) => {
        if (signal.aborted) return;
        if (failure instanceof ApiError && failure.status === 401) end(tokenEnded);
        else setState({ key: present, failure });
      },
    );
    return () => stopping.abort();
  }, [present, api]);
  return {
    data: state.data,
    failure: state.key === present ? state.failure : undefined,
    waiting: state.waiting,
    isLoading: state.key !== present,
    reload: () => setRound(round + 1),
  };
}

interface Page<Row> {
  data: Row[];
  meta: { next_cursor: string | null };
}

/**
 * A list that is loaded page by page.
 *
 * @param key says which list: another key begins anew
 */
export function usePages<Row>(
  key: string,
  ask: (api: Api, signal: AbortSignal, cursor: string | undefined) => Promise<Reply<Page<Row>>>,
) {
  const [loaded, setLoaded] = useState<{ key: string; rows: Row[]; cursor?: string }>({ key, rows: [] });
  const { rows: before, cursor } = loaded.key === key ? loaded : { rows: [], cursor: undefined };
  const page = useData(`${key} ${cursor}`, (api, signal) => ask(api, signal, cursor));
  const present = page.isLoading ? undefined : page.data;
  const rows = useMemo(() => [...before, ...(present?.data ?? [])], [before.length, key, present]);
  const next = present?.meta.next_cursor;
  return { rows, page, more: next ? () => setLoaded({ key, rows, cursor: next }) : undefined };
}

/** Something that one does once, such as a deletion. */
export function useAction<Data>(act: (api: Api) => Promise<Reply<Data>>, done: () => void) {
  const { api, end } = useSession();
  const [failure, setFailure] = useState<Error>();
  const [isRunning, setRunning] = useState(false);
  const run = async () => {
    setRunning(true);
    setFailure(undefined);
    try {
      const { error, response } = await act(api);
      if (response.status === 401) end(tokenEnded);
      else if (response.ok) done();
      else setFailure(new ApiError(response, error));
    } catch {
      setFailure(new Error('The service cannot be reached. Try again.'));
    }
    setRunning(false);
  };
  return { run: () => void run(), isRunning, failure };
}

export function Failure({ error, retry }: { error: Error; retry?: (() => void) | undefined }) {
  const requestId = error instanceof ApiError ? error.requestId : undefined;
  return (
    <div class="notice bad" role="alert">
      <p dir="auto">{error.message}</p>
      {requestId && (
        <p>
          <small>Request id: {requestId}</small>
        </p>
      )}
      {retry && (
        <button type="button" onClick={retry}>
          Try again
        </button>
      )}
      {error instanceof ApiError && [403, 404].includes(error.status) && <a href="#/standings">See the standings</a>}
    </div>
  );
}

/**
 * Shows what is loaded, or why it is not there yet.
 *
 * @param title a heading, as long as the content that has its own is not there
 */
export function Loaded<Data>({
  of: { data, failure, waiting, isLoading, reload },
  title,
  children,
}: {
  of: Loading<Data>;
  title?: string;
  children: (data: Data) => preact.ComponentChildren;
}) {
  return (
    <div aria-busy={isLoading}>
      {title && data === undefined && <h1>{title}</h1>}
      <p role="status" class={waiting === undefined && data !== undefined ? 'hidden' : 'loading'}>
        {isLoading && (waiting ?? 'Loading…')}
      </p>
      {failure !== undefined ? (
        <Failure error={failure} retry={reload} />
      ) : (
        data !== undefined && <div class={isLoading ? 'old' : ''}>{children(data)}</div>
      )}
    </div>
  );
}
