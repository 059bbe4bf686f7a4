import { createPatch } from 'diff';
import type { Organisation } from '../database/organisations.ts';
import { getRuleset, listRulesets } from '../database/rules.ts';
import { formatRulesFile } from '../scoring/file/rules-file.ts';
import { compareRules, type DefinitionChanges, type RuleChanges } from '../scoring/plan/rule-changes.ts';
import { plain, right, shrinking, table } from '../text/terminal.ts';
import { unixSeconds } from '../text/times.ts';
import type { PullscoreCommand } from './command.ts';
import { CommandError, type Context, parseNumber, showTime } from './context.ts';
import { listChanges } from './plan/wording.ts';

export const parseVersion = (text: string): number => parseNumber(text, /^\d{1,9}$/, 'version', 'its number');

/**
 * The version that an operator names.
 *
 * @param first the lowest: 0 is before the first rules
 * @throws UsageError if the text is not a number, CommandError if there is no such version
 */
export function requireVersion(
  { program }: Context,
  { login, rulesetVersion }: Organisation,
  text: string,
  first: 0 | 1,
): number {
  const version = parseVersion(text);
  if (version >= first && version <= rulesetVersion) return version;
  throw new CommandError(
    `${login} has no version ${version} of its rules.`,
    `List them: ${program} rules history --organisation ${login}`,
    'not_found',
  );
}

const namesOf = ({ added, changed, removed }: RuleChanges | DefinitionChanges) => ({
  added: added.map(({ name }) => name),
  changed: changed.map(({ name }) => name),
  removed: removed.map(({ name }) => name),
});

/** `1 added, 2 changed`; `-` without changes. */
const describeChanges = ({ added, changed, removed }: RuleChanges | DefinitionChanges): string =>
  listChanges({ added: added.length, changed: changed.length, removed: removed.length }).join(', ') || '-';

const noRules = { definitions: [], rules: [], reviews: [] };

export function rulesetHistoryCommands(group: PullscoreCommand, context: Context): void {
  group
    .command('history')
    .description('list the versions of the rules that were applied')
    .examples('rules history --organisation acme')
    .answerFor(() => async ({ database }, { id, login, rulesetVersion }) => {
      const versions = (await listRulesets(database.executor, id)).map((ruleset, index, all) => ({
        ...ruleset,
        changes: compareRules(all[index + 1] ?? noRules, ruleset),
        reviewChanges: compareRules(all[index + 1] ?? noRules, ruleset, 'reviews'),
      }));
      const ofReviews = <Cell>(cell: Cell) => (versions.some(({ reviews }) => reviews.length > 0) ? [cell] : []);
      return {
        json: versions.map(
          ({ version, appliedAt, appliedBy, suspendedAt, suspension, rules, changes, reviewChanges }) => ({
            version,
            applied_at: unixSeconds(appliedAt),
            applied_by: appliedBy,
            suspended_at: unixSeconds(suspendedAt),
            suspension,
            rules: rules.length,
            ...namesOf(changes),
            definitions: namesOf(changes.definitions),
            reviews: namesOf(reviewChanges),
          }),
        ),
        text: table(
          [
            ...['VERSION', 'APPLIED (UTC)', shrinking('BY')],
            ...[
              { ...right('RULES'), minWidth: 100 },
              right('ADDED'),
              right('CHANGED'),
              right('REMOVED'),
              shrinking('DEFINITIONS'),
            ],
            ...ofReviews(shrinking('REVIEWS')),
          ],
          versions.map(({ version, appliedAt, appliedBy, suspendedAt, rules, changes, reviewChanges }) => [
            `${version}${version === rulesetVersion ? ' (in force)' : ''}${suspendedAt === null ? '' : ' (suspended)'}`,
            showTime(appliedAt),
            appliedBy,
            String(rules.length),
            String(changes.added.length),
            String(changes.changed.length),
            String(changes.removed.length),
            describeChanges(changes.definitions),
            ...ofReviews(describeChanges(reviewChanges)),
          ]),
          `No rules have been applied yet. Apply some: ${context.program} rules apply FILE --organisation ${login}`,
          { width: context.columns },
        ),
      };
    });

  group
    .command('diff')
    .description('show what changed between two versions of the rules')
    .argument('<from>', 'a version, as `rules history` lists it; 0 is before the first')
    .argument('<to>', 'another version')
    .examples('rules diff 3 4 --organisation acme')
    .answerFor((_options, from, to) => async ({ database: { executor } }, organisation) => {
      const [first, second] = [from, to].map(text => requireVersion(context, organisation, text, 0));
      const before = await getRuleset(executor, organisation.id, first ?? 0);
      const after = await getRuleset(executor, organisation.id, second ?? 0);
      const { unchanged: _, ...changes } = compareRules(before, after);
      const { definitions: __, unchanged: ___, ...reviews } = compareRules(before, after, 'reviews');
      const lines = createPatch('rules', formatRulesFile(before), formatRulesFile(after), from, to)
        .trimEnd()
        .split('\n')
        .slice(2)
        .map(plain);
      return {
        json: { from: Number(from), to: Number(to), ...changes, reviews },
        text: lines.length < 3 ? `Versions ${from} and ${to} have the same rules.` : lines.join('\n'),
      };
    });
}
