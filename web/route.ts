export type Query = Record<string, string | undefined>;

/** What the fragment of the address says: `#/members/mem_…?since=2026-11-01`. A browser sends it to nobody. */
export function route(): { view: string; id: string | undefined; query: Query } {
  const [path = '', query = ''] = location.hash.replace(/^#\/?/, '').split('?', 2);
  const [view, id] = path.split('/', 2);
  return { view: view || 'standings', id: id || undefined, query: Object.fromEntries(new URLSearchParams(query)) };
}

/** The address of a view; parameters that are undefined or empty are left out. */
export function addressOf(view: string, id?: string, query: Query = {}): string {
  const given = Object.entries(query).filter((entry): entry is [string, string] => Boolean(entry[1]));
  const parameters = new URLSearchParams(given).toString();
  return `#/${view}${id === undefined ? '' : `/${id}`}${parameters && `?${parameters}`}`;
}

/** The address of the present view with other parameters. */
export function addressWith(changes: Query): string {
  const { view, id, query } = route();
  return addressOf(view, id, { ...query, ...changes });
}
