import type { Executor } from '../database/client.ts';
import {
  type ExplainablePullRequest,
  findPullRequestsById,
  findPullRequestsOfPage,
  isScoreStale,
  keptChanges,
  listScoreChanges,
  type ScoreChange,
} from '../database/explanations.ts';
import { getRuleset } from '../database/rules.ts';
import { readSnapshot } from '../database/snapshot.ts';
import { formatId, parseId } from '../ids.ts';
import type { ExplainedPart } from '../scoring/evaluate.ts';
import { type Explanation, explainScore } from '../scoring/explain.ts';
import { factsOf } from '../scoring/facts.ts';
import type { Answer, PullscoreCommand } from './command.ts';
import { CommandError, type Context, seconds, showTime, UsageError, withDeps } from './context.ts';
import { showExplanation } from './explanation-text.ts';
import { counted, formatInteger } from './numbers.ts';
import { describeRescoring } from './rescore.ts';
import { loadRules } from './rules-file.ts';
import { brief, plain, shellWord, table } from './terminal.ts';

/**
 * Parses the address of a pull request's page, or of a page below it; or `owner/name#number`, as this program prints
 * it.
 *
 * @returns without a `host`, any host matches
 */
function parsePage(text: string) {
  const [, name, digit] = /^([\w.-]+\/[\w.-]+)#(\d{1,9})$/.exec(text) ?? [];
  if (name !== undefined) return { repository: name, number: Number(digit), host: undefined };
  if (!URL.canParse(text)) return undefined;
  const { protocol, host, pathname } = new URL(text);
  const [, repository, digits] = /^\/([^/]+\/[^/]+)\/pull\/(\d{1,9})(?:\/.*)?$/.exec(pathname) ?? [];
  if (repository === undefined || !/^https?:$/.test(protocol)) return undefined;
  return { repository, number: Number(digits), host };
}

/**
 * How the operator names a pull request: by its id or its page.
 *
 * @throws UsageError if the text is neither
 */
function parseTarget(text: string) {
  const id = parseId('pr', text);
  const page = parsePage(text);
  if (id === undefined && page === undefined && !text.startsWith('pr_')) {
    throw new UsageError(
      `"${brief(text)}" is neither a pull request's id nor its page.`,
      "Give pr_…, OWNER/NAME#NUMBER or the page's address, https://github.com/OWNER/NAME/pull/NUMBER.",
    );
  }
  return { text, id, page };
}

type Target = ReturnType<typeof parseTarget>;

async function findPullRequests(executor: Executor, { id, page }: Target): Promise<ExplainablePullRequest[]> {
  if (page === undefined) return id === undefined ? [] : findPullRequestsById(executor, id);
  const { host } = page;
  const found = await findPullRequestsOfPage(executor, page);
  return host === undefined ? found : found.filter(({ pullRequest }) => hostOf(pullRequest.url) === host);
}

/** @throws CommandError if no stored pull request matches the target, or several do */
async function requirePullRequest({ program }: Context, executor: Executor, target: Target) {
  const found = await findPullRequests(executor, target);
  const [first] = found;
  const shown = brief(target.text, 200);
  if (first === undefined) {
    const action =
      target.page === undefined
        ? 'Copy the id from the API, for example from GET /2025-04/pull-requests.'
        : `If the repository was renamed, give its new name. Otherwise import it: ${program} import --organisation LOGIN --repository ${shellWord(target.page.repository)}`;
    throw new CommandError(`There is no pull request ${shown} here.`, action, 'not_found');
  }
  if (found.length > 1) {
    const ids = found.map(each => `${idOf(each)} (${each.organisation.login})`);
    throw new CommandError(`${shown} is stored more than once.`, `Name one by its id: ${ids.join(', ')}.`);
  }
  return first;
}

const hostOf = (url: string) => (URL.canParse(url) ? new URL(url).host : '');
const idOf = ({ pullRequest }: ExplainablePullRequest) => formatId('pr', pullRequest.id);

