/** Checks of the database server, and of the processes that work on it. */
import { describeHolder, findHolder } from '../../database/advisory-lock.ts';
import { addressOf, connectToServer, requireUsable } from '../../database/connection.ts';
import { inspectSchema, migrationLock } from '../../database/migrations.ts';
import { oneRow } from '../../database/statement.ts';
import { counted } from '../../text/number-formats.ts';
import { defineCheck, ok, problem, warning } from './findings.ts';
import type { Scope } from './scope.ts';

interface Measurements {
  user: string;
  isReadOnly: boolean;
  mayMigrate: boolean;
  usedConnections: number;
  maxConnections: number;
}

// Migrating begins with "create schema if not exists", which asks for the right even if the schema exists.
const measure = `select current_user as user,
  pg_is_in_recovery() or current_setting('transaction_read_only')::boolean as "isReadOnly",
  has_database_privilege(current_database(), 'create') and has_schema_privilege('public', 'create') and not exists (
    select 1 from pg_class where oid = to_regclass('public.organisations') and not pg_has_role(relowner, 'usage')
  ) as "mayMigrate",
  (select count(*)::int from pg_stat_activity where backend_type = 'client backend') as "usedConnections",
  current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int as "maxConnections"`;

/**
 * What `doctor` shows of a database server. Its schema need not be up to date.
 *
 * @returns `pendingMigrations`: null if the user lacks the rights; `refusal`: why the service would refuse the schema
 * @throws ServiceError `database_unavailable` that says why the server can't be used
 */
async function inspectServer(url: string) {
  const client = await connectToServer(url, { application_name: 'pullscore doctor', query_timeout: 5_000 });
  try {
    const begin = performance.now();
    await client.query('select');
    const milliseconds = performance.now() - begin;
    const facts = await requireUsable(client, url);
    const measurements = oneRow((await client.query<Measurements>(measure)).rows);
    const schema = measurements.mayMigrate
      ? await inspectSchema(client, facts.database)
      : { pendingMigrations: null, refusal: undefined };
    const holder = await findHolder(client, migrationLock);
    return { ...facts, ...measurements, ...schema, holder, url, place: addressOf(client), milliseconds };
  } finally {
    await client.end();
  }
}

/** How many connections one replica can open: 12 of its own, and four in each process that runs rules. */
const maxReplicaConnections = 20;

const serverRemedy = ({ config }: Scope) =>
  config.databaseUrl === undefined
    ? 'Set DATABASE_URL to your own PostgreSQL.'
    : 'Check DATABASE_URL and that the server runs.';

export const server = defineCheck('database', 'server', serverRemedy, {
  ask: ({ findUrl }: Scope & { findUrl: () => Promise<string> }) => findUrl().then(inspectServer),
  judge(server, { program, config }) {
    const { version, database, place, user, isReadOnly, usedConnections, maxConnections, refusal, holder } = server;
    const pending = server.pendingMigrations ?? 0;
    const release = `PostgreSQL ${Math.floor(version / 10_000)}.${version % 10_000}`;
    const location =
      config.databaseUrl === undefined ? `embedded in ${config.home}` : `at ${place}, database ${database}`;
    return [
      ok(`${release} ${location}, answers in ${Math.ceil(server.milliseconds)} ms.`),
      isReadOnly &&
        problem(
          'The server does not accept writes: it is a standby, or read-only.',
          'Set DATABASE_URL to the primary.',
        ),
      !(isReadOnly || server.mayMigrate) &&
        problem(
          `The user ${user} may not change the schema of ${database}, so the service does not start.`,
          `As a superuser: alter database "${database}" owner to "${user}"; alter schema public owner to "${user}";`,
        ),
      maxConnections - usedConnections < maxReplicaConnections &&
        warning(
          `${usedConnections} of the server's ${maxConnections} connections are in use; a replica needs up to ${maxReplicaConnections}.`,
          'Raise max_connections on the server, or close other connections.',
        ),
      holder !== undefined &&
        warning(
          `${describeHolder(migrationLock, holder)}: until then no other process can migrate the schema.`,
          `If none is migrating now, end it in the database: select pg_terminate_backend(${holder.id})`,
        ),
      refusal !== undefined && problem(...refusal),
      server.pendingMigrations === 0 && refusal === undefined && ok('The schema is up to date.'),
      pending > 0 &&
        refusal === undefined &&
        warning(
          `The schema lacks ${counted(pending, 'migration')} of this release.`,
          `Start the service, which applies them, or run: ${program} migrate`,
        ),
    ];
  },
});
