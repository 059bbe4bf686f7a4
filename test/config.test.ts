import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { type Config, ConfigError, isLoopback, isUnencrypted, loadConfig, webhookUrl } from '../src/config.ts';

function problemsOf(env: Record<string, string>): string {
  try {
    loadConfig(env);
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigError);
    return String(error instanceof Error && error.message);
  }
  throw new Error('no problem was found');
}

test('nothing has to be configured', () => {
  expect(loadConfig({})).toEqual({
    misspeltVariables: [],
    variables: [],
    databaseUrl: undefined,
    home: resolve('.pullscore'),
    host: '127.0.0.1',
    port: 3000,
    settings: {},
    publicUrl: undefined,
    trustProxy: [],
    github: { apiUrl: 'https://api.github.com', token: undefined, tokenName: 'GITHUB_TOKEN', app: undefined },
    webhookSecrets: [],
    metricsToken: undefined,
    corsOrigins: [],
    worker: true,
    web: true,
    rateLimit: 600,
    comparisonInterval: 900,
    logLevel: 'info',
    scorerEnvironment: {},
  });
});

test('everything can be configured', () => {
  const key = '-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----';
  expect(
    loadConfig({
      DATABASE_URL: 'postgresql://me:p%40ss@db.example:6432/scores?sslmode=require',
      PULLSCORE_HOME: '/var/lib/pullscore',
      HOST: '::',
      PORT: '0',
      PUBLIC_URL: 'https://scores.example/api/',
      TRUST_PROXY: '10.0.0.0/8, 2001:db8::/32,loopback',
      GITHUB_API_URL: 'https://github.example/api/v3/',
      GITHUB_APP_ID: '12345',
      GITHUB_APP_PRIVATE_KEY: key.replaceAll('\n', '\\n'),
      GITHUB_WEBHOOK_SECRET: 'a long new secret, acme-2:a long old secret',
      METRICS_TOKEN: 'a-token-of-sixteen',
      CORS_ORIGINS: 'https://scores.example, http://localhost:5173',
      WORKER: 'false',
      WEB: 'false',
      RATE_LIMIT: '0',
      RECONCILE_INTERVAL: '60',
      LOG_LEVEL: 'silent',
    }),
  ).toEqual({
    variables: [
      ...['DATABASE_URL', 'PULLSCORE_HOME', 'HOST', 'PORT', 'PUBLIC_URL', 'TRUST_PROXY', 'GITHUB_API_URL'],
      ...['GITHUB_APP_ID', 'GITHUB_APP_PRIVATE_KEY', 'GITHUB_WEBHOOK_SECRET', 'METRICS_TOKEN', 'CORS_ORIGINS'],
      ...['WORKER', 'WEB', 'RATE_LIMIT', 'RECONCILE_INTERVAL', 'LOG_LEVEL'],
    ],
    misspeltVariables: [],
    settings: expect.objectContaining({
      PUBLIC_URL: 'https://scores.example/api',
      GITHUB_API_URL: 'https://github.example/api/v3',
      RATE_LIMIT: '0',
    }),
    databaseUrl: 'postgresql://me:p%40ss@db.example:6432/scores?sslmode=require',
    home: '/var/lib/pullscore',
    host: '::',
    port: 0,
    publicUrl: 'https://scores.example/api',
    trustProxy: ['10.0.0.0/8', '2001:db8::/32', 'loopback'],
    github: {
      apiUrl: 'https://github.example/api/v3',
      token: undefined,
      tokenName: 'GITHUB_TOKEN',
      app: { id: '12345', privateKey: key.replaceAll('\n', '\\n') },
    },
    webhookSecrets: [
      { login: undefined, secret: 'a long new secret' },
      { login: 'acme-2', secret: 'a long old secret' },
    ],
    metricsToken: 'a-token-of-sixteen',
    corsOrigins: ['https://scores.example', 'http://localhost:5173'],
    worker: false,
    web: false,
    rateLimit: 0,
    comparisonInterval: 60,
    logLevel: 'silent',
    scorerEnvironment: {},
  });
});

test.each([
  ['GITHUB_API_URL', ': set GITHUB_TOKEN'],
  ['PUBLIC_URL', ''],
])('a %s with a password is refused, and not shown', (name, action) => {
  const problems = problemsOf({ [name]: 'https://me:hush@github.example/api/v3' });
  expect(problems).toMatch(new RegExp(`${name} must not contain a user or a password${action}\\b`));
  expect(problems).not.toContain('hush');
});

