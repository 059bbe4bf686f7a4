import fc from 'fast-check';
import { movedPlace, type Ruleset, rulePool } from './rules.ts';

/** What becomes of the webhooks of a step: sent at once, once or twice; kept for a later step; or lost. */
export type Fate = 'sent' | 'doubled' | 'kept' | 'lost';

export const people = ['ada', 'bert', 'carl', 'robot'] as const;
export type Person = (typeof people)[number];

/** A place in what there is when the step is taken, counted round and round: a shorter history stays a valid one. */
type Place = number;

/** What happens on GitHub, and is told by webhooks. */
export type GithubStep =
  | { kind: 'open'; repository: Place; author: Person; draft: boolean; fromFork: boolean }
  | { kind: 'push' | 'comment' | 'merge' | 'close' | 'reopen' | 'draft' | 'ready' | 'link issues'; pullRequest: Place }
  | { kind: 'edit'; pullRequest: Place; part: 'title' | 'body' | 'base'; text: string }
  | { kind: 'label' | 'unlabel' | 'milestone'; pullRequest: Place; text: string }
  | {
      kind: 'review';
      pullRequest: Place;
      by: Person;
      verdict: 'APPROVED' | 'CHANGES_REQUESTED' | 'COMMENTED' | 'PENDING';
    }
  | { kind: 'dismiss' | 'assign'; pullRequest: Place; by: Person }
  | { kind: 'remove'; pullRequest: Place }
  | { kind: 'rename repository' | 'transfer'; repository: Place }
  | { kind: 'remove repository'; repository: Place }
  /** To the one login that is free, which becomes another's later: so they swap them, and a stranger takes them over. */
  | { kind: 'rename organisation'; organisation: Place }
  | { kind: 'join' | 'leave' | 'rename account' | 'delete account'; person: Person };

/** What happens to the service and around it. */
export type ServiceStep =
  /** GitHub's clock goes on; between two of these, everything is of one second. */
  | { kind: 'tick'; seconds: number }
  /** A webhook that was kept is sent, in any order. */
  | { kind: 'deliver'; webhook: Place }
  /** Any webhook, sent, kept or lost, is sent again under its GUID, with its payload of then. */
  | { kind: 'redeliver'; webhook: Place }
  | { kind: 'delete'; pullRequest: Place; amidFetch: boolean }
  | { kind: 'refresh'; pullRequest: Place; awaited: boolean }
  | { kind: 'apply rules'; rules: Ruleset }
  | { kind: 'webhooks'; enabled: boolean }
  | { kind: 'import' | 'import recent' | 'compare' | 'sync members'; awaited: boolean }
  | { kind: 'kill'; after: number }
  | { kind: 'fault'; fault: FaultName; times: number }
  /** Until nothing waits; what is stored then is looked at. */
  | { kind: 'settle' };

export type Step = (GithubStep & { fate: Fate; via: number }) | (ServiceStep & { via: number });

export const faultNames = [
  '500',
  '502',
  'html 503',
  'rate limit',
  'reset',
  'truncate',
  'delay',
  'broken',
  'broken field',
] as const;
export type FaultName = (typeof faultNames)[number];

export interface History {
  /** Whether the organisation that repositories are transferred to is one of ours too. */
  otherTracked: boolean;
  /** By how many seconds GitHub's clock is ahead of ours. */
  clockAhead: number;
  /** In force from the start. */
  rules: Ruleset;
  steps: readonly Step[];
}

const place = fc.nat(11);
const via = fc.nat(2);
const person = fc.constantFrom(...people);
/** Members write most of what there is. */
const author = fc.constantFrom<Person>('ada', 'ada', 'ada', 'bert', 'bert', 'carl', 'robot');
const awaited = fc.boolean();
const texts = fc.constantFrom('fix', 'Feature', '', 'nul \0 and lone \ud800', '𝒻ix 👩‍👩‍👧 \u202E', 'bug');
const labels = fc.constantFrom('bug', 'fix', 'Feature', '');
const kind = <Kind extends string>(...kinds: Kind[]) => fc.constantFrom(...kinds);

/** Much happens to one of them: only so do fetches and changes of the same meet. */
const ofPullRequest = { pullRequest: fc.oneof(fc.constant(0), place) };

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
  repository: place,
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
  { weight: 2, arbitrary: fc.record({ kind: kind('dismiss', 'assign'), by: person, ...ofPullRequest }) },
  { weight: 4, arbitrary: fc.record({ kind: kind('label', 'unlabel', 'milestone'), text: labels, ...ofPullRequest }) },
  {
    weight: 8,
    arbitrary: fc.record({
      kind: kind('comment', 'merge', 'close', 'reopen', 'draft', 'ready', 'link issues'),
      ...ofPullRequest,
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: kind('remove'), ...ofPullRequest }) },
  { weight: 4, arbitrary: fc.record({ kind: kind('rename repository', 'transfer'), repository: place }) },
  { weight: 4, arbitrary: fc.record({ kind: kind('rename organisation'), organisation: place }) },
  { weight: 3, arbitrary: fc.record({ kind: kind('join', 'leave', 'rename account'), person }) },
);

/** Rare, since little can happen after it. */
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
  {
    weight: 3,
    arbitrary: fc.record({
      kind: kind('fault'),
      fault: kind(...faultNames),
      times: fc.integer({ min: 1, max: 3 }),
      via,
    }),
  },
);

const told = <Given extends object>(given: fc.Arbitrary<Given>) =>
  fc.tuple(given, fate, via).map(([its, fateOf, replica]) => ({ ...its, fate: fateOf, via: replica }));

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 60, arbitrary: told(githubStep) },
  { weight: 1, arbitrary: told(finalGithubStep) },
  { weight: 39, arbitrary: serviceStep },
) as fc.Arbitrary<Step>;

const hour = 3_600;

export const history: fc.Arbitrary<History> = fc.record({
  otherTracked: fc.boolean(),
  clockAhead: fc.constantFrom(0, -hour, hour),
  rules,
  steps: fc
    .tuple(
      fc.array(told(opening) as fc.Arbitrary<Step>, { minLength: 1, maxLength: 3 }),
      fc.array(step, { maxLength: 40, size: 'max' }),
    )
    .map(([first, rest]) => [...first, ...rest]),
});

export function describeStep({ kind: name, ...rest }: Step): string {
  const parts = Object.entries(rest).map(([key, value]) => `${key}: ${JSON.stringify(value)}`);
  return `${name} (${parts.join(', ')})`;
}

export const describeHistory = ({ steps, ...flags }: History): string =>
  [JSON.stringify(flags), ...steps.map((each, index) => `  ${index + 1}. ${describeStep(each)}`)].join('\n');
