import type { Executor } from '../../database/client.ts';
import { ServiceError } from '../../errors.ts';
import {
  absentTarget,
  type ExplanationDocument,
  isOnHost,
  parseTarget,
  readExplanation,
  type Target,
} from '../../reports/explanation.ts';
import type { ExplainedRules } from '../../scoring/explain/explain.ts';
import { keptChanges } from '../../sync/prune.ts';
import { counted, formatInteger } from '../../text/number-formats.ts';
import { brief, labelled, plain, right, shellWord, table } from '../../text/terminal.ts';
import { type Answer, type FromServer, type PullscoreCommand, refuseBoth, withActions } from '../command.ts';
import { type Context, checkUsage, requireOrganisation, showTime, UsageError, withDeps } from '../context.ts';
import { describeRescoring } from '../rescore.ts';
import { loadRules } from '../rules-file.ts';
import { type RunningService, runningService } from '../running-service.ts';
import { showExplanation } from './text.ts';

async function showStanding(context: Context, document: ExplanationDocument, executor?: Executor): Promise<string> {
  const { organisation, file, ruleset_version: version, ruleset_version_in_force: inForce } = document;
  const { explained_score: explained, score_in_force: scoreInForce } = document;
  const score = formatInteger(document.score);
  if (file !== null) return `Score ${formatInteger(explained)} by ${plain(file)}. The stored score is ${score}.`;
  if (inForce === 0) {
    return `Score ${score}: no rules have been applied yet. Apply some: ${context.program} rules apply FILE --organisation ${organisation}`;
  }
  const under = version === 0 ? 'from before the first rules' : `under version ${version} of the rules`;
  const standing = document.outdated
    ? `Score ${score} ${under}. Version ${inForce}, in force, gives ${formatInteger(Number(scoreInForce))}. ${await describeRescoring(context, executor, organisation)}`
    : `Score ${score} ${under}, which is in force.`;
  if (document.outdated || explained === document.score) return standing;
  // Facts, score and version are stored together, so another release probably calculated the score.
  return `${standing}\nThis release calculates ${formatInteger(explained)}, as shown below. The next sync of the pull request updates the stored score.`;
}

type Change = ExplanationDocument['history'][number];

function causeOf({ cause, from, ruleset_version: version }: Change): string {
  if (cause === 'ruleset') return `scored again by version ${version}`;
  const what = from === null ? 'first seen' : 'the pull request changed';
  return version === 0 ? what : `${what}; scored by version ${version}`;
}

function describeEarlier(earlier: readonly Change[]): string {
  const count = earlier.reduce((sum, { changes }) => sum + changes, 0);
  return `… and ${counted(count, 'earlier change')}; --json shows them, the oldest by month`;
}

const timeOf = (unixSeconds: number | null) => showTime(unixSeconds === null ? null : new Date(unixSeconds * 1000));

const showIgnored = (because: string) =>
  `The organisation ignores the repository, because ${because}: the pull request does not count, and stays as it was last fetched.`;

const showDeparture = (leftAt: number) =>
  `The repository has left the organisation, as seen on ${timeOf(leftAt)} UTC: the pull request stays as it was last fetched.`;

/** The line, or several of them with what follows the points below each other. */
function wrapLine(line: string, columns: number): string[] {
  const [start = ''] = /^ *(?:[+−·]?[\d,]* {2})? */.exec(line) ?? [];
  return line.length > columns ? labelled(start, line.slice(start.length), columns) : [line];
}

const nameOf = ({ reviewer }: ExplanationDocument['reviews'][number]) =>
  reviewer === null ? 'somebody who is not a member' : brief(reviewer);

async function show(context: Context, document: ExplanationDocument, executor?: Executor): Promise<string> {
  const { repository, number, title, author, state, url, id, history, rules, sum, reviews = [] } = document;
  const { repository_left_at: leftAt, repository_ignored_because: because, explained_score: score } = document;
  const latest = history.slice(-keptChanges);
  const earlier = history.slice(0, -keptChanges);
  const linesOf = (explained: ExplainedRules) =>
    showExplanation(explained)
      .split('\n')
      .flatMap(line => wrapLine(line, context.columns));
  return [
    `${repository}#${number}  ${brief(title)}`,
    `${state}, by ${brief(author)}  ${url}  ${id}`,
    ...(leftAt === null ? [] : ['', showDeparture(leftAt)]),
    // A service of an earlier release does not say it.
    ...(because ? ['', showIgnored(because)] : []),
    '',
    await showStanding(context, document, executor),
    '',
    ...linesOf({ rules, sum, score }),
    '',
    ...reviews.flatMap(review => [`Review by ${nameOf(review)}:`, '', ...linesOf(review), '']),
    table(
      ['CHANGED (UTC)', right('FROM'), right('TO'), 'CAUSE'],
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

/** As beside the database. */
async function askForExplanation(service: RunningService, target: Target): Promise<ExplanationDocument> {
  const get = <Data>(path: string) => service.ask<Data>({ method: 'GET', path });
  const { text, page } = target;
  let id = text;
  if (page !== undefined) {
    const query = new URLSearchParams({ repository: page.repository, number: String(page.number) });
    const found = await get<{ id: string; url: string }[]>(`pull-requests?${query}`);
    // Latest first: if a repository took the name of one that has left, it is that of the one there now.
    const [latest] = found.filter(({ url }) => isOnHost(target, url));
    if (latest === undefined) throw absentTarget(target);
    id = latest.id;
  }
  const below = `pull-requests/${encodeURIComponent(id)}`;
  try {
    const explanation = await get<Omit<ExplanationDocument, 'file' | 'history'>>(`${below}/explanation`);
    const changes = await get<ExplanationDocument['history']>(`${below}/scores`);
    return { ...explanation, file: null, history: changes.toReversed() };
  } catch (error) {
    throw error instanceof ServiceError && error.code === 'not_found' ? absentTarget(target) : error;
  }
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
    .answer<{ rules?: string } & FromServer>(async (options, text) => {
      const { rules: path, organisation: login, server } = options;
      refuseBoth(options);
      const target = checkUsage(() => parseTarget(text));
      if (server !== undefined && path !== undefined) throw new UsageError('--rules needs the database.');
      const notFound =
        target.page === undefined
          ? 'Copy the id from the API, for example from GET /2026-12/pull-requests.'
          : `If the repository was renamed, give its new name. Otherwise import it: ${context.program} import --organisation LOGIN --repository ${shellWord(target.page.repository)}`;
      return withActions({ not_found: notFound }, async (): Promise<Answer> => {
        if (server !== undefined) {
          const document = await askForExplanation(runningService(context, server), target);
          return { json: document, text: await show(context, document) };
        }
        const rules = path === undefined ? undefined : await loadRules(context, path);
        return withDeps(context, async deps => {
          const organisation = login === undefined ? undefined : await requireOrganisation(context, deps, login);
          const document = await readExplanation(deps, target, { organisationId: organisation?.id, rules });
          return { json: document, text: await show(context, document, deps.database.executor) };
        });
      });
    });
}
