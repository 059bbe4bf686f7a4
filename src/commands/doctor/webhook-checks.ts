/** Checks of the webhook on GitHub, of how its deliveries were answered, and of those that came. */
import { type Config, secretsTried, webhookPath, webhookUrl } from '../../config.ts';
import { countGoneDeliveries } from '../../database/webhook-deliveries.ts';
import { githubWebsite } from '../../github/app-manifest.ts';
import type { GithubHook, HookDelivery } from '../../github/rest.ts';
import { counted, duration } from '../../text/number-formats.ts';
import { subscribedEvents } from '../../webhooks/events.ts';
import { defineCheck, list, ok, problem, skipped, type Verdict, warning } from './findings.ts';
import type { CurrentScope } from './github-checks.ts';
import { command, logs, nameOf, type Scope, type StoredScope } from './scope.ts';

/** Compares addresses, or only paths without PUBLIC_URL. */
function goesHere(config: Config, login: string, { url }: GithubHook): boolean {
  if (url === null || !URL.canParse(url)) return false;
  // This shell may not have the secrets of the service, so both addresses are right, unless these show otherwise.
  const isCommonRight = config.webhookSecrets.length === 0 || secretsTried(config).length > 0;
  const paths = [`${webhookPath}/${login}`, ...(isCommonRight ? [webhookPath] : [])].map(path => path.toLowerCase());
  const address = new URL(url).href.toLowerCase();
  return paths.some(path =>
    config.publicUrl === undefined
      ? address.endsWith(path)
      : address === new URL(config.publicUrl + path).href.toLowerCase(),
  );
}

export const hook = defineCheck('webhooks', 'hook', 'See Webhooks in the settings of the organisation on GitHub.', {
  async ask({ call, inspection, config, current }: CurrentScope) {
    const hooks = await call(() => inspection.findHooks(current));
    const own = hooks.shown.filter(each => goesHere(config, current.login, each));
    const hook = own.find(({ active }) => active) ?? own[0];
    const deliveries = hook === undefined ? [] : await call(() => inspection.listDeliveries(current, hook));
    // For the organisation's owners.
    const settings = `${githubWebsite(config.github.apiUrl)}/organizations/${current.login}/settings/hooks`;
    return { settings, hooks, hook, deliveries };
  },
  judge(facts, scope) {
    const { settings, hooks, hook, deliveries } = facts;
    const { config } = scope;
    const here = webhookUrl(config, scope.organisation.login);
    const setUp = `${here}, content type application/json, the secret of GITHUB_WEBHOOK_SECRET, and the events ${list([...subscribedEvents.values()])}.`;
    if (hook === undefined && hooks.mayHideMore) {
      const scopeHint = config.github.app ? '' : ' (classic token: the scope admin:org_hook)';
      return skipped(
        `${nameOf(config)} can't see the webhook on GitHub. The service works without that.`,
        `Check it at ${settings}: ${setUp} To let doctor check it, grant ${nameOf(config)} the organisation permission Webhooks${scopeHint}.`,
      );
    }
    if (hook === undefined) {
      const other = hooks.shown.find(({ url }) => url?.includes(webhookPath));
      return other === undefined
        ? problem(`No webhook on GitHub goes to ${here}.`, `Add one at ${settings}/new: ${setUp}`)
        : problem(
            `No webhook on GitHub goes to ${here}; one goes to ${other.url}.`,
            `Fix its address at ${settings}, or PUBLIC_URL here.`,
          );
    }
    const page = hook.id === null ? 'the settings of the App' : `${settings}/${hook.id}`;
    const note = config.publicUrl === undefined ? ' (check the address: PUBLIC_URL is not set)' : '';
    // PUBLIC_URL has the right port. An address without a port is that of a proxy.
    const port = config.publicUrl === undefined && hook.url !== null ? new URL(hook.url).port : '';
    const faults = [
      ...checkSettings(hook, page),
      port !== '' &&
        port !== String(config.port) &&
        warning(
          `GitHub delivers to ${hook.url}, and PORT is ${config.port} here.`,
          `If a proxy passes deliveries on from port ${port}, set PUBLIC_URL to its address. Otherwise fix the address at ${page}.`,
        ),
    ];
    return [
      ...(faults.some(Boolean) ? faults : [ok(`GitHub delivers to ${hook.url}${note}.`)]),
      checkAnswers(deliveries, page, scope),
    ];
  },
});