type Explained = Awaited<ReturnType<typeof explainPullRequest>>;

/** @param file rules to explain the score by, instead of stored ones */
async function explainPullRequest(
  context: Context,
  executor: Executor,
  found: ExplainablePullRequest,
  file: Awaited<ReturnType<typeof loadRules>> | undefined,
) {
  const { pullRequest, repository, organisation } = found;
  const facts = factsOf({ ...pullRequest, repository });
  const explain = async (version: number) => explainScore(await getRuleset(executor, organisation.id, version), facts);
  const inForce = organisation.rulesetVersion;
  // A score that a new version does not change keeps its old version.
  const isOutdated =
    pullRequest.rulesetVersion < inForce && (await isScoreStale(executor, organisation.id, pullRequest.id));
  const version = isOutdated ? pullRequest.rulesetVersion : inForce;
  return {
    found,
    /** The name of the rules file that is explained; null without one. */
    file: file?.name ?? null,
    /** The version that is explained otherwise: the one in force, or the score's own if the score is out of date. */
    version,
    explanation: file === undefined ? await explain(version) : explainScore(file.ruleset, facts),
    /** The score by the rules in force; null if the stored score is up to date. */
    scoreInForce: isOutdated ? (await explain(inForce)).score : null,
    /** How an outdated score is updated. */
    rescoring: isOutdated ? await describeRescoring(context, executor, organisation.login) : '',
    changes: await listScoreChanges(executor, organisation.id, pullRequest.id),
  };
}

/** A body can have 64 KiB, and thousands of entries can read it. */
const maxTextLength = 1_000;

/** JSON has no infinity: it becomes null with a note. */
function representPart({ source, kind, value, note, chosen, parts }: ExplainedPart): unknown {
  const represented = { source, kind, value, note, chosen, parts: parts.map(representPart) };
  if (typeof value === 'number' && !Number.isFinite(value)) {
    return { ...represented, value: null, note: note || 'infinite' };
  }
  if (typeof value !== 'string' || value.length <= maxTextLength) return represented;
  // Never half a surrogate pair.
  const beginning = value.slice(0, maxTextLength).replace(/[\uD800-\uDBFF]$/, '');
  return { ...represented, value: `${beginning}…`, note: 'shortened' };
}

/** For JSON. */
export const representRules = ({ rules }: Explanation): unknown =>
  rules.map(rule => ({
    ...rule,
    entries: rule.entries.map(({ condition, amount, ...entry }) => ({
      ...entry,
      condition: condition === null ? null : representPart(condition),
      amount: amount === null ? null : representPart(amount),
    })),
  }));

function represent({ found, file, version, explanation, scoreInForce, changes }: Explained): unknown {
  const { pullRequest, repository, repositoryLeftAt, organisation } = found;
  return {
    id: idOf(found),
    url: pullRequest.url,
    organisation: organisation.login,
    repository,
    repository_left_at: seconds(repositoryLeftAt),
    number: pullRequest.number,
    title: pullRequest.title,
    author: pullRequest.author,
    state: pullRequest.state,
    score: pullRequest.score,
    file,
    ruleset_version: file === null ? version : null,
    ruleset_version_in_force: organisation.rulesetVersion,
    outdated: scoreInForce !== null,
    score_in_force: scoreInForce ?? pullRequest.score,
    explained_score: explanation.score,
    sum: explanation.sum,
    rules: representRules(explanation),
    history: changes.map(change => ({
      changed_at: seconds(change.changedAt),
      from: change.fromScore,
      to: change.toScore,
      cause: change.cause,
      ruleset_version: change.rulesetVersion,
      changes: change.changes,
    })),
  };
}

