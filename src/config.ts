import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { resolve } from 'node:path';
import { type Static, Type } from '@sinclair/typebox';
import { TypeCompiler } from '@sinclair/typebox/compiler';
import { parseDatabaseUrl } from './database-url.ts';
import { editDistance } from './scoring/language/nearest-name.ts';

const integer = (minimum: number, maximum: number, fallback: number) =>
  Type.Integer({ minimum, maximum, default: fallback });

const address = { pattern: '^https?://[^/?#\\s]+[^?#\\s]*$', title: 'an http:// or https:// address' };

const databaseAddress = { pattern: '^postgres(ql)?://', title: 'a postgres:// address' };

/** The environment variables and their defaults; docs/commands.md explains them. */
export const Environment = Type.Object({
  DATABASE_URL: Type.Optional(Type.String(databaseAddress)),
  PULLSCORE_HOME: Type.String({ default: '.pullscore' }),
  HOST: Type.String({ default: '127.0.0.1' }),
  PORT: integer(0, 65_535, 3000),
  PUBLIC_URL: Type.Optional(Type.String(address)),
  TRUST_PROXY: Type.Optional(Type.String()),
  GITHUB_API_URL: Type.String({ ...address, default: 'https://api.github.com' }),
  GITHUB_TOKEN: Type.Optional(Type.String({ pattern: '^[\\x21-\\x7e]+$', title: 'a token without spaces' })),
  GITHUB_APP_ID: Type.Optional(Type.String({ pattern: '^[0-9A-Za-z.]+$', title: "the App's id or client id" })),
  GITHUB_APP_PRIVATE_KEY: Type.Optional(Type.String({ pattern: 'PRIVATE KEY', title: 'a PEM private key' })),
  HTTP_PROXY: Type.Optional(Type.String()),
  HTTPS_PROXY: Type.Optional(Type.String()),
  NO_PROXY: Type.Optional(Type.String()),
  GITHUB_WEBHOOK_SECRET: Type.Optional(Type.String()),
  METRICS_TOKEN: Type.Optional(
    Type.String({ pattern: '^[\\x21-\\x7e]{16,}$', title: 'at least 16 characters without spaces' }),
  ),
  METRICS_PORT: Type.Optional(Type.Integer({ minimum: 0, maximum: 65_535 })),
  PULLSCORE_TOKEN: Type.Optional(Type.String({ pattern: '^[\\x21-\\x7e]+$', title: 'a token without spaces' })),
  CORS_ORIGINS: Type.Optional(Type.String()),
  WORKER: Type.Boolean({ default: true }),
  WEB: Type.Boolean({ default: true }),
  RATE_LIMIT: integer(0, 1_000_000, 600),
  RECONCILE_INTERVAL: integer(0, 31_536_000, 900),
  LOG_LEVEL: Type.Union(
    (['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const).map(level => Type.Literal(level)),
    { default: 'info' },
  ),
});
type Environment = Static<typeof Environment>;
const environmentCheck = TypeCompiler.Compile(Environment);

/** Each can be read from a file, which NAME_FILE names, so that it shows in no list of processes or containers. */
export const secrets: readonly (keyof Environment)[] = [
  'DATABASE_URL',
  'GITHUB_TOKEN',
  'GITHUB_APP_PRIVATE_KEY',
  'GITHUB_WEBHOOK_SECRET',
  'METRICS_TOKEN',
  'PULLSCORE_TOKEN',
];

/** Other programs read these, too, in small letters first. */
const proxyNames: readonly string[] = ['HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY'];

const spellings = (name: string): string[] => (proxyNames.includes(name) ? [name.toLowerCase(), name] : [name]);

/** All names that are read. */
const ours = Object.keys(Environment.properties).flatMap(name =>
  secrets.includes(name as keyof Environment) ? [name, `${name}_FILE`] : spellings(name),
);

/** Shorter ones can be guessed from a single signed delivery. */
const minSecretLength = 16;

/** A body is hashed with each: more would let strangers' junk cost too much. */
const maxSecretsTried = 4;

export interface WebhookSecret {
  readonly secret: string;
  /** The only organisation that it is valid for, in small letters; undefined means all. */
  readonly login: string | undefined;
}

type Variables = Readonly<Record<string, string | undefined>>;
export type Config = ReturnType<typeof loadConfig>;

/** Reports every problem in the environment at once. */
export class ConfigError extends Error {
  /** Each names its variable. */
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(`The configuration is not valid: ${problems.join('; ')}.`);
    this.name = 'ConfigError';
    this.problems = problems;
  }
}

/** @param envFile the file from which some of the variables were read, as messages name it */
export function loadConfig(env: Variables, envFile?: string) {
  const problems = new Set<string>();
  const values: Record<string, unknown> = {};
  for (const [name, schema] of Object.entries(Environment.properties)) {
    const [given = name] = spellings(name).filter(each => env[each]?.trim());
    const text = (secrets.includes(name as keyof Environment) ? readSecret(env, name, problems) : env[given])?.trim();
    // Compose files pass an unset variable as an empty one.
    const isUnset = text === undefined || text === '' || isServiceLink(name, text);
    values[name] = isUnset ? schema.default : parse(schema.type, text);
    if (values[name] === undefined) delete values[name];
  }
  for (const error of environmentCheck.Errors(values)) {
    const name = error.path.slice(1);
    problems.add(`${name} must be ${expectation(error.schema)}`);
  }
  const environment = values as Environment;
  const proxy = readProxy(environment);

  for (const name of ['PUBLIC_URL', 'GITHUB_API_URL'] as const) {
    const url = environment[name] ?? 'https://unset';
    const action = name === 'GITHUB_API_URL' ? ': set GITHUB_TOKEN' : '';
    if (!URL.canParse(url)) problems.add(`${name} must be ${address.title}`);
    else if (hasCredentials(new URL(url))) problems.add(`${name} must not contain a user or a password${action}`);
  }
  if (proxy !== undefined && !(URL.canParse(proxy.url) && /^https?:/i.test(proxy.url))) {
    problems.add(`${proxy.name} must be ${address.title}`);
  }
  const trustProxy = list(environment.TRUST_PROXY);
  for (const proxy of trustProxy) {
    if (!isProxy(proxy)) {
      problems.add(
        `TRUST_PROXY names "${proxy}", which is not an IP address, network (10.0.0.0/8), loopback, linklocal or uniquelocal`,
      );
    }
  }
  if (environment.DATABASE_URL !== undefined && !problems.has(`DATABASE_URL must be ${databaseAddress.title}`)) {
    try {
      parseDatabaseUrl(environment.DATABASE_URL);
    } catch (error) {
      problems.add((error as Error).message);
    }
  }
  const { GITHUB_APP_ID: appId, GITHUB_APP_PRIVATE_KEY: privateKey } = environment;
  if ((appId === undefined) !== (privateKey === undefined)) {
    problems.add('GITHUB_APP_ID and GITHUB_APP_PRIVATE_KEY go together: set both or neither');
  }
  if (environment.GITHUB_TOKEN !== undefined && appId !== undefined) {
    problems.add('GITHUB_TOKEN and GITHUB_APP_ID are both set: unset one');
  }
  const webhookSecrets = env.GITHUB_WEBHOOK_SECRET_FILE?.trim()
    ? split(environment.GITHUB_WEBHOOK_SECRET, /\r?\n/).map(line =>
        // What follows a colon at the start is the secret, whatever it holds.
        line.startsWith(':')
          ? Object.freeze({ login: undefined, secret: line.slice(1).trim() })
          : readWebhookSecret(line),
      )
    : list(environment.GITHUB_WEBHOOK_SECRET).map(readWebhookSecret);
  if (webhookSecrets.some(({ secret }) => secret.length < minSecretLength)) {
    problems.add(
      `GITHUB_WEBHOOK_SECRET must have at least ${minSecretLength} characters: openssl rand -hex 24 makes one`,
    );
  }
  for (const login of new Set(webhookSecrets.map(each => each.login))) {
    if (webhookSecrets.filter(each => each.login === login).length <= maxSecretsTried) continue;
    problems.add(
      login === undefined
        ? `GITHUB_WEBHOOK_SECRET has more than ${maxSecretsTried} secrets for ${webhookPath}: give each organisation its own, as LOGIN:SECRET, and the address ${webhookPath}/LOGIN`
        : `GITHUB_WEBHOOK_SECRET has more than ${maxSecretsTried} secrets for one organisation: remove old ones`,
    );
  }
  const corsOrigins = list(environment.CORS_ORIGINS);
  for (const origin of corsOrigins) {
    if (!URL.canParse(origin) || new URL(origin).origin !== origin) {
      problems.add(`CORS_ORIGINS names "${origin}", which is not an origin such as https://dashboard.example.com`);
    }
  }
  if (problems.size > 0) throw new ConfigError([...problems]);

  // Both without a trailing slash; the first in ASCII.
  const publicUrl = environment.PUBLIC_URL && new URL(environment.PUBLIC_URL).href.replace(/\/+$/, '');
  const apiUrl = environment.GITHUB_API_URL.replace(/\/+$/, '');
  const compared: Readonly<Record<string, unknown>> = {
    ...environment,
    PUBLIC_URL: publicUrl,
    GITHUB_API_URL: apiUrl,
    TRUST_PROXY: trustProxy.join() || undefined,
    CORS_ORIGINS: corsOrigins.join() || undefined,
    GITHUB_WEBHOOK_SECRET: webhookSecrets.map(({ login = '', secret }) => `${login}:${secret}`).join('\n') || undefined,
  };

  return Object.freeze({
    /** Names of the variables that are set, such as `GITHUB_TOKEN_FILE`. */
    variables: Object.freeze(setVariables(env)),
    envFile,
    misspeltVariables: Object.freeze(misspeltVariables(env)),
    /** Values that are not the default, by variable, so that processes can be compared. Secrets are among them. */
    settings: Object.freeze(
      Object.fromEntries(
        Object.entries(Environment.properties)
          .filter(([name, schema]) => compared[name] !== undefined && compared[name] !== schema.default)
          .map(([name]) => [name, String(compared[name])]),
      ),
    ),
    /** Undefined: the embedded server in `home`. */
    databaseUrl: environment.DATABASE_URL,
    /** Absolute. */
    home: resolve(environment.PULLSCORE_HOME),
    host: environment.HOST,
    port: environment.PORT,
    publicUrl,
    /** Addresses and networks of proxies whose forwarded headers count. */
    trustProxy,
    github: Object.freeze({
      /** GitHub's REST address, without a slash at its end. */
      apiUrl,
      /** Through which GitHub is reached; undefined: directly. `url` may have a password; messages name the `place`. */
      proxy: proxy && Object.freeze({ ...proxy, place: new URL(proxy.url).origin }),
      token: environment.GITHUB_TOKEN,
      /** The variable that holds the token, or would hold it. */
      tokenName: env.GITHUB_TOKEN_FILE?.trim() ? 'GITHUB_TOKEN_FILE' : 'GITHUB_TOKEN',
      app: appId && privateKey ? Object.freeze({ id: appId, privateKey }) : undefined,
    }),
    /** A delivery signed with any of these is valid; empty: webhooks are refused. */
    webhookSecrets: Object.freeze(webhookSecrets),
    /** `/metrics` asks for it as a bearer token; undefined: it is open. */
    metricsToken: environment.METRICS_TOKEN,
    /** Where `worker` serves metrics and health; undefined: nowhere. */
    metricsPort: environment.METRICS_PORT,
    serverToken: environment.PULLSCORE_TOKEN,
    /** Origins of browsers that may call the API. */
    corsOrigins,
    worker: environment.WORKER,
    web: environment.WEB,
    /** Requests a minute for each token; 0 is off. */
    rateLimit: environment.RATE_LIMIT,
    /** Seconds; with 0, organisations are compared with GitHub only if a webhook asks for it. */
    comparisonInterval: environment.RECONCILE_INTERVAL,
    logLevel: environment.LOG_LEVEL,
    /** Of the processes that run rules: no secret but what the database's driver reads. */
    scorerEnvironment: Object.freeze(
      Object.fromEntries(
        Object.entries(env).filter(([name]) => /^(PATH|HOME|NODE_EXTRA_CA_CERTS|PG[A-Z]+)$/.test(name)),
      ),
    ),
  });
}

/** Names of our variables that are set. */
export const setVariables = (env: Variables): string[] =>
  ours.filter(name => env[name]?.trim() && !isServiceLink(name, env[name]));

/** Variables that are set and probably meant to be ours, such as `PORTT`, with the names that were meant. */
function misspeltVariables(env: Variables): (readonly [name: string, meant: string])[] {
  return Object.keys(env).flatMap(name => {
    if (!/^[A-Z_]{5,}$/.test(name) || ours.includes(name) || !env[name]?.trim()) return [];
    // Other programs have names that are near, such as FTP_PROXY: one letter, or a whole part, makes a misspelling.
    const meant =
      ours.find(our => name.includes('_') && our.endsWith(`_${name}`)) ??
      ours.find(our => editDistance(name, our, 2) === 1);
    return meant === undefined || env[meant]?.trim() ? [] : [[name, meant] as const];
  });
}

/** Which proxy to use for GitHub, by the rules of curl: https://everything.curl.dev/usingcurl/proxies/env.html */
function readProxy({ GITHUB_API_URL, HTTP_PROXY, HTTPS_PROXY, NO_PROXY = '' }: Environment) {
  if (!URL.canParse(GITHUB_API_URL)) return undefined;
  const { protocol, hostname, port } = new URL(GITHUB_API_URL);
  const isHttps = protocol === 'https:';
  const given = isHttps ? HTTPS_PROXY : HTTP_PROXY;
  const isExcepted = NO_PROXY.toLowerCase()
    .split(/[\s,]+/)
    .some(entry => {
      // A colon of a bare IPv6 address begins no port.
      const host = isIP(entry) === 6 ? `[${entry}]` : entry;
      const [, domain = '', only] = /^(?:\*?\.)?(.*?)(?::(\d+))?$/.exec(host) ?? [];
      if (only !== undefined && only !== (port || (isHttps ? '443' : '80'))) return false;
      return entry === '*' || (domain !== '' && `.${hostname}`.endsWith(`.${domain}`));
    });
  if (given === undefined || isExcepted) return undefined;
  return { name: isHttps ? 'HTTPS_PROXY' : 'HTTP_PROXY', url: given.includes('://') ? given : `http://${given}` };
}

const hasCredentials = ({ username, password }: URL): boolean => username !== '' || password !== '';

function readSecret(env: Variables, name: string, problems: Set<string>): string | undefined {
  const path = env[`${name}_FILE`]?.trim();
  if (!path) return env[name];
  if (env[name]?.trim()) {
    problems.add(`${name} and ${name}_FILE are both set: unset one`);
    return undefined;
  }
  try {
    const text = readFileSync(path, 'utf8');
    // A named file must hold the secret: without it, metrics would be open, or the database would be another one.
    if (text.trim() === '') problems.add(`${name}_FILE names ${path}, which is empty`);
    if (text.includes('\0')) problems.add(`${name}_FILE names ${path}, which is not in UTF-8: save it as UTF-8`);
    return text;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const reason = code === 'EACCES' ? `user ${process.getuid?.()} may not read it` : code;
    problems.add(`${name}_FILE names ${path}, which can't be read: ${reason}`);
    return undefined;
  }
}

/** `login:secret` is for one organisation. */
function readWebhookSecret(text: string): WebhookSecret {
  const [, login, secret] = /^([A-Za-z\d](?:-?[A-Za-z\d]){0,38}):\s*(.*)$/s.exec(text) ?? [];
  return Object.freeze(
    secret === undefined ? { login: undefined, secret: text } : { login: login?.toLowerCase(), secret },
  );
}

/** Kubernetes sets NAME_PORT in every container beside a Service that is called so. */
const isServiceLink = (name: string, text: string): boolean => name.endsWith('_PORT') && text.startsWith('tcp://');

function parse(type: string | undefined, text: string): unknown {
  if (type === 'integer') return /^\d+$/.test(text) ? Number(text) : text;
  if (type === 'boolean') return text === 'true' ? true : text === 'false' ? false : text;
  return text;
}

function expectation(schema: { [key: string]: unknown }): string {
  if (schema.type === 'integer') return `a whole number from ${schema.minimum} to ${schema.maximum}`;
  if (schema.type === 'boolean') return 'true or false';
  if (Array.isArray(schema.anyOf)) return `one of ${schema.anyOf.map(option => option.const).join(', ')}`;
  return String(schema.title);
}

const split = (text = '', separator: string | RegExp = ','): string[] =>
  text.split(separator).flatMap(item => item.trim() || []);
const list = (text?: string): readonly string[] => Object.freeze(split(text));

function isProxy(text: string): boolean {
  if (['loopback', 'linklocal', 'uniquelocal'].includes(text)) return true;
  const [address = '', length, ...rest] = text.split('/');
  const version = isIP(address);
  if (version === 0 || rest.length > 0) return false;
  // Fastify refuses a length of 0, which would trust everybody.
  return length === undefined || (/^0*[1-9]\d{0,2}$/.test(length) && Number(length) <= (version === 4 ? 32 : 128));
}

export const webhookPath = '/webhooks/github';

/**
 * The secrets that are tried for a delivery: the organisation's own at its address. At the address without a login it
 * is all of them if they are few, else only those for all organisations.
 */
export function secretsTried({ webhookSecrets }: Pick<Config, 'webhookSecrets'>, login?: string) {
  if (login === undefined && webhookSecrets.length <= maxSecretsTried) return webhookSecrets;
  return webhookSecrets.filter(each => each.login === login?.toLowerCase());
}

/** Where people reach the service. @param actualPort if the system chose it */
export function serviceUrl({ host, port, publicUrl }: Config, actualPort = port): string {
  const shown = host.includes(':') ? `[${host}]` : host;
  return publicUrl ?? `http://${['0.0.0.0', '[::]'].includes(shown) ? 'localhost' : shown}:${actualPort}`;
}

/** The address that the organisation's webhook on GitHub must have: with its login if it has a secret of its own. */
export function webhookUrl(config: Pick<Config, 'publicUrl' | 'webhookSecrets'>, login: string): string {
  const hasOwn = secretsTried(config, login).length > 0;
  return `${config.publicUrl ?? 'PUBLIC_URL'}${webhookPath}${hasOwn ? `/${login}` : ''}`;
}

export const isLoopback = (host: string): boolean =>
  host === 'localhost' || host === '[::1]' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'));

/** Whether others on the network can read what is sent to the address. */
export const isUnencrypted = (url: string | undefined): boolean =>
  url?.startsWith('http:') === true && !isLoopback(new URL(url).hostname);
