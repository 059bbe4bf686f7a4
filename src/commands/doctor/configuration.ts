import { isIP } from 'node:net';
import { type Config, ConfigError } from '../../config.ts';
import type { Context } from '../context.ts';
import { type Finding, finding, list, ok, problem, type Verdict, warning } from './findings.ts';

export function readConfig(context: Context): { config: Config | undefined; findings: Finding[] } {
  const place = { area: 'configuration', name: 'environment' } as const;
  try {
    const { config } = context;
    return { config, findings: configVerdicts(config).map(verdict => finding(place, verdict)) };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const action = 'Mend it where the service gets its environment: with docker compose, in .env.';
    return { config: undefined, findings: error.problems.map(text => finding(place, problem(`${text}.`, action))) };
  }
}

function configVerdicts(config: Config): Verdict[] {
  const { databaseUrl, github, publicUrl, webhookSecrets, reconcileInterval } = config;
  const set = [
    databaseUrl !== undefined && 'DATABASE_URL',
    github.token !== undefined && 'GITHUB_TOKEN',
    github.app !== undefined && 'GITHUB_APP_ID',
    webhookSecrets.length > 0 && 'GITHUB_WEBHOOK_SECRET',
    publicUrl !== undefined && 'PUBLIC_URL',
  ].filter(name => name !== false);
  const verdicts = [ok(set.length === 0 ? 'Nothing is set: all is as by default.' : `Usable, with ${list(set)} set.`)];
  if (webhookSecrets.length === 0) {
    verdicts.push(
      warning(
        'GITHUB_WEBHOOK_SECRET is not set: webhooks are refused.',
        'Choose a secret, set it here, and give the same to the webhook on GitHub.',
      ),
    );
  }
  if (publicUrl === undefined && !isLoopback(config.host)) {
    verdicts.push(
      warning(
        `PUBLIC_URL is not set, and HOST is ${config.host}: links in replies are by whatever address a request came to.`,
        'Set PUBLIC_URL to the address that clients and GitHub use, such as https://pullscore.example.com.',
      ),
    );
  }
  if (publicUrl?.startsWith('http:') && !isLoopback(new URL(publicUrl).hostname)) {
    verdicts.push(
      warning(
        'PUBLIC_URL is not https: access tokens travel for all to read.',
        'Put a proxy with TLS in front: docs/deployment.md.',
      ),
    );
  }
  if (reconcileInterval === 0) {
    verdicts.push(
      warning(
        'RECONCILE_INTERVAL is 0: what a webhook misses is never noticed.',
        'Unset RECONCILE_INTERVAL, or set it to some seconds, such as 900.',
      ),
    );
  }
  return verdicts;
}

const isLoopback = (host: string): boolean =>
  host === 'localhost' || host === '[::1]' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'));
