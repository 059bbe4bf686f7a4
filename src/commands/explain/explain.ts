import type { Executor } from '../../database/client.ts';
import type { Organisation } from '../../database/organisations.ts';
import { keptChanges } from '../../database/pruning.ts';
import { getRuleset } from '../../database/rules.ts';
import { readSnapshot } from '../../database/snapshot.ts';
import { formatId, parseId } from '../../ids.ts';
import { explainScore } from '../../scoring/explain/explain.ts';
import { factsOf } from '../../scoring/facts.ts';
import { counted, formatInteger } from '../../text/numbers.ts';
import { brief, plain, shellWord, table } from '../../text/terminal.ts';
import type { Answer, FromServer, PullscoreCommand } from '../command.ts';
import {
  CommandError,
  type Context,
  requireOrganisation,
  seconds,
  showTime,
  UsageError,
  withDeps,
} from '../context.ts';
import { describeRescoring } from '../rescore.ts';
import { loadRules } from '../rules-file.ts';
import { askServer } from '../server.ts';
import {
  type ExplainablePullRequest,
  findPullRequestsById,
  findPullRequestsOfPage,
  isScoreStale,
  listScoreChanges,
} from './queries.ts';
import { representRules, showExplanation } from './text.ts';

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
async function requirePullRequest(
  { program }: Context,
  executor: Executor,
  target: Target,
  organisation: Organisation | undefined,
) {
  const everywhere = await findPullRequests(executor, target);
  const found = everywhere.filter(each => organisation === undefined || each.organisation.id === organisation.id);
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

type ExplainDocument = Awaited<ReturnType<typeof explainPullRequest>>;

/** @param file rules to explain the score by, instead of stored ones */
async function explainPullRequest(
  executor: Executor,
  { pullRequest, repository, repositoryLeftAt, organisation }: ExplainablePullRequest,
  file: Awaited<ReturnType<typeof loadRules>> | undefined,
) {
  const facts = factsOf({ ...pullRequest, repository });
  const explain = async (version: number) => explainScore(await getRuleset(executor, organisation.id, version), facts);
  const inForce = organisation.rulesetVersion;
  // A score that a new version does not change keeps its old version.
  const isOutdated =
    pullRequest.rulesetVersion < inForce && (await isScoreStale(executor, organisation.id, pullRequest.id));
  // The one in force, or the score's own if the score is out of date.
  const version = isOutdated ? pullRequest.rulesetVersion : inForce;
  const explanation = file === undefined ? await explain(version) : explainScore(file.ruleset, facts);
  const changes = await listScoreChanges(executor, organisation.id, pullRequest.id);
  return {
    id: formatId('pr', pullRequest.id),
    url: pullRequest.url,
    organisation: organisation.login,
    repository,
    repository_left_at: seconds(repositoryLeftAt),
    number: pullRequest.number,
    title: pullRequest.title,
    author: pullRequest.author,
    state: pullRequest.state,
    score: pullRequest.score,
    // The name of the rules file that is explained.
    file: file?.name ?? null,
    ruleset_version: file === undefined ? version : null,
    ruleset_version_in_force: inForce,
    outdated: isOutdated,
    score_in_force: isOutdated ? (await explain(inForce)).score : pullRequest.score,
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

async function showStanding(context: Context, document: ExplainDocument, executor?: Executor): Promise<string> {
  const { organisation, file, ruleset_version: version, ruleset_version_in_force: inForce } = document;
  const { explained_score: explained, score_in_force: scoreInForce } = document;
  const score = formatInteger(document.score);
  if (file !== null) return `Score ${formatInteger(explained)} by ${plain(file)}. The stored score is ${score}.`;
  if (inForce === 0) {
    return `Score ${score}: no rules have been applied yet. Apply some: ${context.program} rules apply FILE --organisation ${organisation}`;
  }
  const under = version === 0 ? 'from before the first rules' : `under version ${version} of the rules`;
  const gives = `version ${inForce}, in force, gives`;
  const standing = !document.outdated
    ? `Score ${score} ${under}, which is in force.`
    : scoreInForce === document.score
      ? `Score ${score} ${under}; ${gives} the same.`
      : `Score ${score} ${under}. It is out of date: ${gives} ${formatInteger(scoreInForce)}. ${await describeRescoring(context, executor, organisation)}`;
  if (explained === document.score) return standing;
  // Facts, score and version are stored together, so another release probably calculated the score.
  return `${standing}\nThis release calculates ${formatInteger(explained)}, as shown below. The next sync of the pull request updates the stored score.`;
}

type Change = ExplainDocument['history'][number];

function causeOf({ cause, from, ruleset_version: version }: Change): string {
  if (cause === 'ruleset') return `version ${version} of the rules`;
  const what = from === null ? 'first seen' : 'the pull request changed';
  return version === 0 ? what : `${what}; scored by version ${version}`;
}

function describeEarlier(earlier: readonly Change[]): string {
  const count = earlier.reduce((sum, { changes }) => sum + changes, 0);
  const isFolded = count > earlier.length;
  return `… and ${counted(count, 'earlier change')}; --json shows ${isFolded ? 'them by month' : 'all'}`;
}

const timeOf = (unixSeconds: number | null) => showTime(unixSeconds === null ? null : new Date(unixSeconds * 1000));

const showDeparture = (leftAt: number) =>
  `The repository has left the organisation, as seen on ${timeOf(leftAt)}: the pull request stays as it was last fetched.`;

async function show(context: Context, document: ExplainDocument, executor?: Executor): Promise<string> {
  const { repository, number, title, author, state, url, id, history, rules, sum } = document;
  const { repository_left_at: leftAt, explained_score: score } = document;
  const latest = history.slice(-keptChanges);
  const earlier = history.slice(0, -keptChanges);
  return [
    `${repository}#${number}  ${brief(title)}`,
    `${state}, by ${brief(author)}  ${url}  ${id}`,
    ...(leftAt === null ? [] : ['', showDeparture(leftAt)]),
    '',
    await showStanding(context, document, executor),
    '',
    showExplanation({ rules, sum, score }),
    '',
    table(
      ['CHANGED', 'FROM', 'TO', 'CAUSE'],
      latest.map(change => [
        timeOf(change.changed_at),
        change.from === null ? '-' : formatInteger(change.from),
        formatInteger(change.to),
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
    .option('--organisation <login>', 'only if it is a pull request of this organisation')
    .option('--server <url>', 'ask this service, with the token in PULLSCORE_TOKEN, instead of the database')
    .examples('explain acme/web#42', 'explain https://github.com/acme/web/pull/42 --rules rules.example.yaml')
    .answer<{ rules?: string } & FromServer>(async ({ rules, organisation: login, server }, text): Promise<Answer> => {
      const target = parseTarget(text);
      if (server !== undefined) {
        if (rules !== undefined) throw new UsageError('--rules needs the database.');
        const path = `explanations/${encodeURIComponent(text)}`;
        const document = (await askServer(context, server, { method: 'GET', path })) as ExplainDocument;
        return { json: document, text: await show(context, document) };
      }
      const file = rules === undefined ? undefined : await loadRules(context, rules);
      return withDeps(context, async deps => {
        const organisation = login === undefined ? undefined : await requireOrganisation(context, deps, login);
        return readSnapshot(deps.database, async executor => {
          const found = await requirePullRequest(context, executor, target, organisation);
          const document = await explainPullRequest(executor, found, file);
          return { json: document, text: await show(context, document, executor) };
        });
      });
    });
}
