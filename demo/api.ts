import type { components } from '../openapi/client.d.ts';
import { DemoError } from './pullscore.ts';

export type PullRequest = components['schemas']['PullRequest'];
/** With the `ETag` of the page that it was on: it changes with each save, even if the page stays the same. */
export type ShownPullRequest = PullRequest & { tag: string | null };
export type Member = components['schemas']['Member'];
interface Page<Item> {
  data: Item[];
  links: { next: string | null };
}

export type Api = ReturnType<typeof createApi>;

export function createApi(baseUrl: string, token: string, signal: AbortSignal) {
  const base = `${baseUrl}/2025-04`;

  async function get<Reply>(url: string): Promise<Reply & { tag: string | null }> {
    const response = await fetch(url, { headers: { authorization: `Bearer ${token}` }, signal });
    const body: unknown = await response.json();
    if (response.ok) return { ...(body as Reply), tag: response.headers.get('etag') };
    throw new DemoError(`GET ${url} failed with ${response.status}: ${JSON.stringify(body)}`);
  }

  return {
    base,
    members: async () => (await get<{ data: Member[] }>(`${base}/members`)).data,
    /** Most recent first. */
    async allPullRequests(): Promise<PullRequest[]> {
      const all: PullRequest[] = [];
      for (let next: string | null = `${base}/pull-requests?per_page=100`; next !== null; ) {
        const page: Page<PullRequest> = await get(next);
        all.push(...page.data);
        next = page.links.next;
      }
      return all;
    },
    /** Finds a pull request by its address on GitHub, among the hundred newest of a member. */
    async findPullRequest(member: Member, url: string): Promise<ShownPullRequest | undefined> {
      const { data, tag } = await get<Page<PullRequest>>(`${member.links.pull_requests}?per_page=100`);
      const found = data.find(pullRequest => pullRequest.url === url);
      return found && { ...found, tag };
    },
  };
}

/** A curl command for each endpoint, in the order to try them; DELETE comes last. */
export function curlLines(
  base: string,
  token: string,
  ids: { member: string; sync: string; remove: string },
): { shows: string; line: string }[] {
  const curl = (shows: string, path: string, method = '') => ({
    shows,
    line: `curl ${method === '' ? '' : `-X ${method} `}-H 'Authorization: Bearer ${token}' '${base}/${path}'`,
  });
  return [
    curl('who holds the token', 'account'),
    curl('the users of the organisation', 'users'),
    curl('its current rules', 'rules'),
    curl('its members', 'members'),
    curl('one member', `members/${ids.member}`),
    curl("that member's pull requests, with scores and breakdowns", `members/${ids.member}/pull-requests`),
    curl('all pull requests, three to a page', 'pull-requests?per_page=3'),
    curl('one of them fetched again from GitHub', `pull-requests/${ids.sync}/sync`, 'PUT'),
    curl('another one deleted', `pull-requests/${ids.remove}`, 'DELETE'),
  ];
}
