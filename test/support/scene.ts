import { applyRuleset } from '../../src/database/rules.ts';
import type { Definition } from '../../src/scoring/language/definitions.ts';
import type { RuleDefinition } from '../../src/scoring/rule.ts';
import { type ImportResult, importPullRequests } from '../../src/sync/import.ts';
import { createRequestWorker } from '../../src/sync/request-worker.ts';
import { type Client, createClient } from './client.ts';
import type { Repository } from './github/repository.ts';
import type { GithubStandIn } from './github/server.ts';
import type { Service } from './service.ts';
import { type Home, newHome, startWorld } from './world.ts';

/** A service, the GitHub stand-in that it asks, and the organisation `acme`, which both know. */
export interface Scene extends Home {
  github: GithubStandIn;
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
  const world = await startWorld({ RECONCILE_INTERVAL: '900', ...environment });
  const { github, service } = world;
  const home = await newHome(world, github.organisation('acme', { name: 'Acme' }));
  const work = createRequestWorker(service);
  return {
    ...home,
    github,
    web: home.acme.repository('web'),
    service,
    client: await createClient(service),
    import: () => importPullRequests(service, home.organisation),
    async applyRules(rules, definitions = []) {
      await service.database.transaction(executor =>
        applyRuleset(executor, home.organisation.id, { definitions, rules, source: '' }),
      );
    },
    async workOff() {
      let batches = 0;
      while (await work()) batches += 1;
      return batches;
    },
    close: world.close,
  };
}