function showStanding({ program }: Context, explained: Explained): string {
  const { found, file, version, explanation, scoreInForce, rescoring } = explained;
  const { pullRequest, organisation } = found;
  const score = formatInteger(pullRequest.score);
  if (file !== null) {
    return `Score ${formatInteger(explanation.score)} by ${plain(file)}. The stored score is ${score}.`;
  }
  if (organisation.rulesetVersion === 0) {
    return `Score ${score}: no rules have been applied yet. Apply some: ${program} rules apply FILE --organisation ${organisation.login}`;
  }
  const under = version === 0 ? 'from before the first rules' : `under version ${version} of the rules`;
  const inForce = `version ${organisation.rulesetVersion}, in force, gives`;
  const standing =
    scoreInForce === null
      ? `Score ${score} ${under}, which is in force.`
      : scoreInForce === pullRequest.score
        ? `Score ${score} ${under}; ${inForce} the same.`
        : `Score ${score} ${under}. It is out of date: ${inForce} ${formatInteger(scoreInForce)}. ${rescoring}`;
  if (explanation.score === pullRequest.score) return standing;
  // Facts, score and version are stored together, so another release probably calculated the score.
  return `${standing}\nThis release calculates ${formatInteger(explanation.score)}, as shown below. The next sync of the pull request updates the stored score.`;
}

function causeOf({ cause, fromScore, rulesetVersion }: ScoreChange): string {
  if (cause === 'ruleset') return `version ${rulesetVersion} of the rules`;
  const what = fromScore === null ? 'first seen' : 'the pull request changed';
  return rulesetVersion === 0 ? what : `${what}; scored by version ${rulesetVersion}`;
}

function describeEarlier(earlier: readonly ScoreChange[]): string {
  const count = earlier.reduce((sum, { changes }) => sum + changes, 0);
  const isFolded = count > earlier.length;
  return `… and ${counted(count, 'earlier change')}; --json shows ${isFolded ? 'them by month' : 'all'}`;
}

const showDeparture = (leftAt: Date) =>
  `The repository has left the organisation, as seen on ${showTime(leftAt)}: the pull request stays as it was last fetched.`;

function show(context: Context, explained: Explained): string {
  const { pullRequest, repository, repositoryLeftAt } = explained.found;
  const { changes } = explained;
  const latest = changes.slice(-keptChanges);
  const earlier = changes.slice(0, -keptChanges);
  return [
    `${repository}#${pullRequest.number}  ${brief(pullRequest.title)}`,
    `${pullRequest.state}, by ${brief(pullRequest.author)}  ${pullRequest.url}  ${idOf(explained.found)}`,
    ...(repositoryLeftAt === null ? [] : ['', showDeparture(repositoryLeftAt)]),
    '',
    showStanding(context, explained),
    '',
    showExplanation(explained.explanation),
    '',
    table(
      ['CHANGED', 'FROM', 'TO', 'CAUSE'],
      latest.map(change => [
        showTime(change.changedAt),
        change.fromScore === null ? '-' : formatInteger(change.fromScore),
        formatInteger(change.toScore),
        causeOf(change),
      ]),
      'The score has not changed yet.',
    ),
    ...(earlier.length > 0 ? [describeEarlier(earlier)] : []),
  ].join('\n');
}

export function explainCommand(program: PullscoreCommand, context: Context): void {
  program
    .command('explain')
    .description('show how a score was calculated, entry by entry, and what changed it over time')
    .argument('<pull-request>', "its id (pr_…), OWNER/NAME#NUMBER or its page's address")
    .option('--rules <file>', 'explain the score that this rules file would give; - for standard input')
    .examples('explain acme/web#42', 'explain https://github.com/acme/web/pull/42 --rules rules.example.yaml')
    .answer<{ rules?: string }>(async ({ rules }, text): Promise<Answer> => {
      const target = parseTarget(text);
      const file = rules === undefined ? undefined : await loadRules(context, rules);
      return withDeps(context, ({ database }) =>
        readSnapshot(database, async ({ executor }) => {
          const found = await requirePullRequest(context, executor, target);
          const explained = await explainPullRequest(context, executor, found, file);
          return { json: represent(explained), text: show(context, explained) };
        }),
      );
    });
}