test.each(['ghp_a\nb', 'ghp_é', 'ghp a'])('a token that is not valid in a header is refused, and not shown', token => {
  const problems = problemsOf({ GITHUB_TOKEN: token });
  expect(problems).toContain('GITHUB_TOKEN must be a token without spaces');
  expect(problems).not.toContain(token);
});

test('an empty or blank variable counts as unset, and white space around a value is ignored', () => {
  const config = loadConfig({ DATABASE_URL: '', PORT: '  ', GITHUB_TOKEN: '', WORKER: '', HOST: ' localhost ' });
  expect(config).toEqual({
    ...loadConfig({}),
    host: 'localhost',
    variables: ['HOST'],
    settings: { HOST: 'localhost' },
  });
});

test('trailing slashes, empty lists and explicit defaults change nothing', () => {
  const config = loadConfig({
    GITHUB_API_URL: 'https://api.github.com//',
    TRUST_PROXY: ' , ',
    GITHUB_WEBHOOK_SECRET: ',',
    WORKER: 'true',
    RATE_LIMIT: '600',
  });
  const variables = ['TRUST_PROXY', 'GITHUB_API_URL', 'GITHUB_WEBHOOK_SECRET', 'WORKER', 'RATE_LIMIT'];
  expect(config).toEqual({ ...loadConfig({}), variables });
  expect(loadConfig({ PUBLIC_URL: 'https://scores.example/api//' }).publicUrl).toBe('https://scores.example/api');
});

test('the message about a wrong configuration lists each problem once, with its variable', () => {
  const numbers = { PORT: '70000', RATE_LIMIT: 'true', RECONCILE_INTERVAL: '1.5' };
  const addresses = { DATABASE_URL: 'mysql://db', PUBLIC_URL: '//x', TRUST_PROXY: 'loopback, my-proxy' };
  expect(problemsOf({ ...numbers, ...addresses, WORKER: 'yes', GITHUB_TOKEN: 'a b', LOG_LEVEL: 'true' })).toBe(
    'The configuration is not valid: DATABASE_URL must be a postgres:// address; ' +
      'PORT must be a whole number from 0 to 65535; PUBLIC_URL must be an http:// or https:// address; ' +
      'GITHUB_TOKEN must be a token without spaces; WORKER must be true or false; ' +
      'RATE_LIMIT must be a whole number from 0 to 1000000; ' +
      'RECONCILE_INTERVAL must be a whole number from 0 to 31536000; ' +
      'LOG_LEVEL must be one of trace, debug, info, warn, error, fatal, silent; TRUST_PROXY names "my-proxy", ' +
      'which is not an IP address, network (10.0.0.0/8), loopback, linklocal or uniquelocal.',
  );
  expect(problemsOf({ GITHUB_APP_ID: '1' })).toBe(
    'The configuration is not valid: GITHUB_APP_ID and GITHUB_APP_PRIVATE_KEY go together: set both or neither.',
  );
  expect(problemsOf({ GITHUB_APP_PRIVATE_KEY: 'PRIVATE KEY' })).toContain('go together: set both or neither');
});

test('the configuration cannot be changed', () => {
  const config = loadConfig({ GITHUB_WEBHOOK_SECRET: 'x'.repeat(16), TRUST_PROXY: 'loopback' });
  for (const part of [config, config.github, config.webhookSecrets, config.webhookSecrets[0], config.trustProxy]) {
    expect(Object.isFrozen(part)).toBe(true);
  }
});

test.each(['10.0.0.1/1', '10.0.0.1/32', '::1/1', '::1/128', '10.0.0.1', '::1', 'linklocal', 'uniquelocal'])(
  '%s may be a trusted proxy',
  proxy => {
    expect(loadConfig({ TRUST_PROXY: proxy }).trustProxy).toEqual([proxy]);
  },
);

