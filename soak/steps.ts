import fc from 'fast-check';
import { movedPlace, poolSize } from './rules.ts';
import { faultNames, poisonNames } from './troubles.ts';

/** What becomes of the webhooks of a step: sent at once, once or twice; kept for a later step; or lost. */
const fate = fc.constantFrom('sent', 'sent', 'sent', 'sent', 'doubled', 'kept', 'kept', 'lost');

export const people = ['ada', 'bert', 'carl', 'robot', 'rita'] as const;
export type Person = (typeof people)[number];
const person = fc.constantFrom(...people);
/** Members write most pull requests. */
const author = fc.constantFrom<Person>('ada', 'ada', 'ada', 'bert', 'bert', 'carl', 'robot');

/** An index into what exists when the step is taken, modulo its length: shortened histories stay valid. */
const place = fc.nat(11);
/** Much happens to one of them, so that fetches and changes of the same pull request meet. */
const favourite = fc.oneof(fc.constant(0), place);
const ofPullRequest = { pullRequest: favourite };

/** The replica that takes part. */
const via = fc.nat(2);
const awaited = fc.boolean();
const texts = fc.constantFrom('fix', 'Feature', '', 'nul \0 and lone \ud800', '𝒻ix 👩‍👩‍👧 \u202E', 'bug');
const labels = fc.constantFrom('bug', 'fix', 'Feature', '');

const rules = fc.uniqueArray(
  fc.record({
    // The repository's name is the one fact that changes without the pull request.
    place: fc.oneof({ weight: 2, arbitrary: fc.constant(movedPlace) }, { weight: 6, arbitrary: fc.nat(poolSize - 1) }),
    enabled: fc.constantFrom(true, true, true, false),
  }),
  { maxLength: 8, size: 'max', selector: rule => rule.place },
);

type Arbitraries<Parts> = { [Name in keyof Parts]: fc.Arbitrary<Parts[Name]> };

const stepOf = <Kind extends string, Parts extends object>(kinds: readonly Kind[], parts: Arbitraries<Parts>) =>
  fc.record({ kind: fc.constantFrom(...kinds), ...parts }) as unknown as fc.Arbitrary<{ kind: Kind } & Parts>;

/** @param weight how often, against the other steps of its group */
const often = <const Kind extends string, Parts extends object>(
  weight: number,
  kinds: readonly Kind[],
  parts: Arbitraries<Parts>,
) => ({ weight, arbitrary: stepOf(kinds, parts) });

const opening = stepOf(['open'], { repository: favourite, author, draft: fc.boolean(), fromFork: fc.boolean() });

/** What happens on GitHub and is announced by webhooks. */
const githubStep = fc.oneof(
  { weight: 5, arbitrary: opening },
  often(5, ['push'], ofPullRequest),
  often(5, ['edit'], { ...ofPullRequest, part: fc.constantFrom('title', 'body', 'base'), text: texts }),
  often(4, ['review'], {
    ...ofPullRequest,
    by: person,
    verdict: fc.constantFrom('APPROVED', 'CHANGES_REQUESTED', 'COMMENTED', 'PENDING'),
  }),
  often(2, ['dismiss', 'request review'], { ...ofPullRequest, by: person }),
  often(1, ['assign'], { ...ofPullRequest, by: author }),
  often(4, ['label', 'unlabel', 'milestone'], { ...ofPullRequest, text: labels }),
  often(8, ['comment', 'merge', 'close', 'reopen', 'draft', 'ready', 'link issues'], ofPullRequest),
  // Of tags: the pull request's first label, or its milestone, in the whole repository.
  often(3, ['delete comment', 'rename label', 'delete label', 'rename milestone', 'delete milestone'], ofPullRequest),
  often(1, ['remove'], ofPullRequest),
  often(2, ['rename repository'], { repository: place }),
  often(2, ['transfer'], { repository: place, to: place }),
  // To the one free login: later renamings swap logins, and a stranger takes them over.
  often(3, ['rename organisation'], { organisation: place }),
  often(1, ['rename account'], { person }),
  often(3, ['join', 'leave'], { person, organisation: favourite }),
);

/** Rare, because little can happen after it. */
const finalGithubStep = fc.oneof(
  often(1, ['remove repository'], { repository: place }),
  often(1, ['delete account'], { person }),
);

