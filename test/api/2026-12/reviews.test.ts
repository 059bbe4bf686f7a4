import { sql } from 'drizzle-orm';
import { expect, test } from 'vitest';
import { syncMembers } from '../../../src/sync/sync-members.ts';
import { entry, rule } from '../../scoring/support.ts';
import { waitUntilSettled } from '../../support/settled.ts';
import { createToken, insertPullRequests } from '../../support/tenants.ts';
import { startWorld } from '../../support/world.ts';

const rulesFile = `rules:
  - name: Opened
    logic: [{ expression: 'true', effect: { action: ADD, value: '10' } }]
reviews:
  - name: A verdict
    when: state == "open"
    logic: [{ expression: verdict == "approved", effect: { action: ADD, value: '3' } }]
  - name: 'Comments "ü"'
    logic: [{ expression: review_comments > 0, effect: { action: ADD, value: review_comments } }]
`;

const world = await startWorld();
const { service, client, acme, web, organisation } = world;
const [ada, bob, cleo] = [acme.member('ada'), acme.member('bob'), acme.member('cleo')];
const outsider = world.github.account('outsider');
const token = await createToken(service, world.user, ['read', 'sync', 'rules:read', 'rules:write']);

interface Review {
  reviewer: string | null;
  member: string | null;
  score: number;
  breakdown: object[];
}
interface PullRequest {
  id: string;
  number: number;
  score: number;
  reviews: Review[];
}

const get = async <Data>(path: string, version = '2026-12') => {
  const { status, body } = await client.get<{ data: Data }>(`/${version}/${path}`, token);
  expect([path, status, body]).toMatchObject([path, 200, {}]);
  return body.data;
};
expect((await client.applyFile(token, rulesFile)).status).toBe(200);
await syncMembers(service, organisation);
const reviewed = web.addPullRequest({ author: ada, number: 1 });
reviewed.review(bob, 'APPROVED', { comments: 2 });
reviewed.review(cleo, 'APPROVED');
reviewed.review(outsider, 'APPROVED');
reviewed.review(ada, 'COMMENTED', { comments: 9 });
web.addPullRequest({ author: ada, number: 2 });
await world.import();
await waitUntilSettled(service.database);
// She keeps what she earned.
acme.leave(cleo);
await syncMembers(service, organisation);
const present = await get<{ login: string; id: string }[]>('members');
expect(present.map(({ login }) => login).toSorted()).toEqual(['ada', 'bob']);
const [former] = await get<{ id: string }[]>('members?login=cleo');
/** Of the members. */
const ids = new Map([...present.map(({ login, id }) => [login, id] as const), ['cleo', former?.id]]);

const counted = (name: string, effect: number, expression: string) => ({ name, action: 'ADD', effect, expression });
const approved = counted('A verdict', 3, '(state == "open") && (verdict == "approved")');
const commented = counted('Comments "ü"', 2, 'review_comments > 0');
const reviewsOfFirst = [
  { reviewer: 'bob', member: ids.get('bob'), score: 5, breakdown: [approved, commented] },
  { reviewer: 'cleo', member: ids.get('cleo'), score: 3, breakdown: [approved] },
  { reviewer: null, member: null, score: 3, breakdown: [approved] },
];
const find = (all: readonly PullRequest[], number: number) => all.find(each => each.number === number);

test('a pull request has what its reviews are worth, wherever it is shown, but not in 2025-04', async () => {
  const listed = await get<PullRequest[]>('pull-requests');
  const first = find(listed, 1);
  expect(first).toMatchObject({ score: 10, reviews: reviewsOfFirst });
  expect(find(listed, 2)).toMatchObject({ score: 10, reviews: [] });
  expect(await get(`pull-requests/${first?.id}`)).toEqual(first);
  const changes = await get<{ pull_request: PullRequest }[]>('changes');
  expect(changes.map(change => change.pull_request)).toContainEqual(first);
  const synced = await client.put<{ data: PullRequest }>(`/2026-12/pull-requests/${first?.id}/sync`, token);
  expect(synced).toMatchObject({ status: 200, body: { data: { reviews: reviewsOfFirst } } });
  const ofFormerVersion = find(await get<PullRequest[]>('pull-requests', '2025-04'), 1);
  expect(ofFormerVersion).toMatchObject({ id: first?.id, score: 10 });
  expect(JSON.stringify(ofFormerVersion)).not.toMatch(/reviews|verdict/);
});

test("a member's weeks have points for pull requests and for reviews", async () => {
  const weeksOf = async (login: string) => get<object[]>(`members/${ids.get(login)}/weeks`);
  const ofReviews = { pull_requests: 0, score: 0, reviews: 1 };
  expect(await weeksOf('bob')).toMatchObject([{ ...ofReviews, review_score: 5, total: 5 }]);
  expect(await weeksOf('cleo')).toMatchObject([{ ...ofReviews, review_score: 3, total: 3 }]);
  expect(await weeksOf('ada')).toMatchObject([{ pull_requests: 2, score: 20, reviews: 0, review_score: 0, total: 20 }]);
});

test('pages of long reviews end below a megabyte, or have one pull request, and those of 2025-04 do not', async () => {
  const tenant = await world.newTenant();
  const count = 40;
  await insertPullRequests(service, tenant, count);
  // A long one compresses well; some are just too long together with their breakdown; one has 3 MB.
  await service.database.executor.execute(sql`
    update pull_requests set score_breakdown = json_build_array(json_build_object('name', repeat('n', 2000),
      'action', 'ADD', 'effect', 1, 'expression', 'true')),
      review_scores = case when number % 2 = 0 then json_build_array(json_build_object('reviewer', null, 'member', null,
        'score', 1, 'breakdown', json_build_array(json_build_object('name', repeat('r', case number
          when 30 then 3000000 when 20 then 2000 else 100000 end), 'action', 'ADD', 'effect', 1, 'expression', 'true')))) end
    where organisation_id = ${tenant.organisation.id}`);
  for (const [perPage, query] of [
    [100, ''],
    [20, ''],
    [100, '&state=open&sort=updated'],
  ] as const) {
    const pages = await client.pages<PullRequest>(`/2026-12/pull-requests?per_page=${perPage}${query}`, tenant.token);
    for (const page of pages) expect(JSON.stringify(page).length < 1_000_000 || page.data.length === 1).toBe(true);
    const found = pages.flatMap(({ data }) => data);
    expect(found.map(({ number }) => number)).toEqual(Array.from({ length: count }, (_, index) => count - index));
    for (const { number, reviews } of found) {
      const [review] = reviews;
      expect([number, review?.breakdown ?? []]).toMatchObject([number, number % 2 === 0 ? [{ name: /^r+$/ }] : []]);
    }
  }
  const former = await client.pages('/2025-04/pull-requests?per_page=100', tenant.token);
  expect(former.map(({ data }) => data.length)).toEqual([count]);
});

test('the rules in force are listed with those for reviews, as they are evaluated, but not in 2025-04', async () => {
  const path = '/2026-12/rules';
  const { body } = await client.get<{ data: object[]; reviews: object[] }>(path, token);
  expect(body.data).toMatchObject([{ name: 'Opened' }]);
  expect(body.reviews).toEqual([
    rule('A verdict', entry('(state == "open") && (verdict == "approved")', '3')),
    rule('Comments "ü"', entry('review_comments > 0', 'review_comments')),
  ]);
  const former = await client.get<object>('/2025-04/rules', token);
  expect(Object.keys(former.body)).toEqual(['data']);
  expect(JSON.stringify(former.body)).not.toContain('verdict');
});
