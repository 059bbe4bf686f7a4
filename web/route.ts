import { useEffect, useState } from 'preact/hooks';

/** What the fragment of the address says: `#/members/mem_…?since=2026-11-01`. A browser sends it to nobody. */
export interface Route {
  view: string;
  id: string | undefined;
  query: URLSearchParams;
  /** All of it. */
  fragment: string;
}

function parseRoute(fragment: string): Route {
  const [path = '', query = ''] = fragment.replace(/^#\/?/, '').split('?', 2);
  const [name, id] = path.split('/', 2);
  // Links to a pull request used to begin so.
  const view = name === 'pull-request' ? 'pull-requests' : name || 'standings';
  return { view, id: id || undefined, query: new URLSearchParams(query), fragment };
}

export type Query = Record<string, string | undefined>;

/** The address of a view; parameters that are undefined or empty are left out. */
export function addressOf(view: string, id?: string, query: Query = {}): string {
  const given = Object.entries(query).filter((entry): entry is [string, string] => Boolean(entry[1]));
  const parameters = new URLSearchParams(given).toString();
  return `#/${view}${id === undefined ? '' : `/${id}`}${parameters && `?${parameters}`}`;
}

/** Changes parameters of the present view, as a step that "back" undoes. */
export function changeQuery({ view, id, query }: Route, changes: Query): void {
  location.hash = addressOf(view, id, { ...Object.fromEntries(query), ...changes });
}

export function useRoute(): Route {
  const [fragment, setFragment] = useState(location.hash);
  useEffect(() => {
    const follow = () => setFragment(location.hash);
    addEventListener('hashchange', follow);
    // It may have changed since the first rendering.
    follow();
    return () => removeEventListener('hashchange', follow);
  }, []);
  return parseRoute(fragment);
}
