/** What the database holds of an organisation, and whether it is kept up to date. */
import type { Config } from '../../config.ts';
import type { Database } from '../../database/client.ts';
import { inspectOrganisation, type OrganisationInspection } from '../../database/inspection.ts';
import type { Organisation } from '../../database/organisations.ts';
import { countOutdated } from '../../database/rescoring.ts';
import { getRuleset } from '../../database/rules.ts';
import {
  countSyncRequests,
  listFailingRequests,
  maxRefetchesPerHour,
  type SyncRequestCounts,
} from '../../database/sync-requests.ts';
import { countGoneDeliveries, goneDays } from '../../database/webhook-deliveries.ts';
import { compileRuleset } from '../../scoring/ruleset.ts';
import type { Context } from '../context.ts';
import { counted } from '../numbers.ts';
import {
  check,
  duration,
  type Finding,
  finding,
  list,
  ok,
  problem,
  skipped,
  type Verdict,
  warning,
} from './findings.ts';
import { destination } from './hooks.ts';

/** @param workers processes that do the upkeep */
export async function lookAtOrganisation(
  context: Context,
  config: Config,
  { executor }: Database,
  organisation: Organisation,
  workers: number,
): Promise<Finding[]> {
  const { id, login } = organisation;
  const { program } = context;
  const about = (area: 'organisations' | 'upkeep' | 'webhooks', name: string) => ({ area, name, organisation: login });
  const remedy = 'See the log of the service, and that of the database.';
  const inspecting = inspectOrganisation(executor, id);
  const findings = await Promise.all([
    check(
      about('organisations', 'rules'),
      async () => {
        const { rulesetVersion } = organisation;
        if (rulesetVersion === 0) {
          return warning(
            'No rules are in force: every score is 0.',
            `Apply some: ${program} rules apply rules.example.yaml --organisation ${login}`,
          );
        }
        const rules = await getRuleset(executor, id, rulesetVersion);
        const { problems } = compileRuleset(rules);
        if (problems[0] === undefined) {
          return ok(`${counted(rules.length, 'rule')} in force, version ${rulesetVersion}.`);
        }
        return warning(
          `Rules that this release no longer takes count nothing: ${problems[0].message}`,
          `Mend and apply them: ${program} rules export --organisation ${login}`,
        );
      },
      remedy,
    ),
    check(about('organisations', 'people'), async () => peopleVerdicts(program, login, await inspecting), remedy),
    check(
      about('organisations', 'scores'),
      async () => {
        const { outdated, total } = await countOutdated(executor, id);
        if (total === 0) {
          return warning('No pull request is here yet.', `Bring them in: ${program} import --organisation ${login}`);
        }
        if (outdated === 0) return ok(`${counted(total, 'pull request')}, all scored by the rules in force.`);
        const found = `${outdated} of ${total} scores wait to be brought up to date with the rules.`;
        return workers > 0 ? ok(found) : warning(found, `Run: ${program} rescore --organisation ${login}`);
      },
      remedy,
    ),
    check(
      about('webhooks', 'deliveries'),
      async () => {
        const gone = await countGoneDeliveries(executor, id);
        return deliveryVerdicts(context, config, organisation, await inspecting, gone);
      },
      remedy,
    ),
    check(
      about('upkeep', 'requests'),
      async () => {
        const [counts, failing] = await Promise.all([
          countSyncRequests(executor, id),
          listFailingRequests(executor, id, 1),
        ]);
        return requestVerdicts(program, login, counts, failing[0], workers);
      },
      remedy,
    ),
    check(
      about('upkeep', 'comparison'),
      async () => {
        if (config.reconcileInterval === 0) return skipped('Repositories are not compared: RECONCILE_INTERVAL is 0.');
        if (!organisation.webhooksEnabled) return skipped('Repositories are not compared: webhooks are disabled.');
        const inspection = await inspecting;
        return [comparisonVerdict(program, inspection, workers), ...sweepVerdicts(config, inspection)];
      },
      remedy,
    ),
  ]);
  return findings.flat();
}

/** Seconds after which what is due should have been begun. */
const overdue = 120;

function comparisonVerdict(program: string, { untilComparison }: OrganisationInspection, workers: number): Verdict {
  if (untilComparison > 0) return ok(`Repositories are next compared with GitHub in ${duration(untilComparison)}.`);
  if (untilComparison > -overdue) return ok('Repositories are about to be compared with GitHub.');
  const late = `The comparison with GitHub is overdue since ${duration(-untilComparison)}.`;
  return workers > 0
    ? warning(late, 'See the log of the service: it says what keeps it from comparing.')
    : warning(late, `Start ${program} serve, or worker: nothing compares while neither runs.`);
}

/** Whether the pull requests are fetched again as often as docs/rules.md says. */
function sweepVerdicts(
  { github }: Config,
  { pullRequests, sinceOldestFetch, organisations }: OrganisationInspection,
): Verdict[] {
  // Organisations share the points of a token; each has those of an App to itself.
  const perHour = maxRefetchesPerHour / (github.app === undefined ? Math.max(1, organisations) : 1);
  const promisedSeconds = Math.max(86_400, (pullRequests / perHour) * 3_600);
  if (sinceOldestFetch === null || sinceOldestFetch < 2 * promisedSeconds) return [];
  return [
    warning(
      `Some pull requests were last fetched ${duration(sinceOldestFetch)} ago: what changed there without a webhook is not known yet.`,
      'Comparisons catch up with that while they run and GitHub has points left; see the log of the service.',
    ),
  ];
}

