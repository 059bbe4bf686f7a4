import fc from 'fast-check';
import { movedPlace, type Ruleset, rulePool } from './rules.ts';

/** What becomes of the webhooks of a step: sent at once, once or twice; kept for a later step; or lost. */
export type Fate = 'sent' | 'doubled' | 'kept' | 'lost';

export const people = ['ada', 'bert', 'carl', 'robot', 'rita'] as const;
export type Person = (typeof people)[number];

/** An index into what exists when the step is taken, modulo its length: shortened histories stay valid. */
type Place = number;

/** What happens on GitHub and is announced by webhooks. */
export type GithubStep =
  | { kind: 'open'; repository: Place; author: Person; draft: boolean; fromFork: boolean }
  | { kind: 'push' | 'merge' | 'close' | 'reopen' | 'draft' | 'ready' | 'link issues'; pullRequest: Place }
  | { kind: 'comment' | 'delete comment'; pullRequest: Place }
  | { kind: 'edit'; pullRequest: Place; part: 'title' | 'body' | 'base'; text: string }
  | { kind: 'label' | 'unlabel' | 'milestone'; pullRequest: Place; text: string }
  /** Affects the pull request's first label, or its milestone, in the whole repository. */
  | { kind: 'rename label' | 'delete label' | 'rename milestone' | 'delete milestone'; pullRequest: Place }
  | {
      kind: 'review';
      pullRequest: Place;
      by: Person;
      verdict: 'APPROVED' | 'CHANGES_REQUESTED' | 'COMMENTED' | 'PENDING';
    }
  | { kind: 'dismiss' | 'assign' | 'request review'; pullRequest: Place; by: Person }
  | { kind: 'remove'; pullRequest: Place }
  | { kind: 'rename repository' | 'remove repository'; repository: Place }
  | { kind: 'transfer'; repository: Place; to: Place }
  /** To the one free login: later renamings swap logins, and a stranger takes them over. */
  | { kind: 'rename organisation'; organisation: Place }
  | { kind: 'join' | 'leave'; person: Person; organisation: Place }
  | { kind: 'rename account' | 'delete account'; person: Person };

/** How GitHub fails on one pull request, whoever asks for it. */
export const poisons = ['502', 'too much', 'forbidden'] as const;
export type Poison = (typeof poisons)[number];

/** How GitHub fails: until it settles (`lag`, `break repository`, `use points up`), is healed (`poison`), or for some requests. */
export type TroubleStep =
  /** GraphQL shows the pull request, or its whole repository, that many seconds of GitHub's late. */
  | { kind: 'lag'; pullRequest: Place; whole: boolean; seconds: number }
  | { kind: 'poison'; pullRequest: Place; poison: Poison }
  | { kind: 'heal' }
  /** GitHub fails on all pages of the repository. */
  | { kind: 'break repository'; pullRequest: Place }
  /** Leaves this many points. */
  | { kind: 'use points up'; remaining: number }
  | { kind: 'fault'; fault: FaultName; times: number };

/** What happens to the service and around it. */
export type ServiceStep =
  /** Time goes by, on GitHub and here; between two of these, everything on GitHub happens in one second. */
  | { kind: 'tick'; seconds: number }
  /** A webhook that was kept is sent, in any order. */
  | { kind: 'deliver'; webhook: Place }
  /** Any webhook, sent, kept or lost, is sent again with its GUID and its original payload. */
  | { kind: 'redeliver'; webhook: Place }
  | { kind: 'delete'; pullRequest: Place; amidFetch: boolean }
  | { kind: 'refresh'; pullRequest: Place; awaited: boolean }
  | { kind: 'apply rules'; rules: Ruleset }
  | { kind: 'webhooks'; enabled: boolean }
  /** Of Rita, who only reviews. */
  | { kind: 'erase' }
  | { kind: 'import' | 'import recent' | 'compare' | 'sync members'; awaited: boolean }
  | { kind: 'kill'; after: number }
  /** Waits until GitHub shows the present and no work is left, then checks what is stored. */
  | { kind: 'settle' };

