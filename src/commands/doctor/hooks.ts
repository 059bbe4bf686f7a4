/** Whether GitHub's webhooks come here, as far as GitHub lets the credentials see. */
import type { Config } from '../../config.ts';
import type { Organisation } from '../../database/organisations.ts';
import type { GithubHook, HookDelivery } from '../../github/inspection.ts';
import { subscribedEvents } from '../../webhooks/events.ts';
import type { Context } from '../context.ts';
import { counted } from '../numbers.ts';
import {
  check,
  duration,
  type Finding,
  list,
  ok,
  type Place,
  problem,
  skipped,
  type Verdict,
  warning,
} from './findings.ts';
import { ask, type GithubAccess } from './github.ts';

const path = '/webhooks/github';

/** @param organisation with its present login */
export function lookAtHook(
  context: Context,
  access: GithubAccess,
  organisation: Organisation,
  place: Place,
): Promise<Finding[]> {
  const { config, inspection } = access;
  const settings = settingsUrl(config.github.apiUrl, organisation.login);
  return check(
    place,
    async () => {
      const ofApp = inspection.usesApp ? await ask(access, organisation, () => inspection.readAppHook()) : undefined;
      const ofOrganisation =
        ofApp !== undefined && comesHere(config, ofApp)
          ? []
          : await ask(access, organisation, () => inspection.findHooks(organisation));
      if (ofOrganisation === undefined) return unseen(access, settings);
      const hooks = [...(ofApp === undefined ? [] : [ofApp]), ...ofOrganisation];
      const here = hooks.filter(hook => comesHere(config, hook));
      const hook = here.find(({ active }) => active) ?? here[0];
      if (hook === undefined) return [absent(config, settings, hooks)];
      const page = hook.id === null ? 'the settings of the App' : `${settings}/${hook.id}`;
      const faults = faultsOf(hook, page);
      const deliveries = await ask(access, organisation, () => inspection.listDeliveries(organisation, hook));
      const sound = ok(
        `GitHub delivers to ${hook.url}${config.publicUrl === undefined ? ' (PUBLIC_URL is not set: compare it)' : ''}.`,
      );
      return [...(faults.length > 0 ? faults : [sound]), ...deliveryVerdict(context, deliveries, page)];
    },
    `Look at ${settings}`,
  );
}

/** Where an owner of the organisation finds its webhooks. */
function settingsUrl(apiUrl: string, login: string): string {
  const { protocol, host } = new URL(apiUrl);
  return `${protocol}//${host.replace(/^api\./, '')}/organizations/${login}/settings/hooks`;
}

/** Without PUBLIC_URL, by its path. */
function comesHere({ publicUrl }: Config, { url }: GithubHook): boolean {
  if (url === null || !URL.canParse(url)) return false;
  const { href, pathname } = new URL(url);
  return publicUrl === undefined ? pathname.endsWith(path) : href === new URL(`${publicUrl}${path}`).href;
}

/** Where GitHub is to deliver to. */
export const destination = ({ publicUrl }: Config) => `${publicUrl ?? 'PUBLIC_URL'}${path}`;

const needed = (config: Config) =>
  `${destination(config)}, content type application/json, the secret of GITHUB_WEBHOOK_SECRET, and the events ${list([...subscribedEvents.values()])}`;

/** What the credentials may not see, people can. */
function unseen({ config, inspection }: GithubAccess, settings: string): Verdict {
  const right = inspection.usesApp
    ? 'it sees it with the permission to read Webhooks of the organisation'
    : 'a classic token sees it with admin:org_hook, a fine-grained one with Webhooks of the organisation';
  return skipped(
    `${inspection.usesApp ? 'The App' : inspection.credentialNames} may not see the webhook on GitHub, and need not (${right}).`,
    `See for yourself at ${settings}: ${needed(config)}.`,
  );
}

function absent(config: Config, settings: string, hooks: readonly GithubHook[]): Verdict {
  const others = hooks.flatMap(({ url }) => (url?.includes(path) ? [url] : []));
  const elsewhere = others.length > 0 ? `; there is one to ${others[0]}` : '';
  return problem(
    `No webhook on GitHub goes to ${destination(config)}${elsewhere}.`,
    others.length > 0
      ? `Correct its address at ${settings}, or PUBLIC_URL here.`
      : `Add one at ${settings}/new: ${needed(config)}.`,
  );
}

function faultsOf({ active, contentType, hasSecret, events: chosen }: GithubHook, page: string): Verdict[] {
  const faults: Verdict[] = [];
  if (!active) faults.push(problem('The webhook on GitHub is not active.', `Tick Active at ${page}.`));
  if (contentType !== 'json') {
    faults.push(
      problem(
        `The webhook's content type is ${contentType ?? 'not set'}: its deliveries are refused.`,
        `Choose application/json at ${page}.`,
      ),
    );
  }
  if (!hasSecret) {
    faults.push(
      problem(
        'The webhook on GitHub has no secret: its deliveries are refused.',
        `Give it that of GITHUB_WEBHOOK_SECRET at ${page}.`,
      ),
    );
  }
  const missing = chosen.includes('*') ? [] : [...subscribedEvents.keys()].filter(event => !chosen.includes(event));
  if (missing.length > 0) {
    const message = `The webhook on GitHub does not send ${list(missing)}.`;
    const action = `Choose ${list(missing.map(event => subscribedEvents.get(event) ?? event))} at ${page}.`;
    faults.push(missing.includes('pull_request') ? problem(message, action) : warning(message, action));
  }
  return faults;
}

const isTaken = ({ statusCode }: HookDelivery) => statusCode >= 200 && statusCode < 300;

function deliveryVerdict({ program }: Context, deliveries: readonly HookDelivery[], page: string): Verdict[] {
  const [latest] = deliveries;
  if (latest === undefined) return [ok('GitHub has delivered nothing within the last days.')];
  const failed = deliveries.filter(delivery => !isTaken(delivery));
  const newest = failed[0];
  if (newest === undefined)
    return [ok(`GitHub's last ${counted(deliveries.length, 'delivery', 'deliveries')} came in.`)];
  const ago = duration(Math.max(0, Date.now() / 1000 - newest.deliveredAt));
  const answer = `${newest.event}, ${ago} ago: ${newest.statusCode}, ${newest.status}`;
  if (isTaken(latest)) {
    return [
      warning(
        `${failed.length} of GitHub's last ${deliveries.length} deliveries failed, but not the latest (${answer}).`,
        `Redeliver them at ${page}, or let the comparison with GitHub find what they told; then look again.`,
      ),
    ];
  }
  const remedy = remedies.get(latest.statusCode) ?? `See what was answered at ${page}, tab Recent Deliveries.`;
  return [problem(`GitHub's latest delivery failed (${answer}).`, remedy.replace('PROGRAM', program))];
}

const unreached =
  'Let GitHub reach PUBLIC_URL: names, firewall, certificate, proxy; and see that the service runs: PROGRAM serve.';

/** By what the service, or what is in front of it, answered. */
const remedies = new Map([
  [401, 'Give the webhook on GitHub and GITHUB_WEBHOOK_SECRET, where the service runs, the same secret.'],
  [404, 'The address is not answered by pullscore: check the proxy in front of it.'],
  [413, 'Let the proxy in front of pullscore take bodies of up to 25 MB.'],
  [415, 'Choose the content type application/json for the webhook.'],
  [502, unreached],
  [503, 'See that GITHUB_WEBHOOK_SECRET is set where the service runs, and what its log says.'],
  [504, unreached],
]);
