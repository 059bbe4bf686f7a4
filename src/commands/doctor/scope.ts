/** What checks are given, and how their messages name things. */
import type { Config } from '../../config.ts';
import type { Database } from '../../database/client.ts';
import type { Organisation } from '../../database/organisations.ts';
import { list } from './findings.ts';
import type { inspectOrganisation } from './inspection.ts';

export interface Scope {
  program: string;
  config: Config;
  /** How many processes on this database do the background work; 0 if it can't be used. */
  workers: number;
  organisation?: Organisation;
}

export interface OrganisationScope extends Scope {
  organisation: Organisation;
}

/** An organisation as the database has it. */
export interface StoredScope extends OrganisationScope {
  database: Database;
  /** All checks of an organisation share it. */
  inspecting: ReturnType<typeof inspectOrganisation>;
}

export const logs = 'See the logs of the service and of the database.';

export const startWork = (program: string) => `Start ${program} serve, or worker if WORKER is false.`;

export const command = ({ program, organisation }: OrganisationScope, text: string) =>
  `${program} ${text} --organisation ${organisation.login}`;

/** The credentials, as messages name them. */
export const nameOf = ({ github }: Config) => (github.app !== undefined ? 'the App' : github.tokenName);

export const describeVariables = (where: string, variables: readonly string[]): string =>
  variables.length === 0 ? `No variables are set ${where}, so the defaults apply` : `Set ${where}: ${list(variables)}`;
