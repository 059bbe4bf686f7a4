import { errorOfFailures, type GithubError, type GraphqlFailure, githubRefused, isRefusal } from './github-error.ts';
import { permissionTitles } from './permissions.ts';

/**
 * A check run that neither fails nor blocks anything. GitHub shows the latest of a name on a commit, so a new one takes
 * the place of the one before: https://docs.github.com/en/rest/guides/using-the-rest-api-to-interact-with-checks
 */
export interface CheckRun {
  repositoryNodeId: string;
  /** The commit that it belongs to. */
  headSha: string;
  /** Ours: the pull request's id, shown by GitHub's API. */
  externalId: string;
  title: string;
  /** In GitHub's Markdown. */
  summary: string;
}

/** GitHub takes 65,535 characters: https://docs.github.com/en/rest/checks/runs. Some room is left for the last line. */
export const maxSummaryBytes = 65_000;

/** One request for all of them: each is a mutation of its own, which may fail alone. */
export function checkRunsMutation(runs: readonly CheckRun[]) {
  const declared = runs.map((_, index) => `$run${index}: CreateCheckRunInput!`);
  const mutations = runs.map((_, index) => `run${index}: createCheckRun(input: $run${index}) { checkRun { id } }`);
  const inputs = runs.map(({ repositoryNodeId, headSha, externalId, title, summary }, index) => [
    `run${index}`,
    {
      repositoryId: repositoryNodeId,
      headSha,
      externalId,
      name: 'pullscore',
      status: 'COMPLETED',
      conclusion: 'NEUTRAL',
      output: { title, summary },
    },
  ]);
  return {
    query: `\nmutation CheckRuns(${declared.join(', ')}) {\n  ${mutations.join('\n  ')}\n}`,
    variables: Object.fromEntries(inputs) as Record<string, unknown>,
  };
}

/** Why GitHub did not create each of them; undefined if it did. */
export const errorsOfCheckRuns = (
  runs: readonly CheckRun[],
  data: object,
  failures: readonly GraphqlFailure[],
  credentials: string,
): (GithubError | undefined)[] =>
  runs.map(({ headSha }, index) => {
    const own = failures.filter(({ path }) => path.length === 0 || path[0] === `run${index}`);
    const refusal = own.find(isRefusal);
    if (refusal !== undefined) {
      return githubRefused(
        `GitHub does not let the App write checks: "${refusal.message}"`,
        `Give it the permission ${permissionTitles.get('checks')}, read and write, and accept that in the organisation.`,
        { cause: own },
      );
    }
    const created = (data as Record<string, { checkRun?: unknown } | null | undefined>)[`run${index}`]?.checkRun;
    return created ? undefined : errorOfFailures(own, `a check run on the commit ${headSha}`, credentials);
  });
