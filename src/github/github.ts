import { notFound, ServiceError } from '../errors.ts';
import { type CheckRun, checkRunsMutation, errorsOfCheckRuns } from './check-runs.ts';
import type { GithubConfig, OrganisationReference } from './credentials.ts';
import { UnexpectedReply } from './decode.ts';
import { readFurtherPages } from './further-pages.ts';
import { errorOfFailures, type GithubError, type GraphqlFailure } from './github-error.ts';
import {
  type GithubIdentity,
  membersQuery,
  organisationByLoginQuery,
  organisationQuery,
  readListedRepository,
  readLost,
  readMembers,
  readNamedRepository,
  readOrganisation,
  readRepositories,
  repositoriesQuery,
  repositoryOwnersQuery,
  repositoryQuery,
} from './organisation.ts';
import { isPullRequestPage, readListedPullRequest, readPullRequestPage } from './pull-request.ts';
import { pullRequestListQuery, pullRequestsQuery } from './pull-request-queries.ts';
import {
  answerAt,
  type FetchResult,
  isOfEdge,
  isOfPullRequest,
  read,
  readEntry,
  readPage,
  unexpectedReplyError,
} from './reply-entries.ts';
import { createTransport, type GithubOptions, type RequestContext, type RequestListener } from './transport.ts';

/** GitHub allows 100, but with all their facts it answers only 50 in time. */
export const maxPullRequests = 50;

/** GitHub's limit for pages of anything else. */
export const maxPageSize = 100;

export interface Github extends ReturnType<typeof createQueries> {
  /** False without credentials: every method throws `github_not_configured`. */
  readonly configured: boolean;
  /** Only an App can. */
  readonly canWriteChecks: boolean;
  /** Reports every request of this process from now on. @returns a function that ends this */
  onRequest(listener: RequestListener): () => void;
  /** The same client; `meter` is told about the requests that are made through it. */
  metered(meter: RequestListener): Github;
}

/**
 * What this service asks GitHub. Each method sends one GraphQL request, which settles within the time limit; those that
 * fetch pull requests send up to 29 more if lists have further pages. All methods throw {@link ServiceError}, mostly a
 * {@link GithubError}. An App uses its installation on `organisation`.
 */
export function createGithub(config: GithubConfig, options: GithubOptions = {}): Github {
  const transport = createTransport(config, options);
  const withMeter = (meter: RequestListener | undefined): Github => ({
    configured: config.app !== undefined || Boolean(config.token),
    canWriteChecks: config.app !== undefined,
    onRequest: transport.onRequest,
    metered: inner =>
      withMeter(request => {
        meter?.(request);
        inner(request);
      }),
    ...createQueries(config, transport, meter),
  });
  return withMeter(undefined);
}

type Transport = ReturnType<typeof createTransport>;