describe('the proxy for GitHub', () => {
  const proxy = 'http://proxy.example:3128';
  const proxyWith = (environment: Record<string, string>) => loadConfig(environment).github.proxy;

  test('is HTTPS_PROXY, or HTTP_PROXY if GITHUB_API_URL is not https', () => {
    const both = { HTTPS_PROXY: proxy, HTTP_PROXY: 'http://other.example:80' };
    expect(proxyWith(both)).toEqual({ name: 'HTTPS_PROXY', url: proxy, place: proxy });
    const plain = { name: 'HTTP_PROXY', url: 'http://other.example:80', place: 'http://other.example' };
    expect(proxyWith({ ...both, GITHUB_API_URL: 'http://github.example' })).toEqual(plain);
    expect(proxyWith({ HTTP_PROXY: proxy })).toBeUndefined();
  });

  test('https_proxy comes before HTTPS_PROXY, no_proxy before NO_PROXY, and the scheme may be missing', () => {
    expect(proxyWith({ https_proxy: 'proxy.example:3128', HTTPS_PROXY: 'http://other.example' })?.url).toBe(proxy);
    expect(proxyWith({ https_proxy: '', HTTPS_PROXY: proxy })?.url).toBe(proxy);
    expect(proxyWith({ HTTPS_PROXY: proxy, no_proxy: 'github.com', NO_PROXY: 'x' })).toBeUndefined();
    const { variables } = loadConfig({ https_proxy: proxy, no_proxy: 'x', NO_PROXY: 'x' });
    expect(variables).toEqual(['https_proxy', 'no_proxy', 'NO_PROXY']);
  });

  test('is shown without its password', () => {
    const secret = 'http://me:hush@proxy.example:3128';
    expect(proxyWith({ HTTPS_PROXY: secret })).toMatchObject({ url: secret, place: proxy });
  });

  test.each([
    ['api.github.com', false],
    ['github.com', false],
    ['.github.com', false],
    ['*.GitHub.com', false],
    ['*', false],
    ['localhost, 10.0.0.1 github.com', false],
    ['github.com:443', false],
    ['github.com:8443', true],
    ['hub.com', true],
    ['api.github.com.example', true],
    [',', true],
    ['.', true],
  ])('with NO_PROXY=%s, requests to GitHub use the proxy: %s', (noProxy, isUsed) => {
    expect(proxyWith({ HTTPS_PROXY: proxy, NO_PROXY: noProxy }) !== undefined).toBe(isUsed);
  });

  test.each([
    ['::1', false],
    ['[::1]', false],
    ['[::1]:8443', false],
    ['[::1]:443', true],
    ['::2', true],
    ['1', true],
  ])('with NO_PROXY=%s, requests to an IPv6 address use the proxy: %s', (noProxy, isUsed) => {
    const environment = { GITHUB_API_URL: 'https://[::1]:8443', HTTPS_PROXY: proxy, NO_PROXY: noProxy };
    expect(proxyWith(environment) !== undefined).toBe(isUsed);
  });

  test('a proxy that is not used may have any address', () => {
    expect(proxyWith({ HTTPS_PROXY: 'socks5://x', NO_PROXY: '*' })).toBeUndefined();
  });
});