export type Step = (GithubStep & { fate: Fate; via: number }) | ((ServiceStep | TroubleStep) & { via: number });

export const faultNames = [
  '500',
  '502',
  'html 503',
  'rate limit',
  'points used up',
  'reset',
  'truncate',
  'delay',
  'broken',
  'broken field',
] as const;
export type FaultName = (typeof faultNames)[number];

export interface History {
  /** Seconds by which GitHub's clock is ahead of ours. */
  clockAhead: number;
  /** In force from the start. */
  rules: Ruleset;
  steps: readonly Step[];
}

const place = fc.nat(11);
const via = fc.nat(2);
const person = fc.constantFrom(...people);
/** Members write most pull requests. */
const author = fc.constantFrom<Person>('ada', 'ada', 'ada', 'bert', 'bert', 'carl', 'robot');
const awaited = fc.boolean();
const texts = fc.constantFrom('fix', 'Feature', '', 'nul \0 and lone \ud800', '𝒻ix 👩‍👩‍👧 \u202E', 'bug');
const labels = fc.constantFrom('bug', 'fix', 'Feature', '');
const kind = <Kind extends string>(...kinds: Kind[]) => fc.constantFrom(...kinds);

/** Much happens to one of them, so that fetches and changes of the same pull request meet. */
const favourite = fc.oneof(fc.constant(0), place);
const ofPullRequest = { pullRequest: favourite };

const rules = fc.uniqueArray(
  fc.record({
    // The repository's name is the one fact that changes without the pull request.
    place: fc.oneof(
      { weight: 2, arbitrary: fc.constant(movedPlace) },
      { weight: 6, arbitrary: fc.nat(rulePool.length - 1) },
    ),
    enabled: fc.constantFrom(true, true, true, false),
  }),
  { maxLength: 8, size: 'max', selector: rule => rule.place },
);

const opening = fc.record({
  kind: kind('open'),
  repository: favourite,
  author,
  draft: fc.boolean(),
  fromFork: fc.boolean(),
});

const githubStep = fc.oneof(
  { weight: 5, arbitrary: opening },
  { weight: 5, arbitrary: fc.record({ kind: kind('push'), ...ofPullRequest }) },
  {
    weight: 5,
    arbitrary: fc.record({ kind: kind('edit'), part: kind('title', 'body', 'base'), text: texts, ...ofPullRequest }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: kind('review'),
      by: person,
      verdict: kind('APPROVED', 'CHANGES_REQUESTED', 'COMMENTED', 'PENDING'),
      ...ofPullRequest,
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: kind('dismiss', 'request review'), by: person, ...ofPullRequest }) },
  { weight: 1, arbitrary: fc.record({ kind: kind('assign'), by: author, ...ofPullRequest }) },
  { weight: 4, arbitrary: fc.record({ kind: kind('label', 'unlabel', 'milestone'), text: labels, ...ofPullRequest }) },
  {
    weight: 8,
    arbitrary: fc.record({
      kind: kind('comment', 'merge', 'close', 'reopen', 'draft', 'ready', 'link issues'),
      ...ofPullRequest,
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: kind('delete comment', 'rename label', 'delete label', 'rename milestone', 'delete milestone'),
      ...ofPullRequest,
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: kind('remove'), ...ofPullRequest }) },
  { weight: 2, arbitrary: fc.record({ kind: kind('rename repository'), repository: place }) },
  { weight: 2, arbitrary: fc.record({ kind: kind('transfer'), repository: place, to: place }) },
  { weight: 3, arbitrary: fc.record({ kind: kind('rename organisation'), organisation: place }) },
  { weight: 1, arbitrary: fc.record({ kind: kind('rename account'), person }) },
  {
    weight: 3,
    arbitrary: fc.record({ kind: kind('join', 'leave'), person, organisation: favourite }),
  },
);

