/** How connections to PostgreSQL are opened, and what is wrong if one can't be. */
import pg from 'pg';
import { parseDatabaseUrl } from '../database-url.ts';
import { databaseUnavailable, type ServiceError } from '../errors.ts';
import { isUntrusted } from './failures.ts';

/** Idle connections are probed after this: otherwise a dead one goes unnoticed for hours. */
const keepAliveDelayMs = 10_000;

/** A server that is starting may take a moment; a missing one must be reported soon. */
const connectTimeoutMs = 3_000;

export type SessionSettings = Readonly<Record<string, string | number>>;

/** What our code relies on, whatever the server, the database, the role or the address sets. */
const ownSettings: SessionSettings = {
  bytea_output: 'hex',
  datestyle: 'ISO',
  default_transaction_isolation: 'read committed',
  extra_float_digits: 1,
  intervalstyle: 'postgres',
  // Compiling a plan takes up to a second. Estimates are high if plans have something that is off, or parse JSON.
  jit: 'off',
  standard_conforming_strings: 'on',
  timezone: 'UTC',
};

/** The driver's options for this address. Ours win over those that the address has, too. */
export const clientOptions = (url: string, options: pg.ClientConfig = {}): pg.ClientConfig => ({
  ...parseDatabaseUrl(url),
  application_name: 'pullscore',
  connectionTimeoutMillis: 2_000,
  keepAlive: true,
  keepAliveInitialDelayMillis: keepAliveDelayMs,
  ...options,
});

/**
 * Settings of a session are a statement, sent before all others: poolers refuse those that come with the connection, or
 * leave them out.
 */
export async function applySettings(client: pg.ClientBase, settings: SessionSettings = {}): Promise<void> {
  const values = Object.entries({ ...ownSettings, ...settings });
  await client.query(`select ${values.map(([name, value]) => `set_config('${name}', '${value}', false)`).join(', ')}`);
}

/** Connects, and settles what our code relies on. */
export async function openSession(client: pg.Client, settings?: SessionSettings): Promise<pg.Client> {
  try {
    await client.connect();
    await applySettings(client, settings);
    return client;
  } catch (error) {
    client.end().catch(() => undefined);
    throw error;
  }
}

/** @throws ServiceError `database_unavailable` that says why the server can't be used */
export async function connectToServer(url: string, options: pg.ClientConfig): Promise<pg.Client> {
  const client = new pg.Client(clientOptions(url, { connectionTimeoutMillis: connectTimeoutMs, ...options }));
  client.on('error', () => undefined);
  try {
    // What a command does may take long, whatever the role is set to.
    return await openSession(client, { statement_timeout: 0 });
  } catch (error) {
    throw refusalOf(error, client);
  }
}

/** `host:port`, or the folder of a Unix socket. */
export const addressOf = ({ host, port }: pg.Client): string => (host.startsWith('/') ? host : `${host}:${port}`);

/** What the server or the driver says, and what to do. */
const knownRefusals: readonly (readonly [RegExp, string])[] = [
  [/no pg_hba\.conf entry.*no encryption|SSL.*required/i, 'Add sslmode=require to DATABASE_URL.'],
  [/does not support SSL/, 'If the network is trusted, set sslmode=disable in DATABASE_URL.'],
  [/unsupported startup parameter/, 'The pooler refuses it: remove it from DATABASE_URL.'],
];

/** Names the server, never the password. */
function refusalOf(error: unknown, client: pg.Client): ServiceError {
  const place = addressOf(client);
  const { code, message } = error instanceof Error ? (error as NodeJS.ErrnoException) : { message: String(error) };
  const refuse = (text: string, action: string) => databaseUnavailable(text, action, { cause: error });
  if (isUntrusted(code)) {
    return refuse(
      `The certificate of the database server at ${place} is not trusted: ${code}.`,
      code === 'ERR_TLS_CERT_ALTNAME_INVALID'
        ? 'In DATABASE_URL, use a host name that the certificate is for.'
        : "Name its authority's certificate in DATABASE_URL, as sslrootcert=FILE, or in NODE_EXTRA_CA_CERTS; see docs/deployment.md.",
    );
  }
  const known = knownRefusals.find(([pattern]) => pattern.test(message))?.[1];
  // 28P01 is a wrong password. Without one, the driver itself fails.
  const isPasswordMissing = /^SASL: .*password must be/.test(message);
  if (error instanceof pg.DatabaseError || isPasswordMissing || known !== undefined) {
    const reason = isPasswordMissing ? 'it asks for a password, and none is set' : message.replace(/\.$/, '');
    const hint =
      isPasswordMissing || code === '28P01'
        ? 'Check the password in DATABASE_URL or PGPASSWORD.'
        : (known ?? 'Check DATABASE_URL.');
    return refuse(`The database ${client.database ?? ''} at ${place} can't be used: ${reason}.`, hint);
  }
  // An error that joins those of several addresses has no text of its own.
  const reason = code ?? (message === 'timeout expired' ? 'no answer' : message);
  return refuse(
    `The database server at ${place} can't be reached: ${reason}.`,
    'Check DATABASE_URL and that the server runs.',
  );
}
