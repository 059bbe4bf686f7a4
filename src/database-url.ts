import type { ClientConfig } from 'pg';
import { parse } from 'pg-connection-string';

/** What `DATABASE_URL` says about the connection. What else it sets, our own settings replace. */
export type DatabaseAddress = Pick<
  ClientConfig,
  'database' | 'host' | 'options' | 'password' | 'port' | 'ssl' | 'sslnegotiation' | 'user'
>;

/** Parameters of libpq that would be ignored, although they say where to connect or which server to trust. */
const unsupported = ['hostaddr', 'passfile', 'replication', 'service', 'sslcrl', 'sslcrldir', 'sslpassword'];

const sslModes = ['disable', 'prefer', 'require', 'verify-ca', 'verify-full', 'no-verify'];

/** @throws Error with what to write instead, and nothing of the address that may be secret */
export function parseDatabaseUrl(text: string): DatabaseAddress {
  // An empty host, for a socket, is not a valid URL if a user is named before it.
  const standard = text.replace('@/', '@localhost/');
  if (!URL.canParse(standard)) throw new Error(faultOf(text));
  const { hostname, searchParams } = new URL(standard);
  if ((searchParams.get('host') ?? hostname).includes(',')) throw new Error(severalHosts);
  if (!isPort(searchParams.get('port') ?? '1')) throw new Error(badPort);
  const ignored = unsupported.filter(name => searchParams.has(name));
  if (ignored.length > 0)
    throw new Error(`DATABASE_URL sets ${ignored.join(', ')}, which is not supported: leave it out`);
  const { user, password, host, port, database, ssl, options, sslnegotiation } = parseWith(text, searchParams);
  return {
    user: user || undefined,
    password: password || undefined,
    host: host || undefined,
    port: port ? Number(port) : undefined,
    database: database ?? undefined,
    ssl: ssl as ClientConfig['ssl'],
    options,
    sslnegotiation: sslnegotiation as ClientConfig['sslnegotiation'],
  };
}

const severalHosts =
  'DATABASE_URL names several hosts, which is not supported: name one, such as a proxy that leads to the primary';
const badPort = 'DATABASE_URL has a port that is not a number from 1 to 65535';

const isPort = (text: string) => /^\d+$/.test(text) && Number(text) >= 1 && Number(text) <= 65_535;

/** What is wrong with an address that can't be parsed. */
function faultOf(text: string): string {
  const place = text.slice(Math.max(text.lastIndexOf('@'), text.indexOf('//') + 1) + 1).replace(/[/?#].*/s, '');
  if (place.includes(',')) return severalHosts;
  const port = place.replace(/^\[.*\]/, '').split(':')[1];
  if (port !== undefined && !isPort(port)) return badPort;
  return 'DATABASE_URL is not a valid address: percent-encode special characters in its password';
}

function parseWith(text: string, parameters: URLSearchParams) {
  const mode = parameters.get('sslmode');
  const usesSystem = parameters.get('sslrootcert') === 'system';
  if (mode !== null && !sslModes.includes(mode)) {
    throw new Error(`DATABASE_URL has an sslmode that is not one of ${sslModes.join(', ')}`);
  }
  const changed = new URLSearchParams(parameters);
  // Those of Node, and of NODE_EXTRA_CA_CERTS. The driver would look for a file of this name.
  if (usesSystem) changed.delete('sslrootcert');
  // The driver takes all of them for verify-full, but warns on each start that this may change.
  const isStrict = parameters.get('uselibpqcompat') !== 'true' && mode !== null && !/disable|no-verify/.test(mode);
  if (usesSystem || isStrict) changed.set('sslmode', 'verify-full');
  const [address = ''] = text.split('?');
  try {
    return parse(`${address}?${changed}`);
  } catch (error) {
    const { code, path } = error as NodeJS.ErrnoException;
    if (path !== undefined) {
      throw new Error(`DATABASE_URL names the file ${path} for TLS, which can't be read: ${code}`, { cause: error });
    }
    throw new Error('DATABASE_URL is not a valid address: percent-encode special characters in it', { cause: error });
  }
}