/** Rare, because little can happen after it. */
const finalGithubStep = fc.oneof(
  fc.record({ kind: kind('remove repository'), repository: place }),
  fc.record({ kind: kind('delete account'), person }),
);

const fate = fc.constantFrom<Fate>('sent', 'sent', 'sent', 'sent', 'doubled', 'kept', 'kept', 'lost');

const serviceStep = fc.oneof(
  { weight: 8, arbitrary: fc.record({ kind: kind('tick'), seconds: fc.constantFrom(1, 2, 3, 59, 60, 61), via }) },
  { weight: 5, arbitrary: fc.record({ kind: kind('deliver', 'redeliver'), webhook: place, via }) },
  { weight: 4, arbitrary: fc.record({ kind: kind('settle'), via }) },
  { weight: 6, arbitrary: fc.record({ kind: kind('delete'), amidFetch: fc.boolean(), ...ofPullRequest, via }) },
  { weight: 5, arbitrary: fc.record({ kind: kind('refresh'), ...ofPullRequest, awaited, via }) },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: kind('apply rules'),
      rules,
      via,
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: kind('webhooks'), enabled: fc.boolean(), via }) },
  {
    weight: 3,
    arbitrary: fc.record({ kind: kind('import', 'import recent', 'sync members'), awaited, via }),
  },
  { weight: 3, arbitrary: fc.record({ kind: kind('compare'), awaited, via }) },
  { weight: 1, arbitrary: fc.record({ kind: kind('kill'), after: fc.nat(25), via }) },
  { weight: 1, arbitrary: fc.record({ kind: kind('erase'), via }) },
);

const troubleStep = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      kind: kind('lag'),
      ...ofPullRequest,
      whole: fc.boolean(),
      // Less than the service waits before it believes an older state.
      seconds: fc.integer({ min: 1, max: 20 }),
      via,
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: kind('poison'), ...ofPullRequest, poison: kind(...poisons), via }) },
  { weight: 1, arbitrary: fc.record({ kind: kind('heal'), via }) },
  { weight: 1, arbitrary: fc.record({ kind: kind('break repository'), ...ofPullRequest, via }) },
  // A tenth of the hour's points is kept for what is urgent.
  { weight: 1, arbitrary: fc.record({ kind: kind('use points up'), remaining: fc.constantFrom(0, 3, 400), via }) },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: kind('fault'),
      fault: kind(...faultNames),
      times: fc.integer({ min: 1, max: 3 }),
      via,
    }),
  },
);

const withFate = <Given extends object>(given: fc.Arbitrary<Given>) =>
  fc.tuple(given, fate, via).map(([its, fateOf, replica]) => ({ ...its, fate: fateOf, via: replica }));

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 55, arbitrary: withFate(githubStep) },
  { weight: 1, arbitrary: withFate(finalGithubStep) },
  { weight: 32, arbitrary: serviceStep },
  { weight: 12, arbitrary: troubleStep },
) as fc.Arbitrary<Step>;

const hour = 3_600;

export const history: fc.Arbitrary<History> = fc.record({
  clockAhead: fc.constantFrom(0, -hour, hour),
  rules,
  steps: fc
    .tuple(
      fc.array(withFate(opening) as fc.Arbitrary<Step>, { minLength: 1, maxLength: 3 }),
      fc.array(step, { maxLength: 50, size: 'max' }),
    )
    .map(parts => parts.flat()),
});

export function describeStep({ kind: name, ...rest }: Step): string {
  const parts = Object.entries(rest).map(([key, value]) => `${key}: ${JSON.stringify(value)}`);
  return `${name} (${parts.join(', ')})`;
}

export const describeHistory = ({ steps, ...flags }: History): string =>
  [JSON.stringify(flags), ...steps.map((each, index) => `  ${index + 1}. ${describeStep(each)}`)].join('\n');
