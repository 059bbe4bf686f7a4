import type { Config } from '../../config.ts';
import { inspectServer, type ServerInspection } from '../../database/inspection.ts';
import type { Context } from '../context.ts';
import { counted } from '../numbers.ts';
import { check, type Finding, ok, problem, type Verdict, warning } from './findings.ts';

/** Connections that one replica holds at most. */
const neededConnections = 12;

export async function lookAtServer(
  { program }: Context,
  config: Config,
  url: string,
): Promise<{ server: ServerInspection | undefined; findings: Finding[] }> {
  let server: ServerInspection | undefined;
  const findings = await check(
    { area: 'database', name: 'server' },
    async () => {
      server = await inspectServer(url);
      return serverVerdicts(program, config, server);
    },
    'Check DATABASE_URL and that the server runs.',
  );
  return { server: findings.some(({ status }) => status === 'problem') ? undefined : server, findings };
}

function serverVerdicts(program: string, { databaseUrl, home }: Config, server: ServerInspection): Verdict[] {
  const { version, database, place, milliseconds, user, connections, pendingMigrations } = server;
  const release = `PostgreSQL ${Math.floor(version / 10_000)}.${version % 10_000}`;
  const where = databaseUrl === undefined ? `embedded in ${home}` : `at ${place}, database ${database}`;
  const verdicts = [ok(`${release} ${where}, answers in ${Math.ceil(milliseconds)} ms.`)];
  if (server.isReadOnly) {
    verdicts.push(
      problem('The server takes no writes: it is a standby, or set to read only.', 'Name the primary in DATABASE_URL.'),
    );
  } else if (!server.mayMigrate) {
    verdicts.push(
      problem(
        `The user ${user} may not change the schema of ${database}, so that the service does not start.`,
        `As a superuser: alter database "${database}" owner to "${user}"; alter schema public owner to "${user}";`,
      ),
    );
  }
  const free = connections.most - connections.used;
  if (free < neededConnections) {
    verdicts.push(
      warning(
        `${connections.used} of the server's ${connections.most} connections are taken; a replica takes up to ${neededConnections}.`,
        'Raise max_connections of the server, or end what else uses it.',
      ),
    );
  }
  if (pendingMigrations === 0) verdicts.push(ok('The schema is up to date.'));
  if (pendingMigrations !== null && pendingMigrations > 0) {
    verdicts.push(
      warning(
        `The schema lacks ${counted(pendingMigrations, 'migration')} of this release.`,
        `Start the service, which applies them, or run: ${program} migrate`,
      ),
    );
  }
  return verdicts;
}
