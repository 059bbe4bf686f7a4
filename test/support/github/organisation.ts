import { organisationEvent, type WebhookEvent } from './events.ts';
import { userPayload } from './payloads.ts';
import { Repository } from './repository.ts';
import { type Account, accountOf, type Clock, globalId, type World } from './world.ts';

export class Organisation {
  readonly world: World;
  /** The world's clock, or another one to give this organisation its own times. */
  clock: Clock;
  readonly id: number;
  readonly nodeId: string;
  login: string;
  name: string;
  readonly avatarUrl: string;
  readonly members = new Map<number, Account>();
  /** Ids of accounts whose membership is public. */
  readonly publicMembers = new Set<number>();
  readonly repositories: Repository[] = [];
  /** The App's installation; undefined while it is not installed. */
  installationId: number | undefined;

  constructor(world: World, login: string, name: string) {
    this.world = world;
    this.clock = world.clock;
    this.login = login;
    this.name = name;
    this.id = world.nextId('organisation');
    this.nodeId = globalId('O', this.id);
    this.avatarUrl = `https://avatars.githubusercontent.com/u/${this.id}?v=4`;
    world.organisations.set(login.toLowerCase(), this);
    world.nodes.set(this.nodeId, this);
  }

  /** The member of this login, created and added on first mention. */
  member(login: string, options: { name?: string | null } = {}): Account {
    const account = accountOf(this.world, login, options);
    this.join(account);
    return account;
  }

  join(account: Account): WebhookEvent | undefined {
    if (this.members.has(account.id)) return undefined;
    this.members.set(account.id, account);
    return this.#emitMember('member_added', account);
  }

  leave(account: Account): WebhookEvent | undefined {
    if (!this.members.delete(account.id)) return undefined;
    return this.#emitMember('member_removed', account);
  }

  /** The repository of this name, created on first mention. */
  repository(name: string): Repository {
    const known = this.repositories.find(repository => repository.name.toLowerCase() === name.toLowerCase());
    return known ?? new Repository(this, name);
  }

  /** Former names of its repositories work until somebody takes the login and uses the same names. */
  rename(login: string): WebhookEvent {
    const from = this.login;
    const { organisations } = this.world;
    if ((organisations.get(login.toLowerCase()) ?? this) !== this) throw new Error(`The login ${login} is taken`);
    for (const repository of this.repositories) repository.remember();
    organisations.delete(from.toLowerCase());
    this.login = login;
    organisations.set(login.toLowerCase(), this);
    for (const repository of this.repositories) repository.version++;
    return organisationEvent(this, 'organization', 'renamed', { changes: { login: { from } } }, undefined);
  }

  #emitMember(action: string, account: Account): WebhookEvent {
    const organisationUrl = `${this.world.apiUrl}/orgs/${this.login}`;
    const membership = {
      url: `${organisationUrl}/memberships/${account.login}`,
      state: action === 'member_added' ? 'pending' : 'inactive',
      role: action === 'member_added' ? 'member' : 'unaffiliated',
      organization_url: organisationUrl,
      user: userPayload(this.world, account),
    };
    return organisationEvent(this, 'organization', action, { membership }, account);
  }
}
