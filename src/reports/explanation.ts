import type { Executor } from '../database/client.ts';
import {
  type ExplainablePullRequest,
  findPullRequests,
  isScoreStale,
  listScoreChanges,
} from '../database/explanations.ts';
import { recordOf } from '../database/facts.ts';
import { readSnapshot } from '../database/snapshot.ts';
import type { Deps } from '../deps.ts';
import { badRequest, notFound } from '../errors.ts';
import { formatId, parseId } from '../ids.ts';
import { explainScore } from '../scoring/explain/explain.ts';
import { factsOf } from '../scoring/facts.ts';
import type { Ruleset } from '../scoring/ruleset.ts';
import { brief } from '../text/terminal.ts';
import { unixSeconds } from '../text/times.ts';

/**
 * Parses the address of a pull request's page, or of a page below it; or `owner/name#number`, as this program prints
 * it.
 *
 * @returns without a `host`, any host matches
 */
function parsePage(text: string) {
  const [, name, digit] = /^([\w.-]+\/[\w.-]+)#(0*[1-9]\d{0,8})$/.exec(text) ?? [];
  if (name !== undefined) return { repository: name, number: Number(digit), host: undefined };
  if (!URL.canParse(text)) return undefined;
  const { protocol, host, pathname } = new URL(text);
  const [, repository, digits] = /^\/([\w.-]+\/[\w.-]+)\/pull\/(0*[1-9]\d{0,8})(?:\/.*)?$/.exec(pathname) ?? [];
  if (repository === undefined || !/^https?:$/.test(protocol)) return undefined;
  return { repository, number: Number(digits), host };
}

/**
 * How a reader names a pull request: by its id or its page.
 *
 * @throws ServiceError `bad_request` if the text is neither
 */
export function parseTarget(text: string) {
  const id = parseId('pr', text);
  const page = parsePage(text);
  if (id === undefined && page === undefined && !text.startsWith('pr_')) {
    throw badRequest(
      `"${brief(text)}" is neither a pull request's id nor its page.`,
      "Give pr_…, OWNER/NAME#NUMBER or the page's address, https://github.com/OWNER/NAME/pull/NUMBER.",
    );
  }
  return { text, id, page };
}

export type Target = ReturnType<typeof parseTarget>;

/** Whether a pull request with this page may be the target. */
export const isOnHost = ({ page }: Target, url: string): boolean =>
  page?.host === undefined || (URL.canParse(url) && new URL(url).host === page.host);

export const absentTarget = ({ text }: Target) => notFound(`There is no pull request ${brief(text, 200)} here.`);

const idOf = ({ pullRequest }: ExplainablePullRequest) => formatId('pr', pullRequest.id);

async function findMatches(executor: Executor, target: Target, organisationId: string | undefined) {
  const { id, page } = target;
  const wanted = page ?? (id === undefined ? undefined : { id });
  if (wanted === undefined) return [];
  const found = await findPullRequests(executor, wanted, organisationId);
  return found.filter(({ pullRequest }) => isOnHost(target, pullRequest.url));
}

/** @throws ServiceError if no stored pull request matches the target, or several do */
async function getPullRequest(executor: Executor, target: Target, organisationId: string | undefined) {
  const found = await findMatches(executor, target, organisationId);
  const [first] = found;
  if (first === undefined) throw absentTarget(target);
  if (found.length > 1) {
    const ids = found.map(each => `${idOf(each)} (${each.organisation.login})`);
    throw badRequest(`${brief(target.text, 200)} is stored more than once.`, `Name one by its id: ${ids.join(', ')}.`);
  }
  return first;
}

export type ExplanationDocument = Awaited<ReturnType<typeof readExplanation>>;

/**
 * Explains the score of a pull request.
 *
 * @param options `organisationId`: only if it is a pull request of this organisation; `rules`: a file to explain the score
 * by, instead of stored rules, in this process
 * @throws ServiceError `not_found` if it is not stored
 */
export async function readExplanation(
  { database, scorer }: Pick<Deps, 'database' | 'scorer'>,
  target: Target,
  {
    organisationId: wanted,
    rules,
    signal,
  }: {
    organisationId?: string | undefined;
    rules?: { name: string; ruleset: Ruleset } | undefined;
    signal?: AbortSignal;
  },
) {
  const stored = await readSnapshot(database, async executor => {
    const found = await getPullRequest(executor, target, wanted);
    const { pullRequest, organisation } = found;
    const [organisationId, id] = [organisation.id, pullRequest.id];
    return {
      ...found,
      isOutdated: await isScoreStale(executor, organisationId, pullRequest),
      changes: await listScoreChanges(executor, organisationId, id),
    };
  });
  const { pullRequest, repository, repositoryLeftAt, repositoryIgnoredBecause, organisation, isOutdated, changes } =
    stored;
  const facts = factsOf(recordOf(pullRequest, repository));
  const explain = (version: number) =>
    scorer.run('explain', { organisationId: organisation.id, version, facts }, { signal });
  const inForce = organisation.rulesetVersion;
  // The one in force, or the score's own if the score is out of date.
  const version = isOutdated ? pullRequest.rulesetVersion : inForce;
  const scoreInForce = async () => {
    if (!isOutdated) return pullRequest.score;
    // Suspended rules give no score. A file is explained all the same: it may be what replaces them.
    if (rules !== undefined && inForce === organisation.suspendedVersion) return null;
    return (await explain(inForce)).score;
  };
  const explanation = rules === undefined ? await explain(version) : explainScore(rules.ruleset, facts);
  return {
    id: formatId('pr', pullRequest.id),
    url: pullRequest.url,
    organisation: organisation.login,
    repository,
    repository_left_at: unixSeconds(repositoryIgnoredBecause === null ? repositoryLeftAt : null),
    repository_ignored_because: repositoryIgnoredBecause,
    number: pullRequest.number,
    title: pullRequest.title,
    author: pullRequest.author,
    state: pullRequest.state,
    score: pullRequest.score,
    ruleset_version: rules === undefined ? version : null,
    ruleset_version_in_force: inForce,
    outdated: isOutdated,
    score_in_force: await scoreInForce(),
    explained_score: explanation.score,
    sum: explanation.sum,
    rules: explanation.rules,
    reviews: explanation.reviews,
    would_change: (pullRequest.state === 'open' || pullRequest.state === 'draft' ? explanation.waiting : []).map(
      ({ rule, entry, potential, missing }) => ({
        rule,
        entry,
        effect: potential === 0 ? null : potential,
        once: missing,
      }),
    ),
    // The name of the rules file that is explained.
    file: rules?.name ?? null,
    history: changes.map(representChange).toReversed(),
  };
}

export const representChange = (change: Awaited<ReturnType<typeof listScoreChanges>>[number]) => ({
  changed_at: Math.floor(change.changedAt.getTime() / 1000),
  from: change.fromScore,
  to: change.toScore,
  cause: change.cause,
  ruleset_version: change.rulesetVersion,
  changes: change.changes,
});
