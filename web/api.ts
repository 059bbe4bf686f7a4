import createClient, { type Client, type ClientPathsWithMethod, type MethodResponse } from 'openapi-fetch';
import { useEffect, useLayoutEffect, useState } from 'preact/hooks';
import type { components, paths } from '../openapi/2026-12.d.ts';

export type Schemas = components['schemas'];

/** Who uses this tab, and how often they asked to see everything anew. `main.tsx` renders the page when it changes. */
export const session = {
  token: sessionStorage.getItem('token'),
  /** Why one has to sign in again, if it was not one's own wish. */
  farewell: '',
  /** With another one, all that is shown is asked for again. */
  round: 0,
  onChange: () => {},
};

function change(changes: Partial<typeof session>): void {
  Object.assign(session, changes);
  sessionStorage.clear();
  if (session.token !== null) sessionStorage.setItem('token', session.token);
  session.onChange();
}

export const begin = (token: string) => change({ token });
export const end = (farewell = '') => change({ token: null, farewell });
export const refresh = () => change({ round: session.round + 1 });

/** Why there is no answer. */
export interface Problem extends Partial<Schemas['Error']> {
  message: string;
  /** 0 if the service cannot be reached. */
  status?: number;
  retryAfterSeconds?: number;
}

/** A timer that is set to more than 24 days ends at once. */
const maxRetryAfterSeconds = 3_600;

/** A request, and what openapi-fetch gives for it. */
type Ask<Data> = (api: Client<paths>) => Promise<{ data?: Data; error?: unknown; response: Response }>;
type Outcome<Data> = { data?: Data; problem?: Problem };

/** Asks only the service that served this page, also below a path of a proxy. */
async function request<Data>(ask: Ask<Data>, signal: AbortSignal): Promise<Outcome<Data>> {
  const baseUrl = new URL('.', location.href).href;
  const headers = { authorization: `Bearer ${session.token}` };
  try {
    const api = createClient<paths>({ baseUrl, headers, credentials: 'omit', redirect: 'error', signal });
    const { data, error, response } = await ask(api);
    const { ok, status } = response;
    if (ok) return { data };
    if (status === 401) end('This token is not valid. Use another one.');
    const message = `The service answered with status ${status}.`;
    const retryAfterSeconds = Math.min(Number(response.headers.get('retry-after')) || 0, maxRetryAfterSeconds);
    return { problem: { message, ...(typeof error === 'object' && error), status, retryAfterSeconds } };
  } catch {
    return { problem: { message: 'The service cannot be reached.', status: 0 } };
  }
}

const maxWaitSeconds = 30;
/** With these, the service is away or overloaded. */
const transient: (number | undefined)[] = [0, 429, 502, 503, 504];

export interface Loading<Data> extends Outcome<Data> {
  /** Why there is no answer yet, and what happens next. */
  waiting?: string;
  /** There may be older data. */
  isLoading: boolean;
}

/** What can be asked by GET. */
type Resource = ClientPathsWithMethod<Client<paths>, 'get'>;
export type ParametersOf<Path extends Resource> = paths[Path]['get']['parameters'];

/**
 * What a path answers, asked once `isReady`. While the service is away or overloaded, it is asked again after growing waits.
 */
export function useData<Path extends Resource>(path: Path, params: ParametersOf<Path>, isReady = true) {
  type Data = MethodResponse<Client<paths>, 'get', Path>;
  const [{ key, ...state }, setState] = useState<Omit<Loading<Data>, 'isLoading'> & { key?: string }>({});
  const present = JSON.stringify([path, params, session.round]);
  useLayoutEffect(() => {
    const stopping = new AbortController();
    const load = async (tries: number) => {
      const ask: Ask<Data> = api => (api.GET as (path: Path, options: object) => never)(path, { params });
      const { data, problem } = await request(ask, stopping.signal);
      if (stopping.signal.aborted) return;
      if (transient.includes(problem?.status)) {
        const seconds = Math.max(Math.min(2 ** tries, maxWaitSeconds), problem?.retryAfterSeconds ?? 0);
        setState(({ data }) => ({ data, waiting: `${problem?.message} The next try is in ${seconds} s.` }));
        setTimeout(load, seconds * 1000, tries + 1);
      } else setState({ key: present, data, problem });
    };
    if (isReady) void load(0);
    return () => stopping.abort();
  }, [present, isReady]);
  return { ...state, isLoading: key !== present };
}

/** Something that one does once, such as a deletion. It stops if the view is left. */
export function useAction() {
  const [{ running, problem }, setState] = useState<{ running?: AbortController; problem?: Problem }>({});
  useEffect(() => () => running?.abort(), [running]);
  const run = async <Data>(ask: Ask<Data>, done: (data: Data) => void) => {
    const running = new AbortController();
    setState({ running });
    const { data, problem } = await request(ask, running.signal);
    if (running.signal.aborted) return;
    setState({ problem });
    if (problem === undefined) done(data as Data);
  };
  return { run, stop: (problem?: Problem) => setState({ problem }), isRunning: running !== undefined, problem };
}
