/** How connections to PostgreSQL are opened, what is wrong if one can't be, and what the server must be able to do. */
import pg from 'pg';
import { parseDatabaseUrl } from '../database-url.ts';
import { databaseUnavailable, type ServiceError } from '../errors.ts';
import { isUntrusted } from './driver-errors.ts';

/** Idle connections are probed after this: otherwise a dead one goes unnoticed for hours. */
const keepAliveDelayMs = 10_000;

/** A missing server must be reported soon; while this process starts on a busy machine, it may read an answer late. */
const connectTimeoutMs = 10_000;

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

interface ServerFacts {
  /** PostgreSQL's `server_version_num`: 170002 is 17.2. */
  version: number;
  database: string;
  encoding: string;
  /** Whether names can be sorted as people sort them. */
  icu: boolean;
  /** The process that serves this session. */
  processId: number;
}

/** @throws ServiceError `database_unavailable` that says what the server lacks */
export async function requireUsable(client: pg.Client, url: string): Promise<ServerFacts> {
  const { rows } = await client.query<ServerFacts>(
    `select current_setting('server_version_num')::int as version, current_database() as database,
      current_setting('server_encoding') as encoding, pg_backend_pid() as "processId",
      exists (select 1 from pg_collation where collname = 'und-x-icu') as icu`,
  );
  const [facts] = rows;
  if (facts === undefined) throw new Error('the server did not describe itself');
  const { version, database, encoding, icu } = facts;
  if (version < 150_000) {
    throw databaseUnavailable(`PostgreSQL ${Math.floor(version / 10_000)} is too old.`, 'Use version 15 or newer.');
  }
  if (encoding !== 'UTF8') {
    throw databaseUnavailable(
      `The database ${database} has the encoding ${encoding}, and pullscore needs UTF8.`,
      `Create another one with "create database NAME encoding 'UTF8' locale 'C.UTF-8' template template0", and name it in DATABASE_URL.`,
    );
  }
  if (!icu) {
    throw databaseUnavailable(
      'This PostgreSQL is built without ICU, which sorts names.',
      'Use a PostgreSQL that is built with ICU.',
    );
  }
  await requireSession(client, url, facts.processId);
  return facts;
}

/**
 * Refuses a pooler that gives each transaction another session: locks and notifications would be lost. A pooler names
 * a process of its own, so a direct connection costs nothing here. Poolers give the session that was used last, so a
 * transaction of a second connection either gets that of the first one, or makes it move.
 */
async function requireSession(client: pg.Client, url: string, processId: number): Promise<void> {
  if ((client as unknown as { processID: number | null }).processID === processId) return;
  const second = await connectToServer(url, { application_name: 'pullscore pooler check' });
  const getProcess = async (session: pg.Client) => {
    const { rows } = await session.query<{ id: number }>('select pg_backend_pid() as id');
    return rows[0]?.id;
  };
  try {
    const isShared = await second.query('begin').then(
      async () => (await getProcess(second)) === processId || (await getProcess(client)) !== processId,
      error => {
        // A pooler of single statements refuses transactions.
        if (error instanceof pg.DatabaseError) return true;
        throw error;
      },
    );
    if (!isShared) return;
  } finally {
    await second.end();
  }
  throw databaseUnavailable(
    'DATABASE_URL points to a pooler of transactions, and pullscore needs sessions of its own.',
    'Let it pool sessions (for PgBouncer, pool_mode = session), or connect to PostgreSQL directly; see docs/scaling.md.',
  );
}
