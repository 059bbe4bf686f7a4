import { ServiceError } from '../errors.ts';
import type { GithubConfig, OrganisationReference } from './credentials.ts';
import { errorOfFailures, type GithubError, type GraphqlFailure } from './errors.ts';
import {
  type GithubIdentity,
  type GithubOrganisation,
  type GithubRepository,
  membersQuery,
  organisationByLoginQuery,
  organisationQuery,
  readIdentity,
  readMember,
  readOrganisation,
  readRepository,
  repositoriesQuery,
  repositoryQuery,
} from './organisation.ts';
import type { MemberPage, Page, PageChoice, PullRequestPage, RepositoryPage } from './pages.ts';
import {
  type ListedPullRequest,
  pullRequestListQuery,
  pullRequestPageQuery,
  pullRequestsQuery,
} from './pull-request.ts';
import { entries, flag, list, Misfit, present } from './reading.ts';
import {
  answerAt,
  type FetchResult,
  isOfEdge,
  misfitError,
  nodeIdOf,
  read,
  readEntry,
  readListed,
  readListedRepositories,
  readPageInfo,
} from './replies.ts';
import { createTransport, type GithubOptions, type GithubRequest } from './transport.ts';

/** GitHub takes up to 100; with every fact of each, 50 is what it answers in time. */
export const maxPullRequests = 50;

/** As many as GitHub takes. */
export const maxRepositories = 100;

/** As many as GitHub takes. */
export const maxMembers = 100;

/**
 * GitHub as this service needs it. Each method makes one GraphQL request and settles within the time limit; nothing
 * is repeated, except once where a connection breaks before the reply. All throw {@link ServiceError}, most a
 * {@link GithubError} that says whether less may pass (`tooMuch`) and when to come back (`retryAfter`). An aborted
 * `signal` rejects with its reason. The App's installation on `organisation` gives the credentials.
 */
export interface Github {
  /** False without credentials: every method throws `github_not_configured`. */
  readonly configured: boolean;
  /** Tells of every request that is sent from now on. @returns ends that */
  onRequest(listener: (request: GithubRequest) => void): () => void;
  /** @param nodeIds up to {@link maxPullRequests}; the result has each of them. */
  fetchPullRequests(
    organisation: OrganisationReference,
    nodeIds: readonly string[],
    signal?: AbortSignal,
  ): Promise<Map<string, FetchResult>>;
  /** Undefined where GitHub does not show the repository. */
  pagePullRequests(
    organisation: OrganisationReference,
    repositoryNodeId: string,
    choice: PageChoice,
    signal?: AbortSignal,
  ): Promise<PullRequestPage | undefined>;
  /** The same page without the facts; what GitHub can't even name is left out. */
  listPullRequests(
    organisation: OrganisationReference,
    repositoryNodeId: string,
    choice: PageChoice,
    signal?: AbortSignal,
  ): Promise<Page<ListedPullRequest> | undefined>;
  /**
   * Repositories, oldest first.
   * @param choice `pageSize` is up to {@link maxRepositories}; without `facts` the page has no items, only its end
   * @throws not_found if GitHub does not show the organisation
   */
  pageRepositories(
    organisation: GithubIdentity,
    choice: { after: string | null; pageSize: number; facts?: boolean },
    signal?: AbortSignal,
  ): Promise<RepositoryPage>;
  /** By its name now or a former one. @throws not_found where GitHub does not show the organisation. */
  findRepository(
    organisation: GithubIdentity,
    name: string,
    signal?: AbortSignal,
  ): Promise<{ organisation: GithubIdentity; repository: GithubRepository | undefined }>;
  /** @throws not_found if GitHub does not show the organisation. */
  pageMembers(
    organisation: GithubIdentity,
    after: string | null,
    pageSize?: number,
    signal?: AbortSignal,
  ): Promise<MemberPage>;
  findOrganisation(organisation: OrganisationReference, signal?: AbortSignal): Promise<GithubOrganisation | undefined>;
}

