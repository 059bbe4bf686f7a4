import { applyRuleset } from '../../src/database/rules.ts';
import type { Definition } from '../../src/scoring/language/definitions.ts';
import type { RuleDefinition } from '../../src/scoring/rule.ts';
import { type ImportResult, importPullRequests } from '../../src/sync/import.ts';
import { createRequestWorker } from '../../src/sync/request-worker.ts';
import { type Client, createClient } from './client.ts';
import type { Organisation as GithubOrganisation } from './github/organisation.ts';
import type { Repository } from './github/repository.ts';
import { type GithubStandIn, startGithub } from './github/server.ts';
import { createTenant, type Service, startService, type Tenant } from './service.ts';

/** A service, the GitHub stand-in that it asks, and the organisation `acme`, which both know. */
export interface Scene extends Tenant {
  github: GithubStandIn;
  acme: GithubOrganisation;
  web: Repository;
  service: Service;
  client: Client;
  /** Imports all pull requests of acme. */
  import(): Promise<ImportResult>;
  applyRules(rules: RuleDefinition[], definitions?: Definition[]): Promise<void>;
  /** Fetches all pull requests that are waiting. @returns the number of batches */
  workOff(): Promise<number>;
  close(): Promise<void>;
}

export async function startScene(environment: Record<string, string> = {}): Promise<Scene> {
  const github = await startGithub();
  const acme = github.organisation('acme', { name: 'Acme' });
  const service = await startService({ GITHUB_API_URL: github.apiUrl, GITHUB_TOKEN: github.token, ...environment });
  const tenant = await createTenant(service, { login: 'acme', githubId: acme.id, nodeId: acme.nodeId });
  const work = createRequestWorker(service);
  return {
    ...tenant,
    github,
    acme,
    web: acme.repository('web'),
    service,
    client: await createClient(service),
    import: () => importPullRequests(service, tenant.organisation),
    async applyRules(rules, definitions = []) {
      await service.database.transaction(executor =>
        applyRuleset(executor, tenant.organisation.id, { definitions, rules, source: '' }),
      );
    },
    async workOff() {
      let batches = 0;
      while (await work()) batches += 1;
      return batches;
    },
    async close() {
      await service.close();
      await github.close();
    },
  };
}