function createQueries(config: GithubConfig, transport: Transport, meter: RequestListener | undefined) {
  const names = transport.credentialNames;
  const graphql = (...[query, variables, context]: Parameters<Transport['graphql']>) =>
    transport.graphql(query, variables, context, meter);

  return {
    /**
     * @param nodeIds up to {@link maxPullRequests}; the result has all of them
     * @param deadline of all requests together, by `performance.now()`
     */
    async fetchPullRequests(organisation: OrganisationReference, nodeIds: readonly string[], deadline?: number) {
      const subject = nodeIds.length === 1 ? `the pull request ${nodeIds[0]}` : `${nodeIds.length} pull requests`;
      const context = { organisation, subject, deadline };
      const { nodes, failures } = await askNodes(pullRequestsQuery, nodeIds, context);
      // With all pages of their lists.
      const incomplete = await readFurtherPages(nodes, (...query) => graphql(...query, context), names);
      return new Map(
        nodeIds.map((nodeId, index): [string, FetchResult] => {
          const error = incomplete.get(nodes[index]);
          if (error !== undefined) return [nodeId, { status: 'failed', error }];
          const words = { subject: `the pull request ${nodeId}`, credentials: names };
          return [nodeId, readEntry(nodes[index], ['nodes', index], failures, words)];
        }),
      );
    },

    /**
     * The ids and times of a repository's pull requests in all states, oldest first or latest change first; undefined if
     * GitHub does not show the repository. `failed` says why entries are missing.
     */
    async listPullRequests(
      organisation: OrganisationReference,
      repositoryNodeId: string,
      { order, after, pageSize }: { order: 'created' | 'updated'; after: string | null; pageSize: number },
    ) {
      const subject = `the pull requests of repository ${repositoryNodeId}`;
      const orderBy =
        order === 'created' ? { field: 'CREATED_AT', direction: 'ASC' } : { field: 'UPDATED_AT', direction: 'DESC' };
      const variables = { repository: repositoryNodeId, first: pageSize, after, orderBy };
      // Failures of single pull requests are reported one by one.
      const isOfEntry = (failure: GraphqlFailure, data: object) =>
        isPullRequestPage(answerAt(data, 'node', subject)) && isOfPullRequest(failure);
      const context = { organisation, subject };
      const { answer, failures } = await askField('node', pullRequestListQuery, variables, context, isOfEntry);
      if (answer === null) return undefined;
      const { nodes, pageInfo } = read(subject, () => readPullRequestPage(answer));
      const words = { subject: `a pull request of repository ${repositoryNodeId}`, credentials: names };
      return { ...pageInfo, ...readPage(nodes, failures.filter(isOfPullRequest), readListedPullRequest, words) };
    },

    /**
     * Repositories, oldest first. `failed` says why entries are missing.
     * @param choice without `facts` the page has no items, only its end
     * @throws not_found if GitHub does not show the organisation
     */
    async pageRepositories(
      organisation: GithubIdentity,
      { after, pageSize, facts = true }: { after: string | null; pageSize: number; facts?: boolean },
    ) {
      const subject = `the repositories of ${organisation.login}`;
      const variables = { first: pageSize, after, facts };
      const context = { organisation, subject };
      const { answer, failures, repliedAt } = await askOrganisation(
        repositoriesQuery,
        variables,
        context,
        readRepositories,
      );
      const { edges, ...page } = answer;
      const words = { subject: `a repository of ${organisation.login}`, credentials: names };
      return { ...page, repliedAt, ...readPage(edges, failures, readListedRepository, words) };
    },

    /**
     * `isPublicOnly`: GitHub may hide private members: the token's owner is not a member, or the credentials lack the
     * permission. For the permission REST is asked, if `asksRest`.
     * @throws not_found if GitHub does not show the organisation
     */
    async pageMembers(
      organisation: GithubIdentity,
      after: string | null,
      { pageSize = maxPageSize, asksRest = true }: { pageSize?: number; asksRest?: boolean } = {},
    ) {
      const variables = { first: pageSize, after };
      const context = { organisation, subject: `the members of ${organisation.login}` };
      const { answer, repliedAt } = await askOrganisation(membersQuery, variables, context, readMembers);
      const { viewerIsAMember, ...page } = answer;
      const isOutsider = config.app === undefined && !viewerIsAMember;
      const isPublicOnly = isOutsider || (asksRest && !(await transport.readsMembers(organisation)));
      return { ...page, repliedAt, isPublicOnly };
    },

    readsMembers: transport.readsMembers,

    /** Finds it by its current or a former name. @throws not_found if GitHub does not show the organisation */
    async findRepository(organisation: GithubIdentity, name: string) {
      const context = { organisation, subject: `the repository ${organisation.login}/${name}` };
      return (await askOrganisation(repositoryQuery, { name }, context, readNamedRepository)).answer;
    },

    /**
     * @param nodeIds of repositories, up to {@link maxPageSize}
     * @returns those that GitHub does not show, or shows with another owner; not those on which it failed
     */
    async findLostRepositories(organisation: GithubIdentity, nodeIds: readonly string[]): Promise<Set<string>> {
      const subject = `${nodeIds.length} repositories`;
      const { nodes, failures } = await askNodes(repositoryOwnersQuery, nodeIds, { organisation, subject });
      return readLost(organisation.githubId, nodeIds, nodes, failures);
    },

    /** @returns for each of them why GitHub did not create it; undefined if it did */
    async createCheckRuns(organisation: OrganisationReference, runs: readonly CheckRun[]) {
      const { query, variables } = checkRunsMutation(runs);
      const subject = `${runs.length} check runs`;
      const { data, failures } = await graphql(query, variables, { organisation, subject });
      return errorsOfCheckRuns(runs, data, failures, names);
    },

    async findOrganisation(organisation: OrganisationReference) {
      const { login, nodeId } = organisation;
      const context = { organisation, subject: `the organisation ${login}` };
      const { answer } =
        typeof nodeId === 'string'
          ? await askField('node', organisationQuery, { id: nodeId }, context)
          : await askField('organization', organisationByLoginQuery, { login }, context);
      return answer === null ? undefined : read(context.subject, () => readOrganisation(answer));
    },
  };

  /** Fetches the nodes with these ids. */
  async function askNodes(query: string, nodeIds: readonly string[], context: RequestContext) {
    const { data, failures } = await graphql(query, { ids: nodeIds }, context);
    const nodes: unknown = 'nodes' in data ? data.nodes : undefined;
    if (Array.isArray(nodes) && nodes.length === nodeIds.length) return { nodes: nodes as unknown[], failures };
    throw failures.length > 0
      ? errorOfFailures(failures, context.subject, names)
      : unexpectedReplyError(new UnexpectedReply('nodes are missing'), context.subject);
  }

  /**
   * @param reader reads GitHub's answer about the organisation
   * @returns also the failures that concern single repositories of a page
   * @throws not_found if GitHub does not show the organisation
   */
  async function askOrganisation<Answer>(
    query: string,
    variables: Record<string, unknown>,
    context: RequestContext & { organisation: GithubIdentity },
    reader: (answer: unknown) => Answer,
  ) {
    const { organisation, subject } = context;
    const all = { id: organisation.nodeId, ...variables };
    const { answer, failures, repliedAt } = await askField('node', query, all, context, isOfEdge);
    if (answer === null) {
      throw notFound(
        `GitHub shows no organisation ${organisation.login} to ${names}.`,
        'Check that the organisation still exists and that the credentials may read it.',
      );
    }
    return { answer: read(subject, () => reader(answer)), failures: failures.filter(isOfEdge), repliedAt };
  }

  /**
   * Asks for a query's only field; null if GitHub does not show it. Throws if anything failed. A failure of "not found"
   * is ignored: the missing value shows it, too.
   *
   * @param isOfEntry whether a failure is about a single entry of a page: the caller reports it
   */
  async function askField(
    name: string,
    query: string,
    variables: Record<string, unknown>,
    context: RequestContext,
    isOfEntry: (failure: GraphqlFailure, data: object) => boolean = () => false,
  ) {
    const { data, failures, repliedAt } = await graphql(query, variables, context);
    const others = failures.filter(failure => failure.type !== 'NOT_FOUND' && !isOfEntry(failure, data));
    if (others.length > 0) throw errorOfFailures(others, context.subject, names);
    return { answer: answerAt(data, name, context.subject), failures, repliedAt };
  }
}