/** What happens to the service and around it. */
const serviceStep = fc.oneof(
  // Time goes by, on GitHub and here; between two of these, everything on GitHub happens in one second.
  often(8, ['tick'], { seconds: fc.constantFrom(1, 2, 3, 59, 60, 61) }),
  // A webhook that was kept is sent, in any order; or any one again, with its GUID and its original payload.
  often(5, ['deliver', 'redeliver'], { webhook: place }),
  // Waits until GitHub shows the present and no work is left, then checks what is stored.
  often(4, ['settle'], {}),
  often(6, ['delete'], { ...ofPullRequest, amidFetch: fc.boolean() }),
  often(5, ['refresh'], { ...ofPullRequest, awaited }),
  often(3, ['apply rules'], { rules }),
  often(2, ['webhooks'], { enabled: fc.boolean() }),
  often(3, ['import', 'import recent', 'sync members'], { awaited }),
  often(3, ['compare'], { awaited }),
  often(1, ['kill'], { after: fc.nat(25) }),
  // Of Rita, who only reviews.
  often(1, ['erase'], {}),
);

/** How GitHub fails: until it settles (`lag`, `break repository`, `use points up`), is healed (`poison`), or for some requests. */
const troubleStep = fc.oneof(
  // GraphQL shows the pull request, or its whole repository, that many seconds of GitHub's late: less than the service
  // waits before it believes an older state.
  often(8, ['lag'], { ...ofPullRequest, whole: fc.boolean(), seconds: fc.integer({ min: 1, max: 20 }) }),
  often(2, ['poison'], { ...ofPullRequest, poison: fc.constantFrom(...poisonNames) }),
  often(1, ['heal'], {}),
  // On all of its pages.
  often(1, ['break repository'], ofPullRequest),
  // Leaves so many points: a tenth of the hour's is kept for what is urgent.
  often(1, ['use points up'], { remaining: fc.constantFrom(0, 3, 400) }),
  often(4, ['fault'], { fault: fc.constantFrom(...faultNames), times: fc.integer({ min: 1, max: 3 }) }),
);

type Made<Arbitrary> = Arbitrary extends fc.Arbitrary<infer Value> ? Value : never;
export type GithubStep = Made<typeof githubStep> | Made<typeof finalGithubStep>;
export type ServiceStep = Made<typeof serviceStep> | Made<typeof troubleStep>;
export type Step = (GithubStep & { fate: Made<typeof fate>; via: number }) | (ServiceStep & { via: number });

const withFate = <Given extends object>(given: fc.Arbitrary<Given>) =>
  fc.tuple(given, fate, via).map(([its, fateOf, replica]) => ({ ...its, fate: fateOf, via: replica }));
const withVia = <Given extends object>(given: fc.Arbitrary<Given>) =>
  fc.tuple(given, via).map(([its, replica]) => ({ ...its, via: replica }));

const step = fc.oneof(
  { weight: 55, arbitrary: withFate(githubStep) },
  { weight: 1, arbitrary: withFate(finalGithubStep) },
  { weight: 32, arbitrary: withVia(serviceStep) },
  { weight: 12, arbitrary: withVia(troubleStep) },
) as fc.Arbitrary<Step>;

const hour = 3_600;

export const history = fc.record({
  /** Seconds by which GitHub's clock is ahead of ours. */
  clockAhead: fc.constantFrom(0, -hour, hour),
  /** In force from the start. */
  rules,
  steps: fc
    .tuple(
      fc.array(withFate(opening) as fc.Arbitrary<Step>, { minLength: 1, maxLength: 3 }),
      fc.array(step, { maxLength: 50, size: 'max' }),
    )
    .map(parts => parts.flat()),
});
export type History = Made<typeof history>;

function describeStep({ kind, ...rest }: Step): string {
  const parts = Object.entries(rest).map(([key, value]) => `${key}: ${JSON.stringify(value)}`);
  return `${kind} (${parts.join(', ')})`;
}

export const describeHistory = ({ steps, ...flags }: History): string =>
  [JSON.stringify(flags), ...steps.map((each, index) => `  ${index + 1}. ${describeStep(each)}`)].join('\n');