function peopleVerdicts(program: string, login: string, { members, users, tokens }: OrganisationInspection): Verdict[] {
  const verdicts: Verdict[] = [];
  if (members === 0) {
    verdicts.push(
      warning(
        'No member is known: only pull requests of those whom GitHub marks as members are kept.',
        `Take over the list: ${program} members sync --organisation ${login}`,
      ),
    );
  }
  if (users === 0) {
    verdicts.push(
      warning(
        'There is no user, so that nobody can read the scores.',
        `Add one: ${program} user add --organisation ${login} --name NAME --email EMAIL`,
      ),
    );
  } else if (tokens === 0) {
    verdicts.push(
      warning(
        'No user has a valid access token.',
        `Create one: ${program} token create --user EMAIL --organisation ${login}`,
      ),
    );
  }
  if (verdicts.length > 0) return verdicts;
  const each = [counted(members, 'member'), counted(users, 'user'), counted(tokens, 'valid access token')];
  return [ok(`${list(each)}.`)];
}

function deliveryVerdicts(
  { program }: Context,
  config: Config,
  { login, webhooksEnabled }: Organisation,
  { sinceLastDelivery, lateDeliveries }: OrganisationInspection,
  gone: number,
): Verdict[] {
  if (!webhooksEnabled) {
    return [
      skipped(
        'Disabled here: deliveries are ignored.',
        `To take them: ${program} webhooks enable --organisation ${login}`,
      ),
    ];
  }
  const verdicts: Verdict[] = [];
  if (sinceLastDelivery !== null) {
    verdicts.push(ok(`The last delivery about this organisation came ${duration(sinceLastDelivery)} ago.`));
  } else if (config.webhookSecrets.length > 0) {
    verdicts.push(
      warning(
        'No delivery has come yet, or only a ping.',
        `Unless nothing has happened there yet, see that the webhook on GitHub goes to ${destination(config)}.`,
      ),
    );
  }
  if (lateDeliveries > 0) {
    verdicts.push(
      warning(
        `Not applied yet, though they came more than ten minutes ago: ${counted(lateDeliveries, 'delivery', 'deliveries')}.`,
        `See why: ${program} webhooks status --organisation ${login}`,
      ),
    );
  }
  if (gone > 0) {
    verdicts.push(
      warning(
        `GitHub never showed the pull request of ${counted(gone, 'delivery', 'deliveries')} within the last ${goneDays} days.`,
        'Let the credentials read its repository: an App installed on selected repositories, or a fine-grained token, may lack it. If the pull request was deleted, there is nothing to do.',
      ),
    );
  }
  return verdicts;
}

function requestVerdicts(
  program: string,
  login: string,
  { waiting, behind, failing, parked, overdueSeconds }: SyncRequestCounts,
  first: { name: string | null; nodeId: string; reason: string } | undefined,
  workers: number,
): Verdict[] {
  const verdicts: Verdict[] = [];
  const wait = `${counted(waiting, 'pull request waits', 'pull requests wait')} to be synced`;
  const retry = `When that is fixed: ${program} webhooks retry --organisation ${login}`;
  const example = first === undefined ? '.' : `, such as ${first.name ?? first.nodeId}: ${first.reason}`;
  if (parked > 0) {
    const found = counted(parked, 'pull request kept failing and is', 'pull requests kept failing and are');
    verdicts.push(problem(`${found} parked${example}`, retry));
  }
  const again = failing - parked;
  if (again > 0) {
    const found = counted(
      again,
      'pull request could not be synced and is',
      'pull requests could not be synced and are',
    );
    verdicts.push(warning(`${found} tried again${parked > 0 ? '.' : example}`, retry));
  }
  if (overdueSeconds > overdue) {
    const late = `${wait}, the first for ${duration(overdueSeconds)}.`;
    verdicts.push(
      workers > 0
        ? warning(late, 'See the log of the service; more processes share the work.')
        : problem(late, `Start ${program} serve, or worker where WORKER=false: nothing syncs while neither runs.`),
    );
  }
  if (verdicts.length > 0) return verdicts;
  if (waiting === 0) return [ok('No pull request waits to be synced.')];
  return [ok(behind === 0 ? `${wait}.` : `${wait}, ${behind} of them until GitHub shows what a webhook announced.`)];
}

/** @param workers processes that do the upkeep */
export function lookAtWorkers({ program }: Context, { worker }: Config, workers: number): Finding {
  const place = { area: 'upkeep', name: 'workers' } as const;
  if (workers > 0) {
    return finding(
      place,
      ok(
        `${counted(workers, 'process', 'processes')} on this database ${workers === 1 ? 'keeps' : 'keep'} pull requests and scores up to date.`,
      ),
    );
  }
  return finding(
    place,
    warning(
      `No process keeps pull requests and scores up to date${worker ? '' : ', and WORKER is false here'}.`,
      worker ? `Start the service: ${program} serve` : `Start one beside the service: ${program} worker`,
    ),
  );
}