/** Imports Octokit on the first request only. @see GithubOptions for time and size limits. */
export function createGithub(config: GithubConfig, options: GithubOptions = {}): Github {
  const transport = createTransport(config, options);
  const names = transport.credentialNames;

  const unknownOrganisation = (login: string) =>
    new ServiceError('not_found', `GitHub shows no organisation ${login} to ${names}.`, {
      action: 'Check their rights, and that it is still there.',
    });

  return {
    configured: config.app !== undefined || Boolean(config.token),
    onRequest: transport.onRequest,

    async fetchPullRequests(organisation, nodeIds, signal) {
      if (nodeIds.length === 0) return new Map();
      if (nodeIds.length > maxPullRequests) throw new RangeError(`More than ${maxPullRequests} pull requests at once`);
      const subject = nodeIds.length === 1 ? `the pull request ${nodeIds[0]}` : `${nodeIds.length} pull requests`;
      const { data, failures } = await transport.graphql(
        pullRequestsQuery,
        { ids: nodeIds },
        { organisation, subject, signal },
      );
      const nodes = 'nodes' in data ? data.nodes : undefined;
      if (!Array.isArray(nodes) || nodes.length !== nodeIds.length) {
        throw failures.length > 0
          ? errorOfFailures(failures, subject, names)
          : misfitError(new Misfit('nodes are missing'), subject);
      }
      return new Map(
        nodeIds.map((nodeId, index) => [
          nodeId,
          readEntry(nodes[index], ['nodes', index], failures, {
            subject: `the pull request ${nodeId}`,
            credentials: names,
          }),
        ]),
      );
    },

    async pagePullRequests(organisation, repositoryNodeId, choice, signal) {
      const answer = await askPage(pullRequestPageQuery, organisation, repositoryNodeId, choice, signal);
      if (answer === undefined) return undefined;
      const { repository, failures, subject } = answer;
      return read(subject, () => {
        const page: PullRequestPage = {
          items: [],
          failed: [],
          ...readPageInfo(repository, 'pullRequests', choice.after),
        };
        entries(repository, 'pullRequests.nodes').forEach((node, index) => {
          const result = readEntry(node, ['node', 'pullRequests', 'nodes', index], failures, {
            subject,
            credentials: names,
          });
          if (result.status === 'found') page.items.push(result.pullRequest);
          if (result.status === 'failed') page.failed.push({ nodeId: nodeIdOf(node), error: result.error });
        });
        return page;
      });
    },

    async listPullRequests(organisation, repositoryNodeId, choice, signal) {
      const answer = await askPage(pullRequestListQuery, organisation, repositoryNodeId, choice, signal);
      if (answer === undefined) return undefined;
      const { repository, subject } = answer;
      return read(subject, () => ({
        items: list(repository, 'pullRequests.nodes').flatMap(readListed),
        ...readPageInfo(repository, 'pullRequests', choice.after),
      }));
    },

    async pageRepositories(organisation, { after, pageSize, facts = true }, signal) {
      const subject = `the repositories of ${organisation.login}`;
      const variables = { first: pageSize, after, facts };
      const request = { organisation, subject, signal };
      const { answer, failures, repliedAt } = await askOrganisation(repositoriesQuery, variables, request, isOfEdge);
      const words = { subject: `a repository of ${organisation.login}`, credentials: names };
      return read(subject, () => ({
        organisation: readIdentity(answer),
        repliedAt,
        ...readListedRepositories(answer, failures, words),
        ...readPageInfo(answer, 'repositories', after),
      }));
    },

    async pageMembers(organisation, after, pageSize = maxMembers, signal) {
      const subject = `the members of ${organisation.login}`;
      const variables = { first: pageSize, after };
      const { answer, repliedAt } = await askOrganisation(membersQuery, variables, { organisation, subject, signal });
      return read(subject, () => ({
        organisation: readIdentity(answer),
        repliedAt,
        // An App is never a member, and sees them all.
        isPublicOnly: config.app === undefined && !flag(answer, 'viewerIsAMember'),
        items: list(answer, 'membersWithRole.nodes').map(readMember),
        ...readPageInfo(answer, 'membersWithRole', after),
      }));
    },

    async findRepository(organisation, name, signal) {
      const subject = `the repository ${organisation.login}/${name}`;
      const { answer } = await askOrganisation(repositoryQuery, { name }, { organisation, subject, signal });
      return read(subject, () => ({
        organisation: readIdentity(answer),
        repository: present(answer, 'repository') ? readRepository(answerAt(answer, 'repository', subject)) : undefined,
      }));
    },

    async findOrganisation(organisation, signal) {
      const { login, nodeId } = organisation;
      const subject = `the organisation ${login}`;
      const isKnown = typeof nodeId === 'string';
      const { data, failures } = await transport.graphql(
        isKnown ? organisationQuery : organisationByLoginQuery,
        isKnown ? { id: nodeId } : { login },
        { organisation, subject, signal },
      );
      requireWhole(
        failures.filter(failure => failure.path[1] !== 'membersWithRole'),
        subject,
      );
      const answer = answerAt(data, isKnown ? 'node' : 'organization', subject);
      return answer === null ? undefined : read(subject, () => readOrganisation(answer));
    },
  };

  /** Undefined where GitHub does not show the repository. */
  async function askPage(
    query: string,
    organisation: OrganisationReference,
    repositoryNodeId: string,
    { order, after, pageSize }: PageChoice,
    signal: AbortSignal | undefined,
  ) {
    const subject = `the pull requests of repository ${repositoryNodeId}`;
    const orderBy =
      order === 'created' ? { field: 'CREATED_AT', direction: 'ASC' } : { field: 'UPDATED_AT', direction: 'DESC' };
    const { data, failures } = await transport.graphql(
      query,
      { repository: repositoryNodeId, first: Math.min(pageSize, maxPullRequests), after, orderBy },
      { organisation, subject, signal },
    );
    const repository = answerAt(data, 'node', subject);
    // What failed within a page that is there is told entry by entry.
    if (!present(repository, 'pullRequests')) requireWhole(failures, subject);
    return repository === null ? undefined : { repository, failures, subject };
  }

  /**
   * @param isPartial chooses failures that only concern a part of the answer: they are returned with it
   * @throws not_found if GitHub does not show the organisation
   */
  async function askOrganisation(
    query: string,
    variables: Record<string, unknown>,
    request: { organisation: GithubIdentity; subject: string; signal: AbortSignal | undefined },
    isPartial: (failure: GraphqlFailure) => boolean = () => false,
  ): Promise<{ answer: object; failures: GraphqlFailure[]; repliedAt: number }> {
    const { organisation, subject } = request;
    const { data, failures, repliedAt } = await transport.graphql(
      query,
      { id: organisation.nodeId, ...variables },
      request,
    );
    requireWhole(
      failures.filter(failure => !isPartial(failure)),
      subject,
    );
    const answer = answerAt(data, 'node', subject);
    if (answer === null) throw unknownOrganisation(organisation.login);
    if (typeof answer !== 'object') throw misfitError(new Misfit('node is no object'), subject);
    return { answer, failures: failures.filter(isPartial), repliedAt };
  }

  /** Lets only "not found" pass, which the absent value tells as well. */
  function requireWhole(failures: GraphqlFailure[], subject: string): void {
    const others = failures.filter(failure => failure.type !== 'NOT_FOUND');
    if (others.length > 0) throw errorOfFailures(others, subject, names);
  }
}