describe('configurations that are refused', () => {
  test.each([
    ['PORT', '65536'],
    ['PORT', '1e3'],
    ['PORT', '0x50'],
    ['PORT', '80 80'],
    ['PORT', '99999999999999999999'],
    ['RATE_LIMIT', 'off'],
    ['WORKER', 'FALSE'],
    ['WORKER', '0'],
    ['LOG_LEVEL', 'INFO'],
    ['PUBLIC_URL', 'https://'],
    ['PUBLIC_URL', 'https://two words'],
    ['PUBLIC_URL', 'https://[::1'],
    ['PUBLIC_URL', 'https://scores.example/?page=1'],
    ['PUBLIC_URL', 'https://scores.example/#top'],
    ['GITHUB_API_URL', 'https://github.example:port'],
    ['DATABASE_URL', 'postgres://me:pa#ss@db:notaport/x'],
    ['GITHUB_APP_ID', 'one two'],
    ['HTTPS_PROXY', 'socks5://proxy.example:1080'],
    ['HTTPS_PROXY', 'http://proxy.example:port'],
    ['TRUST_PROXY', '0.0.0.0/0'],
    ['TRUST_PROXY', '::/0'],
    ['TRUST_PROXY', '10.0.0.1/33'],
    ['TRUST_PROXY', '::1/129'],
    ['TRUST_PROXY', '10.0.0.1/-1'],
    ['TRUST_PROXY', '10.0.0.1/8/8'],
    ['TRUST_PROXY', '10.0.0.1/'],
    ['TRUST_PROXY', '10.0.0.1/x8'],
    ['TRUST_PROXY', '10.0.0.1/8e0'],
    ['TRUST_PROXY', '/8'],
    ['TRUST_PROXY', 'example.com/8'],
    ['GITHUB_WEBHOOK_SECRET', 'x'.repeat(15)],
    ['GITHUB_WEBHOOK_SECRET', `${'x'.repeat(16)},short`],
    ['GITHUB_WEBHOOK_SECRET', `acme:${'x'.repeat(15)}`],
    ['METRICS_TOKEN', 'x'.repeat(15)],
    ['METRICS_TOKEN', 'sixteen with spaces'],
    ['CORS_ORIGINS', '*'],
    ['CORS_ORIGINS', 'null'],
    ['CORS_ORIGINS', 'scores.example'],
    ['CORS_ORIGINS', 'https://scores.example/'],
    ['CORS_ORIGINS', 'https://scores.example/app'],
  ])('%s=%s is refused, and the message names the variable', (name, value) => {
    expect(
      problemsOf({ [name]: value, GITHUB_APP_PRIVATE_KEY: name === 'GITHUB_APP_ID' ? 'PRIVATE KEY' : '' }),
    ).toContain(name);
  });

  test('a token and an App together are refused', () => {
    expect(problemsOf({ GITHUB_TOKEN: 't', GITHUB_APP_ID: '1', GITHUB_APP_PRIVATE_KEY: 'PRIVATE KEY' })).toContain(
      'GITHUB_TOKEN and GITHUB_APP_ID are both set: unset one',
    );
  });
});