function checkSettings({ active, contentType, hasSecret, events }: GithubHook, page: string) {
  const missing = [...subscribedEvents.keys()].filter(event => !events.includes('*') && !events.includes(event));
  const titles = list(missing.map(event => subscribedEvents.get(event) ?? event));
  const verdict = missing.includes('pull_request') ? problem : warning;
  const type = contentType ?? 'not set';
  const refused = 'pullscore refuses its deliveries';
  return [
    !active && problem('The webhook on GitHub is not active.', `Set it to Active at ${page}.`),
    contentType !== 'json' &&
      problem(`The webhook's content type is ${type}: ${refused}.`, `Choose application/json at ${page}.`),
    !hasSecret &&
      problem(
        `The webhook on GitHub has no secret: ${refused}.`,
        `Set it to the value of GITHUB_WEBHOOK_SECRET at ${page}.`,
      ),
    missing.length > 0 &&
      verdict(`The webhook on GitHub does not send ${list(missing)}.`, `Choose ${titles} at ${page}.`),
  ];
}

/** How the service, or the proxy in front of it, answered. */
function checkAnswers(deliveries: readonly HookDelivery[], page: string, { program }: Scope): Verdict {
  const failed = deliveries.filter(({ statusCode }) => statusCode < 200 || statusCode >= 300);
  const [newest] = failed;
  if (deliveries.length === 0) return ok('GitHub has made no deliveries in the last few days.');
  if (newest === undefined) return ok(`GitHub's last ${counted(deliveries.length, 'delivery', 'deliveries')} arrived.`);
  const ago = duration(Date.now() / 1000 - newest.deliveredAt);
  const answer = `${newest.event}, ${ago} ago: ${newest.statusCode}, ${newest.status}`;
  if (newest !== deliveries[0]) {
    return warning(
      `${failed.length} of GitHub's last ${deliveries.length} deliveries failed, but not the latest (${answer}).`,
      `Redeliver them at ${page}, or wait: the comparison with GitHub finds what changed.`,
    );
  }
  const reach = `Make sure that GitHub can reach PUBLIC_URL: check DNS, firewall, certificate and proxy, and that ${program} serve runs.`;
  const actions: Record<number, string> = {
    401: 'Set the same secret for the webhook on GitHub and in GITHUB_WEBHOOK_SECRET of the service.',
    404: 'Something other than pullscore answered: check the proxy in front of it.',
    413: 'Let the proxy in front of pullscore accept bodies of up to 5 MB.',
    415: 'Choose the content type application/json for the webhook.',
    502: reach,
    503: 'Check that GITHUB_WEBHOOK_SECRET is set for the service, and see its log.',
    504: reach,
  };
  const action = actions[newest.statusCode] ?? `See the answer at ${page}, tab Recent Deliveries.`;
  return problem(`GitHub's latest delivery failed (${answer}).`, action);
}

/** Deliveries that named a pull request which GitHub never showed count for this long. */
export const goneDays = 7;

export const deliveries = defineCheck('webhooks', 'deliveries', logs, {
  ask: async ({ database, organisation, inspecting }: StoredScope) => ({
    ...(await inspecting),
    // Recent ones that named a pull request that GitHub never showed.
    gone: await countGoneDeliveries(database.executor, organisation.id, goneDays),
  }),
  judge({ sinceLastDelivery, lateDeliveries, gone }, scope) {
    const { config, organisation } = scope;
    if (!organisation.webhooksEnabled) {
      return skipped('Disabled here: deliveries are ignored.', `To accept them: ${command(scope, 'webhooks enable')}`);
    }
    const deliveries = (count: number) => counted(count, 'delivery', 'deliveries');
    return [
      sinceLastDelivery !== null &&
        ok(`The last delivery for this organisation came ${duration(sinceLastDelivery)} ago.`),
      sinceLastDelivery === null &&
        config.webhookSecrets.length > 0 &&
        warning(
          'No deliveries have arrived yet, except perhaps a ping.',
          `If something has changed on GitHub since, check that its webhook goes to ${webhookUrl(config, organisation.login)}.`,
        ),
      lateDeliveries > 0 &&
        warning(
          `${deliveries(lateDeliveries)} came more than ten minutes ago and ${lateDeliveries === 1 ? 'is' : 'are'} not applied yet.`,
          `See why: ${command(scope, 'webhooks status')}`,
        ),
      gone > 0 &&
        warning(
          `${deliveries(gone)} in the last ${goneDays} days named a pull request that GitHub never showed.`,
          'Give the credentials access to its repository: an App installed on selected repositories, or a fine-grained token, may lack it. Then redeliver the webhook on GitHub, or import the repository. If the pull request was deleted, there is nothing to do.',
        ),
    ];
  },
});