describe('a secret', () => {
  const folder = mkdtempSync(join(tmpdir(), 'pullscore-secrets-'));
  afterAll(() => rmSync(folder, { recursive: true }));
  const write = (name: string, content: string, encoding: BufferEncoding = 'utf8') => {
    const path = join(folder, name);
    writeFileSync(path, content, encoding);
    return path;
  };
  const file = write('secret', '  ghp_read_from_a_file\n');

  test.each<[string, string, (config: Config) => unknown]>([
    ['DATABASE_URL', 'postgres://db/scores', ({ databaseUrl }) => databaseUrl],
    ['GITHUB_TOKEN', 'ghp_1', ({ github }) => github.token],
    ['GITHUB_APP_PRIVATE_KEY', '-----BEGIN PRIVATE KEY-----', ({ github }) => github.app?.privateKey],
    ['GITHUB_WEBHOOK_SECRET', 'a secret with spaces', ({ webhookSecrets }) => webhookSecrets[0]?.secret],
    ['METRICS_TOKEN', 'a-token-of-sixteen', ({ metricsToken }) => metricsToken],
  ])('can be read from a file, without the white space around it: %s', (name, value, valueIn) => {
    const others = name === 'GITHUB_APP_PRIVATE_KEY' ? { GITHUB_APP_ID: '1' } : {};
    expect(valueIn(loadConfig({ ...others, [`${name}_FILE`]: write(name, `  ${value}\n`) }))).toBe(value);
  });

  test('the configuration knows which variable the GitHub token comes from, for messages', () => {
    expect(loadConfig({ GITHUB_TOKEN_FILE: file }).github.tokenName).toBe('GITHUB_TOKEN_FILE');
    expect(loadConfig({ GITHUB_TOKEN_FILE: ' ' }).github.tokenName).toBe('GITHUB_TOKEN');
  });

  test('from a file is checked like any other', () => {
    expect(problemsOf({ DATABASE_URL_FILE: file })).toContain('DATABASE_URL must be a postgres:// address');
  });

  test('that is given and also read from a file is refused', () => {
    expect(problemsOf({ GITHUB_TOKEN_FILE: file, GITHUB_TOKEN: 'ghp_1' })).toContain(
      'GITHUB_TOKEN and GITHUB_TOKEN_FILE are both set: unset one',
    );
  });

  test('the message about a secret whose file is missing names the file and the reason', () => {
    expect(problemsOf({ GITHUB_TOKEN_FILE: join(folder, 'none') })).toContain(
      `GITHUB_TOKEN_FILE names ${folder}/none, which can't be read: ENOENT`,
    );
  });

  // Without METRICS_TOKEN the metrics are open, and without DATABASE_URL the service makes a database of its own.
  test.each(['DATABASE_URL', 'GITHUB_WEBHOOK_SECRET', 'METRICS_TOKEN'])(
    'whose file is empty is not left out: %s',
    name => {
      const path = write('empty', ' \n');
      expect(problemsOf({ [`${name}_FILE`]: path })).toContain(`${name}_FILE names ${path}, which is empty`);
    },
  );

  test('from a file in UTF-16, as PowerShell writes it, is refused', () => {
    const path = write('utf-16', '\uFEFFa secret with spaces\r\n', 'utf16le');
    expect(problemsOf({ GITHUB_WEBHOOK_SECRET_FILE: path })).toContain(
      `GITHUB_WEBHOOK_SECRET_FILE names ${path}, which is not in UTF-8: save it as UTF-8`,
    );
  });

  test('a webhook secret of one organisation begins with its login; other colons belong to the secret', () => {
    const secretsOf = (text: string) => loadConfig({ GITHUB_WEBHOOK_SECRET: text }).webhookSecrets;
    expect(secretsOf('acme:a:secret:with:colons')).toEqual([{ login: 'acme', secret: 'a:secret:with:colons' }]);
    expect(secretsOf('Acme:a long own secret')).toEqual([{ login: 'acme', secret: 'a long own secret' }]);
    expect(secretsOf('not_a_login:a long secret')).toEqual([{ login: undefined, secret: 'not_a_login:a long secret' }]);
    expect(secretsOf(' acme: a long own secret ,')).toEqual([{ login: 'acme', secret: 'a long own secret' }]);
  });

  test('a file has a webhook secret in each line, which may hold commas and, after a colon, colons', () => {
    const text = 'a,secret,with,commas\r\nacme:another, of acme: this\n\n: begins:with no login \n';
    expect(loadConfig({ GITHUB_WEBHOOK_SECRET_FILE: write('lines', text) }).webhookSecrets).toEqual([
      { login: undefined, secret: 'a,secret,with,commas' },
      { login: 'acme', secret: 'another, of acme: this' },
      { login: undefined, secret: 'begins:with no login' },
    ]);
  });

  test('at most four webhook secrets are tried at an address; an error names the address for more', () => {
    const secrets = (count: number, login = '') =>
      Array.from({ length: count }, (_, index) => `${login}secret number ${index} of many`);
    const load = (...each: string[]) => loadConfig({ GITHUB_WEBHOOK_SECRET: each.join() });
    expect(load(...secrets(4), ...secrets(4, 'acme:'), ...secrets(4, 'globex:')).webhookSecrets).toHaveLength(12);
    expect(() => load(...secrets(5))).toThrow(
      'GITHUB_WEBHOOK_SECRET has more than 4 secrets for /webhooks/github: give each organisation its own, as LOGIN:SECRET, and the address /webhooks/github/LOGIN',
    );
    expect(() => load(...secrets(4, 'acme:'), ...secrets(1, 'ACME:'))).toThrow('secrets for one organisation: remove');
  });

  test("an organisation's webhook has its own address if it has a secret of its own", () => {
    const secret = { GITHUB_WEBHOOK_SECRET: 'Acme:a secret of acme only' };
    const config = loadConfig({ PUBLIC_URL: 'https://scores.example', ...secret });
    expect(webhookUrl(config, 'ACME')).toBe('https://scores.example/webhooks/github/ACME');
    expect(webhookUrl(config, 'globex')).toBe('https://scores.example/webhooks/github');
  });
});

test('no message ever shows a secret', () => {
  const secret = 'hush-hush';
  for (const env of [
    { DATABASE_URL: `mysql://me:${secret}@db/x` },
    { DATABASE_URL: `postgres://me:${secret}@db:port/x` },
    { DATABASE_URL: `postgres://me:${secret} with blanks and # @db/x` },
    { GITHUB_TOKEN: `${secret} with blanks` },
    { GITHUB_TOKEN: secret, GITHUB_APP_ID: '1', GITHUB_APP_PRIVATE_KEY: `PRIVATE KEY ${secret}` },
    { GITHUB_APP_PRIVATE_KEY: secret },
    { GITHUB_WEBHOOK_SECRET: secret, PORT: 'x' },
    { GITHUB_API_URL: `ftp://me:${secret}@github` },
    { PUBLIC_URL: `me:${secret}@host` },
    { HTTPS_PROXY: `http://me:${secret}@proxy:port` },
  ]) {
    expect(problemsOf(env)).not.toContain(secret);
  }
});

test.each([
  [undefined, false],
  ['https://github.example', false],
  ['http://127.0.0.1:3000', false],
  ['http://127.8.9.1', false],
  ['http://localhost/api/v3', false],
  ['http://[::1]:3000', false],
  ['http://github.example', true],
  ['http://127.0.0.1.example', true],
  ['http://localhost.example', true],
  ['http://128.0.0.1', true],
  ['http://[::2]', true],
])('others on the network can read what is sent to %s: %s', (url, expected) => {
  expect(isUnencrypted(url)).toBe(expected);
  if (url !== undefined && !expected) expect(isLoopback(new URL(url).hostname)).toBe(url.startsWith('http:'));
});

test('a HOST counts as loopback in any of its forms, and only then', () => {
  expect(['::1', '127.0.0.1', 'localhost'].map(isLoopback)).toEqual([true, true, true]);
  expect(['::', '0.0.0.0', '127.example', 'pullscore'].map(isLoopback)).toEqual([false, false, false, false]);
});

const composeFile = parse(readFileSync(new URL('../docker-compose.yml', import.meta.url), 'utf8'), { merge: true });

test('docker compose limits the memory and the rights of every container', () => {
  for (const [name, service] of Object.entries(composeFile.services)) {
    expect([name, service]).toEqual([
      name,
      expect.objectContaining({
        mem_limit: expect.stringMatching(/^\dg$/),
        cap_drop: ['ALL'],
        security_opt: ['no-new-privileges:true'],
      }),
    ]);
  }
});

test('the images in Dockerfile and docker-compose.yml are pinned by digest', () => {
  const pinned = /^[a-z]+:\d+\.\d+(\.\d+)?-bookworm(-slim)?@sha256:[0-9a-f]{64}$/;
  const [, database = ''] = /^\$\{POSTGRES_IMAGE:-(.*)\}$/.exec(composeFile.services.database.image) ?? [];
  const dockerfile = readFileSync(new URL('../Dockerfile', import.meta.url), 'utf8');
  const [, node = ''] = /^FROM \$\{NODE_IMAGE:-(.*)\} AS node$/m.exec(dockerfile) ?? [];
  expect([database, node]).toEqual([expect.stringMatching(pinned), expect.stringMatching(pinned)]);
  expect(dockerfile.match(/^FROM .*$/gm)?.slice(1)).toEqual([
    'FROM node AS dependencies',
    'FROM node AS build',
    'FROM node',
  ]);
});

test.each([
  [{ PORTT: '1' }, [['PORTT', 'PORT']]],
  [{ WEBHOOK_SECRET: 'x' }, [['WEBHOOK_SECRET', 'GITHUB_WEBHOOK_SECRET']]],
  [{ GITHUB_TOKEN_FLIE: 'x' }, [['GITHUB_TOKEN_FLIE', 'GITHUB_TOKEN_FILE']]],
  [{ FTP_PROXY: 'x', HOSTNAME: 'x', POSTGRES_PASSWORD: 'x', PORTT: '', LOG_LEVEL: 'info' }, []],
  [{ WORKERS: '2', WORKER: 'true' }, []],
])('names which variable was meant in %o', (env, expected) => {
  expect(loadConfig(env).misspeltVariables).toEqual(expected);
});

test("a service link of Kubernetes is not taken for METRICS_PORT, nor anything else that isn't a port", () => {
  const link = loadConfig({ METRICS_PORT: 'tcp://10.0.0.1:9090' });
  expect([link.metricsPort, link.variables]).toEqual([undefined, []]);
  expect(() => loadConfig({ METRICS_PORT: 'udp://10.0.0.1:9090' })).toThrow('METRICS_PORT must be a whole number');
});

test('docker compose publishes the API and nothing else, on this machine only unless PUBLISH says otherwise', () => {
  const published = Object.entries<{ ports?: string[] }>(composeFile.services).map(([name, { ports = [] }]) => [
    name,
    ports,
  ]);
  const portOf = (port: string) => `\${PUBLISH:-${port}}:3000`;
  expect(Object.fromEntries(published)).toEqual({
    database: [],
    migrate: [],
    api: [portOf('127.0.0.1:3000')],
    worker: [],
  });
});
